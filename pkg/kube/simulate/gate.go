package simulate

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
)

// gate blocks goroutines in pass, and releases one at a time in the order of their names. The simulation releases the next one only
// when every goroutine waits. The scheduler's own goroutine is never blocked.
//
// The gate makes the order of requests the same in each run. Each binding and each status is written by a goroutine of its own, and
// the last write to a pod wins. A starting scheduler lists all kinds at once, and its queue depends on the order of the answers.
type gate struct {
	mu        sync.Mutex
	scheduler string // the scheduler's goroutine
	waiting   []*waiter
}

// waiter is a goroutine that is blocked in pass.
type waiter struct {
	name     string
	released chan struct{}
}

// setScheduler records which goroutine is the scheduler's.
func (g *gate) setScheduler(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scheduler = id
}

// isScheduler reports whether the calling goroutine is the scheduler's.
func (g *gate) isScheduler() bool {
	caller := goroutineID()
	g.mu.Lock()
	defer g.mu.Unlock()
	return caller == g.scheduler
}

// pass blocks until the caller is released or ctx ends, and returns the error of ctx. Callers with equal names must be interchangeable.
func (g *gate) pass(ctx context.Context, name string) error {
	if g.isScheduler() {
		return ctx.Err()
	}
	w := &waiter{name, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.released:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting = slices.DeleteFunc(g.waiting, func(o *waiter) bool { return o == w })
	}
	return ctx.Err()
}

// releaseNext releases the waiter with the first name. It returns false if there is none.
func (g *gate) releaseNext() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return false
	}
	first := slices.MinFunc(g.waiting, func(a, b *waiter) int { return cmp.Compare(a.name, b.name) })
	g.waiting = slices.DeleteFunc(g.waiting, func(w *waiter) bool { return w == first })
	close(first.released)
	return true
}

// goroutineID returns the number of the calling goroutine, from its stack.
func goroutineID() string {
	var buffer [64]byte
	head := buffer[:runtime.Stack(buffer[:], false)]
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	return string(head)
}
