package mixed

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// vec counts members by class, packed into one number so that adding vecs adds all
// counts. Each class has a field with one bit to spare.
type vec uint64

// codec packs vecs up to the number of members that each class has.
type codec struct {
	want   []offer.Slots // by class
	shift  []int
	stride []int // of a class in the number of a vec, see index
	limit  vec   // want, with the spare bits set
	spare  vec
	size   int // how many vecs there are
}

// The most vecs that a table may tell apart; more would take too long.
const maxVecs = 1 << 16

// newCodec returns ok false if there are too many vecs.
func newCodec(want []offer.Slots) (c codec, ok bool) {
	c = codec{want: want, size: 1}
	at := 0
	for _, n := range want {
		width := bits.Len(uint(n)) + 1
		if at+width > 64 || c.size*int(n+1) > maxVecs {
			return c, false
		}
		c.shift = append(c.shift, at)
		c.stride = append(c.stride, c.size)
		c.spare |= 1 << (at + width - 1)
		c.limit |= vec(n) << at
		c.size *= int(n + 1)
		at += width
	}
	c.limit |= c.spare
	return c, true
}

// add returns the sum; ok is false if a class has not that many members.
func (c *codec) add(a, b vec) (sum vec, ok bool) {
	sum = a + b
	return sum, (c.limit-sum)&c.spare == c.spare
}

// one is a vec of n members of one class.
func (c *codec) one(class int, n offer.Slots) vec { return vec(n) << c.shift[class] }

// count is how many members of a class are in v.
func (c *codec) count(v vec, class int) offer.Slots {
	return offer.Slots(v >> c.shift[class] & (1<<bits.Len(uint(c.want[class])) - 1))
}

// index numbers vecs from 0 to size-1.
func (c *codec) index(v vec) (i int) {
	for class, s := range c.stride {
		i += s * int(c.count(v, class))
	}
	return i
}

// table says what it costs a domain to take members, for each vec that it can take;
// what it does not list cannot be taken. It never changes once it was interned.
type table struct {
	width int
	vecs  []vec
	index []int    // of each vec, rising
	sets  []uint64 // whose members are in each vec, a bit for each set of gangs
	price []int64  // the i-th vec costs price[i*width:(i+1)*width]
}

func (t *table) row(i int) offer.Price { return t.price[i*t.width : (i+1)*t.width : (i+1)*t.width] }

// find returns the place of a vec by its index.
func (t *table) find(index int) (i int, ok bool) {
	i = sort.SearchInts(t.index, index)
	return i, i < len(t.index) && t.index[i] == index
}

// tables makes tables. Equal ones are one: clusters have few kinds of nodes.
type tables struct {
	codec
	width  int
	setsOf []uint64 // by class, a bit for each

	known  map[string]*table
	merged map[pair]*table
	kept   int // vecs of all that are known
	listed int // vecs of all that were interned, known ones too
	done   effort
	most   effort // more is too much

	// For the table that is being interned:
	order []numbered
	key   []byte

	// For the sum that is being made, by index:
	made  []int // the number of the sum for which the entry holds
	sum   int
	costs []int64
}

// numbered is the place of a vec in a list, and its index.
type numbered struct{ index, at int }

type pair struct {
	a, b  *table
	apart uint64
}

func newTables(c codec, width int, setsOf []uint64) *tables {
	return &tables{
		codec: c, width: width, setsOf: setsOf, known: map[string]*table{}, merged: map[pair]*table{},
		made: make([]int, c.size), costs: make([]int64, c.size*width),
	}
}

// intern returns the table of these vecs, which need not be sorted; prices are in the
// order of the vecs.
func (ts *tables) intern(vecs []vec, price []int64) *table {
	ts.order, ts.key = ts.order[:0], ts.key[:0]
	ts.listed += len(vecs)
	for i, v := range vecs {
		ts.order = append(ts.order, numbered{ts.codec.index(v), i})
	}
	slices.SortFunc(ts.order, func(a, b numbered) int { return a.index - b.index })
	row := func(i int) []int64 { return price[i*ts.width : (i+1)*ts.width] }
	for _, o := range ts.order {
		ts.key = appendNumber(ts.key, int64(o.index))
		for _, p := range row(o.at) {
			ts.key = appendNumber(ts.key, p)
		}
	}
	if had := ts.known[string(ts.key)]; had != nil {
		return had
	}
	ts.kept += len(ts.order)
	t := &table{width: ts.width}
	for _, o := range ts.order {
		t.vecs = append(t.vecs, vecs[o.at])
		t.index = append(t.index, o.index)
		t.sets = append(t.sets, ts.setsIn(vecs[o.at]))
		t.price = append(t.price, row(o.at)...)
	}
	ts.known[string(ts.key)] = t
	return t
}

// appendNumber appends a number to a key; different numbers make different keys.
func appendNumber(key []byte, n int64) []byte {
	u := uint64(n)<<1 ^ uint64(n>>63) // small ones are few bytes, negative ones too
	for ; u >= 0x80; u >>= 7 {
		key = append(key, byte(u)|0x80)
	}
	return append(key, byte(u))
}

// nobody is the table of a domain that takes nobody.
func (ts *tables) nobody() *table { return ts.intern([]vec{0}, make([]int64, ts.width)) }

func (ts *tables) setsIn(v vec) (all uint64) {
	for class, sets := range ts.setsOf {
		if ts.count(v, class) > 0 {
			all |= sets
		}
	}
	return all
}

func (ts *tables) tooMuch() bool {
	return ts.most.vecs > 0 && ts.done.vecs > ts.most.vecs || ts.most.asks > 0 && ts.done.asks > ts.most.asks
}

// merge returns the table of two domains together, nil if that is too much work. No
// set that is kept apart may have members in both.
func (ts *tables) merge(a, b *table, apart uint64) *table {
	if had := ts.merged[pair{a, b, apart}]; had != nil {
		return had
	}
	if ts.done.vecs += len(a.vecs) * len(b.vecs); ts.tooMuch() {
		return nil
	}
	ts.sum++
	var vecs []vec
	var at []int
	for i, v := range a.vecs {
		for k, w := range b.vecs {
			sum, ok := ts.add(v, w)
			if !ok || a.sets[i]&b.sets[k]&apart != 0 {
				continue
			}
			n := a.index[i] + b.index[k]
			row := ts.costs[n*ts.width : (n+1)*ts.width]
			if ts.made[n] != ts.sum {
				ts.made[n] = ts.sum
				vecs, at = append(vecs, sum), append(at, n)
			} else if !lessSum(a.row(i), b.row(k), row) {
				continue
			}
			for c := range row {
				row[c] = a.price[i*ts.width+c] + b.price[k*ts.width+c]
			}
		}
	}
	price := make([]int64, 0, len(at)*ts.width)
	for _, n := range at {
		price = append(price, ts.costs[n*ts.width:(n+1)*ts.width]...)
	}
	t := ts.intern(vecs, price)
	ts.merged[pair{a, b, apart}] = t
	return t
}

// lessSum says whether p + q < r.
func lessSum(p, q offer.Price, r []int64) bool {
	for i := range r {
		if s := p[i] + q[i]; s != r[i] {
			return s < r[i]
		}
	}
	return false
}

// effort bounds a count.
type effort struct {
	vecs int // that are looked at; 0 is any number
	asks int // questions about what nodes take beside others; 0 is any number
}
