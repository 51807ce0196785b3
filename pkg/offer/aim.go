package offer

import (
	"math"
	"slices"
)

// Aim is what curves of one number are merged for in the end: n members at the lowest price, of which
// the upper digits are known, and what others take by these digits. A step that leaves too many
// members to the others is of no use:
//
//	step: 300 members touch 1 ── 2 may be touched ── others that touch 1 take ≥ n - 300?
//
// The zero Aim finds use for everything.
type Aim struct {
	n     Slots
	shift int   // price >> shift is the upper digits
	total int64 // of all members
	// What all members touch at the most, and how many others take then; both rise.
	upTo   []int64
	others []Slots
	// Where a member is charged, see Sharp:
	each Slots
	unit int
}

// NewAim returns the aim of placing n members for a price, of which the digits above shift are known,
// in domains that take so many together by these digits.
func NewAim(whole Curve, n Slots, price int64, shift int) Aim {
	a := Aim{n: n, shift: shift, total: price >> shift, others: whole.upTo, upTo: make([]int64, len(whole.price))}
	for i, price := range whole.price {
		a.upTo[i] = price >> shift
	}
	return a
}

// Sharp is the same aim where no more than so many domains of the lowest digit, which is at a bit, may be
// touched besides. Members are then counted beyond so many for each such domain: as their number is given,
// whoever has many of them beyond that touches few domains. What others take is to be counted so, too.
func (a Aim) Sharp(each Slots, touched int64, unit int) Aim {
	a.each, a.unit = each, unit
	a.n -= each * Slots(touched)
	return a
}

// IsSharp says whether it is one of these.
func (a Aim) IsSharp() bool { return a.each > 0 }

// None says whether it finds use for everything.
func (a *Aim) None() bool { return a.others == nil }

// reach is how many entries of what others take are for no more than what a price leaves them; they are
// not more than the first so many.
func (a *Aim) reach(price int64, first int) int {
	left := a.total - price>>a.shift
	for first > 0 && a.upTo[first-1] > left {
		first--
	}
	return first
}

// need is how many members a step of that price must be enough for, of which others may have so many
// entries.
func (a *Aim) need(price int64, entries int) Slots {
	n := a.n - a.others[entries-1]
	if a.each > 0 {
		n += a.each * Slots(price&(1<<a.shift-1)>>a.unit)
	}
	return n
}

// Uses says whether any part of a curve is of use, beyond nobody.
func (a Aim) Uses(c Curve) bool { return c.upTo[0] > 0 || a.useful(c, 1) > 0 }

// UsesNone says whether a step of a price that has nobody to add may be of use: beyond so many each, some domains
// have none, and those that have fewer are counted as if they were not there.
func (a Aim) UsesNone(price int64) bool {
	entries := a.reach(price, len(a.others))
	return entries > 0 && a.need(price, entries) <= 0
}

// useful is the first step of use from one on; 0 if there is none.
func (a *Aim) useful(c Curve, from int) int {
	entries := len(a.others)
	for i := from; i < len(c.upTo); i++ {
		if entries = a.reach(c.price[i], entries); entries == 0 {
			return 0 // nor is what follows of use
		}
		if a.need(c.price[i], entries) <= c.upTo[i] {
			return i
		}
	}
	return 0
}

// Useful leaves out of a curve what is of no use.
func (a Aim) Useful(c Curve) Curve {
	out := Curve{width: 1, upTo: c.upTo[:1:1], price: c.price[:1:1]}
	for i := a.useful(c, 1); i > 0; i = a.useful(c, i+1) {
		out.upTo, out.price = append(out.upTo, c.upTo[i]), append(out.price, c.price[i])
	}
	return out
}

// Within returns the aim for what is merged inside of a domain, for which so much is charged besides:
// there its own parts are among the others. They count twice, so more may be of use than is.
func (m *Merger) Within(a Aim, inside Curve, charge int64) Aim {
	in := a
	in.total -= charge >> a.shift
	in.upTo, in.others = nil, []Slots{}
	if len(a.others) == 0 {
		return in
	}
	least := max(a.n-inside.Most(), 0) // fewer are never enough
	most := a.others[len(a.others)-1] + inside.Most()
	if a.each == 0 {
		most = min(most, a.n)
	}
	if most < least {
		return in
	}
	m.clear(most - least)
	for i, n := range a.others {
		if n+inside.Most() < least {
			continue
		}
		for k, more := range inside.upTo {
			price := a.upTo[i] + inside.price[k]>>a.shift
			if price > in.total {
				break
			}
			if sum := min(n+more, most) - least; sum >= 0 {
				m.low[sum] = min(m.low[sum], price)
			}
			if n+more >= most {
				break // what follows is dearer and not enough for more
			}
		}
	}
	last := int64(math.MaxInt64)
	m.upTo, m.price = m.upTo[:0], m.price[:0]
	for n, price := range slices.Backward(m.low) {
		if price < last {
			last = price
			m.upTo, m.price = append(m.upTo, Slots(n)+least), append(m.price, price)
		}
	}
	in.upTo, in.others = slices.Clone(m.price), append(in.others, m.upTo...)
	slices.Reverse(in.upTo)
	slices.Reverse(in.others)
	return in
}
