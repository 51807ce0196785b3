package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// solution is who leaves, what follows, and why.
type solution struct {
	place.Outcome
	gone []*v1.Pod
	cost evict.Cost    // of their leaving
	why  *evict.Choice // nil if there were too many ways to compare
}

// before says whether a solution costs less than another one.
func (s *solution) before(o *solution) bool { return s.cost.Compare(o.cost) < 0 }

// choose looks for victims and for the plan that follows when they have left. Without
// one the verdict says why. Who could have left is returned as well.
//
// Nodes that somebody would take too long to leave are the last choice: first everybody
// there stays.
func (p *Preemptor) choose(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	for _, n := range a.Nodes {
		if n != nil {
			p.searched.Add(1)
		}
	}
	c := p.candidates(ctx, a, p.MaxGrace)
	e, verdict := p.chooseAmong(ctx, c)
	if e == nil && c.late && verdict != LeftOut {
		c = p.candidates(ctx, a, forEver)
		e, verdict = p.chooseAmong(ctx, c)
	}
	return e, verdict, c
}

func (p *Preemptor) chooseAmong(ctx context.Context, c *candidates) (*solution, Verdict) {
	a := c.Attempt
	if !c.any {
		return nil, c.noHelp() // as the cluster is, it was tried already
	}
	c.patience = p.patience()
	var e *solution
	exact := true
	if !a.Dependent() && a.Alike() {
		e = c.chooseLike(ctx)
	} else if e, exact = c.chooseExactly(ctx); !exact {
		e = c.chooseForJob(ctx)
	}
	switch {
	case e == nil:
		return nil, c.noHelp()
	case len(e.gone) > 0 && a.Hindered(ctx):
		return nil, LeftOut // the gang waits for the nodes that it avoids
	}
	return e, Evicts
}

// chooseLike looks for the first eviction for members that need the same.
func (c *candidates) chooseLike(ctx context.Context) *solution {
	raw, r := c.raw(ctx), c.Request()
	found := evict.ChooseAmongGangs(c.World, r, raw, c.gangs)
	if found == nil {
		return nil
	}
	e := &solution{Outcome: place.Outcome{Places: c.Assign(found.Plan)}, gone: c.victims(found.Victims), cost: found.Cost}
	if len(e.gone) > 0 {
		choice := evict.ConsiderAmongGangs(c.World, r, raw, c.gangs, found, c.patience)
		e.why = &choice
	}
	return e
}

// chooseExactly looks for the first eviction for members that differ. exact is false if
// there are too many ways, or if members depend on one another and the plan does not
// pass.
func (c *candidates) chooseExactly(ctx context.Context) (e *solution, exact bool) {
	job, classes := c.Job()
	w := plan.JobWorld{World: c.World}
	w.Room = make([]offer.Slots, len(c.Nodes))
	nodes := make([]evict.JobNode, len(c.Nodes))
	for i, here := range c.here {
		w.Room[i] = c.World.Free[i]
		if len(here.victims)+len(here.leaving) > 0 {
			w.Room[i] = c.CountWithout(ctx, i, slices.Concat(here.leaving, here.pods))
		}
		nodes[i] = evict.JobNode{Victims: here.victims, Take: func(out []int, load []offer.Slots, kind int) offer.Slots {
			if c.Nodes[i] == nil {
				return 0
			}
			return c.Take(ctx, place.Question{Node: i, Kind: kind, Load: load, Gone: here.without(out)})
		}}
	}
	found, exact := evict.ChooseJobAmongGangs(w, job, nodes, c.gangs)
	if found == nil {
		return nil, exact && !c.Dependent()
	}
	e = &solution{gone: c.victims(found.Victims), cost: found.Cost}
	if c.Dependent() {
		var refusal *plan.Refusal
		var err error
		e.Outcome, refusal, err = c.Choose(ctx, c.gone(found.Victims))
		return e, refusal == nil && err == nil
	}
	e.Places = c.AssignJob(found.Plan, classes)
	if len(e.gone) > 0 {
		choice := evict.ConsiderJobAmongGangs(w, job, nodes, c.gangs, found, c.patience)
		e.why = &choice
	}
	return e, true
}

// mostPutBack bounds the plans that are made to find out who may stay.
const mostPutBack = 64

// chooseForJob looks for victims where chooseExactly does not find them, and leaves gangs
// alone. It starts from those that like members would need, each as needy as the
// neediest, or from all that there are, and keeps everyone without whose leaving there
// is a plan, the dearest first: so no victim is needless, though another set may be
// cheaper.
func (c *candidates) chooseForJob(ctx context.Context) *solution {
	needed := c.For(c.Chosen(c.Group.Need()))
	plans := func(out []evict.Pick) bool {
		_, refusal, err := needed.Choose(ctx, c.gone(out))
		return refusal == nil && err == nil
	}
	alone := c.withoutGangs()
	var out []evict.Pick
	if choice := evict.ChooseAmongGangs(needed.World, needed.Request(), alone.raw(ctx), nil); choice != nil {
		out = alone.translate(c, choice.Victims)
	}
	if !plans(out) {
		if out = alone.translate(c, alone.everybody()); !plans(out) {
			return nil
		}
	}
	out = c.keep(out, plans)
	found, refusal, err := c.Choose(ctx, c.gone(out))
	if refusal != nil || err != nil {
		return nil
	}
	e := &solution{Outcome: found, gone: c.victims(out)}
	for _, at := range out {
		e.cost = e.cost.Add(evict.CostOf(c.here[at.Node].victims[at.Victim]))
	}
	return e
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
