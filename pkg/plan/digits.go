package plan

import (
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// digits is the encoding of prices: the position of each preference's charge in a price.
type digits struct {
	columns   []Preference // that decide, from the top down; the last is for soft preferences, if any charges
	soft      bool         // soft preferences charge: the layer of their column is below the nodes
	softBits  int          // bits of the last digit
	perDomain bool         // all preferences charge by domain
	charged   int          // numbers of a price that the world charges
	lift      int          // bits by which the world's number is shifted to make space for preferences
	digit     []digit      // by column
	width     int          // numbers of a price
}

// digit is the position of a column in a price: a number and its first bit. Digits share a number, so that adding and comparing
// numbers adds and compares all digits from the left.
type digit struct{ number, shift int }

// wholeNumber is the bits of a number, and of a column with a number of its own.
const wholeNumber = 62

// newDigits assigns a digit to each deciding preference, from the right. charged is the world's numbers in a price. Digits share a number
// if all preferences charge by domain, and share the number of the world if all fits.
func (s *Search) newDigits(charged int) digits {
	d := digits{perDomain: true, charged: charged, width: charged}
	for _, p := range InOrder(s.Prefer) {
		if p.Layer > s.Must { // all members share one domain at the other layers
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

// bitsOfCharges returns the bits of the sum of all charges of the world, for prices of one number.
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

// weight returns the number of a price that a column adds to, and the amount for one domain.
func (d *digits) weight(column int) (number int, by int64) {
	return d.digit[column].number, 1 << d.digit[column].shift
}

// lowest returns the deepest layer with a preference; 0 without one, and below the node layer if soft preferences decide.
func (d *digits) lowest() int { return lowest(d.columns) }

func lowest(columns []Preference) int {
	if len(columns) == 0 {
		return 0
	}
	return columns[len(columns)-1].Layer
}

// withoutSoft returns a price without the digit of soft preferences.
func (d *digits) withoutSoft(p offer.Price) offer.Price {
	if !d.soft {
		return p
	}
	p = slices.Clone(p)
	p[d.width-1] &^= 1<<d.softBits - 1
	return p
}

// columnsIn returns the columns that may charge inside a domain: all but soft preferences if these charge nothing there.
func (s *Search) columnsIn(d topology.ID) []Preference {
	if s.soft && s.penalised[d] == 0 {
		return s.columns[:len(s.columns)-1]
	}
	return s.columns
}

// findPenalties sets penalised to the domains in which soft preferences charge, and returns the highest penalty.
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
