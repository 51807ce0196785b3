package place

import (
	"context"

	"github.com/muster-scheduler/muster/pkg/choice"
)

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
