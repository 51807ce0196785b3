package place

import (
	"context"
	"maps"
	"slices"
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
		if needed := least.Group.Needed(); len(needed) > 0 {
			if few, refusal, err := least.For(needed).Choose(ctx, nil); refusal == nil || err != nil {
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

// Modest is the attempt for those members for whom places may be taken that are kept for
// others, if there are such places; else it is the attempt itself.
func (a *Attempt) Modest() *Attempt {
	needed := a.Group.Needed()
	if len(a.others) == 0 || len(needed) == 0 {
		return a
	}
	return a.For(needed)
}
