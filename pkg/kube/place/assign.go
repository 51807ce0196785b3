package place

import (
	"sort"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Assign gives like members their places in rank order: first those that make each
// gang whole, then further ones, lowest ranks first, as many as were placed.
func (a *Attempt) Assign(p *plan.Plan) []gang.Place {
	chosen := a.Chosen(int(p.Count()))
	places := make([]gang.Place, 0, len(chosen))
	for _, at := range p.Places {
		for range at.Count {
			places = append(places, gang.Place{Pod: chosen[len(places)].Pod, Node: a.Net.Tree.NodeName(at.Node)})
		}
	}
	return places
}

// Chosen returns the n members that get a place, by rank.
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
