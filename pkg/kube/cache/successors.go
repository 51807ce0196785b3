package cache

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// ReserveSuccessors reserves nodes for the successors of running pods that are evicted after that, for RepairTimeout: of all members of a
// group, or of a pod without a gang. restarted has their stand-ins, places their nodes. It returns false if the nodes are not reserved.
func (c *Cache) ReserveSuccessors(restarted *Group, places []gang.Assignment) bool {
	c.mu.Lock()
	maps.DeleteFunc(c.successors, func(key string, _ successor) bool { return !c.book.IsPlaceholder(key) })
	lowest := restarted.Pending[0].Priority
	for _, m := range restarted.Pending {
		lowest = min(lowest, m.Priority)
		c.successors[m.Pod] = successor{restarted.Pods[m.Pod], restarted.Key}
	}
	until := c.Clock.Now().Add(max(c.Repair, time.Minute))
	c.mu.Unlock()
	c.Handle(gang.FutureReserved{Group: restarted.Key, Places: places, Until: until, Successors: true, Priority: lowest})
	return c.ReservesSuccessors(restarted.Key)
}

// ReservesSuccessors returns whether nodes are reserved for the successors or for other future members of a group.
func (c *Cache) ReservesSuccessors(key gang.Ref) bool {
	return read(c, func() bool { return c.book.ReservesFuture(key) })
}

// SuccessorNodes returns the nodes that are reserved for successors of a group, in no order; nil if there are none.
func (c *Cache) SuccessorNodes(key gang.Ref) []string {
	return read(c, func() []string { return c.book.SuccessorNodes(key) })
}

// ReleaseSuccessors ends the reservations for the successors of pods that are not evicted after all.
func (c *Cache) ReleaseSuccessors(spared []*v1.Pod) {
	for _, pod := range spared {
		c.releaseSuccessor(func(s successor) bool { return s.standIn.UID == group.SuccessorUID(pod) })
	}
}

// TakeSuccession ends the reservation for the successor of an evicted pod without a gang, if the given pod is that successor: both have the
// same controller. Call it when the pod has a node.
func (c *Cache) TakeSuccession(pod *v1.Pod) {
	c.releaseSuccessor(func(s successor) bool { return succeeds(pod, s.standIn) })
}

// releaseSuccessor ends the reservation of the first successor that matches.
func (c *Cache) releaseSuccessor(matches func(successor) bool) {
	if key := read(c, func() gang.Ref {
		for _, key := range slices.Sorted(maps.Keys(c.successors)) {
			if s := c.successors[key]; matches(s) && c.book.IsPlaceholder(key) {
				return s.group
			}
		}
		return gang.Ref{}
	}); !key.IsZero() {
		c.Handle(gang.FutureReserved{Group: key, Successors: true})
	}
}

// succeeds returns whether a pod without a gang may be the one for which there is this stand-in: it has the same controller.
func succeeds(pod, standIn *v1.Pod) bool {
	if !source.GangOf(pod).IsZero() || !source.GangOf(standIn).IsZero() {
		return false
	}
	owner, other := metav1.GetControllerOfNoCopy(pod), metav1.GetControllerOfNoCopy(standIn)
	return owner != nil && other != nil && owner.UID == other.UID
}

// shares returns whether the pod, whose key is self, may use the node that is assigned to the pod or stand-in with the given key: it is the
// same, of its group, or its successor. c.mu is locked.
func (c *Cache) shares(key, self string, pod *v1.Pod) bool {
	if key == self || c.book.SameGroup(key, self) {
		return true
	}
	s, ok := c.successors[key]
	return ok && succeeds(pod, s.standIn)
}
