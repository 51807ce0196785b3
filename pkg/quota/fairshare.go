package quota

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// settle updates the derived fields of a tree's accounts: requests from the bottom up, and fair shares from the top down.
func (b *Book) settle(top int) {
	a := &b.accounts[top]
	if !a.dirty {
		return
	}
	changed := b.sumRequests(top)
	previous := slices.Clone(a.entitled)
	for r, n := range b.total(top) {
		a.entitled[r] = min(n, b.tree.nodes[top].max[r])
	}
	if !slices.Equal(previous, a.entitled) {
		b.touch(top)
	}
	b.divide(top, changed)
}

// sumRequests updates request, idle and waiting of a quota's account and of the dirty accounts below it. It returns the quotas that were
// dirty.
func (b *Book) sumRequests(i int) (changed map[int]bool) {
	changed = map[int]bool{i: true}
	for _, c := range b.tree.nodes[i].children {
		if b.accounts[c].dirty {
			maps.Copy(changed, b.sumRequests(c))
		}
	}
	n, a := &b.tree.nodes[i], &b.accounts[i]
	a.dirty, a.waiting = false, a.starters
	previous := slices.Clone(a.request)
	copy(a.request, a.requested)
	clear(a.idle)
	for _, c := range n.children {
		below := &b.accounts[c]
		a.request.add(below.request)
		a.idle.add(below.idle)
		a.waiting += below.waiting
	}
	for r := range a.request {
		a.request[r] = min(a.request[r], n.max[r])
		if n.NotLent {
			a.request[r] = max(a.request[r], n.min[r])
			a.idle[r] = max(a.idle[r], n.min[r]-a.used[r]-a.reserved[r])
		}
	}
	if !slices.Equal(previous, a.request) {
		b.touch(i)
	}
	return changed
}

// total returns the capacity of a tree, without the use of quotas beside it.
func (b *Book) total(top int) vector {
	out := make(vector, len(b.tree.resources))
	all, known := b.totals[b.tree.nodes[top].Name]
	for r, name := range b.tree.resources {
		n, ok := all[name]
		if !known || !ok {
			n = math.MaxInt64
		}
		out[r] = n
	}
	for i := range b.tree.nodes {
		if b.tree.nodes[i].beside != top {
			continue
		}
		for r, n := range out {
			if n != math.MaxInt64 {
				out[r] = max(0, n-b.accounts[i].used[r]-b.accounts[i].reserved[r])
			}
		}
	}
	return out
}

// divide divides a quota's fair share among its children. A child without a change and with the same share keeps all below.
func (b *Book) divide(i int, changed map[int]bool) {
	children := b.tree.nodes[i].children
	previous := make([]vector, len(children))
	for at, c := range children {
		previous[at] = slices.Clone(b.accounts[c].entitled)
	}
	for r, n := range b.accounts[i].entitled {
		b.divideOne(n, r, children)
	}
	for at, c := range children {
		changedShare := !slices.Equal(previous[at], b.accounts[c].entitled)
		if changedShare {
			b.touch(c)
			a := &b.accounts[c]
			for r, n := range a.entitled {
				if n < previous[at][r] {
					a.more = b.version
				}
				if n > previous[at][r] {
					a.less = b.version
				}
			}
		}
		if changed[c] || changedShare {
			b.divide(c, changed)
		}
	}
}

// divideOne divides one resource. Quotas that do not name the resource are not limited, and keep what they use.
func (b *Book) divideOne(total int64, r int, children []int) {
	var shares []share
	for _, c := range children {
		n, a := &b.tree.nodes[c], &b.accounts[c]
		if !n.named[r] {
			a.entitled[r] = math.MaxInt64
			if total != math.MaxInt64 {
				total = max(0, total-a.used[r]-a.reserved[r])
			}
			continue
		}
		shares = append(shares, share{node: c, request: a.request[r], min: n.min[r], weight: n.weight[r], keeps: n.NotLent})
	}
	if b.ScaleMin {
		scale(total, shares)
	}
	fill(total, shares)
	for _, s := range shares {
		b.accounts[s.node].entitled[r] = s.gets
	}
}

// share is a quota's request and part in the division of a resource.
type share struct {
	node                 int
	request, min, weight int64
	keeps                bool
	gets                 int64
}

// scale reduces mins that exceed the total, in proportion.
func scale(total int64, shares []share) {
	var sum int64
	for _, s := range shares {
		sum = plus(sum, s.min)
	}
	if sum <= total || sum == math.MaxInt64 && total == math.MaxInt64 {
		return
	}
	for i, s := range shares {
		hi, lo := bits.Mul64(uint64(total), uint64(s.min))
		q, _ := bits.Div64(hi, lo, uint64(sum))
		shares[i].min = int64(q)
	}
}

// fill gives each quota its min, or its request if that is less and it lends the rest. The remaining total goes by weight to larger
// requests.
func fill(total int64, shares []share) {
	left := total
	for i, s := range shares {
		shares[i].gets = s.min
		if s.request < s.min && !s.keeps {
			shares[i].gets = s.request
		}
		left = max(left, math.MinInt64+shares[i].gets) - shares[i].gets
	}
	for left > 0 {
		var want []int
		for i, s := range shares {
			if s.request > s.gets && s.weight > 0 {
				want = append(want, i)
			}
		}
		if len(want) == 0 {
			return
		}
		for at, n := range apportion(left, shares, want) {
			s := &shares[want[at]]
			n = min(n, s.request-s.gets)
			s.gets, left = s.gets+n, left-n
		}
	}
}

// apportion divides n by weight in whole numbers. The largest remainders get one more, of equal ones the first.
func apportion(n int64, shares []share, among []int) []int64 {
	w := sumWeights(len(among), func(at int) int64 { return shares[among[at]].weight })
	out := make([]int64, len(among))
	rest := make([]uint64, len(among))
	order := make([]int, len(among))
	left := n
	for at, i := range among {
		hi, lo := bits.Mul64(uint64(n), w.shifted(shares[i].weight))
		q, rem := bits.Div64(hi, lo, w.sum)
		out[at] = int64(q)
		rest[at] = rem
		order[at] = at
		left -= int64(q)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(rest[y], rest[x]) })
	for _, at := range order[:left] {
		out[at]++
	}
	return out
}
