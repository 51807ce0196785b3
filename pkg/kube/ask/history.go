package ask

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// PastEvent is an event of a gang, as the cluster keeps it for about an hour.
type PastEvent struct {
	At      time.Time `json:"at"` // of the last occurrence
	Object  string    `json:"object"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Times   int       `json:"times"`
}

// History returns the events of a gang in a live cluster, the latest last: of its object, and evictions for its members. It omits
// repetitions of a message. It sends two list requests, filtered by the API server. If events may not be listed, it returns a note.
func (v *View) History(ctx context.Context, config *rest.Config, t Target) (all []PastEvent, note string, err error) {
	ref, err := v.find(t)
	if err != nil {
		return nil, "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", err
	}
	object, _, _ := strings.Cut(ref.Name, "/") // a gang that is part of an object has the object's events
	members := map[string]bool{}
	for _, pod := range v.members(ref) {
		members[convert.PodKey(pod)] = true
	}
	for _, pick := range []struct {
		selector fields.Set
		is       func(v1.ObjectReference) bool
	}{
		{fields.Set{"involvedObject.name": object}, func(o v1.ObjectReference) bool { return o.Kind != "Pod" }},
		{
			fields.Set{"involvedObject.kind": "Pod", "reason": reasons.Preempting},
			func(o v1.ObjectReference) bool { return members[convert.Key(o.Namespace, o.Name)] },
		},
	} {
		options := metav1.ListOptions{FieldSelector: pick.selector.String(), ResourceVersion: "0"}
		list, err := client.CoreV1().Events(ref.Namespace).List(ctx, options)
		if apierrors.IsForbidden(err) {
			return nil, "no permission to list events: earlier events are not shown", nil
		}
		if err != nil {
			return nil, "", err
		}
		for _, e := range list.Items {
			if pick.is(e.InvolvedObject) {
				all = append(all, readEvent(&e))
			}
		}
	}
	return sortUnique(all), "", nil
}

// readEvent reads an event in either form of the API.
func readEvent(e *v1.Event) PastEvent {
	t := PastEvent{
		Object: e.InvolvedObject.Kind + " " + convert.Key(e.InvolvedObject.Namespace, e.InvolvedObject.Name),
		Reason: e.Reason, Message: e.Message, At: e.LastTimestamp.Time, Times: max(1, int(e.Count)),
	}
	if t.At.IsZero() {
		t.At = e.EventTime.Time
	}
	if s := e.Series; s != nil {
		t.At, t.Times = s.LastObservedTime.Time, int(s.Count)
	}
	return t
}

// sortUnique returns the events by time, without repetitions of one message in a row.
func sortUnique(all []PastEvent) []PastEvent {
	slices.SortStableFunc(all, func(a, b PastEvent) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(all, func(a, b PastEvent) bool { return a.Reason == b.Reason && a.Message == b.Message })
}
