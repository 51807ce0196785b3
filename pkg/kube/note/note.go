// Package note says which events are to be published about what gangs, members and pods without a gang declare: invalid values, unknown
// keys and keys without effect.
//
// It knows the objects of a gang and its declaration. It must not know the gang book, the publisher, or whether this process serves a gang.
// Invariant: equal objects give equal notes in the same order.
package note

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Note is an event to be published.
type Note struct {
	About   runtime.Object
	Warning bool
	Reason  string
	Message string
}

// warnings returns a warning about an object for each message.
func warnings(about runtime.Object, reason string, messages []string) (notes []Note) {
	for _, message := range messages {
		notes = append(notes, Note{About: about, Warning: true, Reason: reason, Message: message})
	}
	return notes
}

// OfGang returns the notes about the objects of a gang, which has a declaration.
func OfGang(r *group.Record) (notes []Note) {
	for _, n := range r.Declared.Notes {
		if about := subject(r); about != nil {
			notes = append(notes, Note{About: about, Warning: n.Warns(), Reason: n.Reason, Message: n.Message})
		}
	}
	if pg := r.Object; pg != nil {
		notes = append(notes, warnings(pg, reasons.UnknownKey, scheduling.Unknown(pg.Annotations, pg.Labels))...)
	}
	if o := r.Owner; o != nil && o.Object != nil {
		unknown, without := o.IneffectiveKeys()
		notes = append(notes, warnings(o.Object, reasons.UnknownKey, unknown)...)
		notes = append(notes, warnings(o.Object, reasons.InvalidAnnotation, without)...)
	}
	return notes
}

// subject returns the object to which notes about the gang are attached: its object, its owner or its declaring pod; nil if there is none.
func subject(r *group.Record) runtime.Object {
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

// OfMember returns the notes about one member of a gang.
func OfMember(r *group.Record, pod *v1.Pod) (notes []Note) {
	if _, err := convert.Member(pod, r.Ref); err != nil {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.InvalidTopologyIndex, Message: err.Error()})
	}
	if rivals := source.OtherGangs(pod); rivals != "" {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.TwoGangs, Message: rivals})
	}
	if r.Declared != nil {
		notes = append(notes, warnings(pod, reasons.InvalidAnnotation, r.Declared.Contradictions(r.Gang, pod))...)
	}
	return append(notes, unknownKeys(pod)...)
}

// OfStray returns the notes about labels and annotations of a pod without a gang that have no effect.
func OfStray(pod *v1.Pod) []Note {
	notes := unknownKeys(pod)
	if message := source.KeysWithoutGang(pod); message != "" {
		notes = append(notes, Note{About: pod, Warning: true, Reason: reasons.InvalidAnnotation, Message: message})
	}
	notes = append(notes, invalidValue(pod, scheduling.AnnotationBackfill, scheduling.ParseBackfill)...)
	notes = append(notes, invalidValue(pod, scheduling.AnnotationMaxRuntime, scheduling.ParseMaxRuntime)...)
	return notes
}

// invalidValue returns a note if the pod has an annotation key whose value parse rejects.
func invalidValue[T any](pod *v1.Pod, key string, parse func(string) (T, error)) []Note {
	value, ok := pod.Annotations[key]
	if !ok {
		return nil
	}
	if _, err := parse(value); err != nil {
		return []Note{{About: pod, Warning: true, Reason: reasons.InvalidAnnotation, Message: err.Error() + "; it has no effect"}}
	}
	return nil
}

// OfNode returns the notes about annotations of a node that have no effect.
func OfNode(node *v1.Node) []Note {
	if _, err := maintenance.Of(node); err != nil {
		return warnings(node, reasons.InvalidAnnotation, []string{err.Error() + "; it has no effect"})
	}
	return nil
}

func unknownKeys(pod *v1.Pod) []Note {
	notes := warnings(pod, reasons.UnknownKey, source.UnknownKeys(pod))
	return append(notes, warnings(pod, reasons.InvalidAnnotation, source.WrongForms(pod))...)
}

// Merge returns the notes, of which consecutive ones of one object and reason are one with all different messages, because API clients
// aggregate events.
func Merge(notes []Note) (merged []Note) {
	for i := 0; i < len(notes); {
		n, messages := notes[i], []string{}
		for ; i < len(notes) && notes[i].About == n.About && notes[i].Reason == n.Reason; i++ {
			if !slices.Contains(messages, notes[i].Message) {
				messages = append(messages, notes[i].Message)
			}
		}
		n.Message = strings.Join(messages, "; ")
		merged = append(merged, n)
	}
	return merged
}

// Published are the notes that were published about a gang and its members.
type Published map[string]bool

// Take returns the notes that are not published yet, and marks them as published. about is the UID of their pod; "" is the gang.
func (p Published) Take(about string, notes []Note) []Note {
	return slices.DeleteFunc(notes, func(n Note) bool {
		key := about + " " + n.Reason + " " + n.Message
		known := p[key]
		p[key] = true
		return known
	})
}
