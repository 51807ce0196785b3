package place_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/group"
)

// change applies a change to the object of a node.
func (w *world) change(name string, do func(*v1.Node)) {
	w.t.Helper()
	for _, n := range w.nodes() {
		if n.Node().Name == name {
			changed := n.Node().DeepCopy()
			do(changed)
			w.scheduler.UpdateNode(klog.Background(), n.Node(), changed)
		}
	}
}

// outcomeOf returns the nodes that a gang's members get, or the refusal.
func (w *world) outcomeOf(gangName string) string {
	w.t.Helper()
	return w.outcomeOfPod(gangName + "-0")
}

// outcomeOfPod is outcomeOf for the gang of a member.
func (w *world) outcomeOfPod(member string) string {
	w.t.Helper()
	members, obstacle := w.cache.Group(w.get(member))
	require.False(w.t, obstacle.Exists(), obstacle)
	found, refusal, err := w.planner.NewAttempt(members, w.nodes(), nil).Plan(w.t.Context())
	require.NoError(w.t, err)
	if refusal != nil {
		return fmt.Sprint("refused: ", refusal.Diagnosis.Lacks)
	}
	nodes := ""
	for _, p := range found.Places {
		nodes += p.Node + " "
	}
	return nodes
}

const spareCluster = `
	node s1/b1/n1 4
	node s1/b1/n2 4
	node s1/b1/n3 4
	node s1/b2/n4 4
	node s1/b2/n5 2
	gang a min=2 must=BlockLayer
	pods a 2 cpu=4 priority=5
	gang b min=3 must=BlockLayer
	pods b 3 cpu=4 priority=5
	gang c min=3
	pods c 3 cpu=4 priority=5
	gang d min=4
	pods d 4 cpu=4 priority=5
`

// TestNewGangsLeaveSpareNodes: a gang without running members leaves the free nodes that the argument spares keeps in each domain.
func TestNewGangsLeaveSpareNodes(t *testing.T) {
	const refused = "refused: map[Insufficient cpu:1 node(s) are kept spare by the argument spares:%d]"
	block, spine := config.Spare{Layer: "BlockLayer", Nodes: 1}, config.Spare{Layer: "SpineLayer", Nodes: 2}
	for name, test := range map[string]struct {
		spares config.Spares
		more   string
		change func(*world)
		want   map[string]string
	}{
		"none":                   {want: map[string]string{"b": "n1 n2 n3 "}},
		"one in each block":      {spares: config.Spares{block}, want: map[string]string{"a": "n1 n2 ", "b": fmt.Sprintf(refused, 2)}},
		"takes no member":        {spares: config.Spares{block}, want: map[string]string{"c": fmt.Sprintf(refused, 2)}},
		"two in the spine":       {spares: config.Spares{spine}, want: map[string]string{"a": "n1 n2 ", "c": fmt.Sprintf(refused, 2)}},
		"block's count in spine": {spares: config.Spares{spine, block}, want: map[string]string{"a": "n1 n2 ", "c": fmt.Sprintf(refused, 2)}},
		"small domain":           {spares: config.Spares{{Layer: "BlockLayer", Nodes: 2}}, want: map[string]string{"c": fmt.Sprintf(refused, 2)}},
		"unknown layer":          {spares: config.Spares{{Layer: "Rack", Nodes: 2}}, want: map[string]string{"b": "n1 n2 n3 "}},
		"priority below":         {spares: config.Spares{{Layer: "BlockLayer", Nodes: 1, UnlessPriority: new(int32(6))}}, want: map[string]string{"b": fmt.Sprintf(refused, 2)}},
		"priority reached":       {spares: config.Spares{{Layer: "BlockLayer", Nodes: 1, UnlessPriority: new(int32(5))}}, want: map[string]string{"b": "n1 n2 n3 "}},
		"used nodes are not spare": {
			spares: config.Spares{block}, more: "pod x cpu=1 on=n3", want: map[string]string{"a": "refused: map[Insufficient cpu:2 node(s) are kept spare by the argument spares:2]"},
		},
		"cordoned nodes are not spare": {
			spares: config.Spares{block}, change: func(w *world) { w.change("n3", func(n *v1.Node) { n.Spec.Unschedulable = true }) },
			want: map[string]string{"a": "refused: map[Insufficient cpu:1 node(s) are kept spare by the argument spares:2 node(s) were unschedulable:1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spareCluster+test.more)
			w.planner.Args = func() *config.Args { return &config.Args{Spares: test.spares} }
			if test.change != nil {
				test.change(w)
			}
			for gang, want := range test.want {
				require.Equal(t, want, w.outcomeOf(gang), gang)
			}
		})
	}
}

