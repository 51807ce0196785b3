package place

import (
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// AfterRelease returns the attempt as if the allocations of terminated pods were released; nil if there are no such allocations.
// A controller deallocates ResourceClaims some time after their pods have terminated. A gang that waits for that need not evict pods.
// The error is a plugin's failure.
func (a *Attempt) AfterRelease(ctx context.Context) (*Attempt, error) {
	pages := a.pages.AfterRelease()
	if pages == nil {
		return nil, nil
	}
	return a.withPages(ctx, pages)
}

// withPages returns a copy of the attempt with other ledger data. It has not counted yet.
func (a *Attempt) withPages(ctx context.Context, pages fit.Pages) (*Attempt, error) {
	b := *a
	b.pages = pages
	b.kinds = slices.Clone(a.kinds)
	b.limited = activeLimits{}
	b.answers = &answers{}
	for k := range b.kinds {
		c, err := fit.NewCounter(ctx, a.profile, b.kinds[k].pod, pages...)
		if err != nil {
			return nil, err
		}
		c.CloseDomains(b.kinds[k].counter.ClosedDomains())
		b.kinds[k].counter = c
	}
	return &b, nil
}

// optimisticPlan returns a plan that assumes the most capacity where ledgers do not know allocations yet (Pages.Optimistic). ok is false if
// there is no such plan, nothing is unknown, or a plugin fails. The plan uses free capacity only, and has no victims.
func (a *Attempt) optimisticPlan(ctx context.Context) (found Outcome, ok bool) {
	pages := a.pages.Optimistic()
	if pages == nil {
		return Outcome{}, false
	}
	b, err := a.withPages(ctx, pages)
	if err != nil {
		return Outcome{}, false
	}
	found, refusal, err := b.Plan(ctx)
	return found, refusal == nil && err == nil
}

// plansOnceReleased returns whether there is a plan after terminated pods have released their allocations.
func (a *Attempt) plansOnceReleased(ctx context.Context) bool {
	b, err := a.AfterRelease(ctx)
	if b == nil || err != nil {
		return false
	}
	_, refusal, err := b.Plan(ctx)
	return refusal == nil && err == nil
}
