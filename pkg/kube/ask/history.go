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

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Told is an event of a gang, as the cluster keeps it for an hour or so: where its members were
// placed, for whom others had to leave.
type Told struct {
	At      time.Time `json:"at"` // for the last time
	Object  string    `json:"object"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Times   int       `json:"times"`
}

// History lists what a cluster was told of a gang, the latest last: of its object, and of members of
// it for whom others were evicted. It is two lists, of which the API server picks what is of use. A
// note says that events may not be listed.
func (v *View) History(ctx context.Context, config *rest.Config, t Target) (all []Told, note string, err error) {
	ref, err := v.find(t)
	if err != nil {
		return nil, "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", err
	}
	object, _, _ := strings.Cut(ref.Name, "/") // gangs that are parts of an object have its events
	members := map[string]bool{}
	for _, pod := range v.members(ref) {
		members[convert.PodKey(pod)] = true
	}
	for _, pick := range []struct {
		selector fields.Set
		is       func(v1.ObjectReference) bool
	}{
		{fields.Set{"involvedObject.name": object}, func(o v1.ObjectReference) bool { return o.Kind != "Pod" }},
		{fields.Set{"involvedObject.kind": "Pod", "reason": status.ReasonPreempting}, func(o v1.ObjectReference) bool { return members[convert.Key(o.Namespace, o.Name)] }},
	} {
		list, err := client.CoreV1().Events(ref.Namespace).List(ctx, metav1.ListOptions{FieldSelector: pick.selector.String(), ResourceVersion: "0"})
		if apierrors.IsForbidden(err) {
			return nil, "events may not be listed, and what happened earlier is not said", nil
		}
		if err != nil {
			return nil, "", err
		}
		for _, e := range list.Items {
			if pick.is(e.InvolvedObject) {
				all = append(all, toldBy(&e))
			}
		}
	}
	return inTurn(all), "", nil
}

// toldBy reads an event in either of the forms that the API has of it.
func toldBy(e *v1.Event) Told {
	t := Told{
		Object: e.InvolvedObject.Kind + " " + convert.Key(e.InvolvedObject.Namespace, e.InvolvedObject.Name), Reason: e.Reason, Message: e.Message,
		At: e.LastTimestamp.Time, Times: max(1, int(e.Count)),
	}
	if t.At.IsZero() {
		t.At = e.EventTime.Time
	}
	if s := e.Series; s != nil {
		t.At, t.Times = s.LastObservedTime.Time, int(s.Count)
	}
	return t
}

// inTurn puts events in their order. What is told of the object and of a member is told once.
func inTurn(all []Told) []Told {
	slices.SortStableFunc(all, func(a, b Told) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(all, func(a, b Told) bool { return a.Reason == b.Reason && a.Message == b.Message })
}
