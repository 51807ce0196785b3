package evict

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Anywhere returns the problem of victims that are evicted for quotas alone: the placement check passes whatever set is evicted. The victims are
// on one node.
func Anywhere(victims []Victim, gangs []Gang, q Quota) Problem {
	return Problem{
		World:     plan.World{Tree: topology.Build(nil, []topology.Node{{}})},
		Request:   plan.Request{Min: 1, Want: 1},
		Nodes:     []RawNode{{Victims: victims, Slots: func([]int) offer.Slots { return 1 }}},
		Gangs:     gangs,
		Placement: anywhere{},
		Quota:     q,
	}
}

// anywhere implements Placement and Placed.
type anywhere struct{}

func (anywhere) Fits([]Pick) (Placed, bool) { return anywhere{}, true }
func (anywhere) Uses(int) bool              { return true }
func (anywhere) Holds([]Pick, []int) bool   { return true }
func (anywhere) Places() []plan.Place       { return []plan.Place{{Count: 1}} }
func (anywhere) All() bool                  { return true }
