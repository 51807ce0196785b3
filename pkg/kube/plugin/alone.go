package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// For a pod without a gang Muster evicts as for a gang of one member: the same bundles, quotas and disruption budgets decide. Where it goes when there is
// room the profile's plugins say, as in kube-scheduler.

// alonePreemption takes the place of DefaultPreemption's rules: it evicts itself, and leaves DefaultPreemption nothing to do. So gangs are safe from pods of
// a profile, too, that does not have Coscheduling at PostFilter.
type alonePreemption struct {
	preemption.Interface
	plugin *Plugin
}

// takeOver has DefaultPreemption of the profile ask Muster, and notes whether it evicts. It is called once, when all plugins of the profile exist.
func (p *Plugin) takeOver() {
	p.tookOver = true
	for _, e := range p.profile.EnqueueExtensions() {
		stock, ok := e.(*defaultpreemption.DefaultPreemption)
		if !ok {
			continue
		}
		stock.Evaluator.Interface = alonePreemption{stock.Evaluator.Interface, p}
		if slices.ContainsFunc(p.profile.ListPlugins().PostFilter.Enabled, func(pl schedulerconfig.Plugin) bool { return pl.Name == stock.Name() }) {
			p.Preemptor.Compares = stock.GetOffsetAndNumCandidates
		}
		return
	}
}

// PodEligibleToPreemptOthers implements preemption.Interface: the first question of an attempt, and the last one.
func (a alonePreemption) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, _ *fwk.Status) (bool, string) {
	if IsMember(pod) {
		return false, "the pod is a member of a gang, for which Coscheduling evicts"
	}
	_, s := a.plugin.evictForPod(ctx, pod, nil)
	return false, s.Message()
}

// evictForPod evicts for a pod without a gang and reserves a node for it, or waits for the victims of an earlier cycle. nodes is why nodes refuse the pod;
// nil is not known.
func (p *Plugin) evictForPod(ctx context.Context, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	all, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	reserved, _ := p.Cache.Place(pod)
	a := p.planner.NewAttempt(group.Alone(pod, reserved), all, nil)
	if a.Group.Waiting {
		if p.waitsForVictims(ctx, a) {
			p.Preemptor.Answer(ctx, a)
			return answer(fwk.UnschedulableAndUnresolvable, reserved, "preemption: not eligible due to a terminating pod on the nominated node.")
		}
		p.victims.Abandon(a.Group.Key)
		a = p.planner.NewAttempt(group.Alone(pod, ""), all, nil)
	}
	result, s := p.evictAlone(ctx, a, pod, nodes)
	if !s.IsSuccess() {
		p.Cache.ReserveAlone(pod, "")
	}
	return result, s
}

// evictAlone looks for victims for a pod without a gang and reserves a node for it.
func (p *Plugin) evictAlone(ctx context.Context, a *place.Attempt, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.quotas.Later(a.Group) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // it may need no eviction when the quota of others was served
	}
	_, refusal, err := a.Plan(ctx)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if refusal == nil && p.quotas.Why(a.Group, a.Group.Pending) == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // there is room: what refused the pod no eviction cures
	}
	node, came := p.Preemptor.Evict(ctx, a, pod)
	if node != "" {
		return answer(fwk.Success, node, "preemption: node "+node+" is reserved for the pod until pods there, or in its quotas, have terminated.")
	}
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podWords(a, pod, came, nodes))
}

// waitsForVictims returns whether the node that is reserved for a pod is free for it, and its quotas have enough, once pods have terminated.
func (p *Plugin) waitsForVictims(ctx context.Context, a *place.Attempt) bool {
	leaving := p.victims.Leaving(a, p.options.Clock.Now())
	if _, why := leaving.Fit(ctx, a); why != "" {
		return false
	}
	why, soon := p.short(a.Group)
	return soon || why == nil && leaving.Any()
}

// podWords says why no pod is evicted for one without a gang, in kube-scheduler's words.
func podWords(a *place.Attempt, pod *v1.Pod, came status.Preemption, nodes fwk.NodeToStatusReader) string {
	switch came {
	case status.PreemptionOff:
		return ""
	case status.PreemptionNever:
		return came.ForPod(0, 0)
	}
	const noHelp, noVictims = "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"
	d := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	n := 0
	for _, node := range a.Nodes {
		if node == nil {
			continue
		}
		n++
		why := noHelp
		if came == status.PreemptionNobody && (nodes == nil || nodes.Get(node.Node().Name).Code() == fwk.Unschedulable) {
			why = noVictims
		}
		d.NodeToStatus.Set(node.Node().Name, fwk.NewStatus(fwk.Unschedulable, why))
	}
	return "preemption: " + (&framework.FitError{Pod: pod, NumAllNodes: n, Diagnosis: d}).Error()
}
