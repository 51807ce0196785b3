package evict

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
)

// bundles computes which victims are evicted together, and what sets of victims cost.
//
// Invariant: if a gang is evicted whole, a closed set has all its members on nodes of the search. The same is true for the gangs that are
// evicted with it.
type bundles struct {
	gangs   []Gang
	victims [][]Victim // by node index
	members [][]Pick   // by gang number, counted from 1
	groups  []group
	groupOf []int // by gang number, index into groups
}

// group is the gangs that may be evicted because of one another.
type group struct {
	numbers []int // gang numbers, counted from 1
	gangs   []bundle.Gang
}

// victimSet is a closed set of victims.
type victimSet struct {
	picks []Pick // sorted by node and index
	whole []int  // numbers of the gangs that are evicted whole, ascending
	cost  Cost
}

// unit is a part of a victim set that is put back as a whole, if at all.
type unit struct {
	picks []Pick
	gangs []int // gangs that are evicted whole; nil for a single pod
	cost  Cost
}

// newBundles returns the bundles of gangs and of victims by node index.
func newBundles(gangs []Gang, victims [][]Victim) *bundles {
	b := &bundles{gangs: gangs, victims: victims, members: make([][]Pick, len(gangs)+1), groupOf: make([]int, len(gangs)+1)}
	groupIndex := map[int]int{}
	for i, g := range gangs {
		k, known := groupIndex[g.Group]
		if !known || g.Group == 0 {
			k = len(b.groups)
			groupIndex[g.Group], b.groups = k, append(b.groups, group{})
		}
		b.groups[k].numbers = append(b.groups[k].numbers, i+1)
		b.groups[k].gangs = append(b.groups[k].gangs, g.Gang)
		b.groupOf[i+1] = k
	}
	for i, ofNode := range victims {
		for v := range ofNode {
			if g := ofNode[v].Gang; g > 0 {
				b.members[g] = append(b.members[g], Pick{i, v})
			}
		}
	}
	return b
}

func (b *bundles) victim(p Pick) *Victim { return &b.victims[p.Node][p.Victim] }

// evictedWhole returns the numbers, ascending, of the gangs that must be evicted whole when the picks are evicted; nil if none.
func (b *bundles) evictedWhole(picks []Pick) (whole []int) {
	lost := map[int][]int{} // by group, the lost members of each gang
	for _, p := range picks {
		g := b.victim(p).Gang
		if g == 0 {
			continue
		}
		k := b.groupOf[g]
		if lost[k] == nil {
			lost[k] = make([]int, len(b.groups[k].numbers))
		}
		lost[k][slices.Index(b.groups[k].numbers, g)]++
	}
	for k, members := range lost {
		for i, evicted := range bundle.Evicted(b.groups[k].gangs, members) {
			if evicted {
				whole = append(whole, b.groups[k].numbers[i])
			}
		}
	}
	slices.Sort(whole)
	return whole
}

// closure returns the smallest closed set that contains the picks. ok is false if a gang must be evicted whole but some of its members may
// not be evicted; forbidden is that gang's number.
func (b *bundles) closure(picks []Pick) (set victimSet, forbidden int, ok bool) {
	if set.whole = b.evictedWhole(picks); len(set.whole) > 0 {
		picks = slices.Clone(picks)
	}
	for _, g := range set.whole {
		if !b.gangs[g-1].Whole {
			return set, g, false
		}
		picks = append(picks, b.members[g]...)
	}
	set.picks = slices.Clone(picks)
	slices.SortFunc(set.picks, comparePicks)
	set.picks = slices.Compact(set.picks)
	set.cost = b.cost(set.picks, set.whole)
	return set, 0, true
}

// cost returns the cost of the picks together, shared budgets included. whole are the numbers of the gangs that are evicted whole.
func (b *bundles) cost(picks []Pick, whole []int) (sum Cost) {
	for _, g := range whole {
		sum = sum.Add(b.gangs[g-1].Cost)
	}
	for _, p := range picks {
		if v := b.victim(p); !isWhole(whole, v.Gang) {
			sum = sum.Add(v.cost())
		}
	}
	sum.Violations += b.counts(picks, whole).violations()
	return sum
}

