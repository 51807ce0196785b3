package simulate

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// observer detects when no goroutine has work.
//
// The scheduler, its informers and the plugins are some hundred goroutines that pass work to one another through channels and
// queues. The Go runtime knows their states: if every goroutine except the caller waits, none has work. A goroutine that sleeps
// counts as waiting: the simulation controls the clock (see clock.go), and only a few tickers that tidy up use the real one.
//
// The check covers the whole process, so nothing else may run in it.
type observer struct {
	buffer  []byte
	samples []metrics.Sample
	// failed counts the requests that failed. Their senders may retry after a pause, and only the goroutine's stack distinguishes
	// that pause from other sleep.
	failed       *atomic.Int64
	failedBefore int64  // the value of failed when quiet last returned true from the stacks
	outside      uint64 // the number of goroutines in system calls at that time: they wait for signals
	outsideNow   uint64 // the number of goroutines in system calls at the last call of busy
	measured     bool   // the fields above have been set once
}

// spins is how often the simulation looks for the end of some work before it sleeps between two looks.
const spins = 20

// wait returns when no goroutine has work, or when ctx ends.
func (o *observer) wait(ctx context.Context) error {
	return o.until(ctx, func() bool { return !o.busy() && o.quiet() })
}

// quiet says whether every other goroutine waits.
//
// The runtime's counts are exact while one thread runs Go code and no garbage is collected. Otherwise they miss a goroutine that is
// being handed from one thread to another, and one that waits for the collector. After a failed request, and at the first call,
// only the stacks show what a goroutine waits for. Stacks cost much more.
func (o *observer) quiet() bool {
	failed := o.failed.Load()
	if o.measured && o.failedBefore == failed && o.outsideNow == o.outside {
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // waits for the end of a collection
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		for range 3 {
			if o.busy() || o.outsideNow != o.outside {
				return false
			}
			runtime.Gosched()
		}
		return !o.busy()
	}
	if !o.allWait() {
		return false
	}
	o.failedBefore, o.measured = failed, !o.busy()
	o.outside = o.outsideNow
	return true
}

// waitCheaply is wait at a hundredth of the cost. It may miss a goroutine that is being handed from one thread to another. So the
// caller must also call wait before it relies on the result.
func (o *observer) waitCheaply(ctx context.Context) error {
	return o.until(ctx, func() bool {
		for range 3 {
			if o.busy() {
				return false
			}
			runtime.Gosched()
		}
		return true
	})
}

// until calls done with growing pauses until it returns true, or ctx ends. The first pauses only let other goroutines run: a sleep takes
// much longer than the usual work.
func (o *observer) until(ctx context.Context, done func() bool) error {
	pause := 20 * time.Microsecond
	for tries := 0; ; tries++ {
		letOthersRun()
		if done() {
			return ctx.Err()
		}
		if tries < spins {
			continue
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}

// letOthersRun lets each runnable goroutine run, some of them several times.
func letOthersRun() {
	for range 8 {
		runtime.Gosched()
	}
}

// busy says whether another goroutine runs or could run, by the runtime's counts, which may miss one. It updates outsideNow.
func (o *observer) busy() bool {
	if o.samples == nil {
		for _, name := range []string{"running", "runnable", "not-in-go"} {
			o.samples = append(o.samples, metrics.Sample{Name: "/sched/goroutines/" + name + ":goroutines"})
		}
	}
	metrics.Read(o.samples)
	o.outsideNow = o.samples[2].Value.Uint64()
	return o.samples[0].Value.Uint64() > 1 || o.samples[1].Value.Uint64() > 0
}

// allWait says whether every other goroutine waits, by its stack. The runtime stops all goroutines to write the stacks.
func (o *observer) allWait() bool {
	if o.buffer == nil {
		o.buffer = make([]byte, 1<<20)
	}
	n := runtime.Stack(o.buffer, true)
	for n == len(o.buffer) {
		o.buffer = make([]byte, 2*len(o.buffer))
		n = runtime.Stack(o.buffer, true)
	}
	all := o.buffer[:n]
	_, rest, _ := bytes.Cut(all, []byte("\n\n")) // the first is this goroutine
	for len(rest) > 0 {
		var one []byte
		one, rest, _ = bytes.Cut(rest, []byte("\n\n"))
		if !waits(one) {
			return false
		}
	}
	return true
}

// waits says whether a goroutine waits, by the first line of its stack, such as "goroutine 7 [select, 2 minutes]:". States that it does
// not list count as working: "runnable", "sync.Mutex.Lock", "GC assist wait", …
func waits(stack []byte) bool {
	_, state, _ := bytes.Cut(stack, []byte(" ["))
	if i := bytes.IndexAny(state, ",]"); i >= 0 {
		state = state[:i]
	}
	switch string(state) {
	case "chan receive", "select", "sync.Cond.Wait", "sync.WaitGroup.Wait", "IO wait",
		"chan receive (nil chan)", "select (no cases)", "finalizer wait", "cleanup wait":
		return true
	case "sleep":
		// After a conflict the client retries, after a pause on the real clock.
		return !bytes.Contains(stack, []byte("k8s.io/client-go/util/retry."))
	case "syscall":
		// For a signal, or for samples while the process is profiled.
		return bytes.Contains(stack, []byte("os/signal.signal_recv")) || bytes.Contains(stack, []byte("pprof.profileWriter"))
	}
	return false
}
