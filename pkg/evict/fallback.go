package evict

import (
	"fmt"
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
		if with, may := s.leaveWith(g, all); may {
			all = all.with(with...)
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
	for left := ""; ; { // the fewer leave, the fewer of them hang together
		units := s.units(s.best.whole)
		if now := fmt.Sprint(units); now == left {
			return
		}
		for size := (len(units) + 1) / 2; size > 0; size /= 2 {
			for i := 0; i < len(units); {
				upTo := min(i+size, len(units))
				if s.stay(units[i:upTo]) {
					units = slices.Delete(units, i, upTo)
				} else {
					i = upTo
				}
			}
		}
		left = fmt.Sprint(units)
	}
}

// units lists those who may stay together of gangs that leave whole, the dearest first.
func (s *branches[P]) units(whole map[int]bool) (units [][]int) {
	known := map[string]bool{}
	for _, g := range slices.Sorted(maps.Keys(whole)) {
		if len(s.members[g]) == 0 {
			continue // it makes no room
		}
		var unit []int
		leave := func(i int) bool { return whole[i+1] && len(s.members[i+1]) > 0 }
		for _, i := range s.groups[g].Bundle(g-1, leave, s.mayBreak) {
			unit = append(unit, i+1)
		}
		if key := fmt.Sprint(unit); !known[key] {
			known[key], units = true, append(units, unit)
		}
	}
	cost := func(unit []int) (c Cost) {
		for _, g := range unit {
			c = c.Add(s.gangs[g-1].Cost)
		}
		return c
	}
	slices.SortStableFunc(units, func(a, b []int) int { return cost(b).Compare(cost(a)) })
	return units
}

// mayBreak says whether a gang has more members here than it can spare: others leave only because of some that do.
func (s *branches[P]) mayBreak(i int) bool { return len(s.members[i+1]) > s.gangs[i].Spare }

// stay says whether there is a cheaper set than the best in which some units stay that leave
// whole in it, and takes it. One unit may also leave in part.
func (s *branches[P]) stay(units [][]int) bool {
	b := s.best.branch
	b.whole = map[int]bool{}
	stay := slices.Concat(units...)
	var members []Pick
	for _, g := range stay {
		members = append(members, s.members[g]...)
	}
	for _, f := range s.groups[1:] {
		for _, i := range f.Evicted(func(i int) bool {
			return s.best.whole[i+1] && s.mayBreak(i) && !slices.Contains(stay, i+1)
		}) {
			b.whole[i+1] = true
		}
	}
	if s.improve(b.without(members...), nil) {
		return true
	}
	return len(units) == 1 &&
		slices.ContainsFunc(units[0], func(g int) bool { return s.gangs[g-1].Spare > 0 }) && s.improve(b, units[0])
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
