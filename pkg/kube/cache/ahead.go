package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// placed is who has a place under that name: a pod, or who stands in for one; nil if nobody does
// any more. c.mu is held.
func (c *Cache) placed(key string) *v1.Pod {
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
	if r := c.gangs[source.Of(p)]; r != nil && r.Declared != nil {
		return r.StandIn(p, number)
	}
	return nil
}

// leadersAlone are the groups whose leader has a node for less than the time to wait, and whose other
// members are still to be made: a process before this one may have kept places for these. c.mu is held.
func (c *Cache) leadersAlone() (all []Bereft) {
	now := c.Clock.Now()
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		if members, _ := r.StandIns(); len(members) == 0 || !c.ours(r) {
			continue
		}
		last := Bereft{Group: c.book.Together(ref)[0], Until: now}
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

// boundAt is when a pod got its node, now if that is not said, or is still to come by our clock.
func boundAt(pod *v1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && c.LastTransitionTime.Time.Before(now) {
			return c.LastTransitionTime.Time
		}
	}
	return now
}

// Bereft is a group for whose members that are still to be made no places are kept since this process
// began, whose pods name that scheduler; they may be kept until then.
type Bereft struct {
	Group     gang.Ref
	Scheduler string
	Until     time.Time
}

// TakeBereft returns those that a profile serves, once.
func (c *Cache) TakeBereft(scheduler string) (some []Bereft) {
	if read(c, func() bool { return len(c.bereft) == 0 }) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bereft = slices.DeleteFunc(c.bereft, func(b Bereft) bool {
		if b.Scheduler == scheduler {
			some = append(some, b)
		}
		return b.Scheduler == scheduler
	})
	return some
}
