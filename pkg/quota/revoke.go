package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Over says whether a quota has more than it is entitled to of something that it names.
func (b *Book) Over(quota string) bool {
	i, ok := b.tree.byName[quota]
	if !ok || !b.Runtime || b.tree.nodes[i].Apart || b.tree.nodes[i].broken != "" {
		return false
	}
	b.settle(b.tree.nodes[i].top)
	a := &b.accounts[i]
	for d, named := range b.tree.nodes[i].named {
		if named && a.used[d]+a.reserved[d] > a.entitled[d] {
			return true
		}
	}
	return false
}

// Above lists the gangs that must give up what they keep since they may not have it any more, when some pods have left: all that keep something in
// quotas that cannot be used; and where a quota has more than its max, or its pods that never leave have more than its min, those that were served
// last, as many as must. Who holds what it has keeps it.
func (b *Book) Above(leaving ...string) (gangs []string) {
	v := b.View()
	v.Leave(leaving...)
	giveUp := func(over func(node int) bool, counts func(p *Pod, of, node int) bool) {
		for i := range b.tree.nodes {
			if !over(i) {
				continue
			}
			for _, g := range b.keepers(func(p *Pod) bool { return counts(p, b.tree.byName[p.Quota], i) }) {
				if kept := g.kept(); over(i) && v.gone[kept[0]] == nil {
					v.Leave(kept...)
					gangs = append(gangs, g.name)
				}
			}
		}
	}
	below := b.tree.isBelow
	giveUp(b.keepsInVain, func(_ *Pod, of, node int) bool { return of == node }) // first: that may be enough for the quotas above
	giveUp(v.aboveMax, func(_ *Pod, of, node int) bool { return below(of, node) })
	giveUp(v.aboveMin, func(p *Pod, of, node int) bool { return p.Fixed && below(of, node) })
	return gangs
}

// keepers are the gangs that keep something which counts, who was served last first.
func (b *Book) keepers(counts func(*Pod) bool) (out []*gang) {
	for _, name := range slices.Sorted(maps.Keys(b.gangs)) {
		g := b.gangs[name]
		for _, p := range g.pods {
			if p.State == Keeps && counts(p) {
				g.facts()
				out = append(out, g)
				break
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *gang) int { return cmp.Compare(y.since, x.since) })
	return out
}

// keepsInVain says whether something is kept in a quota of which no pod starts.
func (b *Book) keepsInVain(i int) bool {
	return slices.ContainsFunc(b.accounts[i].parts, func(p *part) bool { return p.pods[Keeps] > 0 }) && b.tree.unusable(b.tree.nodes[i].Name) != nil
}

// kept are the pods of a gang that keep something.
func (g *gang) kept() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.pods)) {
		if g.pods[name].State == Keeps {
			names = append(names, name)
		}
	}
	return names
}

// aboveMax says whether a quota has more than its max.
func (v *View) aboveMax(i int) bool {
	for r, most := range v.book.tree.nodes[i].max {
		if most != math.MaxInt64 && v.taken(i, r) > most {
			return true
		}
	}
	return false
}

// aboveMin says whether pods that never leave have more than the quota's min.
func (v *View) aboveMin(i int) bool {
	n := &v.book.tree.nodes[i]
	for r, least := range n.min {
		if n.hasMin[r] && v.fixed(i, r) > least {
			return true
		}
	}
	return false
}
