package place

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Members beyond minMember take free places only: a place whose victims leave for somebody
// else is not free, however unimportant those are that it is kept for.

// modestly is what has been found, or if members go where places are kept for others, a plan
// in which none does: for as many as there is room for beside these, else for those alone
// that are needed. The gang needs all whom the rules do not let go without the rest.
func (a *Attempt) modestly(ctx context.Context, found Outcome) (Outcome, error) {
	if !a.takesFrom(found) {
		return found, nil
	}
	b := *a
	b.beside, b.kinds, b.limited = maps.Clone(a.beside), slices.Clone(a.kinds), limited{}
	for i, pods := range a.others {
		b.beside[i] = slices.Concat(b.beside[i], pods)
	}
	if _, err := b.count(ctx); err != nil {
		return Outcome{}, err
	}
	if beside, refusal, err := b.Choose(ctx, nil); refusal == nil || err != nil {
		return beside, err
	}
	fewest, err := a.Least(ctx)
	if err != nil {
		return Outcome{}, err
	}
	for _, least := range fewest {
		for _, needed := range least.fewest() {
			if few, refusal, err := needed.Choose(ctx, nil); refusal == nil || err != nil {
				return few, err
			}
		}
	}
	return found, nil
}

// takesFrom says whether places are where some are kept for others, of lower priority.
func (a *Attempt) takesFrom(found Outcome) bool {
	if len(a.others) == 0 || len(found.Places) <= len(a.Group.Needed()) {
		return false
	}
	for _, p := range found.Places {
		if i, ok := a.Net.Tree.NodeIndex(p.Node); ok && len(a.others[i]) > 0 {
			return true
		}
	}
	return false
}

// Modest are the attempts for those members for whom places may be taken that are kept for
// others, if there are such places; else it is the attempt itself. Where one finds nothing the next may.
func (a *Attempt) Modest() []*Attempt {
	if len(a.others) == 0 {
		return []*Attempt{a}
	}
	if few := a.fewest(); len(few) > 0 {
		return few
	}
	return []*Attempt{a}
}

// mostFewest bounds the attempts for as many members as are needed.
const mostFewest = 8

// fewest are the attempts for no more members than are needed: the first by rank, and where members differ, of
// each kind the first as far as there are as many. There is none if nobody is needed.
func (a *Attempt) fewest() (out []*Attempt) {
	tried := map[string]bool{}
	for kind := -1; kind < min(len(a.kinds), mostFewest); kind++ {
		group := a.Group.Group
		group.Pending = slices.Clone(group.Pending)
		slices.SortStableFunc(group.Pending, func(x, y gang.Member) int { return cmp.Compare(a.other(x, kind), a.other(y, kind)) })
		needed, key := map[string]bool{}, ""
		for _, m := range group.Needed() {
			needed[m.Pod] = true
		}
		if len(needed) == 0 {
			return nil
		}
		pending := slices.DeleteFunc(slices.Clone(a.Group.Pending), func(m gang.Member) bool { return !needed[m.Pod] })
		for _, m := range pending {
			key += m.Pod + " "
		}
		if !tried[key] {
			tried[key], out = true, append(out, a.For(pending))
		}
	}
	return out
}

// other is 1 for a member of another kind.
func (a *Attempt) other(m gang.Member, kind int) int {
	if kind >= 0 && a.kindOf[m.Pod] != kind {
		return 1
	}
	return 0
}

// InMultiples is the attempt where a group needs as many members as make up its podCountMultiples, if as many wait: fewer never start though
// they were enough for minMember.
func (a *Attempt) InMultiples() *Attempt {
	if a.Group.Choice.Any() {
		return a
	}
	all, sets := convert.Gather(a.Group.Gather, a.Group.Own, a.Net.Tree, a.Group.Gangs)
	some, group := *a, *a.Group
	some.Group, group.Gangs = &group, slices.Clone(a.Group.Gangs)
	waits, bound := a.perGang(group.Pending), a.perGang(group.Bound)
	every := mixed.Set{Gather: all}
	for i := range group.Gangs {
		every.Gangs = append(every.Gangs, i)
	}
	for _, set := range append(sets, every) {
		start := 0 // of the set's members, with those who have
		for _, i := range set.Gangs {
			start += group.Gangs[i].Need + bound[i]
		}
		up, ok := offer.Up(offer.Slots(start), set.Multiple.Steps(a.Net.Tree.Depth() + 1)[0])
		for _, i := range set.Gangs {
			of := &group.Gangs[i]
			if ok && of.Need > 0 {
				more := min(int(up)-start, waits[i]-of.Need)
				of.Need, start = of.Need+more, start+more
			}
		}
	}
	return &some
}

// perGang counts members by gang.
func (a *Attempt) perGang(members []gang.Member) []int {
	n := make([]int, len(a.Group.Gangs))
	for _, m := range members {
		if i := slices.IndexFunc(a.Group.Gangs, func(g gang.Gang) bool { return g.Ref == m.Gang }); i >= 0 {
			n[i]++
		}
	}
	return n
}

// Least are the attempts for as few gangs as a group can do with, one for each set of gangs of
// which none can be left out, as far as they differ: to evict for, and to keep places for. Of a
// group that needs all of its gangs it is the attempt itself.
func (a *Attempt) Least(ctx context.Context) (out []*Attempt, err error) {
	if !a.Group.Choice.Any() || !a.counted {
		return []*Attempt{a}, nil
	}
	job, _ := a.Job()
	for _, set := range job.Least(a.Net.Tree) {
		some, err := a.only(ctx, set)
		if err != nil {
			return nil, err
		}
		if some != nil {
			out = append(out, some)
		}
	}
	return out, nil
}

// Fewest is the first of Least: itself if there is none.
func (a *Attempt) Fewest(ctx context.Context) *Attempt {
	if fewest, err := a.Least(ctx); err == nil && len(fewest) > 0 {
		return fewest[0]
	}
	return a
}

// only is the attempt for some gangs; nil if they must not run without the others.
func (a *Attempt) only(ctx context.Context, set choice.Set) (*Attempt, error) {
	only, ok := a.Group.Only(set)
	if !ok {
		return nil, nil
	}
	b, group := *a, *a.Group
	group.Group = *only
	b.Group = &group
	if len(a.kinds) == 1 || len(only.Pending) == 0 {
		return &b, nil
	}
	b.kinds, b.kindOf, b.limited = nil, nil, limited{} // how large domains are is for those only
	_, err := b.count(ctx)
	return &b, err
}
