package cache

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// Bindings by an earlier leader may be seen up to earlierBindings late. At most one note is published in rivalsEvery.
const (
	earlierBindings = 30 * time.Second
	rivalsEvery     = time.Minute
)

// rivals detects that another scheduler binds pods of this process's profiles. c.mu guards it.
type rivals struct {
	binding  map[types.UID]bool // pods that this process binds and whose node was not seen yet
	since    time.Time          // when this process became the leader
	lastNote time.Time
	count    int // number of pods that another scheduler bound
}

// NoteBinding records that this process is about to bind a pod. The record stays after a failed binding, which may have taken effect.
func (c *Cache) NoteBinding(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rivals.binding == nil {
		c.rivals.binding = map[types.UID]bool{}
	}
	c.rivals.binding[pod.UID] = true
}

// bound returns a message if another scheduler bound the pod, at most once per rivalsEvery.
func (r *rivals) bound(pod *v1.Pod, now time.Time) (message string) {
	if r.binding[pod.UID] {
		delete(r.binding, pod.UID)
		return ""
	}
	if r.since.IsZero() || now.Sub(r.since) < earlierBindings {
		return ""
	}
	r.count++
	if !r.lastNote.IsZero() && now.Sub(r.lastNote) < rivalsEvery {
		return ""
	}
	r.lastNote = now
	return fmt.Sprintf("bound to %s by another process than this scheduler, "+
		"which serves schedulerName %s (%d such pods so far): only one scheduler may serve a name",
		pod.Spec.NodeName, pod.Spec.SchedulerName, r.count)
}

// podUpdated publishes a note if an update shows that another scheduler bound the pod. It is called before the cache handles the update.
func (c *Cache) podUpdated(old, current *v1.Pod) {
	if old.Spec.NodeName != "" || current.Spec.NodeName == "" || !c.open.Load() || !c.Serves(current) {
		return
	}
	c.mu.Lock()
	message := c.rivals.bound(current, c.Clock.Now())
	c.mu.Unlock()
	if message != "" {
		c.publish([]Note{{About: current, Warning: true, Reason: reasons.BoundByAnother, Message: message}})
	}
}
