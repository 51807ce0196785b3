package plugin

import (
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
)

// closedForMaintenance returns the rejection of a pod that would run on a node in a maintenance window; nil if the node takes it. It is
// called for members, too, on the nodes of their plan: the window may have begun since.
func (p *Plugin) closedForMaintenance(pod *v1.Pod, node string) *fwk.Status {
	windows := p.Cache.Maintenance().Of(node)
	if len(windows) == 0 || convert.OnEveryNode(pod) {
		return nil
	}
	runtime, known := p.Cache.Runtime(pod)
	now := p.options.Clock.Now()
	window, closed := windows.Closed(now, maintenance.Run{Time: runtime, Known: known}, p.args.Load().MaintenanceLead)
	if !closed {
		return nil
	}
	if !IsMember(pod) {
		p.podsKeptOffNodes.Add(convert.PodKey(pod), pod) // no event reports the end of the window
	}
	reason := maintenance.Reason(window)
	if now.Before(window.Start) {
		reason += " (declare muster.sh/max-runtime, or wait)"
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// maintenanceChanged returns whether a node takes other pods now than at an earlier time, because of its maintenance.
func (p *Plugin) maintenanceChanged(earlier, now time.Time) bool {
	return p.Cache.Maintenance().AnyChange(earlier, now, p.args.Load().MaintenanceLead)
}

// maintenanceSeen is what the last call of retryAtMaintenance has seen. Only the ticks of the cache use it.
type maintenanceSeen struct {
	nodes *maintenance.Nodes
	at    time.Time
}

// retryAtMaintenance retries unschedulable pods and gangs when maintenance was announced or withdrawn, and when a node takes other pods
// than before: its window has begun or ended, or is near. No event of the cluster reports that. It is called at each tick.
func (s *Shared) retryAtMaintenance() {
	if !s.Cache.Open() { // profiles are still added
		return
	}
	last := s.maintenance
	s.maintenance = maintenanceSeen{s.Cache.Maintenance(), s.options.Clock.Now()}
	changed := s.maintenance.nodes != last.nodes
	for _, p := range s.profiles {
		changed = changed || p.maintenanceChanged(last.at, s.maintenance.at)
	}
	if changed {
		s.retryKeptOff()
	}
}
