package place

import (
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// InLayer is a number of one layer.
type InLayer struct {
	Layer string
	N     int
}

// Largest says, by layer from the top down, how many members fit into one domain, whichever of the
// pending they are like, once places are taken. Nodes are left out: a node is no domain that a gang
// is the larger for. It is for attempts that have counted.
func (a *Attempt) Largest(places []gang.Place) (out []InLayer) {
	tree := a.Net.Tree
	free := slices.Clone(a.World.Free)
	for _, p := range places {
		if i, ok := tree.NodeIndex(p.Node); ok && free[i] > 0 {
			free[i]--
		}
	}
	sum := offer.Sum(tree, free)
	for layer := range tree.Depth() {
		out = append(out, InLayer{Layer: tree.LayerNames()[layer]})
	}
	for d := range topology.ID(tree.Len()) {
		if l := tree.Layer(d); l < tree.Depth() && tree.Named(d) {
			out[l].N = max(out[l].N, int(sum[d]))
		}
	}
	return out
}

// Spread is how many domains of a layer places touch, and the fewest that free slots allowed.
type Spread struct {
	Layer          string
	Touched, Least int
	// Names are the domains, if there are several and what members have is of use in one only.
	Names []string
}

// Spread says, by layer from below the top, how many domains places touch, and the fewest that free slots
// allow in one domain of the layer that the members must not leave. nil if members run already: what they
// touch was not chosen now. It is for attempts that have counted.
func (a *Attempt) Spread(places []gang.Place) (out []Spread) {
	if len(a.Group.Bound) > 0 || len(places) == 0 || !a.counted {
		return nil
	}
	tree := a.Net.Tree
	near, _ := a.Net.LayerOf(a.pages.Near())
	sum := a.sum
	if sum == nil {
		sum = offer.Sum(tree, a.World.Free)
	}
	want := offer.Slots(len(places))
	for layer := 1; layer <= tree.Depth(); layer++ {
		touched := map[topology.ID]bool{}
		for _, p := range places {
			if i, ok := tree.NodeIndex(p.Node); ok {
				touched[tree.Ancestor(tree.Node(i), layer)] = true
			}
		}
		least := len(touched)
		if least > 1 { // else it is the least there is
			least = min(least, fewest(tree, sum, a.All.Must, layer, want))
		}
		at := Spread{Layer: tree.LayerNames()[layer], Touched: len(touched), Least: least}
		if layer == near && len(touched) > 1 {
			for _, d := range slices.Sorted(maps.Keys(touched)) {
				at.Names = append(at.Names, tree.Name(d))
			}
		}
		out = append(out, at)
	}
	return out
}

// fewest is in how few domains of a layer so many members have room, inside of one domain of the
// must layer; 1 if they have none. sum is the free slots of every domain.
func fewest(tree *topology.Tree, sum []offer.Slots, must, layer int, want offer.Slots) int {
	if must >= layer {
		return 1
	}
	best := 0
	many := make([]int, want+1) // by slots, how many domains of the layer have so many
	for root := topology.Root; int(root) < tree.Len(); {
		if tree.Layer(root) < must {
			root++
			continue
		}
		if sum[root] >= want {
			clear(many)
			for d := root; d < tree.End(root); d++ {
				if tree.Layer(d) == layer {
					many[min(sum[d], want)]++
				}
			}
			if n := take(many, want); best == 0 || n < best {
				best = n
			}
		}
		root = tree.End(root)
	}
	return max(best, 1)
}

// take is how many of the largest domains it takes for so many members: many says how many have
// so many slots.
func take(many []int, want offer.Slots) (n int) {
	for size := want; size > 0 && want > 0; size-- {
		some := min(many[size], int((want+size-1)/size))
		n, want = n+some, want-offer.Slots(some)*size
	}
	return n
}
