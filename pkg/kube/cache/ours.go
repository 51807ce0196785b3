package cache

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// ours says whether a gang is this process's to tell about: it serves one of the members.
// What others serve stays as they leave it. c.mu is held.
//
// Of an object without members nobody knows whose it is, and its members may be made a moment
// later. It is ours if we have told about it before; and if it says something that only
// schedulers like this one read, since its users should not have to make members to learn
// that they have written nonsense. Where somebody else has given it a phase, or had members of
// it last, it is theirs.
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
		return pg.Status.Phase == "" && source.Speaks(pg)
	}
}
