package place

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// respectReservations returns found if its surplus members use no node that is reserved for another gang. Surplus members are members
// beyond minMember; they must not use reserved nodes, whatever the holder's priority. Otherwise it returns a plan that avoids reserved
// nodes, or one for the needed members alone, or else found.
func (a *Attempt) respectReservations(ctx context.Context, found Outcome) (Outcome, error) {
	if !a.usesReserved(found) {
		return found, nil
	}
	b := *a
	b.beside = maps.Clone(a.beside)
	b.kinds = slices.Clone(a.kinds)
	b.limited = activeLimits{}
	for i, pods := range a.besideSurplus {
		b.beside[i] = slices.Concat(b.beside[i], pods)
	}
	if _, err := b.count(ctx); err != nil {
		return Outcome{}, err
	}
	if beside, refusal, err := b.Choose(ctx, nil); refusal == nil || err != nil {
		return beside, err
	}
	fewest, err := a.MinimalAttempts(ctx)
	if err != nil {
		return Outcome{}, err
	}
	for _, least := range fewest {
		for _, needed := range least.neededOnly() {
			if few, refusal, err := needed.Choose(ctx, nil); refusal == nil || err != nil {
				return few, err
			}
		}
	}
	return found, nil
}

// usesReserved returns whether a plan has surplus members and uses a node that is reserved for pods of lower priority.
func (a *Attempt) usesReserved(found Outcome) bool {
	if len(a.besideSurplus) == 0 || len(found.Places) <= len(a.Group.Needed()) {
		return false
	}
	return slices.ContainsFunc(found.Places, func(p gang.Assignment) bool {
		i, ok := a.Net.Tree.NodeIndex(p.Node)
		return ok && len(a.besideSurplus[i]) > 0
	})
}

// ReservationAttempts returns attempts for only the needed members, to be tried in this order, if reserved nodes of lower priority exist.
// Surplus members may not use these nodes. In all other cases it returns the attempt itself.
func (a *Attempt) ReservationAttempts() []*Attempt {
	if len(a.besideSurplus) == 0 {
		return []*Attempt{a}
	}
	if attempts := a.neededOnly(); len(attempts) > 0 {
		return attempts
	}
	return []*Attempt{a}
}

// mostFewest bounds the kinds that neededOnly prefers.
const mostFewest = 8

// neededOnly returns attempts for as many members as are needed: one takes them by rank, and for each of the first mostFewest kinds one
// takes that kind first. Equal attempts are returned once. It returns nil if no member is needed.
func (a *Attempt) neededOnly() (out []*Attempt) {
	tried := map[string]bool{}
	for kind := -1; kind < min(len(a.kinds), mostFewest); kind++ {
		byKind := a.Group.Group
		byKind.Pending = slices.Clone(byKind.Pending)
		slices.SortStableFunc(byKind.Pending, func(x, y gang.Member) int { return cmp.Compare(a.kindRank(x, kind), a.kindRank(y, kind)) })
		needed, key := map[string]bool{}, ""
		for _, m := range byKind.Needed() {
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

// kindRank returns 0 for members of the kind, which sort first, and 1 for others. For kind -1 it returns 0 for all.
func (a *Attempt) kindRank(m gang.Member, kind int) int {
	if kind >= 0 && a.kindOf[m.Pod] != kind {
		return 1
	}
	return 0
}

// InMultiples returns a copy of set with a higher Need of its gangs: the podCountMultiples are complete, or no more members are pending.
// Fewer members never start, even if they satisfy minMember. If a group may start without some gangs, InMultiples returns set itself.
func (a *Attempt) InMultiples(set *group.Group) *group.Group {
	if set.Choice.Any() {
		return set
	}
	raised := *set
	raised.Gangs = slices.Clone(set.Gangs)
	pending, bound := countByGang(set.Pending), countByGang(set.Bound)
	joint, sets := convert.Gather(set.Gather, set.Constraints, a.Net.Tree, set.Gangs)
	every := mixed.Set{Gather: joint}
	for i := range set.Gangs {
		every.Gangs = append(every.Gangs, i)
	}
	for _, together := range append(sets, every) {
		count := 0 // needed and running members
		for _, i := range together.Gangs {
			count += raised.Gangs[i].Need + bound[raised.Gangs[i].Ref]
		}
		up, ok := offer.Up(offer.Slots(count), together.Multiple.Steps(a.Net.Tree.Depth() + 1)[0])
		for _, i := range together.Gangs {
			entry := &raised.Gangs[i]
			if ok && entry.Need > 0 {
				more := min(int(up)-count, pending[entry.Ref]-entry.Need)
				entry.Need, count = entry.Need+more, count+more
			}
		}
	}
	return &raised
}

// countByGang returns the number of members of each gang.
func countByGang(members []gang.Member) map[gang.Ref]int {
	n := map[gang.Ref]int{}
	for _, m := range members {
		n[m.Gang]++
	}
	return n
}

// MinimalAttempts returns one attempt for each minimal set of gangs with which the group may start. Evictions and reservations are made for
// these. For a group that needs all its gangs it returns the attempt itself.
func (a *Attempt) MinimalAttempts(ctx context.Context) (out []*Attempt, err error) {
	if !a.Group.Choice.Any() || !a.counted {
		return []*Attempt{a}, nil
	}
	job, _ := a.Job()
	for _, set := range job.Least(a.Net.Tree) {
		attempt, err := a.onlyGangs(ctx, set)
		if err != nil {
			return nil, err
		}
		if attempt != nil {
			out = append(out, attempt)
		}
	}
	return out, nil
}

// SmallestAttempt returns the first of MinimalAttempts; the attempt itself if there are none.
func (a *Attempt) SmallestAttempt(ctx context.Context) *Attempt {
	if fewest, err := a.MinimalAttempts(ctx); err == nil && len(fewest) > 0 {
		return fewest[0]
	}
	return a
}

// onlyGangs returns the attempt for the gangs in set; nil if these must not start without the others.
func (a *Attempt) onlyGangs(ctx context.Context, set choice.Set) (*Attempt, error) {
	only, ok := a.Group.Restricted(set)
	if !ok {
		return nil, nil
	}
	b, restricted := *a, *a.Group
	restricted.Group = *only
	b.Group = a.InMultiples(&restricted) // the quotas count the members that start, which may be more than minMember
	if len(a.kinds) == 1 || len(only.Pending) == 0 {
		return &b, nil
	}
	b.kinds, b.kindOf, b.limited = nil, nil, activeLimits{} // limits and domain sizes depend on the members
	_, err := b.count(ctx)
	return &b, err
}
