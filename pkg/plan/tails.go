package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// Tails is what domains[i:] take together, for every i. Thousands of results do not fit into memory. It stores every block-th result, and
// recomputes one block at a time.
type Tails[T any] struct {
	domains []topology.ID
	extend  func(after T, d topology.ID) T // what d takes together with the domains after it
	stored  []T                            // stored[b] is domains[b*block:] together
	open    int                            // number of the block in results
	results []T                            // results[i] is domains[open*block+i:] together
}

// block is small enough to keep both parts small for 20,000 nodes in one domain.
const block = 64

// NewTails returns the tails of domains. none is what an empty list takes.
func NewTails[T any](domains []topology.ID, none T, extend func(after T, d topology.ID) T) *Tails[T] {
	t := &Tails[T]{domains: domains, extend: extend, open: -1}
	t.stored = make([]T, len(domains)/block+2)
	last := none
	for b := range slices.Backward(t.stored) {
		last = t.openBlock(b, last)
		t.stored[b] = last
	}
	return t
}

// openBlock computes the results of block b and returns its first one. tail is the result after the block.
func (t *Tails[T]) openBlock(b int, tail T) T {
	lo, hi := min(b*block, len(t.domains)), min((b+1)*block, len(t.domains))
	t.open, t.results = b, make([]T, hi-lo+1)
	t.results[hi-lo] = tail
	for i := hi - 1; i >= lo; i-- {
		tail = t.extend(tail, t.domains[i])
		t.results[i-lo] = tail
	}
	return tail
}

// From returns what domains[i:] take together; for i past the end, what an empty list takes.
func (t *Tails[T]) From(i int) T {
	i = min(i, len(t.domains))
	if b := i / block; b != t.open {
		t.openBlock(b, t.stored[b+1])
	}
	return t.results[i%block]
}
