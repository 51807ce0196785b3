package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// EndsWithin is how long after the end of one member the others are expected to end. The pods of a gang are deleted, or finish, one after
// another within this time.
const EndsWithin = time.Second

// loss is a bound member that was deleted or finished.
type loss struct {
	uid  types.UID
	node string
	at   time.Time
}

// noteLoss records that a bound member was deleted or has finished. Until the cache opens it does nothing. c.mu is locked.
func (c *Cache) noteLoss(r *record, pod *v1.Pod) {
	if pod.Spec.NodeName == "" || !c.open.Load() {
		return
	}
	r.lastLoss = c.Clock.Now()
	for len(c.losses) > 0 && r.lastLoss.Sub(c.losses[0].at) >= EndsWithin {
		c.losses = c.losses[1:]
	}
	c.losses = append(c.losses, loss{pod.UID, pod.Spec.NodeName, r.lastLoss})
}

// ExpectedToEnd returns, with their nodes, the members that will probably end within EndsWithin: their gang just lost members and has fewer
// than minMember. Gangs in except and evicted members are left out. The result also has members of any gang that just ended, because
// snapshots may still contain them. gone returns whether a pod does not exist any more.
func (c *Cache) ExpectedToEnd(except []gang.Ref, gone func(pod string, uid types.UID) bool) map[types.UID]string {
	lost, ending := c.justLost(gone)
	for ref := range lost {
		placed, _ := c.Placed(ref)
		remaining := slices.DeleteFunc(slices.Clone(placed), func(p *v1.Pod) bool { return gone(convert.PodKey(p), p.UID) })
		c.mu.RLock()
		needed := c.book.Numbers(ref).Min
		c.mu.RUnlock()
		ends := len(remaining) < needed && !slices.Contains(except, ref)
		for _, pod := range placed {
			if ends || !slices.Contains(remaining, pod) {
				ending[pod.UID] = pod.Spec.NodeName
			}
		}
	}
	return ending
}

// justLost returns the gangs that lost a member within EndsWithin or have one for which gone is true, and the lost members with their
// nodes.
func (c *Cache) justLost(gone func(pod string, uid types.UID) bool) (gangs map[gang.Ref]bool, members map[types.UID]string) {
	type bound struct {
		key    string
		pod    *v1.Pod
		record *record
	}
	gangs, members = map[gang.Ref]bool{}, map[types.UID]string{}
	c.mu.RLock()
	candidates := make([]bound, 0, len(c.pods)) // tens of thousands: they are checked without the lock
	now := c.Clock.Now()
	for _, l := range c.losses {
		if now.Sub(l.at) < EndsWithin {
			members[l.uid] = l.node
		}
	}
	for ref, r := range c.gangs {
		if now.Sub(r.lastLoss) < EndsWithin {
			gangs[ref] = true
			continue
		}
		for key, pod := range r.Pods {
			if pod.Spec.NodeName != "" {
				candidates = append(candidates, bound{key, pod, r})
			}
		}
	}
	c.mu.RUnlock()
	for _, m := range candidates {
		if gone(m.key, m.pod.UID) {
			gangs[m.record.Ref] = true
		}
	}
	return gangs, members
}
