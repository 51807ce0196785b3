package cache

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/note"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// stray is a pod without a gang that has unknown labels or annotations. One of these may be a misspelt name of its gang.
type stray struct {
	pod       *v1.Pod
	published note.Published
}

// setStray records a pod without a gang if it is a stray; nil says that the pod has a gang now or was deleted.
func (c *Cache) setStray(key string, pod *v1.Pod) {
	lives := pod != nil && !convert.Finished(pod)
	isStray := lives && len(note.OfStray(pod)) > 0
	c.mu.RLock()
	wasStray := c.strays[key] != nil
	wants := ""
	if lives {
		wants = c.unreadOwnerKind(pod)
	}
	c.mu.RUnlock()
	if !isStray && !wasStray && wants == "" { // the usual case
		return
	}
	c.mu.Lock()
	if wants != "" {
		c.requestKind(wants)
	}
	s := c.strays[key]
	refs := c.meantBy(s)
	if s == nil || pod == nil || s.pod.UID != pod.UID {
		s = &stray{published: note.Published{}}
	}
	s.pod, c.strays[key] = pod, s
	var notes []Note
	if !isStray {
		delete(c.strays, key)
	} else {
		notes = c.strayNotes(s)
	}
	var effects []gang.Effect
	for _, ref := range append(refs, c.meantBy(c.strays[key])...) {
		effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// strayNotes returns the unpublished notes about a stray, and marks them as published. c.mu is locked.
func (c *Cache) strayNotes(s *stray) []Note {
	if !c.open.Load() || !c.serves[s.pod.Spec.SchedulerName] || s.pod.Spec.NodeName != "" {
		return nil
	}
	return s.published.Take("", note.OfStray(s.pod))
}

// meantBy returns the gangs that a stray names with a misspelt key; nil for nil. c.mu is locked.
func (c *Cache) meantBy(s *stray) []gang.Ref {
	if s == nil || s.pod == nil {
		return nil
	}
	_, name, _ := convert.MisspeltGangKey(s.pod) // "" names no gang
	return slices.SortedFunc(maps.Keys(c.named[convert.Key(s.pod.Namespace, name)]), compareRefs)
}

// misnamed returns a text about a probably wrong name: for an object without members, which pods may be meant as members; for members
// without an object, which object may be meant. It returns "" if nothing is known. c.mu is locked.
func (c *Cache) misnamed(r *record) string {
	if r.Object != nil && len(r.Pods)+len(r.Finished) > 0 || r.Object == nil && (r.Declared != nil || len(r.Pods) == 0) {
		return ""
	}
	var pods []*v1.Pod
	for _, key := range slices.SortedFunc(maps.Keys(c.strays), topology.CompareNames) {
		if s := c.strays[key]; r.Object != nil && slices.Contains(c.meantBy(s), r.Ref) {
			pods = append(pods, s.pod)
		}
	}
	others := map[string][]string{} // members by gang: objects without members, or members without an object
	var twin *record                // the one of this name in another API or namespace
	for ref, other := range c.gangs {
		sameAPI, sameNamespace := ref.Source == r.Ref.Source, ref.Namespace == r.Ref.Namespace
		switch {
		case (other.Object == nil) != (r.Object != nil) || (len(other.Pods) > 0) != (other.Object == nil) || len(other.Finished) > 0:
		case sameAPI && sameNamespace:
			others[ref.Name] = slices.SortedFunc(maps.Keys(other.Pods), topology.CompareNames)
		case ref.Name != r.Ref.Name || !sameAPI && !sameNamespace || other.Object == nil && other.Declared != nil:
		case twin == nil || compareRefs(ref, twin.Ref) < 0:
			twin = other
		}
	}
	switch text := convert.Misnamed(r.Ref.Name, r.Object != nil, pods, others); {
	case text != "" || twin == nil:
		return text
	case r.Object == nil:
		return elsewhere(r, twin)
	default:
		return elsewhere(twin, r)
	}
}

// elsewhere returns a text about members without an object, of which some run or wait, and the object of that name elsewhere.
func elsewhere(members, object *record) string {
	keys := slices.SortedFunc(maps.Keys(members.Pods), topology.CompareNames)
	named, existing := source.ObjectOf(members.Ref.Source), source.ObjectOf(object.Ref.Source)
	switch {
	case named == nil || existing == nil:
		return ""
	case named == existing:
		return fmt.Sprintf("; %s %s exists, but %s names it from another namespace: use one namespace for both",
			existing.Kind, object.Ref, convert.FirstPod(keys))
	}
	return fmt.Sprintf("; %s names a %s of %s by %s; the existing %s is of %s: use %s",
		convert.FirstPod(keys), named.Kind, named.Resource.Group, source.WayOf(members.Pods[keys[0]]),
		existing.Kind, existing.Resource.Group, source.WayTo(object.Ref.Source))
}
