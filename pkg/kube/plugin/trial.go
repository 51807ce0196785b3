package plugin

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Try searches a plan for a group on the nodes, as the group's own cycle would, and returns the result. It changes nothing.
func (p *Plugin) Try(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo) Trial {
	return p.TryOn(ctx, group, nodes, func(string) bool { return true })
}

// TryOn is Try on only those nodes for which may returns true.
func (p *Plugin) TryOn(ctx context.Context, group *cache.Group, nodes []fwk.NodeInfo, may func(node string) bool) Trial {
	avoid := p.avoid(group)
	a := p.planner.NewAttempt(group, nodes, func(n fwk.NodeInfo) bool { return !may(n.Node().Name) || avoid != nil && avoid(n) })
	t := Trial{Plugin: p, Attempt: a}
	t.Found, t.Refusal, _ = a.Plan(ctx)
	return t
}

// reportTrial passes a trial to Options.Tried.
func (p *Plugin) reportTrial(ctx context.Context, t Trial) {
	if p.options.Tried != nil {
		t.Plugin = p
		p.options.Tried(ctx, t)
	}
}
