package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/network"
)

var layers = []convert.Layer{{Name: "Spine", Keys: []string{"spine"}}, {Name: "Block", Keys: []string{"block"}}}

func node(name, spine, block string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"spine": spine, "block": block}}}
}

// TestTreeFollowsNodes: a node stands where its labels say after it has come, moved or gone.
func TestTreeFollowsNodes(t *testing.T) {
	a, b := node("a", "s1", "b1"), node("b", "s2", "b2")
	tree := network.Moves{Rebuild: true, Nodes: []*v1.Node{a, b}}.In(nil, layers)
	path := func(name string) string {
		i, ok := tree.NodeIndex(name)
		if !ok {
			return "none"
		}
		return tree.Path(tree.Parent(tree.Node(i)))
	}
	require.Same(t, tree, network.Moves{Nodes: []*v1.Node{a}}.In(tree, layers), "a node that has not moved makes no tree")
	for _, c := range []struct {
		moves      network.Moves
		of, stands string
	}{
		{network.Moves{Nodes: []*v1.Node{node("a", "s2", "b2")}}, "a", "s2/b2"},
		{network.Moves{Nodes: []*v1.Node{node("c", "s3", "b3")}}, "c", "s3/b3"},
		{network.Moves{Deleted: []string{"c", "unknown"}}, "c", "none"},
		{network.Moves{Deleted: []string{"b"}, Nodes: []*v1.Node{node("a", "s1", "b1")}}, "a", "s1/b1"},
	} {
		tree = c.moves.In(tree, layers)
		require.Equal(t, c.stands, path(c.of))
	}
	require.Equal(t, 1, tree.NumNodes())
}

// TestPlanOnSomeNodes: a plan on some nodes has a tree of these alone, where their labels say.
func TestPlanOnSomeNodes(t *testing.T) {
	a, b := node("a", "s1", "b1"), node("b", "s2", "b2")
	all := network.New(network.Moves{Rebuild: true, Nodes: []*v1.Node{a, b}}.In(nil, layers), network.Spec{Layers: layers})
	require.Same(t, all, all.On([]*v1.Node{a, b}))
	moved := node("b", "s1", "b1")
	require.False(t, all.Contains(moved))
	some := all.On([]*v1.Node{moved})
	require.True(t, some.Contains(moved))
	require.Equal(t, 1, some.Tree.NumNodes())
	layer, ok := all.LayerOf("block")
	require.Equal(t, []any{2, true}, []any{layer, ok})
	_, ok = all.LayerOf("zone")
	require.False(t, ok)
}

// A gang with MustGather reports what is wrong with the topology. An invalid topology keeps the layers of the last
// valid one.
func TestMustGatherNeedsATopology(t *testing.T) {
	must := &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: "Spine", Strategy: scheduling.MustGather}}}
	prefer := &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: "Spine", Strategy: scheduling.PreferGather}}}
	none := network.Spec{}
	require.ErrorContains(t, none.Check(must), "does not exist")
	require.NoError(t, none.Check(prefer))
	invalid, layered := (&network.Spec{Layers: layers}).After(&koordinator.ClusterNetworkTopology{})
	require.False(t, layered)
	require.Equal(t, layers, invalid.Known())
	require.ErrorContains(t, invalid.Check(must), "which is invalid")
	good := network.Spec{Object: &koordinator.ClusterNetworkTopology{}, Layers: layers}
	require.NoError(t, good.Check(must))
	must.Rules[0].Layer = "Rack"
	require.Error(t, good.Check(must))
	gone, layered := good.After(nil)
	require.True(t, layered)
	require.Nil(t, gone.Known())
}
