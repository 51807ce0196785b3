package bundle

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// SubGroup is a sub-group of a gang.
type SubGroup struct {
	Policy  int // which policy of the gang it belongs to; -1 are the members without a sub-group
	Size    int // how many members it has when it is complete
	Least   int // how many sub-groups of its policy the gang needs
	Members int // how many run
}

// complete returns whether all members of a sub-group run.
func (s SubGroup) complete() bool { return s.Members >= s.Size }

// Split returns the parts into which a gang is divided as victims when it can spare so many members, one for
// each sub-group. The sub-groups are in the order of their policies; the members without one are the last.
//
//	minMember 4   policy, 2 at least   a0 a1   b0 b1   c0 c1     (no sub-group) d0
//	                                   two of three run on       d0 may be evicted alone
//
// A policy is a level above its sub-groups, and minMember raises how many of them must run on. The
// members to spare are handed out to the policies in turn, and the rest to the members without a sub-group.
// If no policy asks for a sub-group, and all are complete and equally large, the policies share.
//
// If no sub-group is small enough to be spared, parts is nil: the gang is evicted whole, or spares so many single
// members. name tells the levels of one gang from those of the next.
func Split(name string, subGroups []SubGroup, spare int) (parts []Gang, single int) {
	subGroups = slices.Clone(subGroups)
	if interchangeable(subGroups) {
		for i := range subGroups {
			subGroups[i].Policy = min(subGroups[i].Policy, 0)
		}
	}
	single = spare
	policies := map[int]choice.Level{} // those of which some sub-groups may be evicted
	for first, last := 0, 0; first < len(subGroups) && subGroups[first].Policy >= 0; first = last {
		policy := subGroups[first].Policy
		for last < len(subGroups) && subGroups[last].Policy == policy {
			last++
		}
		stay, evictable, members := share(subGroups[first:last], spare)
		if evictable > 0 {
			policies[policy] = choice.Level{Name: fmt.Sprint(name, " policy ", policy), Least: stay}
		}
		single = min(single, stay-subGroups[first].Least)
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

// interchangeable returns whether no policy asks for a sub-group, and all sub-groups are complete and equally large.
func interchangeable(subGroups []SubGroup) bool {
	return !slices.ContainsFunc(subGroups, func(s SubGroup) bool {
		return s.Policy >= 0 && (s.Least > 0 || !s.complete() || s.Members != subGroups[0].Members)
	})
}

// share returns how many complete sub-groups of a policy run on, how many sub-groups may be evicted, whichever
// they are, and how many members that is at the most: no more than spare. A sub-group that is not complete may be
// evicted whatever runs on.
func share(subGroups []SubGroup, spare int) (stay, evictable, members int) {
	var complete []int
	for _, s := range subGroups {
		if s.complete() {
			complete = append(complete, s.Members)
		} else {
			evictable++
			members += s.Members
		}
	}
	stay = len(complete)
	if members > spare { // as if all were needed
		return stay, 0, 0
	}
	slices.Sort(complete)
	for stay > max(0, subGroups[0].Least) && members+complete[stay-1] <= spare {
		stay--
		evictable++
		members += complete[stay]
	}
	return stay, evictable, members
}
