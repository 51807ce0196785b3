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

// Gate is PreEnqueue of the Coscheduling plugin, as a plugin without events. On each event the queue asks about
// every pod whose rejecting plugin registered it, and there may be thousands of members. The book wakes gated
// members itself. So only tried members receive the events of the Coscheduling plugin.
type Gate struct {
	plugin func() *Plugin
}

var (
	_ fwk.PreEnqueuePlugin  = (*Gate)(nil)
	_ fwk.EnqueueExtensions = (*Gate)(nil)
)

// NewGate returns the Gate of the profile with this plugin. plugin may return nil until it exists.
func NewGate(plugin func() *Plugin) *Gate { return &Gate{plugin} }

// Name implements fwk.Plugin.
func (g *Gate) Name() string { return GateName }

// EventsToRegister implements fwk.EnqueueExtensions. It registers none.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreEnqueue keeps members out until their gang is complete. Then it admits the representative, or the members with
// an assignment. Of unschedulable gangs with identical requirements it admits one. It must not call the queue,
// which is locked.
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

// PreEnqueue does the Gate's work in a profile without the Gate.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.hasGate {
		return nil
	}
	return p.admit(pod)
}

func (p *Plugin) admit(pod *v1.Pod) *fwk.Status {
	if source.GangOf(pod).IsZero() || pod.Spec.NodeName != "" {
		p.quotas.RecordPassed(pod, false)
		return nil
	}
	if ok, why := p.Cache.Admit(pod); !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if p.follows(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "queued behind a gang with identical requirements")
	}
	p.setPassed(pod, false)
	return nil
}

// findGate notes whether the profile runs the Gate, once it is complete.
func (p *Plugin) findGate() {
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.hasGate = p.hasGate || pl.Name == GateName
	}
}
