package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// ExceedsFairShare returns whether a quota, with its reserved amounts, exceeds its fair share of a resource that it names; false for a
// quota that is unknown, detached or unusable, and without fair shares (Runtime).
func (b *Book) ExceedsFairShare(quota string) bool {
	i, ok := b.tree.byName[quota]
	if !ok || !b.Runtime || b.tree.nodes[i].Detached || b.tree.nodes[i].broken != "" {
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

// GangsAboveLimits returns the gangs that must give up their reservations after these pods have terminated: all in quotas that cannot be
// used, and the gangs served last that exceed a hard limit. A min limits pods that are never evicted. Bound pods stay.
func (b *Book) GangsAboveLimits(leaving ...string) (gangs []string) {
	v := b.View()
	v.Leave(leaving...)
	giveUp := func(over func(node int) bool, counts func(p *Pod, podNode, node int) bool) {
		for i := range b.tree.nodes {
			if !over(i) {
				continue
			}
			for _, g := range b.keepers(func(p *Pod) bool { return counts(p, b.tree.byName[p.Quota], i) }) {
				if reserved := g.reservedPods(); over(i) && v.gone[reserved[0]] == nil {
					v.Leave(reserved...)
					gangs = append(gangs, g.name)
				}
			}
		}
	}
	below := b.tree.isBelow
	giveUp(b.keepsInVain, func(_ *Pod, podNode, node int) bool { return podNode == node }) // first: that may be enough for the quotas above
	giveUp(v.aboveMax, func(_ *Pod, podNode, node int) bool { return below(podNode, node) })
	giveUp(v.aboveMin, func(p *Pod, podNode, node int) bool { return p.Fixed && below(podNode, node) })
	return gangs
}

// keepers returns the gangs with a reservation that counts, served last first.
func (b *Book) keepers(counts func(*Pod) bool) (out []*gang) {
	for _, name := range slices.Sorted(maps.Keys(b.gangs)) {
		g := b.gangs[name]
		for _, p := range g.pods {
			if p.State == Reserved && counts(p) {
				g.facts()
				out = append(out, g)
				break
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *gang) int { return cmp.Compare(y.since, x.since) })
	return out
}

// keepsInVain returns whether an unusable quota has reservations.
func (b *Book) keepsInVain(i int) bool {
	keeps := slices.ContainsFunc(b.accounts[i].parts, func(p *part) bool { return p.pods[Reserved] > 0 })
	return keeps && b.tree.unusable(b.tree.nodes[i].Name) != nil
}

// reservedPods returns the pods of a gang with a reserved node.
func (g *gang) reservedPods() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.pods)) {
		if g.pods[name].State == Reserved {
			names = append(names, name)
		}
	}
	return names
}

// aboveMax returns whether a quota exceeds its max.
func (v *View) aboveMax(i int) bool {
	for r, most := range v.book.tree.nodes[i].max {
		if most != math.MaxInt64 && v.taken(i, r) > most {
			return true
		}
	}
	return false
}

// aboveMin returns whether pods that are never evicted exceed the quota's min.
func (v *View) aboveMin(i int) bool {
	n := &v.book.tree.nodes[i]
	for r, least := range n.min {
		if n.hasMin[r] && v.fixed(i, r) > least {
			return true
		}
	}
	return false
}
