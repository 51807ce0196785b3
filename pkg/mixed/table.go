package mixed

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// vec counts members by class, packed into one number: adding vectors adds all counts. Each class has a spare bit.
type vec uint64

// codec packs vectors up to the member count of each class.
type codec struct {
	want   []offer.Slots // by class
	shift  []int
	stride []int // factor of a class in the index of a vector
	limit  vec   // want, with the spare bits set
	spare  vec
	size   int // number of vectors
}

// maxVecs bounds the vectors of a table; more would take too long.
const maxVecs = 1 << 16

// newCodec returns the codec for want; ok is false if there are too many vectors.
func newCodec(want []offer.Slots) (c codec, ok bool) {
	c = codec{want: want, size: 1}
	used := 0
	for _, n := range want {
		width := bits.Len(uint(n)) + 1
		if used+width > 64 || c.size*int(n+1) > maxVecs {
			return c, false
		}
		c.shift = append(c.shift, used)
		c.stride = append(c.stride, c.size)
		c.spare |= 1 << (used + width - 1)
		c.limit |= vec(n) << used
		c.size *= int(n + 1)
		used += width
	}
	c.limit |= c.spare
	return c, true
}

// add returns a + b; ok is false if the sum exceeds want in some class.
func (c *codec) add(a, b vec) (sum vec, ok bool) {
	sum = a + b
	return sum, (c.limit-sum)&c.spare == c.spare
}

// vecOf returns the vector of n members of one class.
func (c *codec) vecOf(class int, n offer.Slots) vec { return vec(n) << c.shift[class] }

// count returns the members of a class in v.
func (c *codec) count(v vec, class int) offer.Slots {
	return offer.Slots(v >> c.shift[class] & (1<<bits.Len(uint(c.want[class])) - 1))
}

// index returns the number of a vector: different vectors have different numbers from 0 to size-1.
func (c *codec) index(v vec) (i int) {
	for class, s := range c.stride {
		i += s * int(c.count(v, class))
	}
	return i
}

// table lists the cost of each vector that a domain takes; other vectors do not fit. Invariant: an interned table never changes.
type table struct {
	width int
	vecs  []vec
	index []int    // index of each vector, ascending
	sets  []uint64 // the sets with members in each vector, one bit per set
	price []int64  // the i-th vector costs price[i*width:(i+1)*width]
}

// row returns the price of the i-th vector.
func (t *table) row(i int) offer.Price { return t.price[i*t.width : (i+1)*t.width : (i+1)*t.width] }

// find returns the position of a vector by its index.
func (t *table) find(index int) (i int, ok bool) {
	i = sort.SearchInts(t.index, index)
	return i, i < len(t.index) && t.index[i] == index
}

// tables makes tables. Equal tables are shared: clusters have few kinds of nodes.
type tables struct {
	codec
	width  int
	setsOf []uint64 // by class, one bit per set

	known  map[string]*table
	merged map[pair]*table
	stored int // number of vectors in known tables
	listed int // number of vectors interned, duplicates included
	done   effort
	most   effort // the limit

	// Scratch space for interning:
	order []numbered
	key   []byte

	// Scratch space for merging, by index:
	mergeOf []int // number of the merge that wrote the entry of costs; entries of earlier merges are invalid
	merges  int
	costs   []int64
}

// numbered is the position of a vector in a list, and its index.
type numbered struct{ index, position int }

type pair struct {
	a, b         *table
	unsplittable uint64
}

func newTables(c codec, width int, setsOf []uint64) *tables {
	return &tables{
		codec: c, width: width, setsOf: setsOf, known: map[string]*table{}, merged: map[pair]*table{},
		mergeOf: make([]int, c.size), costs: make([]int64, c.size*width),
	}
}

