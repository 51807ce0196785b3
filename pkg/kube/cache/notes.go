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

// takeNotes returns the unpublished notes on a gang and marks them as published. It returns none before the cache
// is open. c.mu is held.
func (c *Cache) takeNotes(r *record) (notes []Note) {
	if r.Declared == nil || !c.open.Load() || !c.ours(r) {
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

// about returns the object that users read about the gang; nil if none.
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

// markPublished marks a note as published and returns whether it already was. about is the UID of the note's pod; "" for the gang.
func (r *record) markPublished(about string, n Note) bool {
	key := about + " " + n.Reason + " " + n.Message
	known := r.published[key]
	if r.published == nil {
		r.published = map[string]bool{}
	}
	r.published[key] = true
	return known
}

// podNotes returns the unpublished notes on one member. c.mu is held.
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

// allNotes returns all notes when the cache opens. c.mu is held.
func (c *Cache) allNotes() (notes []Note) {
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		notes = append(notes, c.takeNotes(r)...)
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.Pods[key], r)...)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.owners), source.OwnerKey.Compare) {
		notes = append(notes, c.unheeded(nil, c.owners[key])...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.strays), topology.CompareNames) {
		notes = append(notes, c.strayNotes(c.strays[key])...)
	}
	return notes
}

// publish publishes one event per object and reason, because API clients aggregate events. Equal messages of
// several gangs are merged.
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
