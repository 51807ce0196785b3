package pace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// world is a profile with a fixed binding time. It records its calls with the time since the start.
type world struct {
	framework.Framework
	took  time.Duration
	ahead time.Duration // how long what comes before the binding takes; 0 is as long as that
	began time.Time

	mu   sync.Mutex
	said []string
	busy int
	most int
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf("%v ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

func (w *world) RunPreBindPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	time.Sleep(cmp.Or(w.ahead, w.took))
	w.say("claims of %s", pod.Name)
	return nil
}

func (w *world) RunPreBindPreFlights(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

func (w *world) RunBindPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	w.mu.Lock()
	w.busy++
	w.most = max(w.most, w.busy)
	w.mu.Unlock()
	time.Sleep(w.took) // of the bubble's clock
	w.mu.Lock()
	w.busy--
	w.mu.Unlock()
	w.say("bound %s", pod.Name)
	return nil
}

func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.say("%s: %s", reason, fmt.Sprintf(note, args...))
}

func (w *world) WithLogger(klog.Logger) events.EventRecorderLogger { return w }

// after advances the bubble's clock and returns all events and bindings until then.
func (w *world) after(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

// paced is w's profile with n bindings at a time.
func paced(ctx context.Context, w *world, n int, o EventOptions, bare bool) *profile {
	l := New(Options{Bindings: n, Events: o, SuppressRepeats: func(p *v1.Pod) bool { return p.Name != "ordinary" }})
	go l.events.run(ctx)
	return &profile{Framework: w, lane: l, foreignBinder: bare, recorder: &recorder{w, l}}
}

// bind binds pods at once and says so, as the scheduler does.
func bind(ctx context.Context, p *profile, names ...string) {
	for _, name := range names {
		go func() {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if s := p.RunBindPlugins(ctx, framework.NewCycleState(), pod, "node"); s.IsSuccess() {
				p.EventRecorder().WithLogger(klog.Background()).Eventf(pod, nil, "Normal", "Scheduled", "Binding", "%s", name)
			}
		}()
		synctest.Wait()
	}
}

// bindWithClaims binds pods that have claims, as the scheduler does.
func bindWithClaims(ctx context.Context, p *profile, names ...string) {
	for _, name := range names {
		go func() {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}}
			state := framework.NewCycleState()
			if s := p.RunPreBindPlugins(ctx, state, pod, "node"); s.IsSuccess() {
				p.RunBindPlugins(ctx, state, pod, "node")
			}
		}()
		synctest.Wait()
	}
}

// Writing claims takes slots as bindings do. A pod whose claims are written is bound before further claims are
// written, except for one that gets the slot at that moment.
func TestClaimsKeepInLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{took: time.Second, ahead: time.Second - time.Millisecond, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		bindWithClaims(ctx, p, "a", "b", "c")
		w.after(500 * time.Millisecond)
		require.True(t, p.lane.Busy(), "events wait, and what is less urgent")
		require.Equal(t, []string{
			"999ms claims of a", "1.998s claims of b", "2.998s bound a", "3.998s bound b", "4.997s claims of c", "5.997s bound c",
		}, w.after(10*time.Second))
		requireIdle(t, p.lane, 1)
	})
}

// TestPodThatWaitsForVolumeHoldsNoSlot: a driver that makes devices ready may take minutes.
func TestPodThatWaitsForVolumeHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{took: time.Second, ahead: time.Minute, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		bindWithClaims(ctx, p, "slow")
		bind(ctx, p, "b")
		require.Equal(t, []string{"2s bound b", "2s Scheduled: b"}, w.after(30*time.Second))
		requireIdle(t, p.lane, 1)
		require.Equal(t, []string{"1m0s claims of slow", "1m1s bound slow"}, w.after(time.Minute)[2:])
		requireIdle(t, p.lane, 1)
	})
}

// A pod whose context ends while it waits for a slot has none afterwards.
func TestClaimsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: 900 * time.Millisecond, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		bindWithClaims(ctx, p, "a", "b")
		cancel()
		require.Equal(t, []string{"900ms claims of a", "1.8s bound a"}, w.after(10*time.Second))
		requireIdle(t, p.lane, 1)
	})
}

// requireIdle checks that no binding is in progress or waits, and that n slots are free.
func requireIdle(t *testing.T, l *Lane, n int) {
	t.Helper()
	require.False(t, l.Busy())
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	require.Equal(t, n, l.slots.free)
	require.Empty(t, l.slots.waiting)
	require.Zero(t, l.queue.length)
}

// A critical pod waits for the bindings in progress, and for no waiting pod.
func TestHigherPriorityBindsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		come := func(name string, priority int32) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Priority: &priority}}
			go p.RunBindPlugins(ctx, framework.NewCycleState(), pod, "node")
			synctest.Wait()
		}
		come("a", 0)
		come("b", 0)
		come("c", 5)
		come("d", 0)
		come("critical", 2000001000)
		come("e", 5)
		require.Equal(t, []string{"1s bound a", "2s bound critical", "3s bound c", "4s bound e", "5s bound b", "6s bound d"},
			w.after(10*time.Second))
	})
}

