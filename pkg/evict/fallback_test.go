package evict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestWhoIsSparedBesideOthers: where the search gave up, a group leaves whole of which one gang can
// spare those who are needed. Without the rest of the group as many members of yet another gang would
// do, which must not break: it stays, and the gang that can spare some is found all the same.
func TestWhoIsSparedBesideOthers(t *testing.T) {
	budgets := []evict.Budget{{Name: "x"}, {Name: "y"}}
	sizes := [][]offer.Slots{nil, {1, 1, 3}, {2, 1}} // what each victim leaves, by node
	of := [][]int{nil, {3, 0, 2}, {1, 2}}            // its gang
	free := []offer.Slots{0, 0, 2}
	tree := topology.Build(nil, []topology.Node{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}})
	w := plan.World{Tree: tree, Free: free}
	nodes := make([]evict.RawNode, len(free))
	members := map[int]int{}
	for i := range nodes {
		for v := range sizes[i] {
			nodes[i].Victims = append(nodes[i].Victims, evict.Victim{Priority: 1, Budgets: budgets, Gang: of[i][v]})
			members[of[i][v]]++
		}
		nodes[i].Slots = func(gone []int) offer.Slots {
			n := free[i]
			for _, v := range gone {
				n += sizes[i][v]
			}
			return n
		}
	}
	gang := func(group, spare, pods int) evict.Gang {
		g := evict.Gang{Gang: bundle.Gang{Group: group, Spare: spare}, Whole: true, Cost: evict.Cost{Violations: 2 * pods, Pods: pods, Highest: 1, Sum: int64(pods)}}
		for range pods {
			g.Budgets = append(g.Budgets, budgets...)
		}
		return g
	}
	gangs := []evict.Gang{gang(0, 0, 2), gang(1, 2, 2), gang(1, 0, 2)}
	e, _ := evict.ChooseAmongGangsWithin(w, plan.Request{Want: 6, Min: 6}, nodes, gangs, fewBranches)
	require.NotNil(t, e)
	require.Len(t, e.Victims, 2, "%v", e.Victims)
}
