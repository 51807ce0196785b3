package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// Tails knows what domains[i:] take together, for every i. Thousands of such answers
// would not fit in memory at once, so it keeps every block-th and makes those in
// between again when the first of them is asked for.
type Tails[T any] struct {
	domains []topology.ID
	extend  func(after T, d topology.ID) T // what d and those after it take together
	kept    []T                            // kept[b] is domains[b*block:] together
	open    int                            // the block whose answers are at hand
	at      []T                            // at[i] is domains[open*block+i:] together
}

// A block of 64 keeps both parts small for the 20,000 nodes that one domain may hold.
const block = 64

// NewTails starts from what no domain at all takes.
func NewTails[T any](domains []topology.ID, none T, extend func(after T, d topology.ID) T) *Tails[T] {
	t := &Tails[T]{domains: domains, extend: extend, open: -1}
	t.kept = make([]T, len(domains)/block+2)
	last := none
	for b := range slices.Backward(t.kept) {
		last = t.openBlock(b, last)
		t.kept[b] = last
	}
	return t
}

// openBlock returns what a block and those after it take, and remembers those in
// between.
func (t *Tails[T]) openBlock(b int, after T) T {
	lo, hi := min(b*block, len(t.domains)), min((b+1)*block, len(t.domains))
	t.open, t.at = b, make([]T, hi-lo+1)
	t.at[hi-lo] = after
	for i := hi - 1; i >= lo; i-- {
		after = t.extend(after, t.domains[i])
		t.at[i-lo] = after
	}
	return after
}

// From returns what domains[i:] take together; past the last it is what none takes.
func (t *Tails[T]) From(i int) T {
	i = min(i, len(t.domains))
	if b := i / block; b != t.open {
		t.openBlock(b, t.kept[b+1])
	}
	return t.at[i%block]
}
