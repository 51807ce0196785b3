package localcluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestControllerArgs(t *testing.T) {
	args := strings.Join(controllerArgs("/c/admin.kubeconfig", "/c/apiserver-1", 15001, ""), "\n") + "\n"
	require.Contains(t, args, "--bind-address=127.0.0.1\n--secure-port=15001\n")
	require.Contains(t, args, "--tls-cert-file=/c/apiserver-1/apiserver.crt\n")
	require.Contains(t, args, "--controllers=*,-node-lifecycle-controller,-node-ipam-controller,")
	require.NotContains(t, args, "feature-gates")
	require.Contains(t, controllerArgs("", "", 1, "GenericWorkload=true"), "--feature-gates=GenericWorkload=true")
}

// workloads are one of each of three kinds. There is no scheduler here, so their pods have
// their node.
const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {nodeName: node-0, containers: [{name: c, image: i}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template: {metadata: {labels: {app: train}}, spec: {nodeName: node-1, restartPolicy: Never, containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {nodeName: node-0, containers: [{name: c, image: i}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
`

// TestControllers: what only kube-controller-manager does is done, and nodes stay as KWOK
// made them.
func TestControllers(t *testing.T) {
	c := cluster(t, Options{Controllers: true})
	client := clientOf(t, c)
	require.NoError(t, c.AddNodes(t.Context(), Nodes(1, 1, 2)))
	require.NoError(t, c.Apply(t.Context(), strings.NewReader(workloads)))
	for _, app := range []string{"web", "train", "db"} {
		awaitPods(t, client, app, 2, v1.PodRunning)
	}
	require.Eventually(t, func() bool {
		budget, err := client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "db", metav1.GetOptions{})
		return err == nil && budget.Status.DisruptionsAllowed == 1
	}, waitLong, waitTick, "the budget's status")
	for _, what := range []string{"deployment/web", "job/train", "statefulset/db"} {
		kubectl(t, c, "delete", what, "--wait=false")
		_, app, _ := strings.Cut(what, "/")
		awaitPods(t, client, app, 0, "")
	}

	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, n := range nodes.Items {
		require.Empty(t, n.Spec.Taints)
		require.True(t, ready(&n))
	}
	kubectl(t, c, "create", "namespace", "short")
	kubectl(t, c, "delete", "namespace", "short", "--timeout=60s")
	require.FileExists(t, c.Dir()+"/logs/kube-controller-manager.log")
}

// awaitPods waits until there are so many pods of an app, all in a phase.
func awaitPods(t *testing.T, client kubernetes.Interface, app string, want int, phase v1.PodPhase) {
	t.Helper()
	var last string
	right := func() bool {
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			last = err.Error()
			return false
		}
		in := 0
		last = ""
		for _, p := range pods.Items {
			last += fmt.Sprintf(" %s %s", p.Name, p.Status.Phase)
			if p.Status.Phase == phase {
				in++
			}
		}
		return len(pods.Items) == want && in == want
	}
	if !assert.Eventually(t, right, waitLong, waitTick) {
		t.Fatalf("want %d pods of %s, there are:%s", want, app, last)
	}
}
