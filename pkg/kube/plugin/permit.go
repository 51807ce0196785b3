package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// longest is the framework's own bound on waiting in Permit. The book ends a gang's
// wait by its own time; this is for the case that it does not.
const longest = 15 * time.Minute

// Reserve notes that the scheduler counts the member on its node from now on.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if convert.GangOf(pod) != "" {
		p.Cache.Handle(gang.Assumed{Pod: convert.PodKey(pod)})
	}
	return nil
}

// Unreserve notes that it does not any more.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if convert.GangOf(pod) != "" {
		key := convert.PodKey(pod)
		p.Cache.Handle(gang.Released{Pod: key, Why: "member " + key + " lost its place on " + node})
	}
}

// Permit is the barrier: members wait here until every gang of the group is whole.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if convert.GangOf(pod) == "" {
		return nil, 0
	}
	open, back := p.Cache.HandleHeld(convert.PodKey(pod))
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
	if convert.GangOf(pod) == "" {
		return
	}
	m, _ := convert.Member(pod)
	m.Node = node
	p.Cache.Handle(gang.Seen{Member: m})
}