// counts returns how many evicted pods count towards each budget, as cost does.
func (b *bundles) counts(picks []Pick, whole []int) budgetCounts {
	count := budgetCounts{}
	for _, g := range whole {
		count.add(b.gangs[g-1].Budgets)
	}
	for _, p := range picks {
		if v := b.victim(p); !isWhole(whole, v.Gang) {
			count.add(v.Budgets)
		}
	}
	return count
}

// isWhole returns whether gang g is in whole.
func isWhole(whole []int, g int) bool {
	_, found := slices.BinarySearch(whole, g)
	return found
}

// units returns the units of a set, most expensive first, then oldest first: single pods, gangs evicted whole, and the gangs of a group
// below each level. Units overlap.
func (b *bundles) units(set victimSet) (units []unit) {
	picksOfGang := map[int][]Pick{} // picks by gang evicted whole
	for _, p := range set.picks {
		g := b.victim(p).Gang
		if isWhole(set.whole, g) {
			picksOfGang[g] = append(picksOfGang[g], p)
			continue
		}
		units = append(units, unit{picks: []Pick{p}, cost: b.cost([]Pick{p}, nil)})
	}
	known := map[string]bool{}
	add := func(include func(g int) bool) {
		var u unit
		for _, g := range set.whole {
			if len(picksOfGang[g]) > 0 && include(g) {
				u.gangs, u.picks = append(u.gangs, g), append(u.picks, picksOfGang[g]...)
			}
		}
		slices.SortFunc(u.picks, comparePicks)
		if key := keyOf(u.picks); len(u.picks) > 0 && !known[key] {
			known[key] = true
			u.cost = b.cost(nil, u.gangs)
			units = append(units, u)
		}
	}
	for g := range picksOfGang {
		add(func(o int) bool { return o == g })
		if len(b.groups[b.groupOf[g]].numbers) == 1 {
			continue
		}
		together := func(o int) bool { return b.groupOf[o] == b.groupOf[g] }
		for _, level := range b.gangs[g-1].Above {
			add(func(o int) bool { return together(o) && slices.Contains(b.gangs[o-1].Above, level) })
		}
		add(together)
	}
	leads := func(u unit) int { return b.leaders(u.picks, u.gangs) }
	slices.SortFunc(units, func(x, y unit) int {
		return cmp.Or(y.cost.Compare(x.cost), cmp.Compare(leads(y), leads(x)), cmp.Compare(y.cost.Released, x.cost.Released),
			-b.compareSets(x.picks, y.picks, compareVictims), slices.CompareFunc(x.picks, y.picks, comparePicks))
	})
	return units
}

// leaders returns how many picks lead a gang that is not evicted whole.
func (b *bundles) leaders(picks []Pick, whole []int) (n int) {
	for _, p := range picks {
		if !isWhole(whole, b.victim(p).Gang) {
			n += btoi(b.victim(p).Leads)
		}
	}
	return n
}

// compareAges returns a negative number if the victims of x are preferred: no leaders, then younger, then higher ranks.
func (b *bundles) compareAges(x, y []Pick) int {
	return b.compareSets(x, y, func(a, b *Victim) int {
		return cmp.Or(cmp.Compare(btoi(a.Leads), btoi(b.Leads)), cmp.Compare(b.second(), a.second()), cmp.Compare(b.Rank, a.Rank))
	})
}

// compareSets compares two sets victim by victim, each set in the order of compareVictims.
func (b *bundles) compareSets(x, y []Pick, compare func(a, b *Victim) int) int {
	inOrder := func(picks []Pick) (out []*Victim) {
		for _, p := range picks {
			out = append(out, b.victim(p))
		}
		slices.SortFunc(out, compareVictims)
		return out
	}
	return slices.CompareFunc(inOrder(x), inOrder(y), compare)
}

// bundleOf returns the closed set of a single victim; ok is false if the victim cannot be evicted.
func (b *bundles) bundleOf(p Pick) (set victimSet, ok bool) {
	set, _, ok = b.closure([]Pick{p})
	return set, ok
}

func comparePicks(x, y Pick) int {
	return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Victim, y.Victim))
}

// byNode returns the victim indexes of picks by node index.
func byNode(picks []Pick) map[int][]int {
	gone := map[int][]int{}
	for _, p := range picks {
		gone[p.Node] = append(gone[p.Node], p.Victim)
	}
	return gone
}
