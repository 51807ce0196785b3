package ask

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReadEvent: events exist in an old form and a new one, once or many times.
func TestReadEvent(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	about := v1.ObjectReference{Kind: "PodGroup", Namespace: "default", Name: "g"}
	for name, test := range map[string]struct {
		e    v1.Event
		want PastEvent
	}{
		"old form": {
			v1.Event{LastTimestamp: metav1.NewTime(at), Count: 3, Reason: "Preempting", Message: "preempts p"},
			PastEvent{At: at, Reason: "Preempting", Message: "preempts p", Times: 3},
		},
		"new form, once": {
			v1.Event{EventTime: metav1.NewMicroTime(at), Reason: "Preempting"},
			PastEvent{At: at, Reason: "Preempting", Times: 1},
		},
		"new form, a series": {
			v1.Event{
				EventTime: metav1.NewMicroTime(at), Series: &v1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(at.Add(time.Minute))},
			},
			PastEvent{At: at.Add(time.Minute), Times: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.e.InvolvedObject, test.want.Object = about, "PodGroup default/g"
			require.Equal(t, test.want, readEvent(&test.e))
		})
	}
}

// TestSortEvents: the latest event comes last, and equal events about the object and a member come once.
func TestSortEvents(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	require.Equal(t, []PastEvent{
		{At: at(1), Object: "PodGroup default/g", Reason: "Preempting", Message: "preempts p"},
		{At: at(3), Object: "PodGroup default/g", Reason: "Scheduled", Message: "the gang is bound in s1"},
	}, sortUnique([]PastEvent{
		{At: at(3), Object: "PodGroup default/g", Reason: "Scheduled", Message: "the gang is bound in s1"},
		{At: at(1), Object: "PodGroup default/g", Reason: "Preempting", Message: "preempts p"},
		{At: at(1), Object: "Pod default/g-0", Reason: "Preempting", Message: "preempts p"},
	}))
}
