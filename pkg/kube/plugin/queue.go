package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Less implements QueueSort: it returns whether a is before b in the queue. The order is by priority, then by creation of the gang, then
// gang and rank, so that members of a gang are adjacent. Pods without a gang have the time of queueing instead of a creation.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool { return p.order(a).Before(p.order(b)) }

// order returns the position of a pod in the queue.
func (p *Plugin) order(e fwk.QueuedEntityInfo) cache.Order {
	if q, ok := e.(*framework.QueuedPodInfo); ok && !source.GangOf(q.Pod).IsZero() {
		return p.Cache.Order(q.Pod)
	}
	return cache.Order{Created: e.GetTimestamp(), Priority: e.GetPriority()}
}

// SignPod implements fwk.SignPlugin. It forbids to reuse results for members, which follow their plan. It also does for pods with a
// network-topology-selector, because each bound pod changes the scores for the next one. An Evictable pod has scores that other pods have
// not. It forbids it for all pods as long as a node has announced maintenance: equal pods may have other run times.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.Shared != nil && p.Cache.Maintenance() != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the run time of a pod decides whether a node with maintenance takes it")
	}
	if !source.GangOf(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are assigned to nodes by their plan")
	}
	if attractionSelector(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with a network-topology-selector are scheduled one by one: each attracts the next")
	}
	if evictableAlone(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "Evictable pods prefer nodes that are not held for a gang")
	}
	return nil, nil
}
