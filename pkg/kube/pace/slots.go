package pace

import (
	"cmp"
	"container/heap"
	"context"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"
)

// slots are how many bindings may be under way. Of those that wait for one the most important
// is next, then the first to come: members leave the barrier gang by gang, so gangs start one
// after the other, and a pod that matters more than they do waits for none of them.
type slots struct {
	mu    sync.Mutex
	free  int
	line  line
	asked int64
}

// turn is when somebody's turn is among those who wait.
type turn struct {
	priority int32
	came     int64
}

// Clone implements fwk.StateData.
func (t turn) Clone() fwk.StateData { return t }

// waiter is somebody who waits for a slot.
type waiter struct {
	turn
	ready chan struct{} // closed when it has one
	at    int           // in the line; -1 once it has left
}

// turn is that of somebody who comes now.
func (s *slots) turn(priority int32) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return turn{priority, s.asked}
}

// acquire takes a slot; the error is that of a context that ends before there is one.
func (s *slots) acquire(ctx context.Context, t turn) error {
	s.mu.Lock()
	if s.free > 0 && len(s.line) == 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	w := &waiter{turn: t, ready: make(chan struct{})}
	heap.Push(&s.line, w)
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.at < 0 { // it came just now
		s.free++
		s.next()
	} else {
		heap.Remove(&s.line, w.at)
	}
	return ctx.Err()
}

// release gives a slot back.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.next()
}

// next gives a free slot to who is first. s.mu is held.
func (s *slots) next() {
	if s.free > 0 && len(s.line) > 0 {
		s.free--
		close(heap.Pop(&s.line).(*waiter).ready)
	}
}

// line is a heap of those who wait.
type line []*waiter

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[j].priority, l[i].priority), cmp.Compare(l[i].came, l[j].came)) < 0
}

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

func (l *line) Push(w any) {
	w.(*waiter).at = len(*l)
	*l = append(*l, w.(*waiter))
}

func (l *line) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	(*l)[last] = nil
	*l, w.at = (*l)[:last], -1
	return w
}
