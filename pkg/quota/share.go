package quota

import (
	"cmp"
	"math"
	"math/bits"
	"strings"
)

// Share is how much a quota has above its min, as a part of what there is, in millionths, beside others of its weight:
// of the resource of which that is most (dominant resource fairness).
type Share uint64

const whole = 1_000_000

// share returns the share of a quota when some have left it.
func (v *View) share(i int) (most Share) {
	b := v.book
	n := &b.tree.nodes[i]
	all := b.accounts[n.top].entitled
	for r := range all {
		over := v.taken(i, r) - n.min[r]
		if !n.named[r] || over <= 0 || all[r] == math.MaxInt64 {
			continue
		}
		most = max(most, b.relative(i, r, over, all[r]))
	}
	return most
}

// relative is over, as a part of what there is, by the weight of a quota among its siblings.
func (b *Book) relative(i, r int, over, all int64) Share {
	if all <= 0 {
		return math.MaxUint64
	}
	part := mulDiv(uint64(over), whole, uint64(all))
	n := &b.tree.nodes[i]
	if n.parent < 0 {
		return Share(part)
	}
	w := b.tree.nodes[n.parent].weights[r]
	return Share(mulDiv(part, w.sum, w.of(n.weight[r])))
}

// mulDiv is a*b/c without overflow; what is too much is all that there is.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if c <= hi {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// before says which of two quotas of one parent is served first: the one of smaller share; then who was served longest
// ago, who is older, and the name.
func (v *View) before(i, j int) bool {
	x, y := &v.book.tree.nodes[i], &v.book.tree.nodes[j]
	return cmp.Or(
		cmp.Compare(v.share(i), v.share(j)),
		cmp.Compare(v.book.accounts[i].since, v.book.accounts[j].since),
		cmp.Compare(x.Created, y.Created),
		strings.Compare(x.Name, y.Name),
	) < 0
}

// earlier says which of two quotas that pods name is served first, wherever they are.
func (v *View) earlier(i, j int) bool {
	t := v.book.tree
	if x, y := t.apart(i, j); x >= 0 {
		return v.before(x, y)
	}
	return t.nodes[i].top < t.nodes[j].top
}
