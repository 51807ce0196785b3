// Package bundle is the definition of a victim bundle: pods that are evicted together or not at all.
//
// A gang that loses more members than it can spare is evicted whole, with the gangs of its group that cannot run without it. A pod
// without a gang is a bundle of its own, and so is each member that a gang can spare:
//
//	gang a: 4 members, minMember 3    evict a0       a1, a2 and a3 run on
//	                                  evict a0, a1   a2 and a3 are evicted, too
//	gangs a, b of one group           evict a0, a1   b is evicted, too
//
// Where a group may run without some of its gangs (package choice), its gangs are the leaves of a tree of
// levels. A level with too few running children left is lost, with every gang below it:
//
//	       root 1              evict a0: level a is lost, so a1 is evicted, and c0 runs on
//	    ┌───┴────┐             evict c0: a0 and a1 run on
//	  a 2       c 1            evict a0 and c0: root is lost, and all are evicted
//	 ┌─┴─┐       │
//	a0   a1      c0
//
// The package counts members. It knows no pod, node, cost or priority.
package bundle

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// Gang is a running gang, or a part of one that may be evicted without the other parts (Split).
//
// Invariant: 0 <= Spare <= members.
type Gang struct {
	// Spare is how many members may be evicted while the other members continue to run.
	Spare int
	// Group is the number of its gang group, counted from 1; 0 is a gang without a group.
	Group int
	// Above are the levels above the gang, the lowest first, in a group that may run without some of
	// its gangs; nil if the group cannot run without this one.
	Above []choice.Level
	// Short says that the gang has fewer members than it needs, before any eviction. No level counts it as running.
	Short bool
}

// Spare returns how many members of a gang may be evicted if minMember are needed. running members run, and waiting members wait at Permit.
// A gang with too few running members can spare none: all of it would be requeued.
func Spare(running, waiting, minMember int) int {
	if running < minMember || running == 0 {
		return 0
	}
	return running + waiting - minMember
}

// Evicted returns, for each gang, whether it is evicted whole if lost[i] members of each gang i are evicted. Invariant: it is a closure.
// More lost members never evict fewer gangs, and losing all evicted gangs evicts no further one.
func Evicted(gangs []Gang, lost []int) []bool {
	out := make([]bool, len(gangs))
	for i, g := range gangs {
		out[i] = lost[i] > g.Spare
	}
	for _, g := range Groups(gangs) {
		for _, i := range g.Evicted(func(i int) bool { return out[i] }) {
			out[i] = true
		}
	}
	return out
}

// SeparateBundles returns the gangs that are evicted whole, as indexes, divided into bundles: losing a member of one gang evicts at most
// its bundle. evicted is the result of Evicted.
func SeparateBundles(gangs []Gang, evicted []bool) (bundles [][]int) {
	for _, g := range Groups(gangs) {
		var own [][]int
		for _, i := range g.Gangs {
			if !evicted[i] || !g.divisible && len(own) > 0 {
				continue
			}
			joined := g.Bundle(i, func(i int) bool { return evicted[i] }, func(int) bool { return true })
			own = slices.DeleteFunc(own, func(bundle []int) bool {
				if !meet(joined, bundle) {
					return false
				}
				joined = append(joined, bundle...)
				return true
			})
			slices.Sort(joined)
			own = append(own, slices.Compact(joined))
		}
		bundles = append(bundles, own...)
	}
	return bundles
}

// meet returns whether two lists have a common element.
func meet(a, b []int) bool {
	return slices.ContainsFunc(a, func(i int) bool { return slices.Contains(b, i) })
}

// Group is a gang group in a list of gangs. A gang without a group is a Group by itself.
type Group struct {
	// Gangs are the indexes of its gangs in the list.
	Gangs []int

	gangs        []Gang
	divisible    bool          // it may run without some of its gangs
	evictedByOne map[int][]int // by gang, the gangs that are evicted if only that one is broken; computed on demand
}

