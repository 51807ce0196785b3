package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// stray is a pod that waits without a gang and has keys which nobody knows: one of them may
// have been meant to name its gang.
type stray struct {
	pod  *v1.Pod
	told map[string]bool
}

// setStray notes the state of a pod that names no gang, or with nil that it names one, or is
// gone.
func (c *Cache) setStray(key string, pod *v1.Pod) {
	waits := pod != nil && pod.Spec.NodeName == "" && !convert.Finished(pod)
	is := waits && len(strayKeys(pod)) > 0
	c.mu.RLock()
	was := c.strays[key] != nil
	wants := ""
	if waits {
		wants = c.wantsOwner(pod)
	}
	c.mu.RUnlock()
	if !is && !was && wants == "" { // as nearly always
		return
	}
	c.mu.Lock()
	if wants != "" {
		c.want(wants)
	}
	s := c.strays[key]
	if s == nil || pod == nil || s.pod.UID != pod.UID {
		s = &stray{told: map[string]bool{}}
	}
	s.pod, c.strays[key] = pod, s
	var notes []Note
	if !is {
		delete(c.strays, key)
	} else {
		notes = c.strayNotes(s)
	}
	c.mu.Unlock()
	c.tell(notes)
}

// strayNotes returns what people have not been told of a pod without a gang, and counts it as
// told. c.mu is held.
func (c *Cache) strayNotes(s *stray) []Note {
	if !c.open.Load() || !c.serves[s.pod.Spec.SchedulerName] {
		return nil
	}
	return slices.DeleteFunc(strayKeys(s.pod), func(n Note) bool {
		was := s.told[n.Message]
		s.told[n.Message] = true
		return was
	})
}

// strayKeys says which keys of a pod without a gang mean nothing: nobody knows them, or they are
// about its gang.
func strayKeys(pod *v1.Pod) []Note {
	notes := unknownKeys(pod)
	if message := source.Nameless(pod); message != "" {
		notes = append(notes, Note{About: pod, Warning: true, Reason: InvalidAnnotation, Message: message})
	}
	return notes
}
