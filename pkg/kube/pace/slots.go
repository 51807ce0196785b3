package pace

import (
	"cmp"
	"container/heap"
	"context"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"
)

// slots limits the bindings in progress. Waiting bindings get a slot by priority, then in order of arrival. Members of a gang pass Permit
// together, so that gangs start one after another.
type slots struct {
	mu       sync.Mutex
	free     int
	waiting  waiters
	arrivals int64
}

// turn is the position of a binding among the waiting ones.
type turn struct {
	priority int32
	arrival  int64
}

func (t turn) Clone() fwk.StateData { return t }

// waiter is a binding that waits for a slot.
type waiter struct {
	turn
	ready chan struct{} // closed when it gets a slot
	index int           // in the heap; -1 if it is not in the heap any more
}

// turn returns the turn of a new binding of a pod with this priority.
func (s *slots) turn(priority int32) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	return turn{priority, s.arrivals}
}

// acquire waits for a slot and takes it. If the context ends before, it returns the context's error.
func (s *slots) acquire(ctx context.Context, t turn) error {
	s.mu.Lock()
	if s.free > 0 && len(s.waiting) == 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	w := &waiter{turn: t, ready: make(chan struct{})}
	heap.Push(&s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index < 0 { // it got the slot just now
		s.free++
		s.next()
	} else {
		heap.Remove(&s.waiting, w.index)
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

// next gives a free slot, if there is one, to the first waiter. s.mu is locked.
func (s *slots) next() {
	if s.free > 0 && len(s.waiting) > 0 {
		s.free--
		close(heap.Pop(&s.waiting).(*waiter).ready)
	}
}

// waiters is a heap of waiters, the first in turn at the top.
type waiters []*waiter

func (l waiters) Len() int { return len(l) }

func (l waiters) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[j].priority, l[i].priority), cmp.Compare(l[i].arrival, l[j].arrival)) < 0
}

func (l waiters) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

func (l *waiters) Push(w any) {
	w.(*waiter).index = len(*l)
	*l = append(*l, w.(*waiter))
}

func (l *waiters) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	(*l)[last] = nil
	*l, w.index = (*l)[:last], -1
	return w
}
