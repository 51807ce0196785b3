package place

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestFewest compares it with trying every set of domains.
func TestFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []topology.Node
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			nodes = append(nodes, topology.Node{
				Name: fmt.Sprint("n", i),
				Path: []string{
					rapid.SampledFrom([]string{"s0", "s1", ""}).Draw(t, "spine"), rapid.SampledFrom([]string{"b0", "b1", "b2", ""}).Draw(t, "block"),
				},
			})
		}
		tree := topology.Build([]string{"Spine", "Block"}, nodes)
		free := make([]offer.Slots, len(nodes))
		for i := range free {
			free[i] = offer.Slots(rapid.IntRange(0, 3).Draw(t, "free"))
		}
		sum := offer.Sum(tree, free)
		must, layer := rapid.IntRange(0, 2).Draw(t, "must"), rapid.IntRange(1, 3).Draw(t, "layer")
		want := offer.Slots(rapid.IntRange(1, 8).Draw(t, "want"))
		require.Equal(t, slowly(tree, sum, must, layer, want), fewestDomains(tree, sum, must, layer, want))
	})
}

// slowly is fewest by trying all sets; 1 if no set has room.
func slowly(tree *topology.Tree, sum []offer.Slots, must, layer int, want offer.Slots) int {
	var domains []topology.ID
	for d := range topology.ID(tree.Len()) {
		if tree.Layer(d) == layer {
			domains = append(domains, d)
		}
	}
	if must > layer {
		return 1 // a domain is in one domain of each layer above
	}
	best := 0
	for set := range 1 << len(domains) {
		roots, room := map[topology.ID]bool{}, offer.Slots(0)
		for i, d := range domains {
			if set&(1<<i) != 0 {
				room += sum[d]
				roots[tree.Ancestor(d, must)] = true
			}
		}
		if n := bits.OnesCount(uint(set)); room >= want && len(roots) <= 1 && (best == 0 || n < best) {
			best = n
		}
	}
	return max(best, 1)
}

// measured is an attempt that has counted two slots on each node of a tree.
func measured(spines, blocks, nodes int) *Attempt {
	var all []topology.Node
	for s := range spines {
		for b := range blocks {
			for n := range nodes {
				all = append(all, topology.Node{Name: fmt.Sprintf("n-%d-%d-%d", s, b, n), Path: []string{fmt.Sprint("s", s), fmt.Sprint("b", b)}})
			}
		}
	}
	a := &Attempt{Group: &cache.Group{}, Net: &cache.Topology{Tree: topology.Build([]string{"Spine", "Block"}, all)}, counted: true}
	a.World.Free = make([]offer.Slots, len(all))
	for i := range a.World.Free {
		a.World.Free[i] = 2
	}
	return a
}

func onNodes(a *Attempt, nodes ...string) (places []gang.Assignment) {
	for i, n := range nodes {
		places = append(places, gang.Assignment{Pod: fmt.Sprint("p", i), Node: n})
	}
	return places
}

// TestMeasures: the counts for near and for scattered assignments.
func TestMeasures(t *testing.T) {
	a := measured(2, 2, 2)
	near := onNodes(a, "n-0-0-0", "n-0-0-0", "n-0-0-1", "n-0-0-1")
	require.Equal(t, []Spread{{"Spine", 1, 1, nil}, {"Block", 1, 1, nil}, {topology.NodeLayer, 2, 2, nil}}, a.Spread(near))
	require.Equal(t, []InLayer{{topology.RootLayer, 12}, {"Spine", 8}, {"Block", 4}}, a.Largest(near))
	far := onNodes(a, "n-0-0-0", "n-0-1-0", "n-1-0-0", "n-1-1-0")
	require.Equal(t, []Spread{{"Spine", 2, 1, nil}, {"Block", 4, 1, nil}, {topology.NodeLayer, 4, 2, nil}}, a.Spread(far))
	require.Equal(t, []InLayer{{topology.RootLayer, 12}, {"Spine", 6}, {"Block", 3}}, a.Largest(far))
	a.Group.Bound = []gang.Member{{Pod: "q", Node: "n-0-0-0"}}
	require.Nil(t, a.Spread(far), "it has started")
}

// BenchmarkMeasures is what is measured of a plan on 15,000 nodes: how near the places are each time,
// the largest gang now and then.
func BenchmarkMeasures(b *testing.B) {
	a := measured(30, 25, 20)
	var nodes []string
	for i := range 512 {
		nodes = append(nodes, fmt.Sprintf("n-0-%d-%d", i/20%25, i%20))
	}
	places := onNodes(a, nodes...)
	b.Run("beyond", func(b *testing.B) {
		for b.Loop() {
			a.Spread(places)
		}
	})
	b.Run("largest", func(b *testing.B) {
		for b.Loop() {
			a.Largest(places)
		}
	})
}
