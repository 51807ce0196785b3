package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// EachCharge calls do with each domain in which all members may be, and the lowest price that the world charges there for n
// of them. Domains that cannot take n are left out.
func (s *Search) EachCharge(n offer.Slots, do func(d topology.ID, price offer.Price)) {
	if s.split {
		return
	}
	for _, d := range s.roots {
		if p, ok := s.charge(d, n); ok {
			do(d, p)
		}
	}
}
