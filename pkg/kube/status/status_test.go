package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

var noRoom = gang.Obstacle{By: gang.Plan, Words: "no candidate"}

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		name   string
		state  gang.State
		reason string
	}{
		{"nothing exists", gang.State{Min: 2, Refusal: gang.Obstacle{By: gang.Missing, Words: "0 of 2 members exist"}}, reasons.Waiting},
		{"bad input", gang.State{Min: 2, Refusal: gang.Obstacle{By: gang.Declaration, Words: `layer "x"`}}, reasons.Rejected},
		{"whole, not tried", gang.State{Min: 2, Exist: 2}, reasons.Ready},
		{"no room", gang.State{Min: 2, Exist: 2, Refusal: noRoom}, reasons.Unschedulable},
		{
			"no capacity after any eviction",
			gang.State{Min: 2, Exist: 2, Refusal: gang.Obstacle{By: gang.Plan, Words: "no candidate", NeverEvictable: true}},
			reasons.NeverFits,
		},
		{
			"conflict",
			gang.State{Min: 2, Exist: 2, Refusal: gang.Obstacle{By: gang.Conflict, Words: "TopologySpecConflict: a and b"}},
			reasons.TopologySpecConflict,
		},
		{"victims leave", gang.State{Min: 2, Exist: 2, Planned: 2, Reserved: true, Refusal: noRoom}, reasons.Preempting},
		{"half way", gang.State{Min: 2, Exist: 2, Planned: 1, Bound: 1}, reasons.Binding},
		{"done", gang.State{Min: 2, Exist: 2, Bound: 2}, reasons.Scheduled},
		{"one has finished", gang.State{Min: 2, Exist: 1, Bound: 1, Done: 1, Started: true}, reasons.Scheduled},
		{"all have finished", gang.State{Min: 2, Done: 2, Started: true}, reasons.Finished},
		{"one is gone", gang.State{Min: 2, Exist: 1, Bound: 1, Started: true}, reasons.Ready},
		{"done, one more waits", gang.State{Min: 2, Exist: 3, Bound: 2, Refusal: noRoom}, reasons.Scheduled},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := status.Condition(c.state, "spine-1")
			require.Equal(t, c.reason, got.Reason)
			require.Equal(t, c.reason == reasons.Scheduled || c.reason == reasons.Finished, got.Status == metav1.ConditionTrue)
			require.NotEmpty(t, got.Message)
		})
	}
	require.Equal(t, "the gang is bound in spine-1", status.Condition(gang.State{Min: 1, Bound: 1}, "spine-1").Message)
}

func TestPodGroupPhases(t *testing.T) {
	now := metav1.NewTime(time.Unix(100, 0))
	for _, c := range []struct {
		state gang.State
		n     status.Counts
		phase scheduling.PodGroupPhase
	}{
		{gang.State{Min: 2, Exist: 1}, status.Counts{}, scheduling.PodGroupPending},
		{gang.State{Min: 2, Exist: 2}, status.Counts{}, scheduling.PodGroupPreScheduling},
		{gang.State{Min: 2, Exist: 2, Bound: 1}, status.Counts{Bound: 1}, scheduling.PodGroupScheduling},
		{gang.State{Min: 2, Exist: 2, Bound: 2}, status.Counts{Bound: 2}, scheduling.PodGroupScheduled},
		{gang.State{Min: 2, Exist: 2, Bound: 2}, status.Counts{Bound: 2, Running: 2}, scheduling.PodGroupRunning},
		{gang.State{Min: 2, Exist: 1, Bound: 1, Done: 1}, status.Counts{Bound: 1, Running: 1, Succeeded: 1}, scheduling.PodGroupRunning},
		{gang.State{Min: 2, Done: 2}, status.Counts{Succeeded: 2}, scheduling.PodGroupFinished},
		{gang.State{Min: 2, Exist: 1, Bound: 1, Done: 1}, status.Counts{Bound: 1, Running: 1, Failed: 1}, scheduling.PodGroupFailed},
		{gang.State{Min: 2, Exist: 2}, status.Counts{Succeeded: 1, Failed: 1}, scheduling.PodGroupPreScheduling}, // of a run before
	} {
		got := status.PodGroup(scheduling.PodGroupStatus{}, c.state, c.n, now)
		require.Equal(t, c.phase, got.Phase, "%+v %+v", c.state, c.n)
		require.Equal(t, c.state.Bound+c.state.Done >= 2, meta.IsStatusConditionTrue(got.Conditions, scheduling.ConditionScheduled))
	}
}

func TestPodGroupIsStable(t *testing.T) {
	state, n := gang.State{Min: 2, Exist: 2, Bound: 2}, status.Counts{
		Bound: 2, Running: 2, Owners: []string{"ns/a", "ns/b"}, Domain: "spine-1",
	}
	first := status.PodGroup(scheduling.PodGroupStatus{}, state, n, metav1.NewTime(time.Unix(100, 0)))
	again := status.PodGroup(first, state, n, metav1.NewTime(time.Unix(200, 0)))
	require.Equal(t, first, again, "nothing changed, so nothing may be written")
	require.Equal(t, "ns/a,ns/b", first.OccupiedBy)
	require.Equal(t, "spine-1", first.Domain)
	require.Equal(t, int64(100), again.ScheduleStartTime.Unix())
}

func TestClip(t *testing.T) {
	require.Equal(t, "short", status.Clip("short"))
	long := status.Clip(strings.Repeat("é", 2000))
	require.LessOrEqual(t, len(long), status.Limit)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, " ..."))
}

// TestStarted: that a gang was whole stays in its status as long as it matters, whatever else
// is said of it.
func TestStarted(t *testing.T) {
	s := gang.State{Min: 4, Exist: 2, Bound: 1, Started: true, Refusal: noRoom}
	is := status.PodGroup(scheduling.PodGroupStatus{}, s, status.Counts{Bound: 1}, metav1.Now())
	require.True(t, meta.IsStatusConditionFalse(is.Conditions, scheduling.ConditionScheduled))
	require.True(t, meta.IsStatusConditionTrue(is.Conditions, scheduling.ConditionStarted))
	s.Started = false
	is = status.PodGroup(is, s, status.Counts{}, metav1.Now())
	require.Nil(t, meta.FindStatusCondition(is.Conditions, scheduling.ConditionStarted))
}

// TestFinal: what the API server refuses for good is not asked for again; everything else is.
func TestFinal(t *testing.T) {
	pods := v1.Resource("pods")
	for _, c := range []struct {
		err   error
		final bool
	}{
		{nil, false},
		{errors.New("connection refused"), false},
		{context.DeadlineExceeded, false},
		{apierrors.NewUnauthorized("the token has expired"), false},
		{apierrors.NewConflict(pods, "p", nil), false},
		{apierrors.NewTooManyRequests("later", 1), false},
		{apierrors.NewTimeoutError("slow", 1), false},
		{apierrors.NewInternalError(errors.New("etcd")), false},
		{apierrors.NewServiceUnavailable("starting"), false},
		{apierrors.NewBadRequest("no JSON"), true},
		{apierrors.NewForbidden(pods, "p", nil), true},
		{apierrors.NewNotFound(pods, "p"), true},
		{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), true},
		{fmt.Errorf("status: %w", apierrors.NewNotFound(pods, "p")), true},
	} {
		require.Equal(t, c.final, status.Permanent(c.err), "%v", c.err)
	}
}
