package plan

import (
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file says what wishes add to a price, and how little of it need be looked at.

// perNumber is how many columns share a number of a price: as digits do, so that adding
// and comparing numbers is adding and comparing all of them, from the left.
func (s *Search) perNumber() int { return max(62/s.digit, 1) }

// weight says which number of a price a domain of a column adds to, and how much.
func (s *Search) weight(column int) (number int, by int64) {
	digit := s.perNumber() - 1 - column%s.perNumber()
	return s.charged + column/s.perNumber(), 1 << (digit * s.digit)
}

// lowest is the deepest layer that is wished for; 0 if there is none.
func (s *Search) lowest() int {
	if len(s.columns) == 0 {
		return 0
	}
	return s.columns[len(s.columns)-1]
}

// alike says whether of what is below a layer only the lowest wish matters: nothing in
// between costs anything or is rounded.
func (s *Search) alike(layer int) bool {
	above := 0 // the lowest wish but one
	if n := len(s.columns); n > 1 {
		above = s.columns[n-2]
	}
	return s.charges == nil && layer >= above && layer < s.lowest() && s.steps[layer+1] == s.steps[s.lowest()]
}

// largest lists the sizes of the domains of a layer below d, largest first, but for those
// that are touched anyway, which are free.
func (s *Search) largest(d topology.ID, layer int) (free offer.Slots, sizes []offer.Slots) {
	s.sizes = s.sizes[:0]
	for k := d + 1; k < s.tree.End(d); {
		switch {
		case s.tree.Layer(k) < layer:
			k++
			continue
		case s.boundIn(k) > 0:
			free += s.size[k]
		case s.size[k] > 0:
			s.sizes = append(s.sizes, s.size[k])
		}
		k = s.tree.End(k)
	}
	slices.Sort(s.sizes)
	slices.Reverse(s.sizes)
	return free, s.sizes
}

// merge returns the curve of two domains together, as far as most and the aim need it.
func (s *Search) merge(a, b offer.Curve, most offer.Slots, aim offer.Aim) offer.Curve {
	if s.charges != nil || s.width > 1 {
		return offer.Merge(a, b, most)
	}
	s.merger.Most, s.merger.Aim = most, aim
	return s.merger.Merge(a, b)
}

// aim says how to place n in d: in no more domains of the first wish that decides there
// than they need if the largest come first. That is known if nothing in between is
// rounded.
func (s *Search) aim(d topology.ID, n offer.Slots) offer.Aim {
	if s.charges != nil || s.width > 1 {
		return offer.Aim{}
	}
	layer := s.tree.Layer(d)
	i := slices.IndexFunc(s.columns, func(l int) bool { return l > layer })
	if s.steps[layer+1] != s.steps[s.columns[i]] {
		return offer.Aim{}
	}
	free, sizes := s.largest(d, s.columns[i])
	reach := []offer.Slots{free}
	for k := 0; reach[k] < n; k++ {
		reach = append(reach, reach[k]+sizes[k])
	}
	_, by := s.weight(i)
	return offer.Aim{N: n, Shift: bits.TrailingZeros64(uint64(by)), Reach: reach}
}
