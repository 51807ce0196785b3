package quota

import (
	"cmp"
	"math"
	"math/bits"
	"strings"
)

// Share is a quota's use above its min, in millionths of the total, divided by its weight among its siblings. The dominant resource counts.
type Share uint64

const millionths = 1_000_000

// share returns the Share of quota i in the view; 0 if the quota uses at most its min.
func (v *View) share(i int) (most Share) {
	b := v.book
	n := &b.tree.nodes[i]
	all := b.accounts[n.top].fairShare
	for r := range all {
		over := v.taken(i, r) - n.min[r]
		if !n.named[r] || over <= 0 || all[r] == math.MaxInt64 {
			continue
		}
		most = max(most, b.relative(i, r, over, all[r]))
	}
	return most
}

// relative returns over as a part of all, in millionths, divided by the weight of quota i among its siblings.
func (b *Book) relative(i, r int, over, all int64) Share {
	if all <= 0 {
		return math.MaxUint64
	}
	part := mulDiv(uint64(over), millionths, uint64(all))
	n := &b.tree.nodes[i]
	if n.parent < 0 {
		return Share(part)
	}
	w := b.tree.nodes[n.parent].weights[r]
	return Share(mulDiv(part, w.sum, w.shifted(n.weight[r])))
}

// mulDiv returns a*b/c, or the largest value on overflow.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if c <= hi {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// before returns whether quota i is served before its sibling j: smaller share, then served longer ago, then older, then by name.
func (v *View) before(i, j int) bool {
	x, y := &v.book.tree.nodes[i], &v.book.tree.nodes[j]
	return cmp.Or(
		cmp.Compare(v.share(i), v.share(j)),
		cmp.Compare(v.book.accounts[i].since, v.book.accounts[j].since),
		cmp.Compare(x.Created, y.Created),
		strings.Compare(x.Name, y.Name),
	) < 0
}

// earlier returns whether quota i is served before quota j, for quotas anywhere in the trees.
func (v *View) earlier(i, j int) bool {
	t := v.book.tree
	if x, y := t.branches(i, j); x >= 0 {
		return v.before(x, y)
	}
	return t.nodes[i].top < t.nodes[j].top
}
