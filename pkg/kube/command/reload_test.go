package command

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// TestEachBadEditIsReported: events about two bad edits, of which each has its own words, are two, and the same words are said once and
// counted.
func TestEachBadEditIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := &sink{}
		broadcaster := events.NewBroadcaster(told)
		require.NoError(t, broadcaster.StartRecordingToSinkWithContext(ctx))
		defer broadcaster.Shutdown()
		recorder := broadcaster.NewRecorder(scheme.Scheme, "muster-scheduler")
		lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "muster-system", Name: "muster-scheduler"}
		for _, words := range []string{"the first bad edit", "the second bad edit", "the second bad edit"} {
			recordConfigurationEvent(recorder, lease, v1.EventTypeWarning, "ConfigurationRefused", words)
			synctest.Wait()
		}
		require.Equal(t, []string{"the first bad edit", "the second bad edit"}, told.notes)
		require.Equal(t, 1, told.counted)
	})
}

// sink is where events are written.
type sink struct {
	notes   []string
	counted int
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.notes = append(s.notes, e.Note)
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.counted++
	return e, nil
}
