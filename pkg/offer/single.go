package offer

import (
	"math"
	"slices"
)

// This file merges curves with prices of one number as runs.go does those of several.

// follow leaves the curve of two domains in the merger's memory if each of them is one run, and both have
// steps of one length, and says whether that is so. Then no count is offered twice:
//
//	a: 3 ─ 4 ─ 7     b: 2 ─ 4 ─ 5     both: 2 ─ 3 ─ 4 ─ 4 ─ 5 ─ 7 are added one after the other
func (m *Merger) follow(a, b Curve) bool {
	r, ok := a.straight()
	o, also := b.straight()
	if !ok || !also || !r.follow(o) {
		return false
	}
	steps := r.steps() + o.steps()
	m.upTo, m.price = slices.Grow(m.upTo[:0], steps), slices.Grow(m.price[:0], steps)
	for i, j := 0, 0; ; {
		n := a.upTo[i] + b.upTo[j]
		m.upTo, m.price = append(m.upTo, min(n, m.Most)), append(m.price, a.price[i]+b.price[j])
		switch {
		case n >= m.Most || i == r.last && j == o.last:
			return true // what follows is dearer and not enough for more
		case j == o.last || i < r.last && a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:
			i++
		default:
			j++
		}
	}
}

// straight is the only run of a curve with prices of one number, if it has no other.
func (c Curve) straight() (r run, ok bool) {
	r.last = len(c.upTo) - 1
	if r.last == 0 {
		return r, true
	}
	r.length = c.upTo[1] - c.upTo[0]
	added := int64(math.MinInt64)
	for i := 1; i <= r.last; i++ {
		adds := c.price[i] - c.price[i-1]
		if c.upTo[i]-c.upTo[i-1] != r.length || adds < added {
			return r, false
		}
		added = adds
	}
	return r, true
}

// offerRuns offers what two curves take together, run by run, and says whether that is worth the while; if
// not, nothing is offered.
func (m *Merger) offerRuns(a, b Curve) bool {
	if len(a.upTo) < fewSteps || len(b.upTo) < fewSteps {
		return false
	}
	m.ofA, m.ofB = a.appendRuns(m.ofA[:0]), b.appendRuns(m.ofB[:0])
	if !worthwhile(m.ofA, m.ofB) {
		return false
	}
	for _, r := range m.ofA {
		for _, o := range m.ofB {
			m.offerRun(a, r, b, o)
		}
	}
	return true
}

// offerRun offers what a run of each of two curves takes together with the other.
func (m *Merger) offerRun(a Curve, r run, b Curve, o run) {
	if !r.follow(o) {
		part := Curve{width: 1, upTo: b.upTo[o.first : o.last+1], price: b.price[o.first : o.last+1]}
		for i := r.first; i <= r.last; i++ {
			m.offer(a.upTo[i], a.price[i], part)
		}
		return
	}
	most := Slots(len(m.low) - 1)
	for i, j := r.first, o.first; ; {
		sum, price := min(a.upTo[i]+b.upTo[j], most), a.price[i]+b.price[j]
		m.low[sum] = min(m.low[sum], price)
		switch {
		case sum == most || i == r.last && j == o.last:
			return // what follows is dearer and not enough for more
		case j == o.last || i < r.last && a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:
			i++
		default:
			j++
		}
	}
}

// Height is how much lies on the merger's stack of curves.
func (m *Merger) Height() int { return len(m.stack.upTo) }

// Drop takes off the stack all above a height. Curves that lay there are no more.
func (m *Merger) Drop(height int) {
	m.stack.upTo, m.stack.price = m.stack.upTo[:height], m.stack.price[:height]
}

// MergeDown is Merge, but the curve lies on the stack, at a height above which there is nothing else any more: neither of
// the two, if they were there. Curves with prices of several numbers do not lie there.
func (m *Merger) MergeDown(height int, a, b Curve) Curve {
	if a.width != 1 {
		return m.MergeAny(a, b)
	}
	c := a
	if a.free() || b.free() {
		c = m.MergeAny(a, b)
	} else {
		m.merge(a, b)
		c.upTo, c.price = m.upTo, m.price
	}
	m.stack.upTo, m.stack.price = append(m.stack.upTo[:height], c.upTo...), append(m.stack.price[:height], c.price...)
	return Curve{width: 1, upTo: m.stack.upTo[height:], price: m.stack.price[height:]}
}

// Maker makes many curves, in few pieces of memory.
type Maker struct {
	Width int // numbers in a price
	made  Curve
	begin int // of the steps of the curve that is being made
}

const pieceOfMaker = 1 << 12 // steps

// Begin begins a curve that takes up to n for nothing and has no more than so many steps after that.
func (m *Maker) Begin(n Slots, steps int) {
	if cap(m.made.upTo)-len(m.made.upTo) <= steps {
		size := max(steps+1, pieceOfMaker)
		m.made = Curve{upTo: make([]Slots, 0, size), price: make([]int64, 0, size*m.Width)}
	}
	m.begin = len(m.made.upTo)
	m.made.upTo = append(m.made.upTo, n)
	for range m.Width {
		m.made.price = append(m.made.price, 0)
	}
}

// Add adds a step, dearer than those before, if it is enough for more members; price appends what it costs.
func (m *Maker) Add(n Slots, price func([]int64) []int64) {
	if n > m.made.Most() {
		m.made.upTo, m.made.price = append(m.made.upTo, n), price(m.made.price)
	}
}

// End returns the curve.
func (m *Maker) End() Curve {
	end := len(m.made.upTo)
	return Curve{width: m.Width, upTo: m.made.upTo[m.begin:end:end], price: m.made.price[m.begin*m.Width : end*m.Width : end*m.Width]}
}

// First returns the curve of the first so many steps.
func (c Curve) First(steps int) Curve {
	if steps == len(c.upTo) {
		return c
	}
	return Curve{width: c.width, upTo: c.upTo[:steps:steps], price: c.price[: steps*c.width : steps*c.width]}
}

// Clone returns the curve in memory of its own.
func (c Curve) Clone() Curve {
	return Curve{width: c.width, upTo: slices.Clone(c.upTo), price: slices.Clone(c.price)}
}

// Scale returns the curve with every number of its prices so many times as large.
func (c Curve) Scale(by int64) Curve {
	out := Curve{width: c.width, upTo: c.upTo, price: slices.Clone(c.price)}
	for i := range out.price {
		out.price[i] *= by
	}
	return out
}