// TestSpareNodesAreNoReasonForNeverFits: a gang that fits only with the spare nodes may start later.
func TestSpareNodesAreNoReasonForNeverFits(t *testing.T) {
	w := newWorld(t, spareCluster)
	w.planner.Args = func() *config.Args { return &config.Args{Spares: config.Spares{{Layer: "BlockLayer", Nodes: 1}}} }
	a := w.attempt("d")
	_, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.Nil(t, a.Shortage(t.Context(), refusal, true).Never)
	require.False(t, a.OnlyLimitsPreventPlan(t.Context()))
}

// TestRunningGangsUseSpareNodes: the replacement of a gang with running members gets the spare node, and so does a pod without a gang.
func TestRunningGangsUseSpareNodes(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b1/n2 4
		gang a min=2 must=BlockLayer
		pods a 0-1 cpu=4 on=n1
		pods a 1-2 cpu=4
		pod x cpu=4`)
	w.planner.Args = func() *config.Args { return &config.Args{Spares: config.Spares{{Layer: "BlockLayer", Nodes: 1}}} }
	require.Equal(t, "n2 ", w.outcomeOfPod("a-1"))
	alone := w.planner.NewAttempt(group.Alone(w.get("x"), ""), w.nodes(), nil)
	_, refusal, err := alone.Plan(t.Context())
	require.NoError(t, err)
	require.Nil(t, refusal)
}

// TestDegradedNodesAreUsedLast: of plans that are equal by topology constraints, the one with the fewest degraded nodes is chosen. A soft
// preference of any number of members does not outweigh a degraded node.
func TestDegradedNodesAreUsedLast(t *testing.T) {
	healthy := func(*v1.Node) {}
	for name, degrade := range map[string]func(*v1.Node){
		"condition": func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: "GPUHealthy", Status: v1.ConditionFalse}}
		},
		"label": func(n *v1.Node) { n.Labels["health"] = "poor" },
		"taint": func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "slow", Effect: v1.TaintEffectPreferNoSchedule}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spareCluster)
			args := &config.Args{Degraded: config.Degraded{
				Conditions: []config.DegradedCondition{{Type: "GPUHealthy", Status: "False"}}, Labels: []string{"health=poor"}, Taints: []string{"slow"},
			}}
			w.planner.Args = func() *config.Args { return args }
			require.Equal(t, "n1 n2 ", w.outcomeOf("a"))
			w.change("n1", degrade)
			for _, n := range []string{"n2", "n3"} {
				w.taint(n, "suspect", "old")
			}
			require.Equal(t, "n2 n3 ", w.outcomeOf("a"))
			require.Equal(t, "n1 n2 n3 ", w.outcomeOf("b"), "nothing else fits")
			a := w.attempt("b")
			found, _, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, a.DegradedNodes(found.Places))
			w.change("n1", healthy)
			args.Degraded = config.Degraded{}
			w.change("n1", func(n *v1.Node) { n.Spec.Taints = nil })
			require.Contains(t, w.outcomeOf("a"), "n1 ", "no node is degraded without the argument")
		})
	}
}
