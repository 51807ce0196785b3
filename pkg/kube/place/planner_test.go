package place_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/attract"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestAttraction: a pod's score of a node is its distance, in the snapshot, to the attracting pods;
// only feasible nodes have a score.
func TestAttraction(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b1/n2 4
		node s1/b2/n3 4
		node s2/b3/n4 4
		pod x cpu=1 on=n1 selector=ring
		pod y cpu=1 on=n4 selector=other`)
	for _, c := range []struct{ selector, without, scores string }{
		{"ring", "", "n1=100 n2=67 n3=34 n4=1"},
		{"ring", "n1", "n2=100 n3=50 n4=0"},
		{"other", "", "n1=0 n2=0 n3=0 n4=100"},
		{"nobody", "", ""},
	} {
		may := w.nodes()
		if c.without != "" {
			may = slices.DeleteFunc(slices.Clone(may), func(n fwk.NodeInfo) bool { return n.Node().Name == c.without })
		}
		found, err := attract.Scores(t.Context(), w.profile, w.cache.Topology().Tree, c.selector, may)
		require.NoError(t, err)
		var scores []string
		for name, score := range found {
			scores = append(scores, fmt.Sprint(name, "=", score))
		}
		slices.SortFunc(scores, topology.CompareNames)
		require.Equal(t, c.scores, strings.Join(scores, " "), "%+v", c)
	}
}

// TestLayouts: the tree is that of the snapshot, whatever the cache has seen of a change by
// then; what changes nothing about where nodes stand costs no new one.
func TestLayouts(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b2/n2 4
		gang a min=2 must=BlockLayer
		pods a 2 cpu=3`)
	first := w.attempt("a")
	_, refusal, err := first.Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal)

	node := w.nodes()[slices.IndexFunc(w.nodes(), func(n fwk.NodeInfo) bool { return n.Node().Name == "n2" })].Node()
	other := node.DeepCopy()
	other.Labels["colour"] = "red"
	w.scheduler.UpdateNode(klog.Background(), node, other)
	second := w.attempt("a")
	require.Same(t, first.Net, second.Net, "a label that is no layer's")
	require.Same(t, &first.Nodes[0], &second.Nodes[0], "the nodes are found once")

	moved := other.DeepCopy()
	moved.Labels["block"] = "b1"
	w.scheduler.UpdateNode(klog.Background(), other, moved)
	a := w.attempt("a")
	found, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.Nil(t, refusal)
	require.Equal(t, "s1/b1", a.Domain(found.Places))
	require.Equal(t, "s1", first.Domain(found.Places), "what was tried before is not changed")

	was := w.cache.Topology()
	w.layers("SpineLayer")
	w.wait(func() bool { return w.cache.Topology() != was && len(w.cache.Topology().Tree.LayerNames()) == 3 })
	require.Equal(t, "s1/n2", w.attempt("a").Net.Tree.Path(w.attempt("a").Enclosing([]gang.Assignment{{Node: "n2"}})),
		"the layers have changed, and no node")
}

// TestAttemptsAreValues: what is done to one attempt, another does not see.
func TestAttemptsAreValues(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b1/n2 4
		gang a min=2
		pods a 3 cpu=2`)
	a := w.attempt("a")
	none := map[int]fwk.NodeInfo{}
	for i := range a.Nodes {
		none[i] = nil
	}
	same := a.For(a.Group.Pending)
	a.Replace(none)
	require.NotContains(t, same.Nodes, nil)
	_, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal)

	b := w.attempt("a")
	found, _, err := b.Plan(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Places, 3)

	some := b.For(b.Group.Pending[1:])
	found, _, err = some.Choose(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []gang.Assignment{{Pod: "default/a-1", Node: "n1"}, {Pod: "default/a-2", Node: "n1"}}, found.Places)
	require.Len(t, b.Group.Pending, 3)
}

// TestLowest: the member of lowest priority decides which reservations count and which pods may be evicted.
func TestLowest(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 8
		gang a min=2 groups=a,b
		pods a 2 cpu=1 priority=5
		gang b min=1 groups=a,b
		pods b 1 cpu=1 priority=3
		gang c min=1
		pods c 1 cpu=1 priority=9`)
	require.Equal(t, "b-0", w.attempt("a").Lowest().Name)
	require.Equal(t, "c-0", w.attempt("c").Lowest().Name)
	a := w.attempt("a")
	require.Equal(t, "a-0",
		a.For(slices.DeleteFunc(slices.Clone(a.Group.Pending), func(m gang.Member) bool { return m.Gang.Name == "b" })).Lowest().Name)
	require.Nil(t, a.For(nil).Lowest())
}

// TestChosen: which members get a node if there are too few: first what completes each gang, lowest ranks first.
func TestChosen(t *testing.T) {
	group := &cache.Group{}
	for _, of := range []struct {
		name string
		need int
	}{{"a", 1}, {"b", 2}} {
		ref := gang.Ref{Name: of.name}
		group.Gangs = append(group.Gangs, gang.Gang{Spec: gang.Spec{Ref: ref}, Need: of.need})
	}
	for _, pod := range strings.Fields("a-0 b-1 a-2 b-3 b-4 a-5") {
		group.Pending = append(group.Pending, gang.Member{Pod: pod, Gang: gang.Ref{Name: pod[:1]}})
	}
	for n, want := range []string{"", "a-0", "a-0 b-1", "a-0 b-1 b-3", "a-0 b-1 a-2 b-3", "a-0 b-1 a-2 b-3 b-4", "a-0 b-1 a-2 b-3 b-4 a-5"} {
		var got []string
		for _, m := range (&place.Attempt{Group: group}).Chosen(n) {
			got = append(got, m.Pod)
		}
		require.Equal(t, want, strings.Join(got, " "))
	}
}
