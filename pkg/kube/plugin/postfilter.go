package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// PostFilter evicts pods for a whole gang, and reserves nodes for it. It returns a result for every member, so that DefaultPreemption never
// evicts for a single member.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (
	*fwk.PostFilterResult, *fwk.Status,
) {
	p.restoreNominations(ctx)
	switch o := outcomeOf(state).(type) {
	case nil:
		if s := p.releaseClaims(ctx, state, pod, m); s != nil {
			return nil, s
		}
		p.setPassedOver(pod, true)
		return p.evictForPod(ctx, pod, m)
	case *assigned:
		p.dropPlan(pod, o.node, m.Get(o.node), func(g *cache.Group) bool { return p.planner.DetectsMisfit(ctx, g, o.node) })
	case *reserving:
		p.Preemptor.AnswerDoubt(ctx, o.attempt)
		p.teller.Siblings(pod, o.message, status.PreemptionWaits)
		// Repeated: the API may still clear the nomination of a reservation dropped before.
		seat := p.Cache.Seat(pod)
		return postFilterResult(fwk.UnschedulableAndUnresolvable, seat.Node, representativeMessage(o.message, o.attempt, status.PreemptionWaits))
	case *unschedulable:
		return p.evictFor(ctx, o, pod)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// evictFor evicts pods for an unschedulable gang. If no eviction helps, it records and reports why.
func (p *Plugin) evictFor(ctx context.Context, c *unschedulable, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	a := c.attempt
	if c.cause.By != gang.Quota && !c.quotaLater {
		p.setPassedOver(pod, true)
	}
	runsBefore := p.Meter.Runs()
	node, preemption := "", status.PreemptionNone
	if c.cause.By != gang.Veto {
		node, preemption = p.Preemptor.Evict(ctx, a, pod, c.others...)
	}
	if c.untried && (preemption == status.PreemptionNoVictims || preemption == status.PreemptionNoHelp) {
		preemption = status.PreemptionUntried
	}
	p.Meter.Ran(a.Group.Key, runsBefore)
	p.Meter.Refused(a, c.refusal)
	if p.retries.RecordedPod(a.Group.Key) != "" && (!c.renewal || node != "") {
		p.Meter.TriedAgain(node != "")
	}
	code := fwk.Success
	if node == "" {
		code = fwk.UnschedulableAndUnresolvable
		why := c.cause
		promised, held := p.holdCapacity(ctx, a)
		if why.By == gang.Quota && p.quotasKeepPromise(a.Group) {
			why.KeepsPromise, promised = true, " "+status.Promise(a.Group.Promise)
		}
		if remaining, ok := p.Preemptor.ForceFitIn(a); ok && remaining > 0 {
			p.Cache.Handle(gang.RetryDue{Group: a.Group.Key, At: p.options.Clock.Now().Add(remaining)})
		}
		c.message = p.explain(ctx, c, pod, &why)
		limiting := p.limitingMember(c, preemption)
		if c.message.Sentence += limiting + promised; limiting != "" && c.refusal == nil && preemption == status.PreemptionNoHelp {
			preemption = status.PreemptionNoVictims // the quotas allow none at the gang's priority
		}
		why.Words, why.Summary = preemption.After(c.message.Text)+held, c.message.Sentence
		p.recordObstacle(a.Group.Key, why)
		p.recordRefusal(c, pod, why)
	} else {
		p.forgetRefusal(a.Group.Key)
		c.message.Sentence = "Pods are evicted for the gang; nodes are reserved for it until these pods have terminated."
	}
	p.teller.Siblings(pod, c.message, preemption)
	return postFilterResult(code, node, representativeMessage(c.message, a, preemption))
}

// limitingMember returns a sentence on the member that alone keeps the gang from evicting pods, after a space; "" if there is none, or if
// the message names it: the only one with preemptionPolicy Never, or the one whose priority lets the quotas allow no eviction.
func (p *Plugin) limitingMember(c *unschedulable, preemption status.Preemption) string {
	group := c.attempt.Group
	never := slices.DeleteFunc(slices.Clone(group.Pending), func(m gang.Member) bool { return !group.NeverPreempts(m) })
	if preemption == status.PreemptionNever && len(never) < len(group.Pending) && !c.message.Never {
		return fmt.Sprintf(" Member %s has preemptionPolicy Never.", never[0].Pod)
	}
	low, priority := c.attempt.LowestOfSeveral()
	if low == nil || c.cause.By != gang.Quota || p.quotas.EvictionHelpsAt(group, priority) {
		return ""
	}
	highest := priority
	for _, m := range group.Pending {
		highest = max(highest, p.Cache.Priority(group.Pods[m.Pod]))
	}
	if !p.quotas.EvictionHelpsAt(group, highest) {
		return ""
	}
	return " " + status.LowestDecides(low, priority) + "."
}

// representativeMessage returns PostFilter's message for the representative.
func representativeMessage(message status.Explained, a *place.Attempt, preemption status.Preemption) string {
	return message.ForRepresentative(preemption, a.Group.Held, len(a.Group.Pending))
}

// releaseClaims has DynamicResources release a ResourceClaim that keeps a pod without a gang from starting. The claim is unused, or an
// earlier cycle made it for extended resources. If a claim is released, the pod is retried without an eviction, and the status says so;
// else it is nil.
func (p *Plugin) releaseClaims(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) *fwk.Status {
	if p.claimReleaser == nil {
		return nil
	}
	if _, err := state.Read(fwk.StateKey(p.claimReleaser.Name())); err != nil {
		return nil // DynamicResources did not run in this cycle
	}
	_, s := p.claimReleaser.PostFilter(ctx, state, pod, m)
	if !s.IsRejected() || len(s.Reasons()) == 0 {
		return nil
	}
	// No event reports the deletion of a claim without devices.
	p.activateTwice("pods with claims that were returned", map[string]*v1.Pod{convert.PodKey(pod): pod})
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.Reasons()...)
}

// findClaimReleaser returns the profile's DynamicResources if it is enabled at PostFilter, else nil.
func findClaimReleaser(profile framework.Framework) fwk.PostFilterPlugin {
	isDRA := func(pl schedulerconfig.Plugin) bool { return pl.Name == names.DynamicResources }
	if !slices.ContainsFunc(profile.ListPlugins().PostFilter.Enabled, isDRA) {
		return nil
	}
	for _, e := range profile.EnqueueExtensions() {
		if pl, ok := e.(fwk.PostFilterPlugin); ok && pl.Name() == names.DynamicResources {
			return pl
		}
	}
	return nil
}

// explain returns the message why an attempt found no plan, as steadyMessage allows, and sets further fields of why.
func (p *Plugin) explain(ctx context.Context, c *unschedulable, representative *v1.Pod, why *gang.Obstacle) status.Explained {
	message := c.message
	if c.refusal != nil {
		s := c.trial(p).Shortage(ctx)
		s.Repair = strings.TrimSpace(p.repair(ctx, c.attempt, representative) + " " + s.Repair)
		why.NeverEvictable, why.Plugins = s.Never != nil, s.Plugins
		if c.alternatives != nil {
			why.Plugins = c.alternatives.plugins
		}
		message = status.Refused(c.refusal, s, status.MessageOverhead(representative, c.attempt.Group.Whole()...))
	}
	return p.steadyMessage(c.attempt.Group.Key, message, representative)
}

func (c *unschedulable) trial(p *Plugin) Trial {
	return Trial{Plugin: p, Attempt: c.attempt, Refusal: c.refusal, partial: c.partial}
}

// shortage returns the cause of an attempt's refusal.
func (p *Plugin) shortage(ctx context.Context, a *place.Attempt, r *place.Refusal) place.Shortage {
	return a.Shortage(ctx, r, p.Preemptor.May(a) == preempt.Evicts)
}

// Shortage returns the cause of the trial's refusal for users. Never is nil if other choices of members may have a plan.
func (t Trial) Shortage(ctx context.Context) place.Shortage {
	s := t.shortage(ctx, t.Attempt, t.Refusal)
	if t.partial {
		s.Never = nil
	}
	if remaining, ok := t.Preemptor.ForceFitIn(t.Attempt); ok && remaining > 0 && s.Never == nil {
		s.Repair = status.ForceFitLater(t.evictionLimits().ForceFit.After.Duration)
	}
	return s
}

// causeOf returns the refusal of an attempt for the gang book; nil is a plugin's failure.
func causeOf(r *place.Refusal) gang.Obstacle {
	switch {
	case r == nil: // a plugin failed
		return gang.Obstacle{By: gang.Plan}
	case r.Everywhere:
		return gang.Obstacle{By: gang.Template, Plugins: r.Plugins}
	}
	return gang.Obstacle{By: gang.Plan, Plugins: r.Plugins, Evictable: true}
}

// postFilterResult returns the results of PostFilter. node is the pod's reserved node, which becomes its nominated node; "" is none.
func postFilterResult(code fwk.Code, node, message string) (*fwk.PostFilterResult, *fwk.Status) {
	if node == "" {
		return nil, fwk.NewStatus(code, message)
	}
	return framework.NewPostFilterResultWithNominatedNode(node), fwk.NewStatus(code, message)
}

// dropPlan drops a group's plan because a plugin rejected a member on its assigned node. The next plan avoids the node, except in three
// cases: the cause is a leftover claim, a limit is remembered, or detected returns true (the next attempt detects the cause).
func (p *Plugin) dropPlan(pod *v1.Pod, node string, refused *fwk.Status, detected func(*cache.Group) bool) {
	group, refusal := p.Cache.Group(pod)
	if refusal.Exists() {
		return
	}
	p.Cache.Handle(gang.Dropped{
		Group: group.Key, Node: node, Why: fmt.Sprintf("member %s was rejected on %s", convert.PodKey(pod), node),
		Learned: p.allocations.RecordLeftover([]*v1.Pod{pod}) || p.planner.Limit(group, pod, node, refused) || detected(group),
	})
}
