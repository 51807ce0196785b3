package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Priority returns a pod's priority: that of its gang's object if the object declares one for its members, else the pod's own.
func (c *Cache) Priority(pod *v1.Pod) int32 {
	if pod.Spec.SchedulingGroup != nil {
		if p, ok := c.priorities.Load(pod.UID); ok {
			return p.(int32)
		}
	}
	return convert.Priority(pod)
}

// setPriority records the priority that a gang's object declares for a member, if it differs from the pod's own. c.mu is locked.
func (c *Cache) setPriority(r *record, pod *v1.Pod) {
	if r.Declared == nil || r.Declared.Priority == nil || *r.Declared.Priority == convert.Priority(pod) {
		c.priorities.Delete(pod.UID)
		return
	}
	c.priorities.Store(pod.UID, *r.Declared.Priority)
}

// setPriorities is setPriority for all members of a gang. It updates the members whose priority changed in the book, and returns the
// effects of that. c.mu is locked.
func (c *Cache) setPriorities(r *record) (effects []gang.Effect) {
	for _, pod := range r.Pods {
		if pod.Spec.SchedulingGroup == nil {
			return nil // only gangs of scheduling.k8s.io have a priority; all members of such a gang have this field
		}
		old := c.Priority(pod)
		if c.setPriority(r, pod); c.Priority(pod) != old {
			effects = append(effects, c.applyPod(pod, r.Ref)...)
		}
	}
	return effects
}