// intern returns the table of these vectors and prices. Equal tables are stored once. vecs may have any order; price has the same order.
func (ts *tables) intern(vecs []vec, price []int64) *table {
	ts.order, ts.key = ts.order[:0], ts.key[:0]
	ts.listed += len(vecs)
	for i, v := range vecs {
		ts.order = append(ts.order, numbered{ts.codec.index(v), i})
	}
	slices.SortFunc(ts.order, func(a, b numbered) int { return a.index - b.index })
	row := func(i int) []int64 { return price[i*ts.width : (i+1)*ts.width] }
	for _, entry := range ts.order {
		ts.key = appendNumber(ts.key, int64(entry.index))
		for _, p := range row(entry.position) {
			ts.key = appendNumber(ts.key, p)
		}
	}
	if existing := ts.known[string(ts.key)]; existing != nil {
		return existing
	}
	ts.stored += len(ts.order)
	t := &table{width: ts.width}
	for _, entry := range ts.order {
		t.vecs = append(t.vecs, vecs[entry.position])
		t.index = append(t.index, entry.index)
		t.sets = append(t.sets, ts.setsIn(vecs[entry.position]))
		t.price = append(t.price, row(entry.position)...)
	}
	ts.known[string(ts.key)] = t
	return t
}

// appendNumber appends a number to a key. Different numbers give different keys.
func appendNumber(key []byte, n int64) []byte {
	u := uint64(n)<<1 ^ uint64(n>>63) // small numbers take few bytes, negative ones too
	for ; u >= 0x80; u >>= 7 {
		key = append(key, byte(u)|0x80)
	}
	return append(key, byte(u))
}

// emptyTable returns the table of a domain that takes no member.
func (ts *tables) emptyTable() *table { return ts.intern([]vec{0}, make([]int64, ts.width)) }

// setsIn returns the sets with members in v, one bit each.
func (ts *tables) setsIn(v vec) (all uint64) {
	for class, sets := range ts.setsOf {
		if ts.count(v, class) > 0 {
			all |= sets
		}
	}
	return all
}

// exhausted returns whether the effort done exceeds the limit most.
func (ts *tables) exhausted() bool {
	return ts.most.vecs > 0 && ts.done.vecs > ts.most.vecs || ts.most.takes > 0 && ts.done.takes > ts.most.takes
}

// merge returns the table of two domains together; nil at the limit. An unsplittable set has members in one of the two only.
func (ts *tables) merge(a, b *table, unsplittable uint64) *table {
	if existing := ts.merged[pair{a, b, unsplittable}]; existing != nil {
		return existing
	}
	if ts.done.vecs += len(a.vecs) * len(b.vecs); ts.exhausted() {
		return nil
	}
	ts.merges++
	var vecs []vec
	var indexes []int
	for i, v := range a.vecs {
		for k, w := range b.vecs {
			sum, ok := ts.add(v, w)
			if !ok || a.sets[i]&b.sets[k]&unsplittable != 0 {
				continue
			}
			n := a.index[i] + b.index[k]
			row := ts.costs[n*ts.width : (n+1)*ts.width]
			if ts.mergeOf[n] != ts.merges {
				ts.mergeOf[n] = ts.merges
				vecs, indexes = append(vecs, sum), append(indexes, n)
			} else if !lessSum(a.row(i), b.row(k), row) {
				continue
			}
			for c := range row {
				row[c] = a.price[i*ts.width+c] + b.price[k*ts.width+c]
			}
		}
	}
	price := make([]int64, 0, len(indexes)*ts.width)
	for _, n := range indexes {
		price = append(price, ts.costs[n*ts.width:(n+1)*ts.width]...)
	}
	t := ts.intern(vecs, price)
	ts.merged[pair{a, b, unsplittable}] = t
	return t
}

// lessSum returns whether p + q < r.
func lessSum(p, q offer.Price, r []int64) bool {
	for i := range r {
		if s := p[i] + q[i]; s != r[i] {
			return s < r[i]
		}
	}
	return false
}

// effort is the work of a table search, or its limit.
type effort struct {
	vecs  int // vectors examined; 0 is unlimited
	takes int // calls of World.Take with a load; 0 is unlimited
}
