package simulate

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
)

// gate releases goroutines one at a time, each only when nothing else moves, in the order of their names. The scheduler's own
// goroutine passes at once.
//
// The scheduler binds each pod, and the plugin writes each status, in a goroutine of its own. Several of them may write to one pod
// in one turn, and the last write wins. A starting scheduler lists all kinds at once, and its queue depends on whether a gang or
// its members arrive first. Without the gate the order would be random.
type gate struct {
	mu        sync.Mutex
	scheduler string // the scheduler's goroutine
	waiting   []*waiter
}

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

// pass returns when the caller may go on, or when ctx ends. Callers with equal names must be interchangeable.
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

// releaseNext releases the first waiter, and reports whether there was one.
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

// goroutineID names the calling goroutine.
func goroutineID() string {
	var buffer [64]byte
	head := buffer[:runtime.Stack(buffer[:], false)]
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	return string(head)
}
