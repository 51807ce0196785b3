package cache

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BoundByAnother is the reason of a note on a pod that is ours by its schedulerName and that somebody
// else has bound. Two schedulers that serve one name give the same room twice.
const BoundByAnother = "BoundByAnother"

// What a leader before this one has bound may be seen as late as that, and how often somebody else is
// told of.
const (
	heirloom    = 30 * time.Second
	rivalsEvery = time.Minute
)

// rivals finds out whether somebody else binds pods that are ours. c.mu guards it.
type rivals struct {
	placed map[types.UID]bool // whom this process has put on a node, and who was not seen there yet
	since  time.Time          // since when this process leads
	told   time.Time
	count  int // of pods that somebody else has bound
}

// Placing notes that the scheduler is about to bind a pod. What becomes of that may not be known for
// long: a binding that failed may have been carried out.
func (c *Cache) Placing(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rivals.placed == nil {
		c.rivals.placed = map[types.UID]bool{}
	}
	c.rivals.placed[pod.UID] = true
}

// bound notes that a pod is seen on a node, and says whether people are to be told that somebody else has
// bound it. Who is one of several is told once a minute.
func (r *rivals) bound(pod *v1.Pod, now time.Time) (message string) {
	if r.placed[pod.UID] {
		delete(r.placed, pod.UID)
		return ""
	}
	if r.since.IsZero() || now.Sub(r.since) < heirloom {
		return ""
	}
	r.count++
	if !r.told.IsZero() && now.Sub(r.told) < rivalsEvery {
		return ""
	}
	r.told = now
	return fmt.Sprintf("bound to %s by another process than this scheduler, which serves schedulerName %s (%d such pods so far): only one scheduler may serve a name",
		pod.Spec.NodeName, pod.Spec.SchedulerName, r.count)
}

// changed is a pod's update, before the cache is told of it.
func (c *Cache) changed(was, is *v1.Pod) {
	if was.Spec.NodeName != "" || is.Spec.NodeName == "" || !c.open.Load() || !c.Serves(is) {
		return
	}
	c.mu.Lock()
	message := c.rivals.bound(is, c.Clock.Now())
	c.mu.Unlock()
	if message != "" {
		c.tell([]Note{{About: is, Warning: true, Reason: BoundByAnother, Message: message}})
	}
}
