package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// EndsWithin is how long after one member has gone the others are thought to follow: whoever ends a gang deletes its pods one after the
// other, and pods of a job that has come to its end finish one after the other.
const EndsWithin = time.Second

// loss is a member that has gone or finished, and the node that it had.
type loss struct {
	uid  types.UID
	node string
	at   time.Time
}

// loses notes that a member has gone or finished: what had before this process began is not known. c.mu is held.
func (c *Cache) loses(r *record, pod *v1.Pod) {
	if pod.Spec.NodeName == "" || !c.open.Load() {
		return
	}
	r.lost = c.Clock.Now()
	for len(c.losses) > 0 && r.lost.Sub(c.losses[0].at) >= EndsWithin {
		c.losses = c.losses[1:]
	}
	c.losses = append(c.losses, loss{pod.UID, pod.Spec.NodeName, r.lost})
}

// Ending returns the members, each with its node, that are likely to leave by themselves in a moment, since others of their gang
// have just gone or finished and fewer are left than the gang needs; not those of some gangs. Who was asked to leave is not among them. With them
// are those who have gone or finished a moment ago, of any gang: whoever has not heard of it counts them yet. gone says of a pod's
// namespace/name and UID whether there is no such pod any more: who tells this cache of pods knows that first, and others may hear before it does.
func (c *Cache) Ending(but []gang.Ref, gone func(pod string, uid types.UID) bool) map[types.UID]string {
	lost, ending := c.justLost(gone)
	for ref := range lost {
		placed, _ := c.Placed(ref)
		left := slices.DeleteFunc(slices.Clone(placed), func(p *v1.Pod) bool { return gone(convert.PodKey(p), p.UID) })
		c.mu.RLock()
		least := c.book.Numbers(ref).Min
		c.mu.RUnlock()
		ends := len(left) < least && !slices.Contains(but, ref)
		for _, pod := range placed {
			if ends || !slices.Contains(left, pod) {
				ending[pod.UID] = pod.Spec.NodeName
			}
		}
	}
	return ending
}

// justLost are the gangs that have lost a member a moment ago, and those that have one that is gone; and the members that were lost, each with its node.
func (c *Cache) justLost(gone func(pod string, uid types.UID) bool) (some map[gang.Ref]bool, members map[types.UID]string) {
	type bound struct {
		key string
		pod *v1.Pod
		of  *record
	}
	some, members = map[gang.Ref]bool{}, map[types.UID]string{}
	c.mu.RLock()
	there := make([]bound, 0, len(c.pods)) // there may be tens of thousands: they are looked up without the lock
	now := c.Clock.Now()
	for _, l := range c.losses {
		if now.Sub(l.at) < EndsWithin {
			members[l.uid] = l.node
		}
	}
	for ref, r := range c.gangs {
		if now.Sub(r.lost) < EndsWithin {
			some[ref] = true
			continue
		}
		for key, pod := range r.Pods {
			if pod.Spec.NodeName != "" {
				there = append(there, bound{key, pod, r})
			}
		}
	}
	c.mu.RUnlock()
	for _, m := range there {
		if gone(m.key, m.pod.UID) {
			some[m.of.Ref] = true
		}
	}
	return some, members
}
