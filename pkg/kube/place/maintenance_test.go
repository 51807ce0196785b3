package place_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/group"
)

// maintained is a block with maintenance in an hour, a busy one and a node of a third block.
const maintained = `
	node s1/b1/n1 4 maintenance=1h-3h
	node s1/b1/n2 4 maintenance=1h-3h
	node s1/b2/n3 4
	node s1/b2/n4 4
	node s1/b3/n5 4
	pod x cpu=4 on=n3
	pod y cpu=4 on=n4
	gang short min=2 must=BlockLayer
	pods short 2 cpu=4 priority=5 runs=30m
	gang long min=2 must=BlockLayer
	pods long 2 cpu=4 priority=5 runs=2h
	gang unknown min=2 must=BlockLayer
	pods unknown 2 cpu=4 priority=5
	gang wide min=3
	pods wide 3 cpu=4 priority=5 runs=2h
	pod single cpu=4 runs=2h
`

func maintenanceWorld(t *testing.T, lead time.Duration) *world {
	w := newWorld(t, maintained)
	w.planner.Args = func() *config.Args { return &config.Args{MaintenanceLead: lead} }
	return w
}

// TestGangEndsBeforeMaintenance: a gang uses nodes with announced maintenance only if it has ended before the window begins.
func TestGangEndsBeforeMaintenance(t *testing.T) {
	w := maintenanceWorld(t, 24*time.Hour)
	require.Equal(t, "n1 n2 ", w.outcomeOf("short"))
	require.Contains(t, w.outcomeOf("long"), "node(s) have maintenance from ")
	require.Contains(t, w.outcomeOf("unknown"), "node(s) have maintenance from ")
	w.planner.Args = func() *config.Args { return &config.Args{MaintenanceLead: 30 * time.Minute} }
	require.Equal(t, "n1 n2 ", w.outcomeOf("unknown"), "the window begins after the lead")

	for after, want := range map[time.Duration]string{0: "", 2 * time.Hour: "", 4 * time.Hour: "n1 n2 "} {
		members, obstacle := w.cache.Group(w.get("long-0"))
		require.False(t, obstacle.Exists(), obstacle)
		found, _, err := w.planner.NewAttemptAt(members, w.nodes(), nil, time.Now().Add(after)).Plan(t.Context())
		require.NoError(t, err)
		nodes := ""
		for _, p := range found.Places {
			nodes += p.Node + " "
		}
		require.Equal(t, want, nodes, after)
	}
}

// TestMaintenanceIsInTheShortage: the refusal counts the nodes, says when they are open again, and does not say that the gang never fits.
// The gang may still evict pods elsewhere.
func TestMaintenanceIsInTheShortage(t *testing.T) {
	w := maintenanceWorld(t, 24*time.Hour)
	a := w.attempt("long", "n5")
	_, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	s := a.Shortage(t.Context(), refusal, true)
	require.Nil(t, s.Never)
	require.WithinDuration(t, time.Now().Add(3*time.Hour), s.Closed.Time, time.Minute)
	require.True(t, s.Closed.Declared)
	require.False(t, s.Closed.Began)
	require.Len(t, s.Lacks, 2)
	require.False(t, a.OnlyLimitsPreventPlan(t.Context()), "excluded nodes do not keep the gang from an eviction")
	require.Equal(t, 4, refusal.Diagnosis.Nodes)
	i, ok := a.Net.Tree.NodeIndex("n1")
	require.True(t, ok)
	require.Len(t, a.Lacks(i), 1)
}

// TestNoVictimsOnNodesWithMaintenance: nodes that are closed have no capacity for evictions, capacity holds, reservations, or gangs that
// make way.
func TestNoVictimsOnNodesWithMaintenance(t *testing.T) {
	w := maintenanceWorld(t, 24*time.Hour)
	long := w.attempt("long")
	_, _, err := long.Plan(t.Context())
	require.NoError(t, err)
	gone := make([][]*v1.Pod, len(long.Nodes))
	free := long.FreeWithout(t.Context(), gone)
	for _, name := range []string{"n1", "n2"} {
		i, _ := long.Net.Tree.NodeIndex(name)
		require.Zero(t, free[i], name)
	}
	wide := w.attempt("wide")
	_, refusal, err := wide.Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal)
	places, _ := wide.FreeWhereCapable(t.Context())
	require.Len(t, places, 1)
	require.Equal(t, "n5", places[0].Node)

	members, _ := w.cache.Group(w.get("long-0"))
	_, refusal, err = w.attempt("short").Elsewhere(t.Context(), members, nil, nil).Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal, "the other group has a run time of its own")

	w.cache.Handle(gang.Planned{
		Group: long.Group.Key, Places: []gang.Assignment{{Pod: "default/long-0", Node: "n1"}, {Pod: "default/long-1", Node: "n2"}},
		Reserved: true, Until: time.Now().Add(time.Hour),
	})
	require.Contains(t, w.attempt("long").Missing(), "reserved node n1 has maintenance from ")
	members, _ = w.cache.Group(w.get("long-0"))
	require.True(t, w.planner.DetectsMisfit(t.Context(), members, "n1"), "the next attempt avoids the node by itself")
}

// TestRunTimesAreInTheClass: while maintenance is announced, gangs that run for different times have not the same result.
func TestRunTimesAreInTheClass(t *testing.T) {
	const gangs = `
		gang a min=1
		pods a 1 cpu=8 runs=1h
		gang b min=1
		pods b 1 cpu=8 runs=2h
		gang c min=1
		pods c 1 cpu=8 runs=1h`
	for nodes, differ := range map[string]bool{"node s1/b1/n1 4": false, "node s1/b1/n1 4 maintenance=90m-3h": true} {
		w := newWorld(t, nodes+gangs)
		class, request := map[string]string{}, map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			a := w.attempt(name)
			_, _, err := a.Plan(t.Context())
			require.NoError(t, err)
			class[name], request[name] = a.Class(), a.RequestKey()
		}
		require.NotEmpty(t, class["a"])
		require.NotEmpty(t, request["a"])
		require.Equal(t, class["a"], class["c"])
		require.Equal(t, differ, class["a"] != class["b"])
		require.Equal(t, differ, request["a"] != request["b"])
	}
}

// TestSinglePodsAndMaintenance: evictions for a pod without a gang leave out closed nodes, and pods of DaemonSets are kept off no node.
func TestSinglePodsAndMaintenance(t *testing.T) {
	w := maintenanceWorld(t, 24*time.Hour)
	pod := w.get("single")
	onN5 := func(n fwk.NodeInfo) bool { return n.Node().Name == "n5" }
	_, refusal, err := w.planner.NewAttempt(group.Alone(pod, ""), w.nodes(), onN5).Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	_, refusal, err = w.planner.NewAttempt(group.Alone(pod, ""), w.nodes(), onN5).Plan(t.Context())
	require.NoError(t, err)
	require.Nil(t, refusal)
}
