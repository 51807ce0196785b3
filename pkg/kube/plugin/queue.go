package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Less implements QueueSort: priority, then the first creation of the gang (for other
// pods the time they entered the queue), then gang and rank, so that members stand
// together.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool { return p.order(a).Before(p.order(b)) }

func (p *Plugin) order(e fwk.QueuedEntityInfo) cache.Order {
	if q, ok := e.(*framework.QueuedPodInfo); ok && !source.Of(q.Pod).IsZero() {
		return p.Cache.Order(q.Pod)
	}
	return cache.Order{Created: e.GetTimestamp(), Priority: e.GetPriority()}
}

// SignPod makes members unsignable: a node hint for one of them would fight the plan.
// So are pods that others attract: each one that is bound changes the scores of the
// next, on all nodes around it. Other pods are not touched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !source.Of(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are placed by their plan")
	}
	if attracted(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with a network-topology-selector attract the next one")
	}
	return nil, nil
}
