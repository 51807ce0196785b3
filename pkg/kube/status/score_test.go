package status_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
)

// score is what a PodGang's status says, and nothing else may stand there.
func (w *world) score(name string) string {
	u, err := w.custom.Resource(podGangs).Namespace("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	says, _, err := unstructured.NestedMap(u.Object, "status")
	require.NoError(w.t, err)
	if len(says) == 0 {
		return ""
	}
	require.Len(w.t, says, 1)
	return fmt.Sprint(says["placementScore"])
}

// racks are two spines of two racks, each of two nodes.
func (w *world) racks() {
	for i := range 8 {
		n := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("n", i), Labels: map[string]string{"spine": fmt.Sprint(i / 4), "rack": fmt.Sprint(i / 2)},
			},
		}
		_, err := w.client.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}
	w.create(koordinator.ClusterNetworkTopologies, "", map[string]any{
		"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"networkTopologySpec": []any{
			map[string]any{"labelKey": []any{"spine"}, "topologyLayer": "SpineLayer"},
			map[string]any{"labelKey": []any{"rack"}, "topologyLayer": "RackLayer", "parentTopologyLayer": "SpineLayer"},
			map[string]any{"parentTopologyLayer": "RackLayer", "topologyLayer": "NodeTopologyLayer"},
		}},
	})
}

// TestPlacementScore: how near the pods of a PodGang are is written once all of its podgroups have what
// they need, and again when it is another; nothing else is, and nothing to one that has what it needs no
// longer.
func TestPlacementScore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.racks()
		w.create(podGangs, "ns", map[string]any{
			"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": map[string]any{"name": "demo", "namespace": "ns"},
			"spec": map[string]any{"podgroups": []any{
				map[string]any{"name": "leader", "minReplicas": int64(1)}, map[string]any{"name": "worker", "minReplicas": int64(2)},
			}},
		})
		of := func(group string) func(*v1.Pod) {
			return func(p *v1.Pod) {
				p.Labels = map[string]string{"grove.io/podgang": "demo", "grove.io/podclique": group}
			}
		}
		w.pod("", "w-0", "n0", of("worker"))
		w.pod("", "w-1", "n2", of("worker"))
		w.pass(time.Minute)
		require.Empty(t, w.score("demo"), "no member of leader exists")

		w.pod("", "l-0", "n4", of("leader"))
		w.pass(time.Minute)
		require.Equal(t, "0.583", w.score("demo"), "two spines for one, three racks for two")

		w.written()
		w.pod("", "w-2", "n1", of("worker"))
		w.pass(time.Minute)
		require.Equal(t, "0.583", w.score("demo"), "four nodes are in two racks at best")
		require.Empty(t, w.written())

		require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "l-0", metav1.DeleteOptions{}))
		w.pass(time.Minute)
		require.Equal(t, "0.583", w.score("demo"))
		require.Empty(t, w.written(), "its leader is missing")

		w.pod("", "l-1", "n3", of("leader"))
		w.pass(time.Minute)
		require.Equal(t, "1", w.score("demo"))
		require.Equal(t, "demo/status", w.written(), "one write")

		for _, node := range []string{"n4", "n6"} { // six nodes in four racks would be farther than they need be
			w.pod("", "w-"+node, node, of("worker"), func(p *v1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
			})
		}
		w.pass(time.Minute)
		require.Equal(t, "1", w.score("demo"), "a terminating pod does not count")

		require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "w-1", metav1.DeleteOptions{}))
		require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "w-2", metav1.DeleteOptions{}))
		w.pod("", "l-2", "n6", of("leader"))
		w.pass(time.Minute)
		require.Equal(t, "1", w.score("demo"), "workers have one of the two that they need")
		require.Empty(t, w.written())
	})
}
