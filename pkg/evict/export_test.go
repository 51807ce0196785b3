package evict

import (
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Prices returns how costs are priced where some nodes' victims may leave, and whether that is in one number.
func Prices(nodes []Node) (price func(Cost) offer.Price, one bool) {
	p := newPrices(nodes)
	return func(c Cost) offer.Price { return p.add(nil, c) }, p.packed
}

// InSeveralNumbers has no price fit into one number, until back is called.
func InSeveralNumbers() (back func()) {
	before := mostBits
	mostBits = 0
	return func() { mostBits = before }
}

// AskFirst is the order in which ceilings are tried.
var AskFirst = askFirst

// WithoutExhausting has no search try all sets of bundles, until back is called.
func WithoutExhausting() (back func()) {
	before := mostExhausted
	mostExhausted = 0
	return func() { mostExhausted = before }
}
