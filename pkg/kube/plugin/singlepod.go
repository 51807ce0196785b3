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

// For a pod without a gang Muster evicts as for a gang of one member: with the same victim bundles, quotas and disruption budgets. With
// free capacity the profile's plugins choose the node, as in kube-scheduler.

// singlePodPreemption replaces the interface of DefaultPreemption's evaluator: it evicts by Muster's rules, and DefaultPreemption does
// nothing. So gangs are evicted whole even in profiles without Coscheduling at PostFilter.
type singlePodPreemption struct {
	preemption.Interface
	plugin *Plugin
}

// replacePreemption makes the profile's DefaultPreemption use singlePodPreemption. If DefaultPreemption is enabled at PostFilter, it sets
// Preemptor.Compares. It is called after all plugins of the profile exist.
func (p *Plugin) replacePreemption() {
	p.ownsPreemption = true
	for _, e := range p.profile.EnqueueExtensions() {
		stock, ok := e.(*defaultpreemption.DefaultPreemption)
		if !ok {
			continue
		}
		stock.Evaluator.Interface = singlePodPreemption{stock.Evaluator.Interface, p}
		isStock := func(pl schedulerconfig.Plugin) bool { return pl.Name == stock.Name() }
		if slices.ContainsFunc(p.profile.ListPlugins().PostFilter.Enabled, isStock) {
			p.Preemptor.Compares = stock.GetOffsetAndNumCandidates
		}
		return
	}
}

// PodEligibleToPreemptOthers implements preemption.Interface. It evicts by itself and returns false, so that DefaultPreemption does
// nothing.
func (a singlePodPreemption) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, _ *fwk.Status) (bool, string) {
	if IsMember(pod) {
		return false, "the pod is a member of a gang: the Coscheduling plugin evicts for the whole gang"
	}
	_, s := a.plugin.evictForPod(ctx, pod, nil)
	return false, s.Message()
}

// evictForPod evicts pods for a pod without a gang and reserves a node for it. If it already has a reservation that waits for victims, it
// keeps that. nodes is why each node does not fit; nil if unknown.
func (p *Plugin) evictForPod(ctx context.Context, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	all, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	reserved, _ := p.Cache.Place(pod)
	a := p.planner.NewAttempt(group.Alone(pod, reserved), all, nil)
	if a.Group.Waiting {
		if p.waitsForVictims(ctx, a) {
			p.Preemptor.AnswerDoubt(ctx, a)
			return postFilterResult(fwk.UnschedulableAndUnresolvable, reserved,
				"preemption: not eligible due to a terminating pod on the nominated node.")
		}
		p.victims.Abandon(a.Group.Key)
		a = p.planner.NewAttempt(group.Alone(pod, ""), all, nil)
	}
	result, s := p.evictSinglePod(ctx, a, pod, nodes)
	if !s.IsSuccess() {
		p.Cache.ReserveSinglePod(pod, "")
	}
	return result, s
}

// evictSinglePod evicts pods for a pod without a gang and reserves a node, unless the pod fits without evictions.
func (p *Plugin) evictSinglePod(ctx context.Context, a *place.Attempt, pod *v1.Pod, nodes fwk.NodeToStatusReader) (
	*fwk.PostFilterResult, *fwk.Status,
) {
	none := framework.NewPostFilterResultWithNominatedNode("") // a nomination of an earlier cycle or process would keep other pods off
	if p.quotas.WaitsForTurn(a.Group) {
		return none, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // it may need no eviction once other quotas were served
	}
	_, refusal, err := a.Plan(ctx)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if refusal == nil && p.quotas.Why(a.Group, a.Group.Pending) == nil {
		return none, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // capacity is free: an eviction does not help
	}
	node, outcome := p.Preemptor.Evict(ctx, a, pod)
	if node != "" {
		return postFilterResult(fwk.Success, node, "preemption: node "+node+" is reserved for the pod until the evicted pods have terminated.")
	}
	s := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podMessage(a, pod, outcome, nodes))
	return none, s
}

// waitsForVictims returns whether the pod must only wait: its reserved node and its quotas suffice after terminating pods are gone.
func (p *Plugin) waitsForVictims(ctx context.Context, a *place.Attempt) bool {
	leaving := p.victims.Leaving(a, p.options.Clock.Now())
	if _, why := leaving.Fit(ctx, a); why != "" {
		return false
	}
	why, soon := p.quotaShortage(a.Group)
	return soon || why == nil && leaving.Any()
}

// podMessage returns why no pod is evicted for a pod without a gang, in kube-scheduler's words.
func podMessage(a *place.Attempt, pod *v1.Pod, outcome status.Preemption, nodes fwk.NodeToStatusReader) string {
	switch outcome {
	case status.PreemptionOff:
		return ""
	case status.PreemptionNever:
		return outcome.ForPod(0, 0)
	}
	const noHelp, noVictims = "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"
	d := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	n := 0
	for i, node := range a.Nodes {
		closed, name := a.ClosedForMaintenance(i), a.Net.Tree.NodeName(i)
		if node == nil && !closed {
			continue
		}
		n++
		why := noHelp
		if !closed && outcome == status.PreemptionNoVictims && (nodes == nil || nodes.Get(name).Code() == fwk.Unschedulable) {
			why = noVictims
		}
		d.NodeToStatus.Set(name, fwk.NewStatus(fwk.Unschedulable, why))
	}
	return "preemption: " + (&framework.FitError{Pod: pod, NumAllNodes: n, Diagnosis: d}).Error()
}
