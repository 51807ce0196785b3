package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Less implements QueueSort. It orders by priority, then the gang's first creation (for other pods the queueing
// time), then gang and rank, so that members stay together.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool { return p.order(a).Before(p.order(b)) }

func (p *Plugin) order(e fwk.QueuedEntityInfo) cache.Order {
	if q, ok := e.(*framework.QueuedPodInfo); ok && !source.GangOf(q.Pod).IsZero() {
		return p.Cache.Order(q.Pod)
	}
	return cache.Order{Created: e.GetTimestamp(), Priority: e.GetPriority()}
}

// SignPod makes members unsignable: a node hint for one member would contradict the plan. Pods with attraction are
// unsignable too, because each binding changes the scores of the next pod.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !source.GangOf(pod).IsZero() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are assigned to nodes by their plan")
	}
	if attractionSelector(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with a network-topology-selector are scheduled one by one: each attracts the next")
	}
	return nil, nil
}
