package topology_test

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestNear: the numbers of the drawing.
func TestNear(t *testing.T) {
	node := func(name, spine, rack string) topology.Node {
		return topology.Node{Name: name, Path: []string{spine, rack}}
	}
	tree := topology.Build([]string{"spine", "rack"}, []topology.Node{
		node("n1", "s1",
			"r1"), node("n2", "s1", "r1"), node("n3", "s1", "r2"), node("n4", "s1", "r2"), node("n5", "s2", "r3"), node("n6", "s2", "r3"),
	})
	for _, c := range []struct {
		nodes []string
		want  float64
	}{
		{[]string{"n1"}, 1},
		{[]string{"n1", "n2"}, 1},
		{[]string{"n1", "n1", "n2"}, 1}, // two pods on one
		{[]string{"n1", "n3"}, 0.75},
		{[]string{"n1", "n5"}, 0.5},
		{[]string{"n1", "n2", "n3"}, 1},
		{[]string{"n1", "n2", "n5"}, 0.75},
		{[]string{"n1", "n2", "n3", "n4", "n5", "n6"}, 1},
	} {
		got, ok := tree.Near(tree.Indexes(slices.Values(c.nodes)))
		require.True(t, ok)
		require.InDelta(t, c.want, got, 1e-9, "%v", c.nodes)
	}
	_, ok := tree.Near(slices.Values([]int(nil)))
	require.False(t, ok, "there are no pods")
	_, ok = topology.Build(nil, []topology.Node{{Name: "n1"}}).Near(slices.Values([]int{0}))
	require.False(t, ok, "there are no layers")
}

// TestNearest compares with every other choice of as many nodes.
func TestNearest(t *testing.T) {
	worlds.Check(t, 500, []string{"as near as can be", "farther"}, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 8).Build()
		var some []int
		for i := range tree.NumNodes() {
			if worlds.Even(t, 2, "in") == 0 {
				some = append(some, i)
			}
		}
		got, ok := tree.Near(slices.Values(some))
		if ok != (len(some) > 0 && tree.Depth() > 1) {
			t.Fatalf("%v: %v", some, ok)
		}
		if !ok {
			return
		}
		want := 0.0
		for layer := 1; layer < tree.Depth(); layer++ {
			least := math.MaxInt
			for set := range 1 << tree.NumNodes() {
				if bits.OnesCount(uint(set)) == len(some) {
					least = min(least, domains(tree, layer, func(i int) bool { return set>>i&1 == 1 }))
				}
			}
			want += float64(least) / float64(domains(tree, layer, func(i int) bool { return slices.Contains(some, i) }))
		}
		if want /= float64(tree.Depth() - 1); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v: %v, not %v", some, got, want)
		}
		y.Count("as near as can be", got > 1-1e-9)
		y.Count("farther", got < 1-1e-9)
	})
}

// domains is how many domains of a layer some nodes are in.
func domains(tree *topology.Tree, layer int, in func(int) bool) int {
	all := map[topology.ID]bool{}
	for i := range tree.NumNodes() {
		if in(i) {
			all[tree.Ancestor(tree.Node(i), layer)] = true
		}
	}
	return len(all)
}
