package plugin

import "github.com/muster-scheduler/muster/pkg/kube/place"

// amid has an attempt heed who waits beside its group, if it is to (planTogether).
func (p *Plugin) amid(a *place.Attempt) *place.Attempt {
	if !p.args.Load().PlanTogether {
		return a
	}
	return a.Amid(func() []int { return p.Cache.Neighbours(a.Group) })
}
