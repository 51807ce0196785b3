package offer

import (
	"math"
	"slices"
	"sort"
)

// Merger merges many curves: as Merge does, but in memory that it keeps, and those with prices of one
// number in less time and without what is of no use for an aim.
type Merger struct {
	Most Slots // as far as this
	Aim  Aim

	low   []int64 // the lowest price that was offered for exactly so many
	upTo  []Slots // of the curve that is being made, from the last step on
	price []int64
	ofA   []run // of the curves that are being merged
	ofB   []run
	stack Curve // those that MergeDown has made, one after the other
	wide  table // for prices of several numbers
}

// Merge returns the curve of two domains together. Prices may not be negative.
func (m *Merger) Merge(a, b Curve) Curve {
	if a.width != 1 || a.free() || b.free() {
		return m.MergeAny(a, b)
	}
	m.merge(a, b)
	return Curve{width: 1, upTo: slices.Clone(m.upTo), price: slices.Clone(m.price)}
}

// merge leaves the curve of two domains in the merger's memory.
func (m *Merger) merge(a, b Curve) {
	aimless := m.Aim.None()
	if aimless && m.follow(a, b) {
		return
	}
	most := min(a.Most()+b.Most(), m.Most)
	m.clear(most)
	if !aimless || !m.offerRuns(a, b) {
		for i, n := range a.upTo {
			m.offer(n, a.price[i], b)
		}
	}
	m.curve()
}

// clear forgets what was offered, and expects no more than so many members.
func (m *Merger) clear(most Slots) {
	m.low = slices.Grow(m.low[:0], int(most)+1)[:most+1]
	for i := range m.low {
		m.low[i] = math.MaxInt64
	}
}

// MergeAny returns it for prices of any kind, whatever the aim.
func (m *Merger) MergeAny(a, b Curve) Curve { return merge(a, b, m.Most, &m.wide) }

// free says whether nobody is charged.
func (c Curve) free() bool { return len(c.upTo) == 1 && c.price[0] == 0 }

// offer offers n members for a price together with those that c takes.
func (m *Merger) offer(n Slots, price int64, c Curve) {
	most := Slots(len(m.low) - 1)
	if m.Aim.None() {
		for i, k := range c.upTo {
			sum, p := min(n+k, most), price+c.price[i]
			if m.low[sum] > p {
				m.low[sum] = p
			}
			if sum == most {
				return // what follows is dearer and not enough for more
			}
		}
		return
	}
	entries := len(m.Aim.others)
	for i := 0; i < len(c.upTo); i++ {
		sum, p := n+c.upTo[i], price+c.price[i]
		if entries = m.Aim.reach(p, entries); entries == 0 {
			return // nor is what follows of use
		}
		if need := m.Aim.need(p, entries); need > sum {
			if m.Aim.each == 0 { // a higher price needs no less
				i += sort.Search(len(c.upTo)-i, func(k int) bool { return n+c.upTo[i+k] >= need }) - 1
			}
			continue
		}
		m.low[min(sum, most)] = min(m.low[min(sum, most)], p)
		if sum >= most {
			return // what follows is dearer and not enough for more
		}
	}
}

// curve keeps the prices that are lower than those of all larger counts.
func (m *Merger) curve() {
	m.upTo, m.price = m.upTo[:0], m.price[:0]
	last := int64(math.MaxInt64)
	for n := len(m.low) - 1; n >= 0; n-- {
		if m.low[n] < last {
			last = m.low[n]
			m.upTo, m.price = append(m.upTo, Slots(n)), append(m.price, last)
		}
	}
	if len(m.upTo) == 0 { // nothing was of use
		m.upTo, m.price = append(m.upTo, 0), append(m.price, 0)
	}
	slices.Reverse(m.upTo)
	slices.Reverse(m.price)
}
