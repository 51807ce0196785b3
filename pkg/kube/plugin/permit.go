package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// maxPermitWait is how long the framework lets a pod wait at Permit. The gang book ends a gang's wait earlier.
const maxPermitWait = 15 * time.Minute

// Reserve records that the scheduler has assumed a pod on its node.
func (p *Plugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.restoreNominations(ctx)
	p.Meter.Assumed(pod, node)
	p.Cache.NoteBinding(pod)
	if source.GangOf(pod).IsZero() {
		p.podsKeptOffNodes.Drop(convert.PodKey(pod))
		p.Cache.TakeSuccession(pod)
	} else {
		p.Cache.Handle(gang.Assumed{Pod: convert.PodKey(pod), UID: string(pod.UID)})
	}
	return nil
}

// Unreserve records that the scheduler no longer assumes a member on its node. If the member had not reached Permit, a plugin's Reserve has
// rejected it, and the plan is dropped. If it had passed Permit, a PreBind plugin or the binding request has failed.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if source.GangOf(pod).IsZero() {
		return
	}
	key := convert.PodKey(pod)
	if known := p.Cache.Pod(key); known == nil || known.UID != pod.UID {
		p.allocations.RecordFailedBinding(pod, true)
		p.reviewAllocations()
		return // the member was deleted; the book has removed its assignment
	}
	released := gang.Released{Pod: key, UID: string(pod.UID), Why: "member " + key + " lost its place on " + node}
	step := p.Cache.Step(key, string(pod.UID))
	switch step {
	case gang.NotAssumed, gang.AssumedOnNode:
		refused := fwk.NewStatus(fwk.Unschedulable, "node(s) rejected a member after all Filters had accepted it")
		p.dropPlan(pod, node, refused, func(*cache.Group) bool { return false })
	case gang.PastBarrier:
		if p.options.Unanswered(state) {
			released.By = gang.API
		}
	}
	if step == gang.PastBarrier || step == gang.NotAssumed { // NotAssumed also covers members whose gang is not declared any more
		p.allocations.RecordFailedBinding(pod, false)
	}
	p.Cache.Handle(released)
	p.clearLostNomination(pod, node)
}

// Permit makes members wait until enough members of each gang in their group are here. Then all of them bind.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if source.GangOf(pod).IsZero() {
		return nil, 0
	}
	open, reason := p.Cache.HandleHeld(pod)
	switch {
	case open:
		return nil, 0
	case reason != "":
		return fwk.NewStatus(fwk.Unschedulable, reason), 0
	}
	return fwk.NewStatus(fwk.Wait, "waits at Permit for the other members of its gang"), maxPermitWait
}

// PostBind records in the gang book that a member is bound, before the informer reports it.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if source.GangOf(pod).IsZero() {
		p.Meter.Bound(pod, node)
		return
	}
	p.Cache.Handle(gang.Bound{Pod: convert.PodKey(pod), UID: string(pod.UID), Node: node})
}
