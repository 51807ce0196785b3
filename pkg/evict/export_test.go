package evict

import (
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Prices returns the price function for costs of some nodes' victims, and whether prices are single numbers.
func Prices(nodes []Node) (price func(Cost) offer.Price, one bool) {
	p := newPrices(nodes)
	return func(c Cost) offer.Price { return p.add(nil, c) }, p.packed
}

// InBundle returns a victim that is evicted together with other pods, whose costs are elsewhere.
func InBundle(v Victim, elsewhere Cost) Victim {
	whole := v.cost().Add(elsewhere)
	v.bundle = &whole
	return v
}

// InSeveralNumbers makes all prices wide until back is called.
func InSeveralNumbers() (back func()) {
	before := mostBits
	mostBits = 0
	return func() { mostBits = before }
}

// AskFirst is the order in which ceilings are tried.
var AskFirst = testFirst

// WithoutExhausting disables the search over all sets of bundles until back is called.
func WithoutExhausting() (back func()) {
	before := mostExhausted
	mostExhausted = 0
	return func() { mostExhausted = before }
}
