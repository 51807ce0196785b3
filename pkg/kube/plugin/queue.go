package plugin

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Less implements QueueSort: priority, then the first creation of the gang (for other
// pods the time they entered the queue), then gang and rank, so that members stand
// together.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	x, y := p.order(a), p.order(b)
	if x.Resumed != y.Resumed {
		return x.Resumed
	}
	if x, y := a.GetPriority(), b.GetPriority(); x != y {
		return x > y
	}
	return cmp.Or(
		x.Created.Compare(y.Created),
		topology.CompareNames(x.Gang, y.Gang),
		cmp.Compare(x.Rank, y.Rank),
		topology.CompareNames(x.Pod, y.Pod),
	) < 0
}

func (p *Plugin) order(e fwk.QueuedEntityInfo) cache.Order {
	if q, ok := e.(*framework.QueuedPodInfo); ok && convert.GangOf(q.Pod) != "" {
		return p.Cache.Order(q.Pod)
	}
	return cache.Order{Created: e.GetTimestamp()}
}

// EventsToRegister lists what can make room for a gang that was refused, or change
// what its members need. Gangs, PodGroups and the topology wake members themselves.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	// The profile is complete now.
	p.guard()
	p.findGate()
	events := []fwk.ClusterEvent{
		{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown | fwk.UpdatePodLabel},
		// Not every update of the pod itself: what is written about it must not wake it.
		{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown | fwk.UpdatePodLabel | fwk.UpdatePodToleration |
			fwk.UpdatePodSchedulingGatesEliminated | fwk.UpdatePodGeneratedResourceClaim},
		{Resource: fwk.Node, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.PersistentVolume, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.StorageClass, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.CSINode, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.CSIStorageCapacity, ActionType: fwk.Add | fwk.Update},
		{Resource: fwk.VolumeAttachment, ActionType: fwk.Delete},
	}
	out := make([]fwk.ClusterEventWithHint, len(events))
	for i, e := range events {
		out[i] = fwk.ClusterEventWithHint{Event: e, QueueingHintFn: p.worthTrying}
	}
	bound := fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	return append(out, fwk.ClusterEventWithHint{Event: bound, QueueingHintFn: p.worthEvicting}), nil
}

// worthEvicting lets a gang try again when a pod was bound: a member of a less important
// gang, which was no victim as long as it was on its way, or somebody more important who
// has taken one of the places that the gang waits for.
func (p *Plugin) worthEvicting(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	other, ok := now.(*v1.Pod)
	if !ok || convert.GangOf(pod) == "" {
		return fwk.QueueSkip, nil
	}
	if less := convert.Priority(other) < convert.Priority(pod); less && convert.GangOf(other) == "" || !less && !p.Cache.Reserves(other.Spec.NodeName, pod) {
		return fwk.QueueSkip, nil
	}
	return p.worthTrying(logger, pod, before, now)
}

// worthTrying lets events of the cluster wake only the member that was tried for its
// gang: the others are the book's to wake.
func (p *Plugin) worthTrying(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if convert.GangOf(pod) != "" && !p.Cache.Tried(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// SignPod makes members unsignable: a node hint for one of them would fight the plan.
// So are pods that others attract: each one that is bound changes the scores of the
// next, on all nodes around it. Other pods are not touched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if convert.GangOf(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are placed by their plan")
	}
	if attracted(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with a network-topology-selector attract the next one")
	}
	return nil, nil
}
