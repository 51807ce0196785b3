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

// Gate has the PreEnqueue of the Coscheduling plugin as a separate plugin that registers no events. At each event the queue calls hints for
// every pod that a plugin with this event has rejected; that may be thousands of members. Members that the Gate rejects get no such calls:
// effects of the gang book retry them.
type Gate struct {
	plugin func() *Plugin
}

var (
	_ fwk.PreEnqueuePlugin  = (*Gate)(nil)
	_ fwk.EnqueueExtensions = (*Gate)(nil)
)

// NewGate returns the Gate of a profile. plugin returns the profile's plugin, or nil as long as that does not exist.
func NewGate(plugin func() *Plugin) *Gate { return &Gate{plugin} }

// Name implements fwk.Plugin.
func (g *Gate) Name() string { return GateName }

// EventsToRegister implements fwk.EnqueueExtensions. It registers none.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreEnqueue rejects members until their gang is complete. Then it admits the representative, or the members with a node assignment. Of
// unschedulable gangs with identical requirements it admits one. It must not call the queue, which is locked.
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

// PreEnqueue does what the Gate does, in a profile without the Gate. In other profiles it admits all pods.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.hasGate {
		return nil
	}
	return p.admit(pod)
}

// admit returns nil if a pod may enter the scheduling queue, else a status with the reason. It records in the quotas that an admitted pod
// is not passed over.
func (p *Plugin) admit(pod *v1.Pod) *fwk.Status {
	if source.GangOf(pod).IsZero() || pod.Spec.NodeName != "" {
		p.quotas.RecordPassedOver(pod, false)
		return nil
	}
	if ok, why := p.Cache.Admit(pod); !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if p.follows(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "queued behind a gang with identical requirements")
	}
	p.setPassedOver(pod, false)
	return nil
}

// findGate sets p.hasGate: whether the profile runs the Gate. It is called after all plugins exist.
func (p *Plugin) findGate() {
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.hasGate = p.hasGate || pl.Name == GateName
	}
}
