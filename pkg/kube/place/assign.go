package place

import (
	"sort"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Assign returns the node assignments of a plan for members with equal requirements, in rank order.
// If the plan has fewer members than are pending, it gets the members that Chosen returns.
func (a *Attempt) Assign(p *plan.Plan) []gang.Assignment {
	chosen := a.Chosen(int(p.Count()))
	places := make([]gang.Assignment, 0, len(chosen))
	for _, place := range p.Places {
		for range place.Count {
			places = append(places, gang.Assignment{Pod: chosen[len(places)].Pod, Node: a.Net.Tree.NodeName(place.Node)})
		}
	}
	return places
}

// Chosen returns n of the pending members, by rank: first the members that their gangs need, then others, lower ranks first.
func (a *Attempt) Chosen(n int) []gang.Member {
	need := map[gang.Ref]int{}
	for _, g := range a.Group.Gangs {
		need[g.Ref] = g.Need
	}
	var first, rest []int
	for i, m := range a.Group.Pending {
		if need[m.Gang] > 0 {
			need[m.Gang]--
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	picked := append(first, rest...)[:n]
	sort.Ints(picked)
	out := make([]gang.Member, n)
	for i, k := range picked {
		out[i] = a.Group.Pending[k]
	}
	return out
}
