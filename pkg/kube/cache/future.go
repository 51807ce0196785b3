package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// assignedPod returns the member with that key, or the stand-in of a member not yet created; nil if there is none. c.mu is locked.
func (c *Cache) assignedPod(key string) *v1.Pod {
	if p := c.pods[key]; p != nil {
		return p
	}
	leader, number, ok := group.Leader(key)
	if !ok {
		return nil
	}
	p := c.pods[leader]
	if p == nil {
		return nil
	}
	if r := c.gangs[source.GangOf(p)]; r != nil && r.Declared != nil {
		return r.StandIn(p, number)
	}
	return nil
}

// leadersWithoutMembers returns the groups whose leader was bound recently, within the wait limit, and whose other members do not exist
// yet. An earlier process may have reserved nodes for these members. c.mu is locked.
func (c *Cache) leadersWithoutMembers() (all []LostReservation) {
	now := c.Clock.Now()
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		if members, _ := r.StandIns(); len(members) == 0 || !c.servesGang(r) {
			continue
		}
		last := LostReservation{Group: c.book.GroupOfGang(ref)[0], Until: now}
		for _, pod := range r.Pods {
			if until := boundAt(pod, now).Add(r.Declared.Wait); pod.Spec.NodeName != "" && until.After(last.Until) {
				last.Scheduler, last.Until = pod.Spec.SchedulerName, until
			}
		}
		if last.Until.After(now) {
			all = append(all, last)
		}
	}
	return all
}

// boundAt returns when a pod was bound; now if that is unknown, or later than now.
func boundAt(pod *v1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && c.LastTransitionTime.Time.Before(now) {
			return c.LastTransitionTime.Time
		}
	}
	return now
}

// LostReservation is a group for whose members, not yet created, an earlier process may have reserved nodes. Such a reservation is not
// stored anywhere. Scheduler names the group's profile. A new reservation may last until Until.
type LostReservation struct {
	Group     gang.Ref
	Scheduler string
	Until     time.Time
}

// TakeLostReservations removes and returns the lost reservations of groups of a profile; nil if there are none.
func (c *Cache) TakeLostReservations(scheduler string) (served []LostReservation) {
	if read(c, func() bool { return len(c.lostReservations) == 0 }) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lostReservations = slices.DeleteFunc(c.lostReservations, func(b LostReservation) bool {
		if b.Scheduler == scheduler {
			served = append(served, b)
		}
		return b.Scheduler == scheduler
	})
	return served
}
