package preempt

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	levels "github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// crew is who leaves together as victims: a gang mostly. Where members form sub-groups and the gang
// can spare some, each of them is one, and those who are in none are another:
//
//	minMember 4   policy, 2 at least   a0 a1   b0 b1   c0 c1     (in none) d0
//	                                   two of the three stay     d0 may leave alone
//
// A policy is a level, as above gangs, and what minMember asks for beyond it raises how many of its
// sub-groups stay. So package evict needs no count of members of several gangs. What may leave is
// shared out beforehand: to the policies in their order, and then to those who are in none. Policies that
// ask for no sub-group share what there is where all sub-groups are of one size: whichever leave.
type crew struct {
	ref   gang.Ref // of the gang, or a part of it
	pods  []*v1.Pod
	spare int
	above []levels.Level
	short bool
	least int                // of a gang: so many members it needs
	joins map[types.UID]bool // of a gang: who can be sent back and takes nobody along
}

// crewsOf sorts members of a gang that have places, of which so many are needed. Nobody of a sub-group
// leaves without the rest of it, unless there are fewer to spare than any of them has.
func crewsOf(known *cache.Cache, of gang.Ref, placed []*v1.Pod, least int) []crew {
	all := crew{ref: of, pods: placed, spare: spare(placed, least), above: known.Above(of), short: len(placed) < least}
	if all.spare == 0 {
		return []crew{all}
	}
	groups := known.SubGroups(of, placed)
	if groups == nil {
		return []crew{all}
	}
	parts, odd := partsOf(of, groups, all.spare)
	if parts == nil {
		all.spare = odd
		return []crew{all}
	}
	return parts
}

// partsOf are the parts of a gang that can spare so many members. If no sub-group has as few, there are
// none; the gang spares single members then, of as many sub-groups as it does not need.
func partsOf(of gang.Ref, groups []cache.SubGroup, spare int) (out []crew, odd int) {
	odd = spare
	if groups = slices.Clone(groups); alike(groups) {
		for i := range groups {
			groups[i].Policy = min(groups[i].Policy, 0) // as if they were one policy's
		}
	}
	policies, any := map[int]levels.Level{}, false // those of whose sub-groups some may leave
	for first, last := 0, 0; first < len(groups) && groups[first].Policy >= 0; first = last {
		g := groups[first]
		for last < len(groups) && groups[last].Policy == g.Policy {
			last++
		}
		stay, leave, members := share(groups[first:last], spare)
		if leave > 0 {
			policies[g.Policy], any = levels.Level{Name: fmt.Sprint(of.ID(), " policy ", g.Policy), Least: stay}, true
		}
		odd, spare = min(odd, stay-g.Least), spare-members
	}
	if !any && odd > 0 {
		return nil, odd
	}
	for _, g := range groups {
		c := crew{ref: g.Part, pods: g.Pods}
		if level, ok := policies[g.Policy]; ok {
			c.above, c.short = []levels.Level{level}, len(g.Pods) < g.Size
		} else if g.Policy < 0 {
			c.spare = min(spare, len(g.Pods))
		}
		out = append(out, c)
	}
	return out, 0
}

// alike says whether no policy asks for a sub-group, and all sub-groups are whole and of one size.
func alike(groups []cache.SubGroup) bool {
	first := groups[0]
	return !slices.ContainsFunc(groups, func(g cache.SubGroup) bool {
		return g.Policy >= 0 && (g.Least > 0 || len(g.Pods) < g.Size || len(g.Pods) != len(first.Pods))
	})
}

// share says how many sub-groups of a policy stay that are whole, and how many may leave together, whichever
// they are, if no more than so many members do; and how many members that is. One that has lost members
// is of use to nobody: it may leave whatever stays.
func share(groups []cache.SubGroup, most int) (stay, leave, members int) {
	var whole []int
	for _, g := range groups {
		if len(g.Pods) < g.Size {
			leave, members = leave+1, members+len(g.Pods)
		} else {
			whole = append(whole, len(g.Pods))
		}
	}
	if members > most { // then as if all were needed
		return len(whole), 0, 0
	}
	stay = len(whole)
	slices.Sort(whole)
	for i := len(whole) - 1; i >= 0 && i >= groups[0].Least && members+whole[i] <= most; i-- {
		stay, leave, members = i, leave+1, members+whole[i]
	}
	return stay, leave, members
}

// gangsIn are some gangs, each a crew, with members that run or are about to and do not count as leaving.
func gangsIn(known *cache.Cache, together []gang.Ref) (out []crew) {
	for _, of := range together {
		placed, least := known.Placed(of)
		joins := joining(known, of, placed, least)
		out = append(out, crew{
			ref: of, pods: placed, least: least, joins: joins,
			spare: spare(except(placed, joins), least), above: known.Above(of),
		})
	}
	return out
}

// crewsIn are the crews of some gangs.
func crewsIn(known *cache.Cache, together []gang.Ref) (out []crew) {
	for _, g := range gangsIn(known, together) {
		crews := crewsOf(known, g.ref, except(g.pods, g.joins), g.least)
		if len(crews) == 1 {
			g.spare = crews[0].spare
			crews = []crew{g}
		}
		out = append(out, crews...)
	}
	return out
}
