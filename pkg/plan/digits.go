package plan

import (
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// digits says how a price counts what the world and preferences charge.
type digits struct {
	columns   []Preference // that decide, from the top down; the last is that of soft preferences, if any charges
	soft      bool         // soft preferences charge: the layer of their column is below the nodes
	softBits  int          // of the last number of a price
	perDomain bool         // that is all that preferences charge for
	charged   int          // how many numbers of a price the world charges
	lift      int          // it is moved so many bits to the left, where preferences charge in the same number
	digit     []digit      // by column, where prices count it
	width     int          // how many numbers a price has
}

// digit is where a price counts what a column charges: from a bit of a number on, as digits
// share a number, so that adding and comparing numbers is adding and comparing all of
// them, from the left.
type digit struct{ number, shift int }

// wholeNumber is the bits of a number, and of a column that has one for itself.
const wholeNumber = 62

// newDigits gives each preference that decides a digit, from the right: beside one another in one number if all charge
// by domain, and below what the world charges if all of it fits.
func (s *Search) newDigits(charged int) digits {
	d := digits{perDomain: true, charged: charged, width: charged}
	for _, p := range InOrder(s.Prefer) {
		if p.Layer > s.Must { // members share the domain of the other layers
			d.columns = append(d.columns, p)
			d.perDomain = d.perDomain && p.Charge == PerDomain
		}
	}
	highest := s.findPenalties()
	if d.soft = highest > 0; d.soft {
		d.columns = append(d.columns, Preference{Layer: s.tree.Depth() + 1})
	}
	if len(d.columns) == 0 {
		return d
	}
	most := make([]uint, s.tree.Depth()+1) // domains that can be touched, by layer
	for id := range s.tree.Len() {
		most[s.tree.Layer(topology.ID(id))]++
	}
	d.digit = make([]digit, len(d.columns))
	number, used := 0, 0
	for i, p := range slices.Backward(d.columns) {
		size := wholeNumber
		switch {
		case d.soft && i == len(d.columns)-1:
			size = min(bits.Len64(uint64(highest)*uint64(max(s.limit(), 1))), wholeNumber)
			d.softBits = size
		case d.perDomain:
			size = bits.Len(min(most[p.Layer], uint(max(s.limit(), 1))))
		}
		if used > 0 && used+size > wholeNumber {
			number, used = number+1, 0
		}
		d.digit[i] = digit{number, used}
		used += size
	}
	d.width = charged + number + 1
	if d.perDomain && number == 0 && charged == 1 && used+s.bitsOfCharges() <= wholeNumber {
		d.width, d.lift = 1, used
	}
	for i := range d.digit { // numbers were counted from the right
		d.digit[i].number = d.width - 1 - d.digit[i].number
	}
	return d
}

// bitsOfCharges is how many bits what the world charges for all members together has, in prices of one number.
func (s *Search) bitsOfCharges() int {
	total := int64(0)
	for _, c := range s.charges {
		p, _ := c.Price(c.Most())
		if total += p[0]; bits.Len64(uint64(total)) > wholeNumber {
			break
		}
	}
	return bits.Len64(uint64(total))
}

// weight says which number of a price a domain of a column adds to, and how much.
func (d *digits) weight(column int) (number int, by int64) {
	return d.digit[column].number, 1 << d.digit[column].shift
}

// lowest is the deepest layer with a preference; 0 if there is none, and below the nodes if soft preferences decide.
func (d *digits) lowest() int { return lowest(d.columns) }

func lowest(columns []Preference) int {
	if len(columns) == 0 {
		return 0
	}
	return columns[len(columns)-1].Layer
}

// withoutSoft returns a price without what soft preferences charge: the last digit.
func (d *digits) withoutSoft(p offer.Price) offer.Price {
	if !d.soft {
		return p
	}
	p = slices.Clone(p)
	p[d.width-1] &^= 1<<d.softBits - 1
	return p
}

// columnsIn returns the columns that may charge for what is in a domain.
func (s *Search) columnsIn(d topology.ID) []Preference {
	if s.soft && s.penalised[d] == 0 {
		return s.columns[:len(s.columns)-1]
	}
	return s.columns
}

// findPenalties notes in which domains members are charged for soft preferences, and returns the most that one is.
func (s *Search) findPenalties() (highest int64) {
	if s.Penalty == nil {
		return 0
	}
	charged := make([]offer.Slots, s.tree.NumNodes())
	for i, p := range s.Penalty {
		if p > 0 && s.Free[i] > 0 {
			charged[i], highest = 1, max(highest, p)
		}
	}
	s.penalised = offer.Sum(s.tree, charged)
	return highest
}
