package plan

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Preference is a soft rule about the domains of a layer: among plans that are equal by the
// rules before it, that comes first whose members are charged less.
type Preference struct {
	Layer  int
	Charge Charge
}

// Charge names what members of a plan are charged in each domain of a layer.
type Charge int

// PerDomain charges for each domain that is newly touched: PreferGather.
const PerDomain Charge = iota

// charges says what it costs that so many members come to a domain, at least one, in which
// so many are bound. It must not fall with the members, and does not depend on the domain.
var charges = []func(bound, members offer.Slots) int64{
	PerDomain: func(bound, _ offer.Slots) int64 {
		if bound > 0 {
			return 0
		}
		return 1
	},
}

// NewCharge adds a charge to those that there are: a preference of somebody's own. It is to be called when the program begins, by
// variables of packages, before anything is planned. The function is as charges says.
func NewCharge(charge func(bound, members offer.Slots) int64) Charge {
	charges = append(charges, charge)
	return Charge(len(charges) - 1)
}

// of is what members cost; nobody costs nothing.
func (c Charge) of(bound, members offer.Slots) int64 {
	if members == 0 {
		return 0
	}
	return charges[c](bound, members)
}

// PreferGather is the preferences for few domains of some layers.
func PreferGather(layers ...int) (out []Preference) {
	for _, l := range layers {
		out = append(out, Preference{Layer: l})
	}
	return out
}

// inOrder lists preferences as they are asked: from the top down, each once.
func inOrder(prefer []Preference) []Preference {
	return slices.Compact(slices.SortedFunc(slices.Values(prefer), func(a, b Preference) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Charge, b.Charge))
	}))
}

// What follows says what preferences add to a price, and how little of it need be looked at
// where all of them charge by domain.

// addColumns notes the preferences that decide, and how a price has room for them.
func (s *Search) addColumns() {
	s.columns, s.perDomain, s.shift = nil, true, 0
	for _, p := range inOrder(s.Prefer) {
		if p.Layer > s.Must { // members share the domain of the other layers
			s.columns = append(s.columns, p)
			s.perDomain = s.perDomain && p.Charge == PerDomain
		}
	}
	s.digit = bits.Len(uint(max(s.limit(), 1))) // there are no more domains touched than members
	if !s.perDomain {
		s.digit = wholeNumber
	}
	s.width = s.charged + (len(s.columns)+s.perNumber()-1)/s.perNumber()
	if all := s.digit * len(s.columns); s.charged == 1 && s.bits > 0 && s.perDomain && all+s.bits <= wholeNumber {
		s.width, s.shift = s.charged, all
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

// wholeNumber is the bits of a column that has a number for itself.
const wholeNumber = 62

// perNumber is how many columns share a number of a price: as digits do, so that adding
// and comparing numbers is adding and comparing all of them, from the left.
func (s *Search) perNumber() int { return max(wholeNumber/s.digit, 1) }

// weight says which number of a price a domain of a column adds to, and how much.
func (s *Search) weight(column int) (number int, by int64) {
	if s.shift > 0 { // below what the world charges
		return 0, 1 << (s.shift - (column+1)*s.digit)
	}
	digit := s.perNumber() - 1 - column%s.perNumber()
	return s.charged + column/s.perNumber(), 1 << (digit * s.digit)
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

// aim says how to place n in d: in no more domains of the first preference that decides there
// than they need if the largest come first. That is known if nothing in between is
// rounded.
func (s *Search) aim(d topology.ID, n offer.Slots) offer.Aim {
	if s.charges != nil || s.width > 1 || !s.perDomain {
		return offer.Aim{}
	}
	layer := s.tree.Layer(d)
	i := slices.IndexFunc(s.columns, func(p Preference) bool { return p.Layer > layer })
	first := s.columns[i].Layer
	if s.steps[layer+1] != s.steps[first] {
		return offer.Aim{}
	}
	free, sizes := s.largest(d, first)
	reach := []offer.Slots{free}
	for k := 0; reach[k] < n; k++ {
		reach = append(reach, reach[k]+sizes[k])
	}
	_, by := s.weight(i)
	return offer.Aim{N: n, Shift: bits.TrailingZeros64(uint64(by)), Reach: reach}
}
