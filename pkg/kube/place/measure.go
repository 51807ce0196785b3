package place

import (
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// InLayer is a number N that belongs to one layer.
type InLayer struct {
	Layer string
	N     int
}

// Largest returns, by layer from the top, the free capacity in members of the domain with the most, after the assignments are made.
// The layer of nodes and unnamed domains are left out. The attempt must have counted.
func (a *Attempt) Largest(places []gang.Assignment) (out []InLayer) {
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

// Spread is in how many domains of a layer a plan has members (Touched), and the fewest that the free capacity allowed (Least).
type Spread struct {
	Layer          string
	Touched, Least int
	// Names are the touched domains, if ResourceClaims of the members work within one domain only.
	Names []string
}

// Spread returns, by layer below the top, in how many domains the assignments are, and the fewest possible within one domain of the Must
// layer. It returns nil if members run already, because this plan did not choose their domains. The attempt must have counted.
func (a *Attempt) Spread(places []gang.Assignment) (out []Spread) {
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
		if least > 1 { // one domain is the minimum
			least = min(least, fewestDomains(tree, sum, a.All.Must, layer, want))
		}
		spread := Spread{Layer: tree.LayerNames()[layer], Touched: len(touched), Least: least}
		if layer == near && len(touched) > 1 {
			for _, d := range slices.Sorted(maps.Keys(touched)) {
				spread.Names = append(spread.Names, tree.Name(d))
			}
		}
		out = append(out, spread)
	}
	return out
}

// fewestDomains returns the lowest number of domains of layer, all inside one domain of the must layer, that together take want members; 1
// if none do. sum is the free slots by domain.
func fewestDomains(tree *topology.Tree, sum []offer.Slots, must, layer int, want offer.Slots) int {
	if must >= layer {
		return 1
	}
	best := 0
	many := make([]int, want+1) // number of domains of the layer, by slots
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
			if n := domainsNeeded(many, want); best == 0 || n < best {
				best = n
			}
		}
		root = tree.End(root)
	}
	return max(best, 1)
}

// domainsNeeded returns how many domains, the largest first, want members need. many[n] is the number of domains with n free slots.
func domainsNeeded(many []int, want offer.Slots) (n int) {
	for size := want; size > 0 && want > 0; size-- {
		used := min(many[size], int((want+size-1)/size))
		n, want = n+used, want-offer.Slots(used)*size
	}
	return n
}
