package plugin

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// restoreFuture renews the reservations for future members that an earlier process held in memory only. It plans
// them now, before any other pod gets a node.
func (p *Plugin) restoreFuture(ctx context.Context, nodes []fwk.NodeInfo) {
	for _, b := range p.Cache.TakeLostReservations(p.profile.ProfileName()) {
		group, refusal := p.Cache.GroupOf(b.Group)
		if refusal.Exists() || len(group.Pending) > 0 { // existing members are planned in their own cycle
			continue
		}
		if places := p.planFuture(ctx, group, nodes); len(places) > 0 {
			p.Cache.Handle(gang.FutureRestored{Group: b.Group, Places: places, Until: b.Until})
		}
	}
}

// planFuture returns the nodes for the future members of a group, as many as have capacity.
func (p *Plugin) planFuture(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo) []gang.Assignment {
	a := p.planner.NewAttempt(group, nodes, p.avoid(group))
	found, refusal, err := a.Plan(ctx)
	if err != nil || refusal != nil {
		klog.FromContext(ctx).V(2).Info("No capacity is reserved for members that do not exist yet",
			"gang", group.Key, "refusal", refusal, "err", err)
		return nil
	}
	_, future := a.Split(found.Places)
	return future
}
