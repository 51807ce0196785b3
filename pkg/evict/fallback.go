package evict

import (
	"maps"
	"slices"
)

// giveUp takes two sets into account that are easy to find: in one no gang is touched, in
// the other every gang that is named leaves whole, if it may.
func (s *branches[P]) giveUp() {
	if r := s.find(branch{}.without(slices.Concat(s.members...)...), Cost{}); r != nil {
		s.offer(r)
	}
	s.seen = 0
	s.dive(s.start)
}

// dive takes the first set that holds, and says whether there is one. All gangs leave
// whole that would break, if they may; then branches are tried in the order of mend.
func (s *branches[P]) dive(b branch) bool {
	if s.seen >= s.dives {
		return false
	}
	r := s.find(b, Cost{})
	if r == nil {
		return false
	}
	broken := s.allBroken(r)
	if len(broken) == 0 {
		s.offer(r)
		return true
	}
	all := b
	for _, g := range slices.Sorted(maps.Keys(broken)) {
		switch {
		case s.mayLeaveAlone(g, all):
			all = all.with(g)
		case s.mayLeave(g, b):
			all = all.with(s.groups[g]...)
		}
	}
	if len(all.whole) > len(b.whole) && s.dive(all) {
		return true
	}
	g, named := s.broken(r)
	return slices.ContainsFunc(s.mend(b, g, named), s.dive)
}

// spare lets gangs stay that leave whole in the best set and need not, the dearest first:
// half of them at once as long as that goes, then one by one.
func (s *branches[P]) spare() {
	if s.best == nil {
		return
	}
	s.seen = 0
	var gangs []int // the first of each that leave together
	cost := map[int]Cost{}
	for _, g := range slices.Sorted(maps.Keys(s.best.whole)) {
		first := s.unit(g, s.best.whole)[0]
		if g == first {
			gangs = append(gangs, g)
		}
		cost[first] = cost[first].Add(s.gangs[g-1].Cost)
	}
	slices.SortStableFunc(gangs, func(a, b int) int { return cost[b].Compare(cost[a]) })
	for size := (len(gangs) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(gangs); {
			upTo := min(i+size, len(gangs))
			if s.stay(gangs[i:upTo]) {
				gangs = slices.Delete(gangs, i, upTo)
			} else {
				i = upTo
			}
		}
	}
}

// unit are those who leave because a gang does where some leave whole: all of its group, or it
// alone if others of that stay.
func (s *branches[P]) unit(gang int, whole map[int]bool) []int {
	if slices.ContainsFunc(s.groups[gang], func(g int) bool { return !whole[g] }) {
		return []int{gang}
	}
	return s.groups[gang]
}

// stay says whether there is a cheaper set than the best in which the groups of some gangs
// stay that leave whole in it, and takes it. One group may also leave in part.
func (s *branches[P]) stay(gangs []int) bool {
	b := s.best.branch
	b.whole = maps.Clone(b.whole)
	var members []Pick
	for _, first := range gangs {
		for _, g := range s.unit(first, s.best.whole) {
			members = append(members, s.members[g]...)
			delete(b.whole, g)
		}
	}
	if s.improve(b.without(members...), nil) {
		return true
	}
	if len(gangs) > 1 {
		return false
	}
	group := s.unit(gangs[0], s.best.whole)
	return slices.ContainsFunc(group, func(g int) bool { return s.gangs[g-1].Spare > 0 }) && s.improve(b, group)
}

// improve takes a set of a branch that is cheaper than the best, and says whether there is
// one; gangs of the group leave in part.
func (s *branches[P]) improve(b branch, group []int) bool {
	if s.seen >= s.dives {
		return false
	}
	r := s.find(b, Cost{})
	if r == nil || r.bound.Compare(s.best.cost) >= 0 {
		return false
	}
	broken := s.allBroken(r)
	if len(broken) == 0 {
		s.offer(r)
		return s.best == r
	}
	var others []Pick // of gangs that would break besides: they stay
	for g := range broken {
		if !slices.Contains(group, g) {
			others = append(others, s.members[g]...)
		}
	}
	if len(others) > 0 {
		return s.improve(b.without(others...), group)
	}
	g := slices.Min(slices.Collect(maps.Keys(broken)))
	if s.gangs[g-1].Spare == 0 {
		return s.improve(b.without(s.members[g]...), group)
	}
	return slices.ContainsFunc(broken[g][:s.gangs[g-1].Spare+1], func(p Pick) bool {
		return s.improve(b.without(p), group)
	})
}
