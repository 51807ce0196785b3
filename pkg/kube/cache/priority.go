package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Priority returns a pod's priority: that of its gang's object if it decides, else its own.
func (c *Cache) Priority(pod *v1.Pod) int32 {
	if pod.Spec.SchedulingGroup != nil {
		if p, ok := c.priorities.Load(pod.UID); ok {
			return p.(int32)
		}
	}
	return convert.Priority(pod)
}

// gradePod records the priority that a gang's object gives a member. c.mu is held.
func (c *Cache) gradePod(r *record, pod *v1.Pod) {
	if r.Declared == nil || r.Declared.Priority == nil || *r.Declared.Priority == convert.Priority(pod) {
		c.priorities.Delete(pod.UID)
		return
	}
	c.priorities.Store(pod.UID, *r.Declared.Priority)
}

// grade records the priorities of all members, and tells the book the changed ones. c.mu is held.
func (c *Cache) grade(r *record) (effects []gang.Effect) {
	for _, pod := range r.Pods {
		if pod.Spec.SchedulingGroup == nil {
			return nil
		}
		old := c.Priority(pod)
		if c.gradePod(r, pod); c.Priority(pod) != old {
			effects = append(effects, c.see(pod, r.Ref)...)
		}
	}
	return effects
}
