package quota

import "math"

// Excess is what a quota has beyond what it is entitled to, of what it names; nil if it has no more than that.
func (b *Book) Excess(quota string) (all List) {
	i, ok := b.tree.byName[quota]
	if !ok || !b.Runtime {
		return nil
	}
	n := &b.tree.nodes[i]
	if n.Apart || n.broken != "" {
		return nil
	}
	b.settle(n.top)
	a := &b.accounts[i]
	for d, named := range n.named {
		if more := a.used[d] + a.reserved[d] - a.entitled[d]; named && a.entitled[d] != math.MaxInt64 && more > 0 {
			if all == nil {
				all = List{}
			}
			all[b.tree.resources[d]] = more
		}
	}
	return all
}

// Over says whether a quota has more than it is entitled to of something that it names.
func (b *Book) Over(quota string) bool { return len(b.Excess(quota)) > 0 }
