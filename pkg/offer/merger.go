package offer

import (
	"math"
	"slices"
)

// Merger merges curves in reused memory.
type Merger struct {
	Most    Slots // the most members of interest
	Dearest int64 // steps above this price of one number are dropped

	lowest []int64 // by members, the lowest price found for exactly so many
	upTo   []Slots // steps of the result, in reverse
	price  []int64
	runsA  []run // runs of the merged curves
	runsB  []run
	wide   table // for prices of several numbers
}

// Merge returns the curve of two domains together: each count at the cheapest split. It is their (min,+) convolution.
// Prices of one number must not be negative.
func (m *Merger) Merge(a, b Curve) Curve {
	switch {
	case len(a.upTo) == 1:
		return b.shift(a.upTo[0], m.Most)
	case len(b.upTo) == 1:
		return a.shift(b.upTo[0], m.Most)
	case a.width > 1:
		return m.wide.merge(a, b, m.Most)
	}
	if c, ok := m.mergeRuns(a, b); ok {
		return c
	}
	most := min(a.Most()+b.Most(), m.Most)
	m.lowest = slices.Grow(m.lowest[:0], int(most)+1)[:most+1]
	for i := range m.lowest {
		m.lowest[i] = math.MaxInt64
	}
	if !m.offerRuns(a, b) {
		for i, n := range a.upTo {
			m.offer(n, a.price[i], b)
		}
	}
	return m.curve()
}

// offer updates lowest with the prices of n members together with each step of c. Most of the time of merging is spent here.
func (m *Merger) offer(n Slots, price int64, c Curve) {
	most := Slots(len(m.lowest) - 1)
	for i, k := range c.upTo {
		sum, p := min(n+k, most), price+c.price[i]
		if p > m.Dearest {
			return
		}
		if m.lowest[sum] > p {
			m.lowest[sum] = p
		}
		if sum == most {
			return // later steps are dearer and not larger
		}
	}
}

// curve returns the curve of lowest: the counts whose price is below the prices of all larger counts.
func (m *Merger) curve() Curve {
	m.upTo, m.price = m.upTo[:0], m.price[:0]
	last := int64(math.MaxInt64)
	for n := len(m.lowest) - 1; n >= 0; n-- {
		if m.lowest[n] < last {
			last = m.lowest[n]
			m.upTo, m.price = append(m.upTo, Slots(n)), append(m.price, last)
		}
	}
	c := Curve{width: 1, upTo: slices.Clone(m.upTo), price: slices.Clone(m.price)}
	slices.Reverse(c.upTo)
	slices.Reverse(c.price)
	return c
}

// run is consecutive steps of one length with non-decreasing price increases:
//
//	        ┌──
//	        │
//	     ┌──┘
//	  ┌──┘
//	──┘
//
// Two runs of one step length merge by always taking the smaller increase next. Increases never fall, so that is cheapest.
type run struct {
	first, last int
	length      Slots // 0 for a single step
}

// compatible returns whether two runs can be merged step by step: their steps have one length.
func (r run) compatible(o run) bool { return r.length == o.length || r.length == 0 || o.length == 0 }

func (r run) steps() int { return r.last - r.first + 1 }

// appendRuns splits a curve into few runs, appended to all.
func (c Curve) appendRuns(all []run) []run {
	r, lastIncrease := run{}, int64(0)
	for i := 1; i < len(c.upTo); i++ {
		length, increase := c.upTo[i]-c.upTo[i-1], c.price[i]-c.price[i-1]
		if r.last > r.first && (length != r.length || increase < lastIncrease) {
			all, r = append(all, r), run{first: i, last: i}
		} else {
			r.last, r.length = i, length
		}
		lastIncrease = increase
	}
	return append(all, r)
}

// mergeRuns returns the curve of two domains together; ok is false unless each is one run and the step lengths agree. No count occurs
// twice:
//
//	a: 3 ─ 4 ─ 7     b: 2 ─ 4 ─ 5     both: 2 ─ 3 ─ 4 ─ 4 ─ 5 ─ 7 are added in turn
func (m *Merger) mergeRuns(a, b Curve) (c Curve, ok bool) {
	r, ok := a.singleRun()
	o, okB := b.singleRun()
	if !ok || !okB || !r.compatible(o) {
		return c, false
	}
	steps := r.steps() + o.steps()
	c = Curve{width: 1, upTo: make([]Slots, 0, steps), price: make([]int64, 0, steps)}
	m.eachStep(a, r, b, o, func(n Slots, price int64) {
		c.upTo, c.price = append(c.upTo, min(n, m.Most)), append(c.price, price)
	})
	return c, true
}

// singleRun returns the run of the whole curve; ok is false if the curve is more than one run.
func (c Curve) singleRun() (r run, ok bool) {
	r = run{last: len(c.upTo) - 1, length: c.upTo[1] - c.upTo[0]}
	lastIncrease := int64(math.MinInt64)
	for i := 1; i <= r.last; i++ {
		increase := c.price[i] - c.price[i-1]
		if c.upTo[i]-c.upTo[i-1] != r.length || increase < lastIncrease {
			return r, false
		}
		lastIncrease = increase
	}
	return r, true
}

// eachStep calls do with the merged steps of two compatible runs, ascending, up to Most and Dearest.
func (m *Merger) eachStep(a Curve, r run, b Curve, o run, do func(Slots, int64)) {
	for i, j := r.first, o.first; ; {
		n, price := a.upTo[i]+b.upTo[j], a.price[i]+b.price[j]
		if price > m.Dearest {
			return
		}
		do(n, price)
		switch {
		case n >= m.Most || i == r.last && j == o.last:
			return // later steps are dearer and not larger
		case j == o.last || i < r.last && a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:
			i++
		default:
			j++
		}
	}
}

// fewSteps is the curve length below which all pairs of steps are tried.
const fewSteps = 8

// offerRuns updates lowest with the merged prices of two curves, run by run. It returns false and changes nothing if that is not faster.
func (m *Merger) offerRuns(a, b Curve) bool {
	if len(a.upTo) < fewSteps || len(b.upTo) < fewSteps {
		return false
	}
	m.runsA, m.runsB = a.appendRuns(m.runsA[:0]), b.appendRuns(m.runsB[:0])
	if !worthwhile(m.runsA, m.runsB) {
		return false
	}
	most := Slots(len(m.lowest) - 1)
	for _, r := range m.runsA {
		for _, o := range m.runsB {
			if r.compatible(o) {
				m.eachStep(a, r, b, o, func(n Slots, price int64) { m.lowest[min(n, most)] = min(m.lowest[min(n, most)], price) })
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

// worthwhile returns whether merging by runs takes at most half the steps of trying all pairs.
func worthwhile(runsA, runsB []run) bool {
	work, pairs, steps := 0, 0, 0
	for _, o := range runsB {
		steps += o.steps()
	}
	for _, r := range runsA {
		pairs += r.steps() * steps
		for _, o := range runsB {
			if r.compatible(o) {
				work += r.steps() + o.steps()
			} else {
				work += r.steps() * o.steps()
			}
		}
	}
	return 2*work <= pairs
}

// table is the lowest price, of several numbers, by number of members.
type table struct {
	known []bool
	price []int64
}

// merge returns the curve of two domains together, up to most members.
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
				break // later steps are dearer and not larger
			}
		}
	}
	var last Price // the lowest price of all larger counts
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

// lessSum returns whether p + q < r.
func lessSum(p, q, r []int64) bool {
	for i := range r {
		if s := p[i] + q[i]; s != r[i] {
			return s < r[i]
		}
	}
	return false
}
