package cache

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// servesGang returns whether this process reports the gang: it schedules one of its members. c.mu is locked.
//
// The scheduler of an object without members is unknown. This process reports such an object if it did before, or if the object has keys
// that only Koordinator and Muster read. It does not report an object that has a phase from another scheduler or had members of another
// one.
func (c *Cache) servesGang(r *record) bool {
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
