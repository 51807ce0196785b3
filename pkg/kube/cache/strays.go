package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// stray is a waiting pod without a gang that has unknown keys: one may have been meant to name its gang.
type stray struct {
	pod       *v1.Pod
	published map[string]bool
}

// setStray records a pod without a gang; nil if it has one now, or was deleted.
func (c *Cache) setStray(key string, pod *v1.Pod) {
	waits := pod != nil && pod.Spec.NodeName == "" && !convert.Finished(pod)
	isStray := waits && len(strayKeys(pod)) > 0
	c.mu.RLock()
	wasStray := c.strays[key] != nil
	wants := ""
	if waits {
		wants = c.wantsOwner(pod)
	}
	c.mu.RUnlock()
	if !isStray && !wasStray && wants == "" { // the usual case
		return
	}
	c.mu.Lock()
	if wants != "" {
		c.want(wants)
	}
	s := c.strays[key]
	if s == nil || pod == nil || s.pod.UID != pod.UID {
		s = &stray{published: map[string]bool{}}
	}
	s.pod, c.strays[key] = pod, s
	var notes []Note
	if !isStray {
		delete(c.strays, key)
	} else {
		notes = c.strayNotes(s)
	}
	c.mu.Unlock()
	c.publish(notes)
}

// strayNotes returns the unpublished notes on a pod without a gang, and marks them as published. c.mu is held.
func (c *Cache) strayNotes(s *stray) []Note {
	if !c.open.Load() || !c.serves[s.pod.Spec.SchedulerName] {
		return nil
	}
	return slices.DeleteFunc(strayKeys(s.pod), func(n Note) bool {
		known := s.published[n.Message]
		s.published[n.Message] = true
		return known
	})
}

// strayKeys returns notes on the keys of a pod without a gang that have no effect.
func strayKeys(pod *v1.Pod) []Note {
	notes := unknownKeys(pod)
	if message := source.KeysWithoutGang(pod); message != "" {
		notes = append(notes, Note{About: pod, Warning: true, Reason: InvalidAnnotation, Message: message})
	}
	return notes
}
