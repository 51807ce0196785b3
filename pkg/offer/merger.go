package offer

import (
	"math"
	"slices"
)

// Merger merges curves, in memory that it keeps.
type Merger struct {
	Most    Slots // members that are of interest
	Dearest int64 // steps above this price of one number are of no interest

	low   []int64 // by members, the lowest price that was offered for exactly so many
	upTo  []Slots // of the curve that is being made, from the last step on
	price []int64
	ofA   []run // of the curves that are being merged
	ofB   []run
	wide  table // for prices of several numbers
}

// Merge returns the curve of two domains together: what each count costs when it is shared out between them in the
// cheapest way. It is the (min,+) convolution of the two. Prices of one number may not be negative.
func (m *Merger) Merge(a, b Curve) Curve {
	switch {
	case len(a.upTo) == 1:
		return b.shift(a.upTo[0], m.Most)
	case len(b.upTo) == 1:
		return a.shift(b.upTo[0], m.Most)
	case a.width > 1:
		return m.wide.merge(a, b, m.Most)
	}
	if c, ok := m.follow(a, b); ok {
		return c
	}
	most := min(a.Most()+b.Most(), m.Most)
	m.low = slices.Grow(m.low[:0], int(most)+1)[:most+1]
	for i := range m.low {
		m.low[i] = math.MaxInt64
	}
	if !m.offerRuns(a, b) {
		for i, n := range a.upTo {
			m.offer(n, a.price[i], b)
		}
	}
	return m.curve()
}

// offer offers n members for a price together with those that c takes. This is where the time goes when many prices
// are merged.
func (m *Merger) offer(n Slots, price int64, c Curve) {
	most := Slots(len(m.low) - 1)
	for i, k := range c.upTo {
		sum, p := min(n+k, most), price+c.price[i]
		if p > m.Dearest {
			return
		}
		if m.low[sum] > p {
			m.low[sum] = p
		}
		if sum == most {
			return // what follows is dearer and not enough for more
		}
	}
}

// curve keeps the prices that are lower than those of all larger counts.
func (m *Merger) curve() Curve {
	m.upTo, m.price = m.upTo[:0], m.price[:0]
	last := int64(math.MaxInt64)
	for n := len(m.low) - 1; n >= 0; n-- {
		if m.low[n] < last {
			last = m.low[n]
			m.upTo, m.price = append(m.upTo, Slots(n)), append(m.price, last)
		}
	}
	c := Curve{width: 1, upTo: slices.Clone(m.upTo), price: slices.Clone(m.price)}
	slices.Reverse(c.upTo)
	slices.Reverse(c.price)
	return c
}

// run is steps of a curve, from the first to the last, of one length of which none adds less to the
// price than the one before:
//
//	        ┌──
//	        │
//	     ┌──┘
//	  ┌──┘
//	──┘
//
// Of two runs with steps of one length the cheapest way to take each count is found by taking the next
// step from the one or the other, whichever adds less: what is added falls nowhere, so nothing that is
// cheaper comes later.
type run struct {
	first, last int
	length      Slots // 0 if there is one step
}

// follow says whether what two runs add up to can be found step by step.
func (r run) follow(o run) bool { return r.length == o.length || r.length == 0 || o.length == 0 }

func (r run) steps() int { return r.last - r.first + 1 }

// appendRuns cuts a curve into as few runs as there can be.
func (c Curve) appendRuns(all []run) []run {
	r, added := run{}, int64(0)
	for i := 1; i < len(c.upTo); i++ {
		length, adds := c.upTo[i]-c.upTo[i-1], c.price[i]-c.price[i-1]
		if r.last > r.first && (length != r.length || adds < added) {
			all, r = append(all, r), run{first: i, last: i}
		} else {
			r.last, r.length = i, length
		}
		added = adds
	}
	return append(all, r)
}

