package plan

import (
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// touchesFewest says whether a plan surely obeys rule 5: it touches as few domains as its
// members must touch where those with most room come first. Rule 5 does not guide the
// search.
func (s *trials) touchesFewest(p *JobPlan) bool {
	return !slices.ContainsFunc(s.columns, func(c column) bool {
		return c.Charge != PerDomain || s.chargedBy(p, c) > int64(s.mustTouch(p, c))
	})
}

// mustTouch is no more than what any plan for the members of p, in a domain of the layer of
// its own, costs by a column.
func (s *trials) mustTouch(p *JobPlan, c column) (n int) {
	part := make([]offer.Slots, len(s.Classes))
	for _, put := range p.Puts {
		part[put.Class]++
	}
	if c.sets == nil {
		return s.fewestFor(p, c.Layer, part, s.boundIn)
	}
	for _, i := range c.sets {
		of := make([]offer.Slots, len(part))
		for _, class := range s.inSet[i] {
			of[class] = part[class]
		}
		n += s.fewestFor(p, c.Layer, of, func(d topology.ID) offer.Slots { return s.boundOfSet(i, d) })
	}
	return n
}

// fewestFor is how many domains of a layer so many members of each class must newly touch,
// in the best of the domains that p might have been in.
func (s *trials) fewestFor(p *JobPlan, layer int, part []offer.Slots, bound func(topology.ID) offer.Slots) int {
	least := math.MaxInt
	for _, root := range s.roots {
		for d := range s.below(root, s.tree.Layer(p.Domain)) {
			if s.holdsBound(d) {
				least = min(least, s.fewestIn(d, layer, part, bound))
			}
		}
	}
	return least
}

func (s *trials) fewestIn(d topology.ID, layer int, part []offer.Slots, bound func(topology.ID) offer.Slots) (n int) {
	want := make([]offer.Slots, len(s.slots))
	left := offer.Slots(0)
	for c, many := range part {
		want[s.Classes[c].Kind] += many
		left += many
	}
	takes := func(x topology.ID) (n offer.Slots) {
		for kind, many := range want {
			n += s.takesAlone(x, kind, many)
		}
		return n
	}
	if up := s.tree.Ancestor(d, layer); s.tree.Layer(d) >= layer {
		if left > 0 && bound(up) == 0 {
			return 1
		}
		return 0
	}
	var sizes []offer.Slots
	for x := range s.below(d, layer) {
		if bound(x) > 0 {
			left -= takes(x)
		} else {
			sizes = append(sizes, takes(x))
		}
	}
	slices.Sort(sizes)
	for _, size := range slices.Backward(sizes) {
		if left <= 0 {
			return n
		}
		left, n = left-size, n+1
	}
	return n
}
