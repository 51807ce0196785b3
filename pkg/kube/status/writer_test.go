package status_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// TestStatusWithoutSubresource: Koordinator's PodGroup has no status subresource. Then, and only
// then, the object itself is patched; one that is gone is asked for no more.
func TestStatusWithoutSubresource(t *testing.T) {
	gone := apierrors.NewNotFound(sigs.PodGroups.GroupResource(), "g")
	forbidden := apierrors.NewForbidden(sigs.PodGroups.GroupResource(), "g", nil)
	for name, test := range map[string]struct {
		atStatus, atObject error
		asked              []string
		want               error
	}{
		"there is one":                 {nil, nil, []string{"status"}, nil},
		"there is none":                {gone, nil, []string{"status", ""}, nil},
		"the object is gone":           {gone, gone, []string{"status", ""}, gone},
		"its status is not to be told": {forbidden, nil, []string{"status"}, forbidden},
	} {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{sigs.PodGroups: "PodGroupList"})
		var asked []string
		client.PrependReactor("patch", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
			asked = append(asked, a.GetSubresource())
			if a.GetSubresource() == "status" {
				return true, nil, test.atStatus
			}
			return true, nil, test.atObject
		})
		w := status.NewWriter(fake.NewClientset(), client, clock.RealClock{})
		pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", UID: "u"}}
		is := pg.Status
		is.Scheduled = 1
		err := w.Custom(t.Context(), sigs.PodGroups, pg, pg.Status, is)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		w.Run(over, 1) // which ends its queue
		require.Equal(t, test.want, err, name)
		require.Equal(t, test.asked, asked, name)
	}
}

// TestStatusPatch: a merge patch names the UID of the seen object and removes fields that are no longer set. It is
// not sent without a difference, or if the new status is no JSON.
func TestStatusPatch(t *testing.T) {
	pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	both, one, none := map[string]any{"a": 1, "b": 2}, map[string]any{"a": 3}, func() {}
	for name, c := range map[string]struct {
		old, is any
		sends   string
		err     string
	}{
		"a field is gone":   {both, one, `{"metadata":{"uid":"u"},"status":{"a":3,"b":null}}`, ""},
		"a field is new":    {one, both, `{"metadata":{"uid":"u"},"status":{"a":1,"b":2}}`, ""},
		"nothing is new":    {both, map[string]any{"a": 1, "b": 2}, "", ""},
		"it was never JSON": {none, one, "", "status: json: unsupported type: func()"},
		"it is no JSON":     {one, none, "", "status: json: unsupported type: func()"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				sent := ""
				w.custom.PrependReactor("patch", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
					sent += string(a.(clienttesting.PatchAction).GetPatch())
					return true, nil, nil
				})
				err := w.writer.Custom(t.Context(), sigs.PodGroups, pg, c.old, c.is)
				require.Equal(t, c.sends, sent)
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.err)
				}
			})
		})
	}
}

// TestWritesAgain: a write that fails temporarily is retried after 20 ms, then twice as late each time, up to half a
// minute. A permanent error is not retried.
func TestWritesAgain(t *testing.T) {
	down := apierrors.NewServiceUnavailable("down")
	for name, c := range map[string]struct {
		answers []error
		at      []time.Duration // when it was asked, in ms
	}{
		"taken":                   {nil, []time.Duration{100}},
		"refused":                 {[]error{apierrors.NewForbidden(sigs.PodGroups.GroupResource(), "g", nil)}, []time.Duration{100}},
		"gone":                    {[]error{apierrors.NewNotFound(sigs.PodGroups.GroupResource(), "g")}, []time.Duration{100}},
		"taken the fourth time":   {[]error{down, down, down}, []time.Duration{100, 120, 160, 240}},
		"refused the second time": {[]error{down, apierrors.NewBadRequest("no JSON")}, []time.Duration{100, 120}},
		"down for long": {
			slices.Repeat([]error{down}, 13),
			[]time.Duration{100, 120, 160, 240, 400, 720, 1360, 2640, 5200, 10320, 20560, 41040, 71040, 101040},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for range 2 { // how long it took before does not count
					var at []time.Duration
					start := time.Now()
					require.True(t, w.writer.Idle())
					w.writer.DoAfter("k", 100*time.Millisecond, func(context.Context) error {
						at = append(at, time.Since(start)/time.Millisecond)
						if len(at) <= len(c.answers) {
							return c.answers[len(at)-1]
						}
						return nil
					})
					require.True(t, w.writer.Idle(), "it is due later")
					w.pass(10 * time.Minute)
					require.Equal(t, c.at, at)
					require.True(t, w.writer.Idle())
				}
			})
		})
	}
}

