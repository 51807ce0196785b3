package cache

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// takeNotes returns the unpublished notes about a gang, and marks them as published. Until the cache opens it returns none. c.mu is locked.
func (c *Cache) takeNotes(r *record) (notes []Note) {
	if r.Declared == nil || !c.open.Load() || !c.servesGang(r) {
		return nil
	}
	for _, n := range r.Declared.Notes {
		if about := r.about(); about != nil {
			notes = append(notes, Note{About: about, Warning: n.Warns(), Reason: n.Reason, Message: n.Message})
		}
	}
	if pg := r.Object; pg != nil {
		for _, message := range scheduling.Unknown(pg.Annotations, pg.Labels) {
			notes = append(notes, Note{About: pg, Warning: true, Reason: reasons.UnknownKey, Message: message})
		}
	}
	if o := r.Owner; o != nil && o.Object != nil {
		unknown, without := o.IneffectiveKeys()
		for _, message := range unknown {
			notes = append(notes, Note{About: o.Object, Warning: true, Reason: reasons.UnknownKey, Message: message})
		}
		for _, message := range without {
			notes = append(notes, Note{About: o.Object, Warning: true, Reason: reasons.InvalidAnnotation, Message: message})
		}
	}
	return slices.DeleteFunc(notes, func(n Note) bool { return r.markPublished("", n) })
}

// about returns the object to which notes about the gang are attached: its object, its owner or its declaring pod; nil if there is none.
func (r *record) about() runtime.Object {
	switch pod := r.Pods[r.Declared.DeclaringPod]; {
	case r.Object != nil:
		return r.Object
	case r.Owner != nil:
		return r.Owner.Object
	case pod != nil:
		return pod
	}
	return nil
}

// markPublished marks a note as published and returns whether it already was. about is the UID of the note's pod; "" is the gang.
func (r *record) markPublished(about string, n Note) bool {
	key := about + " " + n.Reason + " " + n.Message
	known := r.published[key]
	if r.published == nil {
		r.published = map[string]bool{}
	}
	r.published[key] = true
	return known
}

// podNotes returns the unpublished notes about one member, and marks them as published. c.mu is locked.
func (c *Cache) podNotes(pod *v1.Pod, r *record) (notes []Note) {
	if !c.open.Load() || !c.serves[pod.Spec.SchedulerName] {
		return nil
	}
	if _, err := convert.Member(pod, r.Ref); err != nil {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.InvalidTopologyIndex, Message: err.Error()})
	}
	if rivals := source.OtherGangs(pod); rivals != "" {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.TwoGangs, Message: rivals})
	}
	if r.Declared != nil {
		for _, message := range r.Declared.Contradictions(r.Gang, pod) {
			notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.InvalidAnnotation, Message: message})
		}
	}
	notes = append(notes, unknownKeys(pod)...)
	return slices.DeleteFunc(notes, func(n Note) bool { return r.markPublished(string(pod.UID), n) })
}

func unknownKeys(pod *v1.Pod) (notes []Note) {
	for _, message := range scheduling.Unknown(pod.Annotations, pod.Labels) {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.UnknownKey, Message: message})
	}
	return notes
}

// allNotes returns the unpublished notes about all gangs, members, owners and stray pods. c.mu is locked.
func (c *Cache) allNotes() (notes []Note) {
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		notes = append(notes, c.takeNotes(r)...)
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.Pods[key], r)...)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.owners), source.OwnerKey.Compare) {
		notes = append(notes, c.ineffectiveNotes(nil, c.owners[key])...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.strays), topology.CompareNames) {
		notes = append(notes, c.strayNotes(c.strays[key])...)
	}
	return notes
}

// publish publishes notes as events. Consecutive notes of one object and reason become one event with all different messages, because API
// clients aggregate events.
func (c *Cache) publish(notes []Note) {
	for i := 0; i < len(notes); {
		n, messages := notes[i], []string{}
		for ; i < len(notes) && notes[i].About == n.About && notes[i].Reason == n.Reason; i++ {
			if !slices.Contains(messages, notes[i].Message) {
				messages = append(messages, notes[i].Message)
			}
		}
		n.Message = strings.Join(messages, "; ")
		c.Note(n)
	}
}