// Groups returns the groups of a list of gangs, in the order of their first gangs.
func Groups(gangs []Gang) (groups []*Group) {
	byNumber := map[int]*Group{}
	for i, g := range gangs {
		group := byNumber[g.Group]
		if group == nil {
			group = &Group{gangs: gangs, evictedByOne: map[int][]int{}}
			groups = append(groups, group)
			if g.Group > 0 {
				byNumber[g.Group] = group
			}
		}
		group.Gangs = append(group.Gangs, i)
		group.divisible = group.divisible || g.optional()
	}
	return groups
}

// optional returns whether the group of a gang may run without it.
func (g Gang) optional() bool { return g.Group > 0 && len(g.Above) > 0 }

// Evicted returns the gangs of the group that are evicted whole. broken says for which gangs more members are evicted than they can spare.
// The result is these gangs and the gangs that cannot run without them.
func (g *Group) Evicted(broken func(int) bool) (evicted []int) {
	if !slices.ContainsFunc(g.Gangs, broken) {
		return nil
	}
	lost, runs := g.lostLevels(broken)
	if !runs {
		return g.Gangs
	}
	for _, i := range g.Gangs {
		if broken(i) || slices.ContainsFunc(g.gangs[i].Above, func(l choice.Level) bool { return lost[l.Name] }) {
			evicted = append(evicted, i)
		}
	}
	return evicted
}

// lostLevels returns the levels below the topmost that are lost because of the broken gangs. runs is false if the whole group is lost.
func (g *Group) lostLevels(broken func(int) bool) (lost map[string]bool, runs bool) {
	if !g.divisible {
		return nil, false
	}
	tree := &choice.Choice{}
	running := choice.Set(nil)
	for _, i := range g.Gangs {
		above := g.gangs[i].Above
		if len(above) > 0 {
			tree.Gangs = append(tree.Gangs, choice.Gang{Above: above, Open: true})
			running = append(running, !broken(i) && !g.gangs[i].Short)
		} else if broken(i) {
			return nil, false
		}
	}
	sustainable := tree.Sustainable(running)
	if !tree.Holds(sustainable) {
		return nil, false
	}
	alive := map[string]bool{}
	for k, leaf := range tree.Gangs {
		for _, l := range leaf.Above {
			alive[l.Name] = alive[l.Name] || sustainable[k]
		}
	}
	lost = map[string]bool{}
	for _, i := range g.Gangs { // a level that did not run before is not lost
		above := g.gangs[i].Above
		for k, l := range above {
			lost[l.Name] = lost[l.Name] || broken(i) && !alive[l.Name] && k < len(above)-1
		}
	}
	return lost, true
}

// Bundle returns the smallest set of evicted gangs, with gang in it, that can be put back while the other evicted gangs are still evicted.
// It is the gangs whose eviction evicts gang; else all evicted gangs below the lowest level that suffices; else all. broken says which
// evicted gangs lose more members than they can spare in any case.
func (g *Group) Bundle(gang int, evicted, broken func(int) bool) []int {
	var all []int
	for _, i := range g.Gangs {
		if evicted(i) {
			all = append(all, i)
		}
	}
	if !g.divisible {
		return all
	}
	keeping := func(kept func(int) bool) []int {
		bundle := g.evicting(all, kept)
		rest := g.Evicted(func(i int) bool { return evicted(i) && broken(i) && !slices.Contains(bundle, i) })
		if meet(bundle, rest) {
			return nil
		}
		return bundle
	}
	if bundle := keeping(func(i int) bool { return i == gang }); bundle != nil {
		return bundle
	}
	for _, level := range g.gangs[gang].Above {
		below := func(i int) bool {
			return slices.ContainsFunc(g.gangs[i].Above, func(l choice.Level) bool { return l.Name == level.Name })
		}
		if bundle := keeping(below); bundle != nil {
			return bundle
		}
	}
	return all
}

// evicting returns those candidates whose eviction evicts a gang for which kept is true. Such a gang evicts itself.
func (g *Group) evicting(candidates []int, kept func(int) bool) (out []int) {
	for _, i := range candidates {
		if _, known := g.evictedByOne[i]; !known {
			g.evictedByOne[i] = g.Evicted(func(k int) bool { return k == i })
		}
		if slices.ContainsFunc(g.evictedByOne[i], kept) {
			out = append(out, i)
		}
	}
	return out
}
