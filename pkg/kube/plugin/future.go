package plugin

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// restoreFuture makes reservations again for members not yet created. An earlier process had these reservations in memory only. They are
// planned before any other pod gets a node.
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

// planFuture returns node assignments for the members of a group that are not yet created; nil if there is no plan.
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
