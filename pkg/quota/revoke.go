package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// ExceedsFairShare returns whether a quota, reservations included, exceeds its fair share of a resource that it names. It returns false for
// a quota that is unknown, detached or unusable, and without fair shares (Runtime).
func (b *Book) ExceedsFairShare(quota string) bool {
	i, ok := b.tree.byName[quota]
	if !ok || !b.Runtime || b.tree.nodes[i].Detached || b.tree.nodes[i].broken != "" {
		return false
	}
	b.settle(b.tree.nodes[i].top)
	a := &b.accounts[i]
	for d, named := range b.tree.nodes[i].named {
		if named && a.used[d]+a.reserved[d] > a.fairShare[d] {
			return true
		}
	}
	return false
}

// GangsAboveLimits returns the gangs that must lose their reservations after the pods in leaving have terminated: all gangs in quotas that
// cannot be used, and the gangs served last in quotas above a hard limit. A min limits pods that are never evicted. Bound pods are not
// affected.
func (b *Book) GangsAboveLimits(leaving ...string) (gangs []string) {
	v := b.View()
	v.Leave(leaving...)
	release := func(over func(node int) bool, counts func(p *Pod, podNode, node int) bool) {
		for i := range b.tree.nodes {
			if !over(i) {
				continue
			}
			for _, g := range b.gangsWithReservation(func(p *Pod) bool { return counts(p, b.tree.byName[p.Quota], i) }) {
				reserved := g.reservedPods()
				remains := func(name string) bool { return v.gone[name] == nil }
				if over(i) && slices.ContainsFunc(reserved, remains) {
					v.Leave(reserved...)
					gangs = append(gangs, g.name)
				}
			}
		}
	}
	below := b.tree.isBelow
	release(b.reservesUnusable, func(_ *Pod, podNode, node int) bool { return podNode == node }) // first: may suffice for the quotas above
	release(v.aboveMax, func(_ *Pod, podNode, node int) bool { return below(podNode, node) })
	release(v.aboveMin, func(p *Pod, podNode, node int) bool { return p.Fixed && below(podNode, node) })
	return gangs
}

// gangsWithReservation returns the gangs with a reserved pod for which counts is true, served last first.
func (b *Book) gangsWithReservation(counts func(*Pod) bool) (out []*gang) {
	for _, name := range slices.Sorted(maps.Keys(b.gangs)) {
		g := b.gangs[name]
		for _, p := range g.pods {
			if p.State == Reserved && counts(p) {
				g.refresh()
				out = append(out, g)
				break
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *gang) int { return cmp.Compare(y.since, x.since) })
	return out
}

// reservesUnusable returns whether quota i cannot be used and has reserved pods.
func (b *Book) reservesUnusable(i int) bool {
	reserves := slices.ContainsFunc(b.accounts[i].parts, func(p *part) bool { return p.pods[Reserved] > 0 })
	return reserves && b.tree.unusable(b.tree.nodes[i].Name) != nil
}

// reservedPods returns the names of a gang's pods in state Reserved, sorted.
func (g *gang) reservedPods() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.pods)) {
		if g.pods[name].State == Reserved {
			names = append(names, name)
		}
	}
	return names
}

// aboveMax returns whether quota i uses more than its max.
func (v *View) aboveMax(i int) bool {
	for r, most := range v.book.tree.nodes[i].max {
		if most != math.MaxInt64 && v.taken(i, r) > most {
			return true
		}
	}
	return false
}

// aboveMin returns whether pods that are never evicted use more than the min of quota i.
func (v *View) aboveMin(i int) bool {
	n := &v.book.tree.nodes[i]
	for r, least := range n.min {
		if n.hasMin[r] && v.fixed(i, r) > least {
			return true
		}
	}
	return false
}
