package offer

import (
	"slices"
	"sort"
)

// Price is the cost of members: a row of numbers, added elementwise and compared from the left. The caller defines their meaning.
type Price []int64

// Compare returns a negative number if p is lower than q in the first number in which they differ; 0 if they are equal.
func (p Price) Compare(q Price) int { return slices.Compare(p, q) }

// Add returns the sum of both prices.
func (p Price) Add(q Price) Price {
	sum := slices.Clone(p)
	for i := range sum {
		sum[i] += q[i]
	}
	return sum
}

// Curve is the cost of members in a domain. It is a list of steps: each price suffices up to some number of members.
//
//	2             ┌──
//	1       ┌─────┘
//	0 ──────┘
//	  0     3     5  6 members
//
// Invariant: a Curve never changes; operations return a new one. Zero members cost nothing.
type Curve struct {
	width int     // numbers in a price
	upTo  []Slots // ascending; the first is the free slots, maybe 0
	price []int64 // step i costs price[i*width:(i+1)*width]; ascending
}

// Free returns the curve of a domain that takes up to n members at no cost, with prices of width numbers.
func Free(n Slots, width int) Curve {
	return Curve{width: width, upTo: []Slots{n}, price: make([]int64, width)}
}

// add appends a step, unless it has no more members than the last one. The curve must not be shared yet.
func (c *Curve) add(upTo Slots, price Price) {
	if upTo > c.Most() {
		c.upTo, c.price = append(c.upTo, upTo), append(c.price, price...)
	}
}

// Most returns how many members the domain takes at any price.
func (c Curve) Most() Slots { return c.upTo[len(c.upTo)-1] }

// Price returns the lowest price of n members; ok is false if no price suffices.
func (c Curve) Price(n Slots) (p Price, ok bool) {
	i := sort.Search(len(c.upTo), func(i int) bool { return c.upTo[i] >= n })
	if i == len(c.upTo) {
		return nil, false
	}
	return c.row(i), true
}

// row returns the price of step i.
func (c Curve) row(i int) Price { return c.price[i*c.width : (i+1)*c.width : (i+1)*c.width] }

// Steps yields each price and the number of members for which it suffices, ascending.
func (c Curve) Steps() func(yield func(Price, Slots) bool) {
	return func(yield func(Price, Slots) bool) {
		for i, n := range c.upTo {
			if !yield(c.row(i), n) {
				return
			}
		}
	}
}

// Widen returns the curve with zeros appended to every price, up to width numbers.
func (c Curve) Widen(width int) Curve {
	out := Curve{width: width, upTo: c.upTo, price: make([]int64, len(c.upTo)*width)}
	for i := range c.upTo {
		copy(out.row(i), c.row(i))
	}
	return out
}

// Round returns the curve with its counts rounded down to multiples of step. Of several prices for one count it keeps the lowest.
func (c Curve) Round(step Slots) Curve {
	if step == 1 {
		return c
	}
	out := Free(c.upTo[0]-c.upTo[0]%step, c.width)
	for i, n := range c.upTo {
		out.add(n-n%step, c.row(i))
	}
	return out
}

// Charge returns the curve with only the counts that are multiples of step, with charge(members) added to number column of the price.
// charge must not fall when members increase.
func (c Curve) Charge(step Slots, column int, charge func(Slots) int64) Curve {
	out := Free(0, c.width)
	out.grow(int(c.Most()/step) + 1)
	for i, n := range c.upTo {
		for from := out.Most() + step; from <= n; from += step {
			price := Price(c.row(i)).Add(make(Price, c.width))
			price[column] += charge(from)
			if price.Compare(out.row(len(out.upTo)-1)) == 0 {
				out.upTo[len(out.upTo)-1] = from
				continue
			}
			out.add(from, price)
		}
	}
	return out
}

// Raise returns the curve with amount added to number column of the price of every count above 0.
func (c Curve) Raise(column int, amount int64) Curve {
	out := Free(0, c.width)
	out.grow(len(c.upTo))
	for i, n := range c.upTo {
		last := len(out.upTo)
		if out.add(n, c.row(i)); len(out.upTo) > last {
			out.price[last*c.width+column] += amount
		}
	}
	return out
}

// grow allocates space for more steps.
func (c *Curve) grow(steps int) {
	c.upTo, c.price = slices.Grow(c.upTo, steps), slices.Grow(c.price, steps*c.width)
}

// Each returns the curve of this free domain together with domains of falling sizes. Each used one adds amount to number column.
func (c Curve) Each(sizes []Slots, column int, amount int64) Curve {
	out := Free(c.Most(), c.width)
	out.grow(len(sizes))
	price := make(Price, c.width)
	for _, n := range sizes {
		price[column] += amount
		out.add(out.Most()+n, price)
	}
	return out
}

// Cap returns the curve up to most members.
func (c Curve) Cap(most Slots) Curve { return c.shift(0, most) }

// shift returns the curve with n more free slots, cut at most members.
func (c Curve) shift(n, most Slots) Curve {
	if n == 0 && c.Most() <= most {
		return c
	}
	out := Curve{width: c.width, upTo: make([]Slots, 0, len(c.upTo)), price: c.price}
	for _, m := range c.upTo {
		out.upTo = append(out.upTo, min(m+n, most))
		if m+n >= most {
			break
		}
	}
	out.price = c.price[:len(out.upTo)*c.width]
	return out
}

// First returns the curve with only the first steps.
func (c Curve) First(steps int) Curve {
	return Curve{width: c.width, upTo: c.upTo[:steps:steps], price: c.price[: steps*c.width : steps*c.width]}
}

// Scale returns the curve with all prices multiplied by factor.
func (c Curve) Scale(factor int64) Curve {
	out := Curve{width: c.width, upTo: c.upTo, price: slices.Clone(c.price)}
	for i := range out.price {
		out.price[i] *= factor
	}
	return out
}

// Maker makes many curves in few allocations.
type Maker struct {
	Width int // numbers in a price
	made  Curve
	begin int // first step of the current curve
}

const pieceOfMaker = 1 << 12 // steps

// Begin begins a curve with n free slots and at most steps further steps.
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

// Add adds a step unless n is at most the last step's members. price appends the step's price to a list. Prices must ascend.
func (m *Maker) Add(n Slots, price func([]int64) []int64) {
	if n > m.made.Most() {
		m.made.upTo, m.made.price = append(m.made.upTo, n), price(m.made.price)
	}
}

// End returns the curve that Begin began.
func (m *Maker) End() Curve {
	end := len(m.made.upTo)
	return Curve{width: m.Width, upTo: m.made.upTo[m.begin:end:end], price: m.made.price[m.begin*m.Width : end*m.Width : end*m.Width]}
}
