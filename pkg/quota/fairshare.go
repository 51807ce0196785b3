package quota

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// settle updates the derived fields of all accounts of a tree, if any is dirty: requests from the bottom up, fair shares from the top down.
func (b *Book) settle(top int) {
	a := &b.accounts[top]
	if !a.dirty {
		return
	}
	changed := b.sumRequests(top)
	previous := slices.Clone(a.fairShare)
	for r, n := range b.total(top) {
		a.fairShare[r] = min(n, b.tree.nodes[top].max[r])
	}
	if !slices.Equal(previous, a.fairShare) {
		b.touch(top)
	}
	b.divide(top, changed)
}

// sumRequests updates request, idle and waiting of quota i and of the dirty quotas below it. It returns the quotas that were dirty.
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

// total returns the capacity of a tree, without the use of quotas detached from it.
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

// divide sets the fair shares of all quotas below quota i. It skips the quotas below a child that is not in changed and keeps its share.
func (b *Book) divide(i int, changed map[int]bool) {
	children := b.tree.nodes[i].children
	previous := make([]vector, len(children))
	for at, c := range children {
		previous[at] = slices.Clone(b.accounts[c].fairShare)
	}
	for r, n := range b.accounts[i].fairShare {
		b.divideOne(n, r, children)
	}
	for at, c := range children {
		changedShare := !slices.Equal(previous[at], b.accounts[c].fairShare)
		if changedShare {
			b.touch(c)
			a := &b.accounts[c]
			for r, n := range a.fairShare {
				if n < previous[at][r] {
					a.grown = b.version
				}
				if n > previous[at][r] {
					a.shrunk = b.version
				}
			}
		}
		if changed[c] || changedShare {
			b.divide(c, changed)
		}
	}
}

// divideOne sets the children's fair shares of resource r. A child that does not name r is unlimited; its use is deducted from total.
func (b *Book) divideOne(total int64, r int, children []int) {
	var shares []division
	for _, c := range children {
		n, a := &b.tree.nodes[c], &b.accounts[c]
		if !n.named[r] {
			a.fairShare[r] = math.MaxInt64
			if total != math.MaxInt64 {
				total = max(0, total-a.used[r]-a.reserved[r])
			}
			continue
		}
		shares = append(shares, division{node: c, request: a.request[r], min: n.min[r], weight: n.weight[r], keeps: n.NotLent})
	}
	if b.ScaleMin {
		scale(total, shares)
	}
	fill(total, shares)
	for _, s := range shares {
		b.accounts[s.node].fairShare[r] = s.gets
	}
}

// division is the input and the result of dividing one resource, for one quota.
type division struct {
	node                 int
	request, min, weight int64
	keeps                bool  // unused min is not lent
	gets                 int64 // the result
}

// scale reduces the mins in proportion if their sum exceeds the total.
func scale(total int64, shares []division) {
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

// fill sets gets of each share: its min, or its request if that is less and the rest is lent. The remaining total is divided by weight
// among quotas with larger requests.
func fill(total int64, shares []division) {
	remaining := total
	for i, s := range shares {
		shares[i].gets = s.min
		if s.request < s.min && !s.keeps {
			shares[i].gets = s.request
		}
		remaining = max(remaining, math.MinInt64+shares[i].gets) - shares[i].gets
	}
	for remaining > 0 {
		var want []int
		for i, s := range shares {
			if s.request > s.gets && s.weight > 0 {
				want = append(want, i)
			}
		}
		if len(want) == 0 {
			return
		}
		for at, n := range apportion(remaining, shares, want) {
			s := &shares[want[at]]
			n = min(n, s.request-s.gets)
			s.gets, remaining = s.gets+n, remaining-n
		}
	}
}

// apportion divides n among some shares by weight, in whole numbers. The largest remainders get one more; of equal ones, the first.
func apportion(n int64, shares []division, among []int) []int64 {
	w := sumWeights(len(among), func(at int) int64 { return shares[among[at]].weight })
	out := make([]int64, len(among))
	remainder := make([]uint64, len(among))
	order := make([]int, len(among))
	remaining := n
	for at, i := range among {
		hi, lo := bits.Mul64(uint64(n), w.shifted(shares[i].weight))
		q, rem := bits.Div64(hi, lo, w.sum)
		out[at] = int64(q)
		remainder[at] = rem
		order[at] = at
		remaining -= int64(q)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(remainder[y], remainder[x]) })
	for _, at := range order[:remaining] {
		out[at]++
	}
	return out
}