// TestTheLatestIsWritten: of what is to be written under one key only the latest is, once; it is also written if the
// one before it is under way, whatever comes of that.
func TestTheLatestIsWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		var done []string
		says := func(what string) func(context.Context) error {
			return func(context.Context) error { done = append(done, what); return nil }
		}
		w.writer.DoAfter("k", time.Second, says("first"))
		w.writer.DoAfter("k", 5*time.Second, says("second"))
		w.pass(time.Second)
		require.Equal(t, []string{"second"}, done, "no later than was asked for the first")
		require.True(t, w.writer.Idle())
		w.pass(time.Minute)
		require.Equal(t, []string{"second"}, done)

		for _, comes := range []error{nil, apierrors.NewServiceUnavailable("down")} {
			done = nil
			goOn := make(chan struct{})
			w.writer.Do("k", func(context.Context) error {
				done = append(done, "slow")
				<-goOn
				return comes
			})
			w.pass(time.Second)
			w.writer.Do("k", says("newer"))
			w.pass(time.Second)
			require.Equal(t, []string{"slow"}, done, "one after the other")
			close(goOn)
			w.pass(time.Minute)
			require.Equal(t, []string{"slow", "newer"}, done)
			require.True(t, w.writer.Idle())
		}
	})
}

// TestNothingIsWrittenAgainAtTheEnd: a write that is cut off since the process ends is not made again.
func TestNothingIsWrittenAgainAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := status.NewWriter(nil, nil, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		w.Do("k", func(context.Context) error {
			n++
			cancel()
			return errors.New("cut off")
		})
		w.Run(ctx, 1)
		time.Sleep(time.Minute) // of the jumping clock
		require.Equal(t, 1, n)
		require.True(t, w.Idle())
	})
}

// TestSpare: the condition that a pod is about to be evicted is removed only under two conditions. This scheduler set
// it on this very pod, and the pod does not terminate yet.
func TestSpare(t *testing.T) {
	ours := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, Message: "muster: makes room",
	}
	but := func(change func(*v1.PodCondition)) func(*v1.Pod) {
		return func(p *v1.Pod) { change(&p.Status.Conditions[0]) }
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		spared bool
	}{
		"ours":                 {func(*v1.Pod) {}, true},
		"another scheduler's":  {but(func(c *v1.PodCondition) { c.Message = "default-scheduler: makes room" }), false},
		"a node's":             {but(func(c *v1.PodCondition) { c.Reason = v1.PodReasonTerminationByKubelet }), false},
		"spared before":        {but(func(c *v1.PodCondition) { c.Status, c.Message = v1.ConditionFalse, "muster: spared" }), false},
		"another condition":    {but(func(c *v1.PodCondition) { c.Type = v1.PodReady }), false},
		"never said":           {func(p *v1.Pod) { p.Status.Conditions = nil }, false},
		"another of that name": {func(p *v1.Pod) { p.UID = "another" }, false},
		"it leaves": {func(p *v1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var was *v1.Pod
				is := w.pod("", "p", "n", func(p *v1.Pod) {
					p.Status.Conditions = []v1.PodCondition{ours}
					was = p.DeepCopy()
					c.change(p)
				})
				w.pass(time.Second)
				w.written()
				require.NoError(t, w.writer.Spare(t.Context(), was, "muster: "))
				after, err := w.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
				require.NoError(t, err)
				if !c.spared {
					require.Empty(t, w.written())
					require.Equal(t, is.Status, after.Status)
					return
				}
				require.Equal(t, "p/status", w.written())
				says := after.Status.Conditions[0]
				require.Equal(t, []any{v1.ConditionFalse, "muster: not evicted after all"}, []any{says.Status, says.Message})
				require.NoError(t, w.writer.Spare(t.Context(), was, "muster: "))
				require.Empty(t, w.written(), "once")
				gone := is.DeepCopy()
				gone.Name = "gone"
				require.True(t, apierrors.IsNotFound(w.writer.Spare(t.Context(), gone, "muster: ")))
			})
		})
	}
}
