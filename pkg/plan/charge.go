package plan

import (
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file says what preferences add to a price, and how little of it the search must look at
// where all of them charge by domain.

// addColumns notes the preferences that decide, and how a price has room for them.
func (s *Search) addColumns() {
	s.columns, s.perDomain = nil, true
	for _, p := range inOrder(s.Prefer) {
		if p.Layer > s.Must { // members share the domain of the other layers
			s.columns = append(s.columns, p)
			s.perDomain = s.perDomain && p.Charge == PerDomain
		}
	}
	most := uint(max(s.limit(), 1)) // there are no more domains touched than members
	s.placeColumns(func(Preference) int { return bits.Len(most) })
	if s.perDomain && s.width > s.fewestNumbers() {
		domains := s.domainsByLayer() // nor than there are
		s.placeColumns(func(p Preference) int { return bits.Len(min(most, domains[p.Layer])) })
	}
}

// fewestNumbers is how many a price has if all digits fit into one: that of what the world charges, if it is
// known how large that is.
func (s *Search) fewestNumbers() int {
	if s.charged == 1 && s.bits > 0 {
		return 1
	}
	return s.charged + 1
}

func (s *Search) domainsByLayer() []uint {
	n := make([]uint, s.tree.Depth()+1)
	for d := range s.tree.Len() {
		n[s.tree.Layer(topology.ID(d))]++
	}
	return n
}

// digit is where a price counts what a column charges: from a bit of a number on, as digits
// share a number, so that adding and comparing numbers is adding and comparing all of
// them, from the left.
type digit struct{ number, shift int }

// wholeNumber is the bits of a column that has a number for itself.
const wholeNumber = 62

// placeColumns gives each column a digit of so many bits, if all charge by domain; below what the world charges,
// if all of it fits into one number.
func (s *Search) placeColumns(size func(Preference) int) {
	s.digits, s.width, s.lift = make([]digit, len(s.columns)), s.charged, 0
	used := 0 // of the number that was begun last
	for i := len(s.columns); i > 0; {
		used = 0
		for first := true; i > 0; first = false {
			bits := wholeNumber
			if s.perDomain {
				bits = size(s.columns[i-1])
			}
			if !first && used+bits > wholeNumber {
				break
			}
			i--
			s.digits[i] = digit{s.width, used}
			used += bits
		}
		s.width++
	}
	for i := range s.digits { // numbers were counted from the right
		s.digits[i].number = s.charged + s.width - 1 - s.digits[i].number
	}
	if s.perDomain && s.width == s.charged+1 && s.fewestNumbers() == 1 && used+s.bits <= wholeNumber {
		s.width, s.lift = 1, used
		for i := range s.digits {
			s.digits[i].number = 0
		}
	}
}

// chargeFor adds what the preferences for its layer cost to the curve of a domain.
func (s *Search) chargeFor(d topology.ID, c offer.Curve) offer.Curve {
	for i, p := range s.columns {
		bound := s.boundIn(d)
		switch number, by := s.weight(i); {
		case p.Layer != s.tree.Layer(d):
		case p.Charge != PerDomain:
			c = c.Charge(s.steps[p.Layer], number, func(n offer.Slots) int64 { return by * p.Charge.of(bound, n) })
		case bound == 0:
			c = c.Raise(number, by)
		}
	}
	return c
}

// weight says which number of a price a domain of a column adds to, and how much.
func (s *Search) weight(column int) (number int, by int64) {
	d := s.digits[column]
	return d.number, 1 << d.shift
}

// chargedFor is what preferences by domain charge for a domain with members, as one number.
func (s *Search) chargedFor(d topology.ID) (n int64) {
	for i, p := range s.columns {
		if _, by := s.weight(i); p.Layer == s.tree.Layer(d) && s.boundIn(d) == 0 {
			n += by
		}
	}
	return n
}

// lowest is the deepest layer with a preference; 0 if there is none.
func (s *Search) lowest() int {
	if len(s.columns) == 0 {
		return 0
	}
	return s.columns[len(s.columns)-1].Layer
}

// alike says whether of what is below a layer only the lowest preference matters: nothing in
// between costs anything or is rounded.
func (s *Search) alike(layer int) bool {
	above := 0 // the lowest preference but one
	if n := len(s.columns); n > 1 {
		above = s.columns[n-2].Layer
	}
	return s.charges == nil && s.perDomain && layer >= above && layer < s.lowest() && s.steps[layer+1] == s.steps[s.lowest()]
}

// largest lists the sizes of the domains of a layer below d, largest first, but for those
// that are touched anyway, which are free.
func (s *Search) largest(d topology.ID, layer int) (free offer.Slots, sizes []offer.Slots) {
	s.sizes = s.sizes[:0]
	for k := range s.below(d, layer) {
		switch {
		case s.boundIn(k) > 0:
			free += s.size[k]
		case s.size[k] > 0:
			s.sizes = append(s.sizes, s.size[k])
		}
	}
	slices.Sort(s.sizes)
	slices.Reverse(s.sizes)
	return free, s.sizes
}

// merge returns the curve of two domains together, as far as most and the aim need it.
func (s *Search) merge(a, b offer.Curve, most offer.Slots, aim offer.Aim) offer.Curve {
	s.merger.Most, s.merger.Aim = most, aim
	if s.width > 1 {
		return s.merger.MergeAny(a, b)
	}
	return s.merger.Merge(a, b)
}
