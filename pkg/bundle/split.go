package bundle

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// SubGroup is a sub-group of a gang.
type SubGroup struct {
	Policy  int // index of its policy in the gang; -1 for members without a sub-group
	Size    int // number of members when complete
	Least   int // number of sub-groups of the policy that the gang needs
	Members int // number of running members
}

// complete returns whether all members of a sub-group run.
func (s SubGroup) complete() bool { return s.Members >= s.Size }

// Split returns the parts into which a gang that can spare so many members is divided as victims, one for each sub-group.
// Sub-groups are in the order of their policies; the members without one are last.
//
//	minMember 4   policy, 2 at least   a0 a1   b0 b1   c0 c1     (no sub-group) d0
//	                                   two of three run on       d0 may be evicted alone
//
// A policy is a level above its sub-groups, and minMember raises how many of them must run on. Spare members are assigned to the
// policies in turn, and the rest to members without a sub-group.
// If no policy requires a sub-group, and all are complete and equally large, the policies share.
//
// If only single members can be spared, parts is nil, and single is their number. name makes the levels of a gang unique.
func Split(name string, subGroups []SubGroup, spare int) (parts []Gang, single int) {
	subGroups = slices.Clone(subGroups)
	if interchangeable(subGroups) {
		for i := range subGroups {
			subGroups[i].Policy = min(subGroups[i].Policy, 0)
		}
	}
	single = spare
	policies := map[int]choice.Level{} // policies with evictable sub-groups
	for first, last := 0, 0; first < len(subGroups) && subGroups[first].Policy >= 0; first = last {
		policy := subGroups[first].Policy
		for last < len(subGroups) && subGroups[last].Policy == policy {
			last++
		}
		kept, evictable, members := share(subGroups[first:last], spare)
		if evictable > 0 {
			policies[policy] = choice.Level{Name: fmt.Sprint(name, " policy ", policy), Least: kept}
		}
		single = min(single, kept-subGroups[first].Least)
		spare -= members
	}
	if len(policies) == 0 && single > 0 {
		return nil, single
	}
	for _, s := range subGroups {
		part := Gang{}
		if level, ok := policies[s.Policy]; ok {
			part.Above = []choice.Level{level}
			part.Short = !s.complete()
		} else if s.Policy < 0 {
			part.Spare = min(spare, s.Members)
		}
		parts = append(parts, part)
	}
	return parts, 0
}

// interchangeable returns whether no policy requires a sub-group, and all sub-groups are complete and equally large.
func interchangeable(subGroups []SubGroup) bool {
	return !slices.ContainsFunc(subGroups, func(s SubGroup) bool {
		return s.Policy >= 0 && (s.Least > 0 || !s.complete() || s.Members != subGroups[0].Members)
	})
}

// share returns how many complete sub-groups of one policy must continue to run, and how many of its sub-groups may be evicted. members is
// the most members that the evictable ones have, at most spare. Incomplete sub-groups are evictable first. If they alone have more than
// spare members, no sub-group is evictable.
func share(subGroups []SubGroup, spare int) (kept, evictable, members int) {
	var complete []int
	for _, s := range subGroups {
		if s.complete() {
			complete = append(complete, s.Members)
		} else {
			evictable++
			members += s.Members
		}
	}
	kept = len(complete)
	if members > spare { // as if all were needed
		return kept, 0, 0
	}
	slices.Sort(complete)
	for kept > max(0, subGroups[0].Least) && members+complete[kept-1] <= spare {
		kept--
		evictable++
		members += complete[kept]
	}
	return kept, evictable, members
}
