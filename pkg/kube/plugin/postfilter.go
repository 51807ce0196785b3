package plugin

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// PostFilter evicts for a whole gang and reserves the places. It answers for every
// member, so that DefaultPreemption never evicts for one of them.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.putBack(ctx)
	switch o := outcomeOf(state).(type) {
	case nil:
		if s := p.givesBack(ctx, state, pod, m); s != nil {
			return nil, s
		}
		p.passed(pod, true)
		return p.evictForPod(ctx, pod, m)
	case *sent:
		p.dropPlan(pod, o.node, m.Get(o.node), func(g *cache.Group) bool { return p.planner.Sees(ctx, g, o.node) })
	case *reserving:
		p.Preemptor.Answer(ctx, o.attempt)
		p.teller.Siblings(pod, o.said, status.PreemptionWaits)
		// Said again: a reservation given up just before may still be taken back in the API.
		seat := p.Cache.Seat(pod)
		return answer(fwk.UnschedulableAndUnresolvable, seat.Node, says(o.said, o.attempt, status.PreemptionWaits))
	case *refused:
		return p.evictFor(ctx, o, pod)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// evictFor evicts for a gang that was refused. If that does not help it remembers and tells why.
func (p *Plugin) evictFor(ctx context.Context, c *refused, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	a := c.attempt
	if c.by.By != gang.Quota && !c.later {
		p.passed(pod, true)
	}
	ran := p.Meter.Runs()
	node, came := "", status.PreemptionNone
	if c.by.By != gang.Veto {
		node, came = p.Preemptor.Evict(ctx, a, pod, c.others...)
	}
	if c.untried && (came == status.PreemptionNobody || came == status.PreemptionNoHelp) {
		came = status.PreemptionUntried
	}
	p.Meter.Ran(a.Group.Key, ran)
	p.Meter.Refused(a, c.refusal)
	if p.refused.Filed(a.Group.Key) != "" && (!c.renews || node != "") {
		p.Meter.TriedAgain(node != "")
	}
	code := fwk.Success
	if node == "" {
		code = fwk.UnschedulableAndUnresolvable
		why := c.by
		kept := p.keepFree(ctx, a)
		c.said = p.explain(ctx, c, pod, &why)
		why.Words, why.Says = came.After(c.said.Text)+kept, c.said.Sentence
		p.refuse(a.Group.Key, why)
		p.file(c, pod, why)
	} else {
		p.leave(a.Group.Key)
	}
	p.teller.Siblings(pod, c.said, came)
	return answer(code, node, says(c.said, a, came))
}

// says is what PostFilter says to the member that was tried.
func says(said status.Said, a *place.Attempt, came status.Preemption) string {
	return said.ForSpeaker(came, a.Group.Held, len(a.Group.Pending))
}

// givesBack has DynamicResources give back what keeps a pod without a gang from starting, as it does after DefaultPreemption in
// kube-scheduler: a claim that nobody else uses, where there is no room, or one that an earlier cycle has made for its extended
// resources. Nobody is evicted then: the pod is tried again. It is nil if there is nothing to be given back.
func (p *Plugin) givesBack(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) *fwk.Status {
	if p.idler == nil {
		return nil
	}
	if _, err := state.Read(fwk.StateKey(p.idler.Name())); err != nil {
		return nil // it was not asked
	}
	_, s := p.idler.PostFilter(ctx, state, pod, m)
	if !s.IsRejected() || len(s.Reasons()) == 0 {
		return nil
	}
	// A claim without devices may have gone, of which nobody hears.
	p.letIn("pods with claims that were returned", map[string]*v1.Pod{convert.PodKey(pod): pod})
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.Reasons()...)
}

// idlerOf is a profile's DynamicResources, if it has a turn when a pod finds no node.
func idlerOf(profile framework.Framework) fwk.PostFilterPlugin {
	if !slices.ContainsFunc(profile.ListPlugins().PostFilter.Enabled, func(pl schedulerconfig.Plugin) bool { return pl.Name == names.DynamicResources }) {
		return nil
	}
	for _, e := range profile.EnqueueExtensions() {
		if pl, ok := e.(fwk.PostFilterPlugin); ok && pl.Name() == names.DynamicResources {
			return pl
		}
	}
	return nil
}

// explain says in words why an attempt was refused, and notes in the refusal whether anybody who leaves
// would help. What is said stays for a while.
func (p *Plugin) explain(ctx context.Context, c *refused, speaker *v1.Pod, why *gang.Refusal) status.Said {
	said := c.said
	if c.refusal != nil {
		s := c.trial(p).Shortage(ctx)
		why.Never, why.Plugins = s.Never != nil, s.Plugins
		if c.several != nil {
			why.Plugins = c.several.plugins
		}
		said = status.Refused(c.refusal, s, status.Frame(speaker, c.attempt.Group.Whole()...))
	}
	return p.steadily(c.attempt.Group.Key, said, speaker)
}

func (c *refused) trial(p *Plugin) Trial {
	return Trial{Plugin: p, Attempt: c.attempt, Refusal: c.refusal, some: c.some}
}

// shortage is what an attempt's refusal comes to.
func (p *Plugin) shortage(ctx context.Context, a *place.Attempt, r *place.Refusal) place.Shortage {
	return a.Shortage(ctx, r, p.Preemptor.May(a) == preempt.Evicts)
}

// Shortage is what the trial's refusal comes to, as people are told.
func (t Trial) Shortage(ctx context.Context) place.Shortage {
	s := t.shortage(ctx, t.Attempt, t.Refusal)
	if t.some {
		s.Never = nil
	}
	return s
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
func answer(code fwk.Code, node, says string) (*fwk.PostFilterResult, *fwk.Status) {
	if node == "" {
		return nil, fwk.NewStatus(code, says)
	}
	return framework.NewPostFilterResultWithNominatedNode(node), fwk.NewStatus(code, says)
}

// dropPlan gives up a plan of which a member's own node refused it. If the next attempt sees why,
// the node need not be avoided; nor if every node would have refused it, since a claim of an earlier cycle is in its way: the next attempt has that deleted.
func (p *Plugin) dropPlan(pod *v1.Pod, node string, refused *fwk.Status, sees func(*cache.Group) bool) {
	group, refusal := p.Cache.Group(pod)
	if refusal.Is() {
		return
	}
	p.Cache.Handle(gang.Dropped{
		Group: group.Key, Node: node, Why: fmt.Sprintf("member %s was refused on %s", convert.PodKey(pod), node),
		Learned: p.allotted.Leftover([]*v1.Pod{pod}) || p.planner.Limit(group, pod, node, refused) || sees(group),
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
