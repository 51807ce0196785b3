package offer

import (
	"slices"
	"sort"
)

// Price is what it costs to take members: a row of numbers, added one by one and
// compared from the left. What they mean is the caller's business.
type Price []int64

// Compare orders prices from the left.
func (p Price) Compare(q Price) int { return slices.Compare(p, q) }

// Add returns the price of both.
func (p Price) Add(q Price) Price {
	sum := slices.Clone(p)
	for i := range sum {
		sum[i] += q[i]
	}
	return sum
}

// Curve says what it costs a domain to take so many members. It is a flight of
// steps: each price is enough for up to so many.
//
//	2             ┌──
//	1       ┌─────┘
//	0 ──────┘
//	  0     3     5  6 members
//
// Nobody costs nothing. A Curve never changes; what looks like a change returns a
// new one.
type Curve struct {
	width int     // numbers in a price
	upTo  []Slots // rising; the first is what is free, maybe nothing
	price []int64 // step i costs price[i*width:(i+1)*width]; rising
}

// Free is the curve of a domain that takes up to n members for nothing. Prices have
// the given width.
func Free(n Slots, width int) Curve {
	return Curve{width: width, upTo: []Slots{n}, price: make([]int64, width)}
}

// Stairs returns Free with more steps, each dearer than those before; one that is not
// enough for more members is left out.
func Stairs(n Slots, width int, steps func(yield func(Slots, Price) bool)) Curve {
	c := Free(n, width)
	for upTo, price := range steps {
		c.add(upTo, price)
	}
	return c
}

// add adds a step that is enough for more members, if it is, to a curve that nobody else
// has seen.
func (c *Curve) add(upTo Slots, price Price) {
	if upTo > c.Most() {
		c.upTo, c.price = append(c.upTo, upTo), append(c.price, price...)
	}
}

// Most is how many members the domain takes at any price.
func (c Curve) Most() Slots { return c.upTo[len(c.upTo)-1] }

// Price returns the lowest price of n members; ok is false if no price is enough.
func (c Curve) Price(n Slots) (p Price, ok bool) {
	i := sort.Search(len(c.upTo), func(i int) bool { return c.upTo[i] >= n })
	if i == len(c.upTo) {
		return nil, false
	}
	return c.row(i), true
}

func (c Curve) row(i int) Price { return c.price[i*c.width : (i+1)*c.width : (i+1)*c.width] }

// Steps yields each price and how many members it is enough for, rising.
func (c Curve) Steps() func(yield func(Price, Slots) bool) {
	return func(yield func(Price, Slots) bool) {
		for i, n := range c.upTo {
			if !yield(c.row(i), n) {
				return
			}
		}
	}
}

// Widen returns the curve with zeros added to every price.
func (c Curve) Widen(width int) Curve {
	out := Curve{width: width, upTo: c.upTo, price: make([]int64, len(c.upTo)*width)}
	for i := range c.upTo {
		copy(out.row(i), c.row(i))
	}
	return out
}

// Round returns the curve of counts that are multiples of step.
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

// Charge returns the curve, of counts that are multiples of step, with what so many members
// are charged added to one number of their price. Nobody is charged nothing; the charge must
// not fall with the members.
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

// Raise returns the curve with so much added to one number of the price of everybody but
// nobody.
func (c Curve) Raise(column int, by int64) Curve {
	out := Free(0, c.width)
	out.grow(len(c.upTo))
	for i, n := range c.upTo {
		last := len(out.upTo)
		if out.add(n, c.row(i)); len(out.upTo) > last {
			out.price[last*c.width+column] += by
		}
	}
	return out
}

// grow makes place for more steps.
func (c *Curve) grow(steps int) {
	c.upTo, c.price = slices.Grow(c.upTo, steps), slices.Grow(c.price, steps*c.width)
}

// Each returns the curve of a free domain with others, whose sizes fall, of which each
// adds so much to one number of the price once it takes anybody.
func (c Curve) Each(sizes []Slots, column int, by int64) Curve {
	out := Free(c.Most(), c.width)
	out.grow(len(sizes))
	price := make(Price, c.width)
	for _, n := range sizes {
		price[column] += by
		out.add(out.Most()+n, price)
	}
	return out
}

// Cap returns the curve as far as most members.
func (c Curve) Cap(most Slots) Curve { return c.shift(0, most) }

// Merge returns the curve of two domains together, as far as most members: what
// each count costs when it is shared out between them in the cheapest way. It is the
// (min,+) convolution of the two.
func Merge(a, b Curve, most Slots) Curve { return merge(a, b, most, &table{}) }

// merge is Merge in the memory of a table.
func merge(a, b Curve, most Slots, sums *table) Curve {
	if len(a.upTo) == 1 {
		a, b = b, a
	}
	if len(b.upTo) == 1 {
		return a.shift(b.upTo[0], most)
	}
	sums.clear(min(a.Most()+b.Most(), most), a.width)
	if !sums.mergeRuns(a, b) {
		for i, n := range a.upTo {
			sums.offer(n, a.row(i), b)
		}
	}
	return sums.curve()
}

// shift returns the curve with n free slots more.
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

// table collects the lowest price that was offered for exactly so many members.
type table struct {
	most  Slots
	width int
	known []bool
	price []int64
	steps []Slots // of the curve that is being made, from the last one on
}

// clear makes a table empty, for other curves.
func (t *table) clear(most Slots, width int) {
	t.most, t.width = most, width
	t.known = slices.Grow(t.known[:0], int(most)+1)[:most+1]
	clear(t.known)
	t.price = slices.Grow(t.price[:0], int(most+1)*width)[:int(most+1)*width]
}

// offer offers n members for a price together with those that c takes. This is where
// the time goes when many prices are merged.
func (t *table) offer(n Slots, price Price, c Curve) {
	w := t.width
	for i, m := range c.upTo {
		sum := min(n+m, t.most)
		row, more := t.price[int(sum)*w:][:w], c.price[i*w:][:w]
		if !t.known[sum] || lessSum(price, more, row) {
			t.known[sum] = true
			for j := range row {
				row[j] = price[j] + more[j]
			}
		}
		if sum == t.most {
			return // what follows is dearer and not enough for more
		}
	}
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

// curve keeps the prices that are lower than those of all larger counts.
func (t *table) curve() Curve {
	t.steps = t.steps[:0]
	var last Price
	for n := t.most; n >= 0; n-- {
		if row := t.row(n); t.known[n] && (last == nil || row.Compare(last) < 0) {
			t.steps, last = append(t.steps, n), row
		}
	}
	out := Curve{width: t.width, upTo: slices.Clone(t.steps), price: make([]int64, 0, len(t.steps)*t.width)}
	slices.Reverse(out.upTo)
	for _, n := range out.upTo {
		out.price = append(out.price, t.row(n)...)
	}
	return out
}

func (t *table) row(n Slots) Price { return t.price[int(n)*t.width:][:t.width] }
