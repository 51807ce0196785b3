package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Gang is a running gang of which members may be evicted. As long as no more than Spare
// of them leave, the rest is still a gang; if more do, all must, and with them all gangs of
// its group, unless those may run on without.
type Gang struct {
	// A gang whose members may not be evicted is listed, too, if another gang of its group is.
	bundle.Gang
	// Whole says that all of them may be evicted; Cost is what that costs, with those that
	// run on none of the nodes: the sum of CostOf.
	Whole bool
	Cost  Cost
	// Budgets are those of all members, one after the other: a budget is in it as often as
	// members count towards it.
	Budgets []Budget
}

// RawNode is a node before anybody asked what it would take.
type RawNode struct {
	Victims []Victim
	// Slots is as for NewNode.
	Slots func(gone []int) offer.Slots
}

// withRoom asks what nodes take when all victims have gone, once for all.
func withRoom(nodes []RawNode) (asked []RawNode, room []offer.Slots) {
	asked, room = slices.Clone(nodes), make([]offer.Slots, len(nodes))
	most := 0
	for _, n := range nodes {
		most = max(most, len(n.Victims))
	}
	everybody := indexes(most)
	for i, n := range nodes {
		room[i] = n.Slots(everybody[:len(n.Victims)])
		asked[i].Slots = func(gone []int) offer.Slots {
			if len(gone) == len(n.Victims) {
				return room[i]
			}
			return n.Slots(gone)
		}
	}
	return asked, room
}
