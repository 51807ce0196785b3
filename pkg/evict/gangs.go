package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Gang is a running gang with possible victims. If more than Spare members are evicted, all must be, and with them all gangs
// of its group, unless these may run without it.
type Gang struct {
	// A gang without possible victims is listed too if another gang of its group has some.
	bundle.Gang
	// Whole says that all members may be evicted. Cost is the cost of that, including members on other nodes: the sum of CostOf.
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

// withRoom asks each node once what it takes without any victim.
func withRoom(nodes []RawNode) (asked []RawNode, room []offer.Slots) {
	asked, room = slices.Clone(nodes), make([]offer.Slots, len(nodes))
	most := 0
	for _, n := range nodes {
		most = max(most, len(n.Victims))
	}
	all := indexes(most)
	for i, n := range nodes {
		room[i] = n.Slots(all[:len(n.Victims)])
		asked[i].Slots = func(gone []int) offer.Slots {
			if len(gone) == len(n.Victims) {
				return room[i]
			}
			return n.Slots(gone)
		}
	}
	return asked, room
}
