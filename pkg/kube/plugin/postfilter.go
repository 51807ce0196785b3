package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// PostFilter evicts for a whole gang and reserves the places. It answers for every
// member, so that DefaultPreemption never evicts for one of them.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		if p.ordinary.Runs() {
			return p.ordinary.PostFilter(ctx, state, pod, m)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	switch c.verdict {
	case sent:
		p.dropPlan(pod, c.node, m.Get(c.node), func(g *cache.Group) bool { return p.planner.Sees(ctx, g, c.node) })
	case waits:
		p.Preemptor.Answer(ctx, c.attempt)
		p.teller.Siblings(pod, c.why, status.PreemptionWaits)
		// Said again: a reservation given up just before may still be taken back in the API.
		node, _ := p.Cache.Place(pod)
		return answer(fwk.UnschedulableAndUnresolvable, node, status.PreemptionWaits, c.attempt)
	case refused:
		a := c.attempt
		ran := p.Meter.Runs()
		node, came := p.Preemptor.Evict(ctx, a, pod)
		p.Meter.Ran(a.Group.Key, ran)
		p.Meter.Refused(a, c.refusal)
		if p.refused.Filed(a.Group.Key) != "" {
			p.Meter.TriedAgain(node != "")
		}
		code := fwk.Success
		if node == "" {
			code = fwk.UnschedulableAndUnresolvable
			why := because(c.refusal)
			why.Words = came.After(c.why) + p.keepFree(ctx, a)
			p.refuse(a.Group.Key, why)
			p.file(a, pod, why)
		} else {
			p.leave(a.Group.Key)
		}
		p.teller.Siblings(pod, c.why, came)
		return answer(code, node, came, a)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// because is who refused an attempt.
func because(r *place.Refusal) gang.Refusal {
	switch {
	case r == nil: // a plugin has failed
		return gang.Refusal{By: gang.Plan}
	case r.Everywhere:
		return gang.Refusal{By: gang.Template, Plugins: r.Plugins}
	}
	return gang.Refusal{By: gang.Plan, Plugins: r.Plugins, Evictable: true}
}

// answer is PostFilter's to the member that was tried; node is its place, if it has one.
func answer(code fwk.Code, node string, came status.Preemption, a *place.Attempt) (*fwk.PostFilterResult, *fwk.Status) {
	says := fwk.NewStatus(code, came.ForPod(a.Group.Held, len(a.Group.Pending)))
	if node == "" {
		return nil, says
	}
	return framework.NewPostFilterResultWithNominatedNode(node), says
}

// dropPlan gives up a plan of which a member's own node refused it. If the next attempt sees why,
// the node need not be avoided.
func (p *Plugin) dropPlan(pod *v1.Pod, node string, refused *fwk.Status, sees func(*cache.Group) bool) {
	group, refusal := p.Cache.Group(pod)
	if refusal.Is() {
		return
	}
	p.Cache.Handle(gang.Dropped{
		Group: group.Key, Node: node, Why: fmt.Sprintf("member %s was refused on %s", convert.PodKey(pod), node),
		Learned: p.planner.Limit(group, pod, node, refused) || sees(group),
	})
}

// keepFree keeps the places that are free now for a gang whose turn it is, in a domain
// that can take all of it once others have finished. It says what is kept, "" if nothing.
func (p *Plugin) keepFree(ctx context.Context, a *place.Attempt) string {
	if !a.Group.Starving || !a.Counted() {
		return ""
	}
	if a = a.Fewest(ctx); len(a.Group.Pending) == 0 {
		return "" // the group can do without all who wait
	}
	places, where := a.FreeWhereCapable(ctx)
	if len(places) == 0 {
		return ""
	}
	p.Cache.Handle(gang.Saved{Group: a.Group.Key, Places: places})
	return status.Kept(len(places), a.Group.Need(), where)
}
