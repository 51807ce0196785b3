package simulate

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
)

// gate lets goroutines go on one at a time, each only when nothing else moves, in the
// order of their names. The scheduler's own passes at once.
//
// The scheduler binds each pod, and the plugin writes what users read, in goroutines of
// their own. Several of them may speak of one pod in one turn: who comes last has the last
// word, and left to themselves they come in any order. A scheduler that begins lists all
// kinds of objects at once: whether it hears of a gang or of its members first makes a
// difference to its queue.
type gate struct {
	mu        sync.Mutex
	scheduler string // its goroutine
	waiting   []*waiter
}

type waiter struct {
	name string
	open chan struct{}
}

// own says which goroutine is the scheduler's.
func (g *gate) own(goroutine string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scheduler = goroutine
}

// isScheduler says whether the calling goroutine is the scheduler's.
func (g *gate) isScheduler() bool {
	me := goroutine()
	g.mu.Lock()
	defer g.mu.Unlock()
	return me == g.scheduler
}

// pass returns when the caller may go on, or when ctx ends. The name says what it is about
// to do, so that those of equal names may go in any order.
func (g *gate) pass(ctx context.Context, name string) error {
	if g.isScheduler() {
		return ctx.Err()
	}
	w := &waiter{name, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.open:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting = slices.DeleteFunc(g.waiting, func(o *waiter) bool { return o == w })
	}
	return ctx.Err()
}

// next lets the first one go on, and says whether anyone waited.
func (g *gate) next() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return false
	}
	first := slices.MinFunc(g.waiting, func(a, b *waiter) int { return cmp.Compare(a.name, b.name) })
	g.waiting = slices.DeleteFunc(g.waiting, func(w *waiter) bool { return w == first })
	close(first.open)
	return true
}

// goroutine names the calling goroutine.
func goroutine() string {
	var buffer [64]byte
	head := buffer[:runtime.Stack(buffer[:], false)]
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	return string(head)
}
