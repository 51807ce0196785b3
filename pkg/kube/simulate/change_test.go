package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestFreshNode: a node like another is ready, has its own name wherever the other has its, and
// nothing of the state in which the other is.
func TestFreshNode(t *testing.T) {
	const like = `apiVersion: v1
kind: Node
metadata: {name: m, uid: u, labels: {kubernetes.io/hostname: m, rack: r}}
spec:
  unschedulable: true
  providerID: here
  taints:
  - {key: node.kubernetes.io/unschedulable, effect: NoSchedule}
  - {key: gpu, effect: NoSchedule}
status:
  capacity: {cpu: 8}
  conditions: [{type: Ready, status: "False"}]
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: m}
spec: {drivers: [{name: d, nodeID: m, allocatable: {count: 2}}]}
---
apiVersion: v1
kind: Node
metadata: {name: m-added-1}
`
	w, err := Open(t.Context(), Options{}, load(t, like))
	require.NoError(t, err)
	defer w.Close()
	c, err := ParseChange("add-nodes=2,like=m")
	require.NoError(t, err)
	require.NoError(t, w.Change(t.Context(), []Change{c}))
	require.Equal(t, []ChangeReport{{"add-nodes=2,like=m", "m-added-2, m-added-3"}}, w.Result().Changes)
	o, err := w.cluster.get(nodes, key{name: "m-added-3"})
	require.NoError(t, err)
	n := o.(*v1.Node)
	require.Equal(t, map[string]string{"kubernetes.io/hostname": "m-added-3", "rack": "r"}, n.Labels)
	require.Equal(t, v1.NodeSpec{Taints: []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}}, n.Spec)
	require.Equal(t, []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}, n.Status.Conditions)
	require.NotEqual(t, "u", string(n.UID))
	o, err = w.cluster.get(csiNodes, key{name: "m-added-3"})
	require.NoError(t, err)
	require.EqualValues(t, 2, *o.(*storagev1.CSINode).Spec.Drivers[0].Allocatable.Count)
}

// TestLiveChanges: in a live cluster, terminating and evicted pods are gone, or stay for their grace period
// with VictimsStay.
func TestLiveChanges(t *testing.T) {
	const cluster = `apiVersion: v1
kind: Node
metadata: {name: m}
status: {capacity: {cpu: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: leaves, uid: l, creationTimestamp: "2026-01-01T00:00:00Z", deletionTimestamp: "2026-01-01T01:00:00Z"}
spec: {nodeName: m, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, uid: r, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {nodeName: m, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, uid: w, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}
`
	evict, err := ParseChange("evict=default/runs")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stay    bool
		changes []Change
		node    string
	}{
		"one has left":  {false, nil, ""},
		"both":          {false, []Change{evict}, "m"},
		"both are slow": {true, []Change{evict}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := Options{Live: true, VictimsStay: c.stay, Changes: c.changes}
			set := load(t, cluster)
			set.SetMoment(time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC))
			r, err := Run(ctx, o, set)
			require.NoError(t, err)
			waits := r.Pods[len(r.Pods)-1]
			require.Equal(t, "waits", waits.Name)
			require.Equal(t, c.node, waits.Node)
		})
	}
}