// follow returns the curve of two domains if each of them is one run, and both have steps of one length. Then no
// count is offered twice:
//
//	a: 3 ─ 4 ─ 7     b: 2 ─ 4 ─ 5     both: 2 ─ 3 ─ 4 ─ 4 ─ 5 ─ 7 are added one after the other
func (m *Merger) follow(a, b Curve) (c Curve, ok bool) {
	r, ok := a.straight()
	o, also := b.straight()
	if !ok || !also || !r.follow(o) {
		return c, false
	}
	steps := r.steps() + o.steps()
	c = Curve{width: 1, upTo: make([]Slots, 0, steps), price: make([]int64, 0, steps)}
	m.eachStep(a, r, b, o, func(n Slots, price int64) {
		c.upTo, c.price = append(c.upTo, min(n, m.Most)), append(c.price, price)
	})
	return c, true
}

// straight is the only run of a curve, if it has no other.
func (c Curve) straight() (r run, ok bool) {
	r = run{last: len(c.upTo) - 1, length: c.upTo[1] - c.upTo[0]}
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

// eachStep calls do with what two runs that follow one another take together, rising, as far as that is of interest.
func (m *Merger) eachStep(a Curve, r run, b Curve, o run, do func(Slots, int64)) {
	for i, j := r.first, o.first; ; {
		n, price := a.upTo[i]+b.upTo[j], a.price[i]+b.price[j]
		if price > m.Dearest {
			return
		}
		do(n, price)
		switch {
		case n >= m.Most || i == r.last && j == o.last:
			return // what follows is dearer and not enough for more
		case j == o.last || i < r.last && a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:
			i++
		default:
			j++
		}
	}
}

// fewSteps is how many a curve has for which every step is tried with every other one.
const fewSteps = 8

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
	most := Slots(len(m.low) - 1)
	for _, r := range m.ofA {
		for _, o := range m.ofB {
			if r.follow(o) {
				m.eachStep(a, r, b, o, func(n Slots, price int64) { m.low[min(n, most)] = min(m.low[min(n, most)], price) })
				continue
			}
			part := Curve{width: 1, upTo: b.upTo[o.first : o.last+1], price: b.price[o.first : o.last+1]}
			for i := r.first; i <= r.last; i++ {
				m.offer(a.upTo[i], a.price[i], part)
			}
		}
	}
	return true
}

// worthwhile says whether two curves are merged in half the steps or less if they are run by run.
func worthwhile(ofA, ofB []run) bool {
	work, pairs, steps := 0, 0, 0
	for _, o := range ofB {
		steps += o.steps()
	}
	for _, r := range ofA {
		pairs += r.steps() * steps
		for _, o := range ofB {
			if r.follow(o) {
				work += r.steps() + o.steps()
			} else {
				work += r.steps() * o.steps()
			}
		}
	}
	return 2*work <= pairs
}

// table collects the lowest price of several numbers that was offered for exactly so many members.
type table struct {
	known []bool
	price []int64
}

// merge returns the curve of two domains together.
func (t *table) merge(a, b Curve, most Slots) Curve {
	w := a.width
	most = min(a.Most()+b.Most(), most)
	t.known = slices.Grow(t.known[:0], int(most)+1)[:most+1]
	clear(t.known)
	t.price = slices.Grow(t.price[:0], int(most+1)*w)[:int(most+1)*w]
	for i, n := range a.upTo {
		for j, m := range b.upTo {
			sum := min(n+m, most)
			row := t.price[int(sum)*w:][:w]
			if p, q := a.row(i), b.row(j); !t.known[sum] || lessSum(p, q, row) {
				t.known[sum] = true
				for k := range row {
					row[k] = p[k] + q[k]
				}
			}
			if sum == most {
				break // what follows is dearer and not enough for more
			}
		}
	}
	var last Price // of those that are lower than the prices of all larger counts
	steps := 0
	for n := int(most); n >= 0; n-- {
		row := Price(t.price[n*w:][:w])
		if t.known[n] = t.known[n] && (last == nil || row.Compare(last) < 0); t.known[n] {
			last = row
			steps++
		}
	}
	c := Curve{width: w}
	c.grow(steps)
	for n, known := range t.known {
		if known {
			c.upTo, c.price = append(c.upTo, Slots(n)), append(c.price, t.price[n*w:][:w]...)
		}
	}
	return c
}

// lessSum says whether p + q < r.
func lessSum(p, q, r []int64) bool {
	for i := range r {
		if s := p[i] + q[i]; s != r[i] {
			return s < r[i]
		}
	}
	return false
}
