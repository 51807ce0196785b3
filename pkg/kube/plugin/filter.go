package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Filter rejects every node but its own for a planned member, because the scheduler tries a nominated node before
// PreFilter's. It rejects any pod that would take a node reserved for members of equal or higher priority.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if fit.IsWhatIf(ctx) {
		return nil
	}
	name := node.Node().Name
	if o, ok := outcomeOf(state).(*assigned); ok && o.node != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are not the node that the gang's plan assigns to this member")
	}
	if _, closed := closedNodes(state).Closes(node.Node()); closed {
		p.keptOff.Add(convert.PodKey(pod), pod)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are in a domain reserved for a gang (anti-affinity)")
	}
	others := p.Cache.PlacesOn(name, pod)
	if len(others) == 0 {
		return nil
	}
	if s := fit.Beside(ctx, p.profile, state, fit.Question{Pod: pod, Node: node, Others: others}); !s.IsSuccess() {
		if source.GangOf(pod).IsZero() {
			p.keptOff.Add(convert.PodKey(pod), pod) // no event reports a released reservation
		}
		return fwk.NewStatus(fwk.Unschedulable, "node(s) reserved for gang "+source.GangOf(others[0]).String())
	}
	return nil
}

// offKey is where PreFilter stores the nodes that are closed to a pod without a gang.
const offKey fwk.StateKey = stateKey + "/off"

// closedNodes returns the nodes that are closed to the pod of a cycle; nil for members, whose plans know them.
func closedNodes(state fwk.CycleState) fit.ClosedDomains {
	if d, err := state.Read(offKey); err == nil {
		if off, ok := d.(fit.ClosedDomains); ok {
			return off
		}
	}
	return nil
}
