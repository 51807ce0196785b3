package cache

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
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

// unheard are members that the scheduler knows have gone, and this cache may not: each hears of it apart from the other. They are kept for
// EndsWithin at least, and for twice as long at most. Its lock is held for its own fields only, so that who has any other may ask.
type unheard struct {
	mu          sync.Mutex
	since       time.Time
	new, before map[types.UID]loss
}

// loss is whose member has gone, and when.
type loss struct {
	of gang.Ref
	at time.Time
}

// note notes that one has gone.
func (u *unheard) note(pod types.UID, of gang.Ref, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.since) >= EndsWithin {
		u.new, u.before, u.since = map[types.UID]loss{}, u.new, now
	}
	if _, is := u.new[pod]; !is {
		u.new[pod] = loss{of, now}
	}
}

// all returns those that have gone a moment ago, and of which gangs they were.
func (u *unheard) all(now time.Time) map[types.UID]gang.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[types.UID]gang.Ref{}
	for _, some := range []map[types.UID]loss{u.before, u.new} {
		for pod, l := range some {
			if now.Sub(l.at) < EndsWithin {
				all[pod] = l.of
			}
		}
	}
	return all
}

// Gone notes that a pod on a node is gone, as the scheduler has it, before this cache hears of it. The caller may hold any lock but this cache's.
func (c *Cache) Gone(pod *v1.Pod) {
	if ref := source.Of(pod); pod.Spec.NodeName != "" && !ref.IsZero() {
		c.unheard.note(pod.UID, ref, c.Clock.Now())
	}
}

// Ending returns the members, of gangs that are not among some, that are likely to leave by themselves in a moment: others of their gang
// have just gone or finished, and fewer are left than the gang needs. Who was asked to leave is not among them.
func (c *Cache) Ending(but []gang.Ref) map[types.UID]bool {
	gone := c.unheard.all(c.Clock.Now())
	ending := map[types.UID]bool{}
	for ref := range c.justLost(gone) {
		if slices.Contains(but, ref) {
			continue
		}
		placed, least := c.Placed(ref)
		// Who has no node here was to be bound, which came to nothing: the scheduler calls that a pod that has gone, too.
		placed = slices.DeleteFunc(placed, func(p *v1.Pod) bool { _, is := gone[p.UID]; return is && p.Spec.NodeName != "" })
		if len(placed) < least {
			for _, pod := range placed {
				ending[pod.UID] = true
			}
		}
	}
	return ending
}

// justLost are the gangs that have lost a member a moment ago, and those of members that have gone.
func (c *Cache) justLost(gone map[types.UID]gang.Ref) map[gang.Ref]bool {
	some := map[gang.Ref]bool{}
	for _, ref := range gone {
		some[ref] = true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	now := c.Clock.Now()
	for ref, r := range c.gangs {
		if now.Sub(r.lost) < EndsWithin {
			some[ref] = true
		}
	}
	return some
}
