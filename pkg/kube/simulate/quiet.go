package simulate

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// observer finds out when nothing moves any more.
//
// The scheduler, its informers and the plugins are some hundred goroutines that hand work to one another through channels and queues. What they
// do to the cluster, and what the cluster tells them, is counted in steps. In between the Go runtime counts the goroutines that run or could
// run: nothing moves when there is none but the one that asks, several times in a row, and no step was made meanwhile.
//
// Goroutines that wait for time do not count: time in a simulation stands still (see clock.go). The exceptions are clients that ask again
// after a pause (see retries) and a few tickers of the scheduler that only tidy up.
//
// This holds for the whole process, so nothing else may be going on in it.
type observer struct {
	steps   *atomic.Int64
	retries *retries
	samples []metrics.Sample
	// outside counts goroutines that have been in a system call for long: they wait for signals. seen is the last count, since when.
	outside, seen uint64
	since         time.Time
}

const (
	// looks is how often in a row nothing must run.
	looks = 3
	// longCall is the time after which a system call is one that waits for signals.
	longCall = 20 * time.Millisecond
)

// wait returns once nothing moves, or when ctx ends.
func (o *observer) wait(ctx context.Context) error {
	pause := 20 * time.Microsecond
	for {
		for range 8 {
			runtime.Gosched()
		}
		if o.quiet() {
			return ctx.Err()
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}

// quiet says whether nothing moves.
func (o *observer) quiet() bool {
	before := o.steps.Load()
	for range looks {
		if o.busy() {
			return false
		}
		runtime.Gosched()
	}
	return o.steps.Load() == before && !o.retries.pending()
}

// busy says whether other goroutines run or could, as far as the runtime knows without stopping the world.
func (o *observer) busy() bool {
	if o.samples == nil {
		o.samples = []metrics.Sample{
			{Name: "/sched/goroutines/running:goroutines"},
			{Name: "/sched/goroutines/runnable:goroutines"},
			{Name: "/sched/goroutines/not-in-go:goroutines"},
		}
	}
	metrics.Read(o.samples)
	if o.samples[0].Value.Uint64() > 1 || o.samples[1].Value.Uint64() > 0 {
		return true
	}
	outside := o.samples[2].Value.Uint64()
	if outside != o.seen {
		o.seen, o.since = outside, time.Now()
	}
	if outside > o.outside && time.Since(o.since) < longCall {
		return true
	}
	o.outside = outside
	return false
}

// retries knows until when, by the clock on the wall, a client may sleep before it repeats a request that was refused. client-go's
// retry.DefaultBackoff, which the scheduler uses, repeats it after 10, 50 and 250 ms and then no more; retry.DefaultRetry each time after 10 ms.
type retries struct {
	mu      sync.Mutex
	refused map[string]int // how often in a row, by request
	until   time.Time
}

// answered notes how a request was answered.
func (r *retries) answered(request string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !apierrors.IsConflict(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) {
		delete(r.refused, request)
		return
	}
	pause := 10 * time.Millisecond
	for range r.refused[request] {
		pause *= 5
	}
	if pause > 250*time.Millisecond {
		delete(r.refused, request)
		return
	}
	if r.refused == nil {
		r.refused = map[string]int{}
	}
	r.refused[request]++
	if until := time.Now().Add(pause + pause/10 + 2*time.Millisecond); until.After(r.until) { // the pauses are up to a tenth longer
		r.until = until
	}
}

// pending says whether a request may be repeated yet.
func (r *retries) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}
