package cache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
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
// have just gone or finished, and fewer are left than the gang needs. Who was asked to leave is not among them.
func (c *Cache) Ending(but []gang.Ref) map[types.UID]bool {
	ending := map[types.UID]bool{}
	for _, ref := range c.justLost() {
		if placed, least := c.Placed(ref); len(placed) < least && !slices.Contains(but, ref) {
			for _, pod := range placed {
				ending[pod.UID] = true
			}
		}
	}
	return ending
}

// justLost are the gangs that have lost a member a moment ago.
func (c *Cache) justLost() (some []gang.Ref) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	now := c.Clock.Now()
	for ref, r := range c.gangs {
		if now.Sub(r.lost) < EndsWithin {
			some = append(some, ref)
		}
	}
	return some
}
