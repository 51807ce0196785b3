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
	return a.by(ctx, pages)
}

// by is the attempt when other pages count.
func (a *Attempt) by(ctx context.Context, pages fit.Pages) (*Attempt, error) {
	b := *a
	b.pages, b.kinds, b.limited = pages, slices.Clone(a.kinds), limited{}
	b.answers = &answers{}
	for k := range b.kinds {
		c, err := fit.NewCounter(ctx, a.profile, b.kinds[k].pod, pages...)
		if err != nil {
			return nil, err
		}
		c.KeepOff(b.kinds[k].counter.Off())
		b.kinds[k].counter = c
	}
	return &b, nil
}

// hopefully is a plan that comes true only if members are given what it expects, if there is one. Nobody is evicted for such a plan.
func (a *Attempt) hopefully(ctx context.Context) (Outcome, bool) {
	pages := a.pages.Hopeful()
	if pages == nil {
		return Outcome{}, false
	}
	b, err := a.by(ctx, pages)
	if err != nil {
		return Outcome{}, false
	}
	found, refusal, err := b.Plan(ctx)
	return found, refusal == nil && err == nil
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
