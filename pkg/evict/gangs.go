package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Gang is a running gang with possible victims. If more than Spare members are evicted, all must be evicted. All gangs of its group that
// may not run without it are then evicted too.
type Gang struct {
	// A gang without possible victims is listed too if another gang of its group has some.
	bundle.Gang
	// Whole says that all members may be evicted. Cost is the cost of all members, also on nodes outside the search: the sum of CostOf.
	Whole bool
	Cost  Cost
	// Budgets are the budgets of all members: each budget appears once for each member.
	Budgets []Budget
}

// RawNode is a node before its slots are counted.
type RawNode struct {
	Victims []Victim
	// Slots is as for NewNode.
	Slots func(gone []int) offer.Slots
}

// countCapacity returns the slots of each node without any victim, and the nodes with a Slots function that reuses them.
func countCapacity(nodes []RawNode) (counted []RawNode, capacity []offer.Slots) {
	counted, capacity = slices.Clone(nodes), make([]offer.Slots, len(nodes))
	most := 0
	for _, n := range nodes {
		most = max(most, len(n.Victims))
	}
	all := indexes(most)
	for i, n := range nodes {
		capacity[i] = n.Slots(all[:len(n.Victims)])
		counted[i].Slots = func(gone []int) offer.Slots {
			if len(gone) == len(n.Victims) {
				return capacity[i]
			}
			return n.Slots(gone)
		}
	}
	return counted, capacity
}
