package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/company"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// crowd is who waits beside a gang, for domains of the layer in which it gathers.
type crowd struct {
	layer   int
	members offer.Slots   // of the gang
	others  []offer.Slots // of those beside it
	bare    []offer.Slots // by ID; nil if that is not known
}

// newCrowd returns nil if nobody waits beside the gang, or nobody can say what is left for them: where
// counts must be multiples, or it may start in part.
func newCrowd(w World, r Request) *crowd {
	steps := r.Multiple.Steps(w.Tree.Depth() + 1)
	if len(r.Beside) == 0 || r.Must == 0 || steps[topology.Root] > 1 || r.Min < r.Want || w.Room != nil {
		return nil
	}
	c := &crowd{layer: r.Must, members: r.Want, others: r.Beside}
	if w.Bare != nil {
		c.bare = offer.Sum(w.Tree, w.Bare)
	}
	return c
}

// best leaves those of the domains, all of which are good for the gang, that are best for the others.
func (c *crowd) best(g *ground, domains []topology.ID) []topology.ID {
	var holes []company.Hole
	at := make(map[topology.ID]int, len(g.roots))
	for _, d := range g.roots {
		at[d] = len(holes)
		h := company.Hole{Free: g.size[d], Size: g.size[d]}
		if c.bare != nil {
			h.Size = max(h.Free, c.bare[d])
		}
		holes = append(holes, h)
	}
	var may []int
	for _, d := range domains {
		may = append(may, at[g.tree.Ancestor(d, c.layer)])
	}
	slices.Sort(may)
	best := company.Best(holes, slices.Compact(may), c.members, c.others)
	return slices.DeleteFunc(domains, func(d topology.ID) bool {
		_, is := slices.BinarySearch(best, at[g.tree.Ancestor(d, c.layer)])
		return !is
	})
}
