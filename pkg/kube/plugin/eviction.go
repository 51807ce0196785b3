package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// solution is who leaves, what follows, and why.
type solution struct {
	outcome
	gone []*v1.Pod
	why  *evict.Choice // nil if there were too many ways to compare
}

// evict looks for victims and for the plan that follows when they have left. If there
// is none the message says why.
func (a *attempt) evict(ctx context.Context) (found outcome, gone []*v1.Pod, message string) {
	c := a.candidates(ctx)
	if !c.any {
		return outcome{}, nil, c.noHelp() // as the cluster is, it was tried already
	}
	var e *solution
	exact := true
	if !a.dependent() && a.alike() {
		e = c.evictLike(ctx)
	} else if e, exact = c.evictExactly(ctx); !exact {
		e = c.evictForJob(ctx)
	}
	if e == nil {
		return outcome{}, nil, c.noHelp()
	}
	if len(e.gone) > 0 {
		a.explain(ctx, e)
	}
	return e.outcome, e.gone, ""
}

// evictLike looks for the first eviction for members that need the same.
func (c *candidates) evictLike(ctx context.Context) *solution {
	raw, r := c.raw(ctx), c.request()
	found := evict.ChooseAmongGangs(c.world, r, raw, c.gangs)
	if found == nil {
		return nil
	}
	e := &solution{outcome: outcome{places: c.assign(found.Plan)}, gone: c.victims(found.Victims)}
	if len(e.gone) > 0 {
		choice := evict.ConsiderAmongGangs(c.world, r, raw, c.gangs, found, c.patience())
		e.why = &choice
	}
	return e
}

// evictExactly looks for the first eviction for members that differ. exact is false if
// there are too many ways, or if members depend on one another and the plan does not
// pass.
func (c *candidates) evictExactly(ctx context.Context) (e *solution, exact bool) {
	job, classes := c.job()
	w := plan.JobWorld{World: c.world}
	w.Room = make([]offer.Slots, len(c.nodes))
	nodes := make([]evict.JobNode, len(c.nodes))
	for i, here := range c.here {
		w.Room[i] = c.world.Free[i]
		if len(here.victims)+len(here.leaving) > 0 {
			w.Room[i] = c.countWithout(ctx, i, slices.Concat(here.leaving, here.pods))
		}
		nodes[i] = evict.JobNode{Victims: here.victims, Take: func(out []int, load []offer.Slots, kind int) offer.Slots {
			if c.nodes[i] == nil {
				return 0
			}
			return c.take(ctx, question{node: i, kind: kind, load: load, gone: here.without(out)})
		}}
	}
	found, exact := evict.ChooseJobAmongGangs(w, job, nodes, c.gangs)
	if found == nil {
		return nil, exact && !c.dependent()
	}
	e = &solution{gone: c.victims(found.Victims)}
	if c.dependent() {
		var refusal *plan.Refusal
		var err error
		e.outcome, refusal, err = c.choose(ctx, c.gone(found.Victims))
		return e, refusal == nil && err == nil
	}
	e.places = c.assignJob(found.Plan, classes)
	if len(e.gone) > 0 {
		choice := evict.ConsiderJobAmongGangs(w, job, nodes, c.gangs, found, c.patience())
		e.why = &choice
	}
	return e, true
}

// mostPutBack bounds the plans that are made to find out who may stay.
const mostPutBack = 64

// evictForJob looks for victims where evictExactly does not find them, and leaves gangs
// alone. It starts from those that like members would need, each as needy as the
// neediest, or from all that there are, and keeps everyone without whose leaving there
// is a plan, the dearest first: so no victim is needless, though another set may be
// cheaper.
func (c *candidates) evictForJob(ctx context.Context) *solution {
	needed := *c.attempt
	group := *c.group
	group.Pending = c.chosen(max(c.group.Need(), 1))
	needed.group = &group

	plans := func(out []evict.Pick) bool {
		_, refusal, err := needed.choose(ctx, c.gone(out))
		return refusal == nil && err == nil
	}
	alone := c.withoutGangs()
	var out []evict.Pick
	if choice := evict.ChooseAmongGangs(needed.world, needed.request(), alone.raw(ctx), nil); choice != nil {
		out = alone.translate(c, choice.Victims)
	}
	if !plans(out) {
		if out = alone.translate(c, alone.everybody()); !plans(out) {
			return nil
		}
	}
	out = c.keep(out, plans)
	found, refusal, err := c.choose(ctx, c.gone(out))
	if refusal != nil || err != nil {
		return nil
	}
	return &solution{outcome: found, gone: c.victims(out)}
}

// keep lets victims stay without whom there is a plan all the same: half of them at
// once as long as that goes, then one by one.
func (c *candidates) keep(out []evict.Pick, plans func([]evict.Pick) bool) []evict.Pick {
	slices.SortStableFunc(out, func(x, y evict.Pick) int {
		return c.here[y.Node].victims[y.Victim].Compare(c.here[x.Node].victims[x.Victim])
	})
	tries := 0
	for size := max(len(out)/2, 1); size > 0; size /= 2 {
		for i := 0; i < len(out) && tries < mostPutBack; tries++ {
			without := slices.Delete(slices.Clone(out), i, min(i+size, len(out)))
			if plans(without) {
				out = without
			} else {
				i += size
			}
		}
	}
	return out
}
