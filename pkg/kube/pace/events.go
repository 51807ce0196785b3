package pace

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// EventOptions say when events about bindings are sent. Zero values mean the defaults.
type EventOptions struct {
	// Wait is how long an event is delayed at most while bindings are in progress; 0 means 5 s.
	Wait time.Duration
	// Every is the time between sending two delayed events; 0 means 2 ms.
	Every time.Duration
	// Keep is how many events may be delayed; a further one is sent at once. 0 means 20,000.
	Keep int
}

// recorder delays events with the reason Scheduled (one for each binding) while bindings are in progress. It sends other events at once,
// except repeated failures.
type recorder struct {
	events.EventRecorderLogger
	*Lane
}

// The reasons of events that are delayed (scheduled), and of events that are not repeated (failed).
const (
	scheduled = "Scheduled"
	failed    = "FailedScheduling"
)

func (r *recorder) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	if pod, ok := about.(*v1.Pod); ok && reason == failed && r.repeats.suppress(pod, time.Now()) {
		return
	}
	send := func() { r.EventRecorderLogger.Eventf(about, related, kind, reason, action, note, args...) }
	if reason != scheduled || !r.events.delay(send) {
		send()
	}
}

func (r *recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return &recorder{EventRecorderLogger: r.EventRecorderLogger.WithLogger(logger), Lane: r.Lane}
}

// repeats remembers the pods with a recent failure event, so that it is not repeated. covers returns for which pods; nil is none.
type repeats struct {
	covers func(*v1.Pod) bool

	mu       sync.Mutex
	reported map[types.UID]time.Time
	swept    time.Time // when old entries were last deleted
}

// repeatAfter is how long a failure event is not repeated.
const repeatAfter = time.Minute

// suppress returns whether a failure event of a pod repeats one of the last minute. If not, it records the event.
func (q *repeats) suppress(pod *v1.Pod, now time.Time) bool {
	if q.covers == nil || !q.covers(pod) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if reportedAt, ok := q.reported[pod.UID]; ok && now.Before(reportedAt.Add(repeatAfter)) {
		return true
	}
	if q.reported == nil {
		q.reported = map[types.UID]time.Time{}
	}
	if now.Sub(q.swept) >= repeatAfter {
		maps.DeleteFunc(q.reported, func(_ types.UID, reportedAt time.Time) bool { return !now.Before(reportedAt.Add(repeatAfter)) })
		q.swept = now
	}
	q.reported[pod.UID] = now
	return false
}

// delayedEvents are the delayed events, oldest first.
type delayedEvents struct {
	EventOptions

	mu      sync.Mutex
	binding int // bindings in progress
	delayed []delayedEvent
	ended   bool          // run has ended
	changed chan struct{} // an event was added, or the last binding ended
}

type delayedEvent struct {
	send  func()
	until time.Time
}

func newDelayedEvents(o EventOptions) *delayedEvents {
	o.Wait = cmp.Or(o.Wait, 5*time.Second)
	o.Every = cmp.Or(o.Every, 2*time.Millisecond)
	o.Keep = cmp.Or(o.Keep, 20_000)
	return &delayedEvents{EventOptions: o, changed: make(chan struct{}, 1)}
}

func (l *delayedEvents) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binding++
}

func (l *delayedEvents) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.binding--; l.binding == 0 {
		l.wake()
	}
}

// wake makes run check the delayed events again. l.mu is locked.
func (l *delayedEvents) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// delay returns whether an event is delayed: if bindings are in progress or events are delayed already, unless there are too many. It then
// keeps send for run.
func (l *delayedEvents) delay(send func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.binding == 0 && len(l.delayed) == 0 || len(l.delayed) >= l.Keep {
		return false
	}
	l.delayed = append(l.delayed, delayedEvent{send, time.Now().Add(l.Wait)})
	l.wake()
	return true
}

// next removes and returns the first event if it is due. Otherwise it returns how long it takes until the first event is due; 0 if there is
// none.
func (l *delayedEvents) next(now time.Time) (send func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.delayed) == 0 {
		return nil, 0
	}
	first := l.delayed[0]
	if l.binding > 0 && now.Before(first.until) {
		return nil, first.until.Sub(now)
	}
	l.delayed[0] = delayedEvent{}
	if l.delayed = l.delayed[1:]; len(l.delayed) == 0 {
		l.delayed = nil
	}
	return first.send, 0
}

// run sends delayed events when they are due, until the context ends. Then it sends all others at once.
func (l *delayedEvents) run(ctx context.Context) {
	for ctx.Err() == nil {
		send, wait := l.next(time.Now())
		if send != nil {
			send()
			sleep(ctx, l.Every)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-l.changed:
		case <-due:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.delayed {
		k.send()
	}
	l.delayed, l.ended = nil, true
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
