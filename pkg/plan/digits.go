package plan

import (
	"math/bits"
	"slices"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// digits says how a price counts what the world and preferences charge.
type digits struct {
	columns   []Preference // that decide, from the top down
	perDomain bool         // that is all that they charge for
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
	for _, p := range inOrder(s.Prefer) {
		if p.Layer > s.Must { // members share the domain of the other layers
			d.columns = append(d.columns, p)
			d.perDomain = d.perDomain && p.Charge == PerDomain
		}
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
		if d.perDomain {
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

// lowest is the deepest layer with a preference; 0 if there is none.
func (d *digits) lowest() int {
	if len(d.columns) == 0 {
		return 0
	}
	return d.columns[len(d.columns)-1].Layer
}
