package plugin

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// keepAgain has places be kept once more for members that their controllers are still to make, where the
// leader was placed by a process before this one: that has kept them in its memory only. They are planned
// where they would go now, before anybody else is given a place.
func (p *Plugin) keepAgain(ctx context.Context, nodes []fwk.NodeInfo) {
	for _, b := range p.Cache.TakeBereft(p.profile.ProfileName()) {
		group, refusal := p.Cache.GroupOf(b.Group)
		if refusal.Is() || len(group.Pending) > 0 { // who exists is planned with the others in his own cycle
			continue
		}
		if places := p.placesAhead(ctx, group, nodes); len(places) > 0 {
			p.Cache.Handle(gang.KeptAhead{Group: b.Group, Places: places, Until: b.Until})
		}
	}
}

// placesAhead are the places of members that are still to be made, as many as there is room for.
func (p *Plugin) placesAhead(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo) []gang.Place {
	a := p.planner.NewAttempt(group, nodes, p.avoid(group))
	found, refusal, err := a.Plan(ctx)
	if err != nil || refusal != nil {
		klog.FromContext(ctx).V(2).Info("No places are kept for members that are still to be made", "gang", group.Key, "refusal", refusal, "err", err)
		return nil
	}
	_, ahead := a.Split(found.Places)
	return ahead
}
