package place

import (
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// What pods had that have gone is not always free at once: a claim is deallocated by a controller, some
// time later. Who waits for it need not evict others meanwhile.

// Settled is the attempt in the cluster as it will be when all is given back that nobody has any more;
// nil if nothing is to be given back. The error is a plugin's failure.
func (a *Attempt) Settled(ctx context.Context) (*Attempt, error) {
	pages := a.pages.Settled()
	if pages == nil {
		return nil, nil
	}
	b := *a
	b.pages, b.kinds, b.limited = pages, slices.Clone(a.kinds), limited{}
	b.answers = &answers{}
	for k := range b.kinds {
		c, err := fit.NewCounter(ctx, a.profile, b.kinds[k].pod, pages...)
		if err != nil {
			return nil, err
		}
		b.kinds[k].counter = c
	}
	return &b, nil
}

// settles says that there will be a plan when all is given back that nobody has any more.
func (a *Attempt) settles(ctx context.Context) bool {
	b, err := a.Settled(ctx)
	if b == nil || err != nil {
		return false
	}
	_, refusal, err := b.Plan(ctx)
	return refusal == nil && err == nil
}
