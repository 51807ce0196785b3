package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Party is who leaves together or not at all: pods that have a place, by gang.
type Party map[string][]string

func (p Party) pods() (n int) {
	for _, pods := range p {
		n += len(pods)
	}
	return n
}

// mostParties bounds of how many parties all pairs are tried.
const mostParties = 32

// Fewest picks the parties that leave for the ask: it is right that all of them do, the ask is admitted then and that much is free in
// the tree, and they are the fewest pods; of as many, the first. None are returned if nobody helps, or need not: who is admitted within
// what its quota is entitled to may wait all the same, since others have more than that.
func (r *Reclaim) Fewest(parties []Party) (which []int) {
	if r.frees(nil) {
		return nil
	}
	var order []int
	for i, p := range parties {
		if r.mayAll(p) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return parties[i].pods() - parties[j].pods() })
	enough := func(some ...int) bool {
		all := map[string][]string{}
		for _, i := range some {
			for g, pods := range parties[i] {
				all[g] = append(all[g], pods...)
			}
		}
		return r.frees(all)
	}
	least := math.MaxInt
	for _, i := range order {
		if enough(i) {
			which, least = []int{i}, parties[i].pods()
			break
		}
	}
	few := order[:min(len(order), mostParties)]
	for at, i := range few {
		for _, j := range few[at+1:] {
			if n := parties[i].pods() + parties[j].pods(); n < least && enough(i, j) {
				which, least = []int{i, j}, n
			}
		}
	}
	if which != nil {
		return which
	}
	for n := range order {
		if some := slices.Clone(order[:n+1]); enough(some...) {
			return r.needed(some, enough)
		}
	}
	return nil
}

// frees says whether it is right that these gangs leave, and whether the ask is admitted then and free in the tree.
func (r *Reclaim) frees(victims map[string][]string) bool {
	if !r.Enough(victims) {
		return false
	}
	after := *r.load
	after.view = r.book.View()
	for _, pods := range victims {
		after.view.Leave(pods...)
	}
	return !slices.ContainsFunc(after.at, func(at *request) bool {
		return r.book.tree.nodes[at.node].parent < 0 && after.tooFew(at) != nil
	})
}

// needed leaves those out, the most pods first, without whom the others are enough.
func (r *Reclaim) needed(some []int, enough func(...int) bool) []int {
	for at := len(some) - 1; at >= 0; at-- {
		if without := slices.Delete(slices.Clone(some), at, at+1); enough(without...) {
			some = without
		}
	}
	return some
}

// mayAll says whether all gangs of a party may be evicted for another quota.
func (r *Reclaim) mayAll(p Party) bool {
	for g := range p {
		if right := r.Right(g); right != ByMin && right != ByShares {
			return false
		}
	}
	return len(p) > 0
}

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