// TestCancelledBindingHoldsNoSlot: neither in the line nor just as its turn comes.
func TestCancelledBindingHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{free: 1}
		require.NoError(t, s.acquire(t.Context(), s.turn(0)))
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp, last error
		go func() { gaveUp = s.acquire(ctx, s.turn(9)) }()
		go func() { last = s.acquire(t.Context(), s.turn(0)); s.release() }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gaveUp, context.Canceled)
		s.release()
		synctest.Wait()
		require.NoError(t, last)
		require.Equal(t, 1, s.free)
		require.Empty(t, s.waiting)

		require.NoError(t, s.acquire(t.Context(), s.turn(0)))
		ctx, cancel = context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.acquire(ctx, s.turn(0)) }()
		synctest.Wait()
		s.release() // it may choose
		cancel()
		if <-done == nil {
			s.release()
		}
		require.Equal(t, 1, s.free)
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 2, EventOptions{Wait: time.Minute, Every: time.Second}, false)
		bind(ctx, p, "a", "b", "c", "d")
		require.Empty(t, w.after(500*time.Millisecond))
		require.True(t, p.lane.Busy())
		p.EventRecorder().Eventf(nil, nil, "Warning", "FailedScheduling", "", "no room")
		require.Equal(t, []string{
			"500ms FailedScheduling: no", "1s bound", "1s bound", "2s bound", "2s bound",
			"2s Scheduled:", "3s Scheduled:", "4s Scheduled:", "5s Scheduled:",
		}, withoutPods(w.after(10*time.Second)))
		require.Equal(t, 2, w.most)
		require.False(t, p.lane.Busy())
		cancel()
		synctest.Wait()
	})
}

// withoutPods removes the names, because the order of simultaneous endings is arbitrary.
func withoutPods(said []string) (out []string) {
	for _, line := range said {
		out = append(out, line[:strings.LastIndex(line, " ")])
	}
	return out
}

func TestEventsWaitNoLongerThan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{Wait: 3300 * time.Millisecond, Every: time.Millisecond}, false)
		bind(ctx, p, "a", "b", "c", "d", "e", "f", "g", "h")
		require.Equal(t, []string{"1s bound a", "2s bound b", "3s bound c", "4s bound d", "4.3s Scheduled: a"},
			w.after(4500*time.Millisecond))
		require.Len(t, w.after(time.Minute), 16)
		cancel()
		synctest.Wait()
	})
}

func TestEventsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{Keep: 2}, false)
		bind(t.Context(), p, "a", "b", "c", "d", "e")
		require.Contains(t, w.after(3500*time.Millisecond), "3s Scheduled: c", "two are kept, a third goes out at once")
		cancel()
		require.Len(t, w.after(0), 6, "what is kept goes out at the end")
		require.Len(t, w.after(2*time.Second), 10, "and what comes later, at once")
	})
}

func TestForeignBindersAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		bind(ctx, paced(ctx, w, 1, EventOptions{}, true), "a", "b", "c")
		w.after(2 * time.Second)
		require.Equal(t, 3, w.most)
		cancel()
		synctest.Wait()
	})
}

func TestBindingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		bind(ctx, p, "a", "b")
		cancel()
		require.Equal(t, []string{"1s bound a"},
			slices.DeleteFunc(w.after(2*time.Second), func(s string) bool { return s == "1s Scheduled: a" }))
	})
}

func TestFailuresAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{began: time.Now()}
		p := paced(ctx, w, 1, EventOptions{}, false)
		fail := func(name string) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
			p.EventRecorder().Eventf(pod, nil, "Warning", "FailedScheduling", "Scheduling", "%s", name)
		}
		for range 7 {
			fail("member")
			fail("ordinary")
			w.after(20 * time.Second)
		}
		cancel()
		require.Equal(t, map[string]int{"FailedScheduling: member": 3, "FailedScheduling: ordinary": 7}, count(w.after(0)))
	})
}

// count counts what was said, whenever it was.
func count(said []string) map[string]int {
	out := map[string]int{}
	for _, line := range said {
		_, what, _ := strings.Cut(line, " ")
		out[what]++
	}
	return out
}

// TestTheSchedulerIsNotFarAhead: with 2 slots it goes on while fewer than 128 bind or wait.
func TestTheSchedulerIsNotFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{took: time.Second, began: time.Now()}
		p := paced(ctx, w, 2, EventOptions{}, false)
		next := func() { p.lane.queue.wait(ctx); w.say("next") }
		next()
		for range 2 * queueFactor {
			bind(ctx, p, "a")
		}
		go next()
		go next()
		require.Equal(t, []string{"0s next"}, w.after(500*time.Millisecond))
		said := w.after(time.Second)
		require.Equal(t, 2, strings.Count(strings.Join(said, "\n"), "1s next"), said)
		w.after(time.Hour)
		for range 2 * queueFactor {
			bind(ctx, p, "b")
		}
		go next()
		cancel() // waiting bindings need not wait for the end
		said = w.after(0)
		require.Contains(t, said[len(said)-1], "next")
		w.after(time.Hour)
	})
}
