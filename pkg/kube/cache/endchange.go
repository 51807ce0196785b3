package cache

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// This file retries what depends on when pods end, after a declared end has changed. The scheduler has no event for changed annotations.

// endChanged returns whether an update changes when a pod ends, or whether it is evicted first, as the pod declares.
func endChanged(old, current *v1.Pod) bool {
	for _, key := range []string{scheduling.AnnotationMaxRuntime, scheduling.AnnotationBackfill} {
		if old.Annotations[key] != current.Annotations[key] {
			return true
		}
	}
	return !ptr.Equal(old.Spec.ActiveDeadlineSeconds, current.Spec.ActiveDeadlineSeconds)
}

// endUpdated handles an update of a pod. If it changes when the pod ends, a pending pod without a gang is retried. With a node, the pod
// may change promised starts. setPod retries pending members.
func (c *Cache) endUpdated(old, current *v1.Pod) {
	switch {
	case !endChanged(old, current):
	case current.Spec.NodeName != "":
		c.Handle(gang.EndsChanged{})
	case source.GangOf(current).IsZero() && c.Free != nil:
		c.Free(current)
	}
}

// endsChanged returns the effects of a change of when members of these gangs end: the gangs are retried. If running is true, members with
// a node may end at another time, so that promised starts may be other times. c.mu is locked.
func (c *Cache) endsChanged(running bool, refs ...gang.Ref) (effects []gang.Effect) {
	if running {
		effects = c.book.Apply(gang.EndsChanged{}, c.Clock.Now())
	}
	for _, ref := range refs {
		effects = append(effects, gang.Effect{Verb: MemberChanged, Gang: c.book.GroupOfGang(ref)[0]})
	}
	return effects
}

// endsDiffer returns whether the pods of an object may end at another time than before, as the object declares. old is nil if the object
// was not known.
func endsDiffer(old, current *source.Owned) bool {
	if old == nil {
		return current.MaxRuntime > 0 || current.Deadline > 0
	}
	return old.MaxRuntime != current.MaxRuntime || old.Deadline != current.Deadline
}
