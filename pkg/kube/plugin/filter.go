package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Filter refuses a planned member every node but its own: the scheduler tries a
// nominated node before PreFilter's. Every pod is refused where it would take a place
// that is planned for others of equal or higher priority.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if fit.Asking(ctx) {
		return nil
	}
	name := node.Node().Name
	if c := cycleOf(state); c != nil && c.node != name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are not the place planned for this member")
	}
	others := p.Cache.PlacesOn(name, pod)
	if len(others) == 0 {
		return nil
	}
	// The scheduler may have put pods there that are nominated for the node.
	there := map[types.UID]bool{}
	for _, info := range node.GetPods() {
		there[info.GetPod().UID] = true
	}
	var beside fit.Pods
	for _, o := range others {
		if there[o.UID] {
			continue
		}
		if info, err := framework.NewPodInfo(o); err == nil {
			beside = append(beside, info)
		}
	}
	if s := fit.Beside(ctx, p.profile, state, fit.Question{Pod: pod, Node: node, Others: beside}); !s.IsSuccess() {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) have places held for gang "+convert.GangOf(others[0]))
	}
	return nil
}
