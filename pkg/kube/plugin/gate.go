package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// GateName is the Gate's name in a KubeSchedulerConfiguration.
const GateName = config.GateName

// Gate is PreEnqueue of the Coscheduling plugin. It is a plugin of its own because of how
// the scheduler's queue wakes pods: at every event of the cluster it asks about each pod
// that the plugin that keeps it out wants to hear of, and there may be thousands of
// members. The Gate wants to hear of nothing: the book wakes members itself. Of the
// Coscheduling plugin's events only those members hear that were tried for their gang.
type Gate struct {
	plugin func() *Plugin
}

var (
	_ fwk.PreEnqueuePlugin  = (*Gate)(nil)
	_ fwk.EnqueueExtensions = (*Gate)(nil)
)

// NewGate makes the Gate of the profile that has this plugin, which may be made later; nil if it has none.
func NewGate(plugin func() *Plugin) *Gate { return &Gate{plugin} }

// Name implements fwk.Plugin.
func (g *Gate) Name() string { return GateName }

// EventsToRegister implements fwk.EnqueueExtensions: none.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreEnqueue keeps members out until their gang can be whole, and then lets in one
// for all, or those that have a place; of refused gangs that ask for the same, those of one. It runs with the queue locked: it must not
// call the queue.
func (g *Gate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p := g.plugin(); p != nil {
		s := p.admit(pod)
		if !s.IsSuccess() {
			p.listeners.note(pod, false, nil)
		}
		return s
	}
	return nil
}

// PreEnqueue does the Gate's work in a profile that does not run it.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.hasGate {
		return nil
	}
	return p.admit(pod)
}

func (p *Plugin) admit(pod *v1.Pod) *fwk.Status {
	if source.Of(pod).IsZero() || pod.Spec.NodeName != "" {
		p.quotas.Passed(pod, false)
		return nil
	}
	if ok, why := p.Cache.Admit(pod); !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if p.follows(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "queued behind a gang with identical requirements")
	}
	p.passed(pod, false)
	return nil
}

// findGate finds out whether the profile runs the Gate, once it is complete.
func (p *Plugin) findGate() {
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.hasGate = p.hasGate || pl.Name == GateName
	}
}
