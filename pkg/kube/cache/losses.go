package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// EndsWithin is how long after one deleted member the others are expected to follow. A controller deletes the pods
// of a gang one after the other, and pods of a finished job end one after the other.
const EndsWithin = time.Second

// loss is a bound member that was deleted or finished.
type loss struct {
	uid  types.UID
	node string
	at   time.Time
}

// noteLoss records a deleted or finished member. Losses before the start of this process are unknown. c.mu is held.
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

// ExpectedToEnd returns, with their nodes, the members that will probably end within a moment: their gang just lost
// members and is below minMember. Gangs in except and evicted members are left out. It also returns members of any
// gang that were just lost, because a reader may still count them. gone says whether a pod does not exist any more.
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

// justLost returns the gangs that just lost a member or have one that is gone, and the lost members with their
// nodes.
func (c *Cache) justLost(gone func(pod string, uid types.UID) bool) (gangs map[gang.Ref]bool, members map[types.UID]string) {
	type bound struct {
		key string
		pod *v1.Pod
		of  *record
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
			gangs[m.of.Ref] = true
		}
	}
	return gangs, members
}
