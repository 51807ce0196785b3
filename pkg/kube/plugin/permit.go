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

// longest is the framework's own bound on waiting in Permit. The book ends a gang's
// wait by its own time; this is for the case that it does not.
const longest = 15 * time.Minute

// Reserve notes that the scheduler counts the member on its node from now on.
func (p *Plugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	p.putBack(ctx)
	p.Cache.Placing(pod)
	if source.Of(pod).IsZero() {
		p.keptOff.Drop(convert.PodKey(pod))
	} else {
		p.Cache.Handle(gang.Assumed{Pod: convert.PodKey(pod), UID: string(pod.UID)})
	}
	return nil
}

// Unreserve notes that it does not any more. Nobody says why; how far the member had come
// tells who it was: before the barrier a plugin that keeps what pods have taken, whose Reserve
// knows more than its Filter; after it whoever prepares the node or sends the binding.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if source.Of(pod).IsZero() {
		return
	}
	key := convert.PodKey(pod)
	if known := p.Cache.Pod(key); known == nil || known.UID != pod.UID {
		p.allotted.Left(pod, true)
		p.reviewAllotted()
		return // it was deleted, which is nobody's fault; the book has given its place back
	}
	released := gang.Released{Pod: key, UID: string(pod.UID), Why: "member " + key + " lost its place on " + node}
	step := p.Cache.Step(key, string(pod.UID))
	switch step {
	case gang.Away, gang.OnItsWay:
		refused := fwk.NewStatus(fwk.Unschedulable, "node(s) refused a member that had passed all Filters")
		p.dropPlan(pod, node, refused, func(*cache.Group) bool { return false })
	case gang.PastBarrier:
		if p.options.Unanswered(state) {
			released.By = gang.API
		}
	}
	if step == gang.PastBarrier || step == gang.Away { // away is also whose gang is not declared any more
		p.allotted.Left(pod, false)
	}
	p.Cache.Handle(released)
	p.unnominate(pod, node)
}

// Permit is the barrier: members wait here until every gang of the group is whole.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if source.Of(pod).IsZero() {
		return nil, 0
	}
	open, back := p.Cache.HandleHeld(pod)
	switch {
	case open:
		return nil, 0
	case back != "":
		return fwk.NewStatus(fwk.Unschedulable, back), 0
	}
	return fwk.NewStatus(fwk.Wait, "waits for the rest of its gang"), longest
}

// PostBind tells the book at once; the informer says so again.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if source.Of(pod).IsZero() {
		p.Meter.Bound(pod, node)
		return
	}
	p.Cache.Handle(gang.Bound{Pod: convert.PodKey(pod), UID: string(pod.UID), Node: node})
}
