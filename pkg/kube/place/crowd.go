package place

import (
	"context"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Amid has the attempt choose, between domains that are equally good for the group, with a view to gangs that wait beside it
// and ask for the same (cache.Neighbours). Others says how many members each has; it is asked once there is a plan.
func (a *Attempt) Amid(others func() []int) *Attempt {
	a.crowd = others
	return a
}

// amid is the plan with a view to those who wait beside the group, if there are any; else the one that was found.
func (a *Attempt) amid(ctx context.Context, found *plan.Plan) *plan.Plan {
	r := a.Request()
	if a.crowd == nil || r.Must == 0 || r.Min < r.Want {
		return found
	}
	for _, n := range a.crowd() {
		r.Beside = append(r.Beside, offer.Slots(n))
	}
	if len(r.Beside) == 0 {
		return found
	}
	w := a.World
	w.Bare, _ = a.Bare(ctx)
	p, _ := plan.Choose(w, r)
	return p
}
