package cache

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// ours says whether this process reports the gang: it serves one of its members. c.mu is held.
//
// The scheduler of an object without members is unknown. The object is ours if we reported it before, or if only
// schedulers like this one read what it declares: users see errors before they create members. It is not ours if
// another scheduler gave it a phase or had its last members.
func (c *Cache) ours(r *record) bool {
	for _, pod := range r.Pods {
		if c.serves[pod.Spec.SchedulerName] {
			return true
		}
	}
	for _, pod := range r.Finished {
		if c.serves[pod.Spec.SchedulerName] {
			return true
		}
	}
	switch pg := r.Object; {
	case pg == nil || len(r.Pods)+len(r.Finished) > 0 || r.foreign:
		return false
	case meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionScheduled) != nil:
		return true
	default:
		return pg.Status.Phase == "" && source.HasKoordinatorKeys(pg)
	}
}
