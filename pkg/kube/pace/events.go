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

// EventOptions say when events of bindings are sent. Zero values mean the defaults.
type EventOptions struct {
	// Wait is how long an event waits at the most for bindings to end; 0 means 5 s.
	Wait time.Duration
	// Every is the time between two events that were kept; 0 means 2 ms.
	Every time.Duration
	// Keep is how many are kept; a further one is sent at once. 0 means 20,000.
	Keep int
}

// recorder keeps the events that say that a pod was bound, one of which comes with every
// binding, until there is time for them. All others go out at once.
type recorder struct {
	events.EventRecorderLogger
	*Lane
}

// The reasons of the scheduler's events: scheduled are kept, failures are not repeated.
const (
	scheduled = "Scheduled"
	failed    = "FailedScheduling"
)

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	if pod, ok := about.(*v1.Pod); ok && reason == failed && r.quiet.heard(pod, time.Now()) {
		return
	}
	send := func() { r.EventRecorderLogger.Eventf(about, related, kind, reason, action, note, args...) }
	if reason != scheduled || !r.late.keep(send) {
		send()
	}
}

// WithLogger implements events.EventRecorderLogger.
func (r *recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return &recorder{EventRecorderLogger: r.EventRecorderLogger.WithLogger(logger), Lane: r.Lane}
}

// quiet remembers of which pods was said that they cannot be scheduled.
type quiet struct {
	of func(*v1.Pod) bool

	mu    sync.Mutex
	said  map[types.UID]time.Time
	swept time.Time // when what is long past was last forgotten
}

// sayAgain is how long a failure is not said again.
const sayAgain = time.Minute

// heard says whether a failure need not be said, and notes that it is, if not.
func (q *quiet) heard(pod *v1.Pod, now time.Time) bool {
	if q.of == nil || !q.of(pod) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, ok := q.said[pod.UID]; ok && now.Before(at.Add(sayAgain)) {
		return true
	}
	if q.said == nil {
		q.said = map[types.UID]time.Time{}
	}
	if now.Sub(q.swept) >= sayAgain {
		maps.DeleteFunc(q.said, func(_ types.UID, at time.Time) bool { return !now.Before(at.Add(sayAgain)) })
		q.swept = now
	}
	q.said[pod.UID] = now
	return false
}

// late are the events that wait, oldest first.
type late struct {
	EventOptions

	mu      sync.Mutex
	binding int // bindings under way
	kept    []kept
	over    bool          // nobody sends what is kept any more
	changed chan struct{} // something was kept, or the last binding has ended
}

type kept struct {
	send  func()
	until time.Time
}

func newLate(o EventOptions) *late {
	o.Wait = cmp.Or(o.Wait, 5*time.Second)
	o.Every = cmp.Or(o.Every, 2*time.Millisecond)
	o.Keep = cmp.Or(o.Keep, 20_000)
	return &late{EventOptions: o, changed: make(chan struct{}, 1)}
}

func (l *late) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binding++
}

func (l *late) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.binding--; l.binding == 0 {
		l.wake()
	}
}

// wake has run look again. l.mu is held.
func (l *late) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// keep keeps an event if others wait or bindings are under way, and says whether it did.
func (l *late) keep(send func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.binding == 0 && len(l.kept) == 0 || len(l.kept) >= l.Keep {
		return false
	}
	l.kept = append(l.kept, kept{send, time.Now().Add(l.Wait)})
	l.wake()
	return true
}

// next takes the first event if its time has come, or says how long until then; 0 if it
// is not known.
func (l *late) next(now time.Time) (send func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return nil, 0
	}
	first := l.kept[0]
	if l.binding > 0 && now.Before(first.until) {
		return nil, first.until.Sub(now)
	}
	l.kept[0] = kept{}
	if l.kept = l.kept[1:]; len(l.kept) == 0 {
		l.kept = nil
	}
	return first.send, 0
}

// run sends what is kept. When the context ends it hands the rest over at once; whether
// there is time to write it is not known here.
func (l *late) run(ctx context.Context) {
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
	for _, k := range l.kept {
		k.send()
	}
	l.kept, l.over = nil, true
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
