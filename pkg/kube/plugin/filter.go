package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Filter rejects all nodes except the assigned one for a planned member, because the scheduler tries a nominated node before the nodes of
// PreFilter. For other pods it rejects nodes that are reserved for members of equal or higher priority, unless the pod fits beside these.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if fit.IsWhatIf(ctx) {
		return nil
	}
	name := node.Node().Name
	if o, ok := outcomeOf(state).(*assigned); ok && o.node != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are not the node that the gang's plan assigns to this member")
	}
	if s := p.closedForMaintenance(pod, name); s != nil {
		return s
	}
	if _, closed := closedNodes(state).Closes(node.Node()); closed {
		p.podsKeptOffNodes.Add(convert.PodKey(pod), pod)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a domain reserved for a gang (anti-affinity)")
	}
	others := p.Cache.PlacesOn(name, pod)
	if len(others) == 0 {
		return nil
	}
	if s := fit.Beside(ctx, p.profile, state, fit.Question{Pod: pod, Node: node, Others: others}); !s.IsSuccess() {
		if source.GangOf(pod).IsZero() {
			p.podsKeptOffNodes.Add(convert.PodKey(pod), pod) // no event reports a released reservation
		}
		if source.GangOf(others[0]).IsZero() {
			return fwk.NewStatus(fwk.Unschedulable, "node(s) reserved for a pod that is evicted and starts there")
		}
		if promise, _ := p.Cache.PromiseOf(others[0]); promise.Exists() {
			return fwk.NewStatus(fwk.Unschedulable, status.HeldUntil(source.GangOf(others[0]), promise))
		}
		return fwk.NewStatus(fwk.Unschedulable, "node(s) reserved for gang "+source.GangOf(others[0]).String())
	}
	return nil
}

// closedKey is the key under which PreFilter stores the domains that a pod without a gang must not use.
const closedKey fwk.StateKey = stateKey + "/off"

// closedNodes returns the domains that the pod of a cycle must not use because of a reservation; nil for members of gangs.
func closedNodes(state fwk.CycleState) fit.ClosedDomains {
	if d, err := state.Read(closedKey); err == nil {
		if domains, ok := d.(fit.ClosedDomains); ok {
			return domains
		}
	}
	return nil
}
