package localcluster

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/fake"
)

func TestNodes(t *testing.T) {
	var drawing []string
	for _, n := range Nodes(2, 2, 2) {
		drawing = append(drawing, fmt.Sprint(n.Labels[SpineLabel], " ", n.Labels[BlockLabel], " ", n.Name))
		require.Equal(t, n.Name, n.Labels[v1.LabelHostname])
	}
	require.Equal(t, []string{
		"spine-0 block-0 node-0", "spine-0 block-0 node-1",
		"spine-0 block-1 node-2", "spine-0 block-1 node-3",
		"spine-1 block-2 node-4", "spine-1 block-2 node-5",
		"spine-1 block-3 node-6", "spine-1 block-3 node-7",
	}, drawing)
}

// The first node of the documents, word for word.
const documentsNode = `---
apiVersion: v1
kind: Node
metadata:
  name: node-0
  annotations: {kwok.x-k8s.io/node: fake}
  labels:
    network.topology.nvidia.com/spine: spine-0
    network.topology.nvidia.com/block: block-0
    kubernetes.io/hostname: node-0
status:
  allocatable: {cpu: 8, memory: 32Gi, pods: 110}
  capacity: {cpu: 8, memory: 32Gi, pods: 110}
---
`

func TestNodesAreTheDocuments(t *testing.T) {
	read, err := ReadNodes(strings.NewReader(documentsNode))
	require.NoError(t, err)
	require.Len(t, read, 1)
	made := Nodes(1, 1, 1)[0]
	require.Equal(t, read[0].ObjectMeta, made.ObjectMeta)
	for name, quantity := range made.Status.Allocatable {
		require.Zero(t, quantity.Cmp(read[0].Status.Allocatable[name]), name)
	}
	require.Len(t, read[0].Status.Allocatable, len(made.Status.Allocatable))
}

func TestReadNodesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		documentsNode + "apiVersion: v1\nkind: Pod\n": "object 2 is v1 Pod, want v1 Node",
		"apiVersion: v1\nkind: Node\nmetadata: {nmae: n}\n": `object 1: error unmarshaling JSON: while decoding JSON: json: unknown field ` +
			`"nmae"`,
		"apiVersion: v1\nkind: Node\nstatus: {capacity: 8}\n": "object 1: ",
		"- a\n": "object 1: ",
		"{":     "object 1: ",
	} {
		_, err := ReadNodes(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestLifecycle(t *testing.T) {
	docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(lifecycle(2500_000_000)), 4096)
	delay := map[string]any{}
	for {
		var doc struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Delay map[string]any }
		}
		err := docs.Decode(&doc)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		delay[doc.Kind+"/"+doc.Metadata.Name] = doc.Spec.Delay["durationMilliseconds"]
	}
	require.Equal(t, map[string]any{
		"KwokConfiguration/muster": nil,
		"Stage/node-initialize":    nil,
		"Stage/node-heartbeat":     300000.0,
		"Stage/pod-ready":          nil,
		"Stage/pod-delete":         2500.0,
	}, delay)
}

// TestWaitReady has nodes that become Ready one after the other, and one that does not.
func TestWaitReady(t *testing.T) {
	silence := func(d time.Duration) error { return fmt.Errorf("silent for %s", d) }
	synctest.Test(t, func(t *testing.T) {
		client, nodes := fake.NewClientset(), Nodes(1, 1, 3)
		for _, n := range nodes {
			_, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		go func() {
			for _, n := range nodes[:2] {
				time.Sleep(readyPatience - time.Second)
				n := n.DeepCopy()
				n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
				_, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
		}()
		require.EqualError(t, waitReady(t.Context(), client, nodes, silence), "1 of 3 nodes are not ready: silent for 1m0s")
		require.NoError(t, waitReady(t.Context(), client, nodes[:2], silence))
		require.NoError(t, waitReady(t.Context(), client, nil, silence))
	})
}
