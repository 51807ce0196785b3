package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// tails knows the curve of domains[i:] together, for every i. Thousands of them would
// not fit in memory at once, so it keeps every block-th and makes those in between
// again when the first of them is asked for.
type tails struct {
	search  *Search
	domains []topology.ID
	most    offer.Slots
	kept    []offer.Curve // kept[b] is domains[b*block:] together
	open    int           // the block whose curves are at hand
	at      []offer.Curve // at[i] is domains[open*block+i:] together
}

// A block of 64 keeps both parts small for the 20,000 nodes that one domain may hold.
const block = 64

func (s *Search) tailsOf(domains []topology.ID, most offer.Slots) *tails {
	t := &tails{search: s, domains: domains, most: most, open: -1}
	t.kept = make([]offer.Curve, len(domains)/block+2)
	last := offer.Free(0, s.charged+len(s.columns))
	for b := range slices.Backward(t.kept) {
		last = t.extend(b, last)
		t.kept[b] = last
	}
	return t
}

// extend returns the curve of a block and what follows it, and remembers those in
// between.
func (t *tails) extend(b int, after offer.Curve) offer.Curve {
	lo, hi := min(b*block, len(t.domains)), min((b+1)*block, len(t.domains))
	t.open, t.at = b, make([]offer.Curve, hi-lo+1)
	t.at[hi-lo] = after
	for i := hi - 1; i >= lo; i-- {
		after = offer.Merge(after, t.search.at(t.domains[i]), t.most)
		t.at[i-lo] = after
	}
	return after
}

// from returns the curve of domains[i:] together.
func (t *tails) from(i int) offer.Curve {
	if b := i / block; b != t.open {
		t.extend(b, t.kept[b+1])
	}
	return t.at[i%block]
}
