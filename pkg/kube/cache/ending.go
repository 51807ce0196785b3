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

// loses notes that a member has gone or finished: what had before this process began is not known. c.mu is held.
func (c *Cache) loses(r *record, pod *v1.Pod) {
	if pod.Spec.NodeName != "" && c.open.Load() {
		r.lost = c.Clock.Now()
	}
}

// Ending returns the members, of gangs that are not among some, that are likely to leave by themselves in a moment: others of their gang
// have just gone or finished, and fewer are left than the gang needs. Who was asked to leave is not among them. gone says of a pod's
// namespace/name and UID whether there is no such pod any more: who tells this cache of pods knows that first, and others may hear before it does.
func (c *Cache) Ending(but []gang.Ref, gone func(pod string, uid types.UID) bool) map[types.UID]bool {
	ending := map[types.UID]bool{}
	for ref := range c.justLost(gone) {
		if slices.Contains(but, ref) {
			continue
		}
		placed, least := c.Placed(ref)
		placed = slices.DeleteFunc(placed, func(p *v1.Pod) bool { return gone(convert.PodKey(p), p.UID) })
		if len(placed) < least {
			for _, pod := range placed {
				ending[pod.UID] = true
			}
		}
	}
	return ending
}

// justLost are the gangs that have lost a member a moment ago, and those that have one that is gone.
func (c *Cache) justLost(gone func(pod string, uid types.UID) bool) map[gang.Ref]bool {
	type bound struct {
		key string
		uid types.UID
		of  gang.Ref
	}
	some, there := map[gang.Ref]bool{}, []bound{}
	c.mu.RLock()
	now := c.Clock.Now()
	for ref, r := range c.gangs {
		if now.Sub(r.lost) < EndsWithin {
			some[ref] = true
			continue
		}
		for key, pod := range r.Pods {
			if pod.Spec.NodeName != "" {
				there = append(there, bound{key, pod.UID, ref})
			}
		}
	}
	c.mu.RUnlock()
	for _, m := range there {
		if !some[m.of] && gone(m.key, m.uid) {
			some[m.of] = true
		}
	}
	return some
}
