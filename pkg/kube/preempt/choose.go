package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// solution is who leaves, what follows, and why.
type solution struct {
	place.Outcome
	gone   []*v1.Pod
	cost   evict.Cost          // of their leaving
	why    func() evict.Choice // which takes a while, so it is asked only of who evicts; nil if there were too many ways to compare
	awaits []*v1.Pod           // who leaves already: quotas have enough when they have gone
}

// before says whether a solution costs less than another one.
func (s *solution) before(o *solution) bool { return s.cost.Compare(o.cost) < 0 }

// choose looks for victims and for the plan that follows when they have left. Without
// one the verdict says why. Who could have left is returned as well.
//
// Nodes that somebody would take too long to leave are the last choice: first everybody
// there stays. Then those are asked, too, who may leave only if others of the own quotas do.
func (p *Preemptor) choose(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	for _, n := range a.Nodes {
		if n != nil {
			p.searched.Add(1)
		}
	}
	grace := p.Limits().MaxGrace
	c := p.candidates(ctx, a, grace)
	e, verdict := p.chooseWithin(ctx, c)
	if e == nil && c.late && verdict != LeftOut {
		lacking := c.lacking
		grace = eligible.ForEver
		c = p.candidates(ctx, a, grace)
		e, verdict = p.chooseWithin(ctx, c)
		c.lacking = c.lacking || lacking
	}
	if claim := p.claim(a.Group, grace); e == nil && verdict != LeftOut && claim != nil && claim.OwnFirst() {
		lacking := c.lacking
		c = p.candidatesOf(ctx, a, grace, nil, claim)
		c.ownFirst = true
		e, verdict = p.chooseWithin(ctx, c)
		c.lacking = c.lacking || lacking
	}
	return e, verdict, c
}

func (p *Preemptor) chooseAmong(ctx context.Context, c *candidates) (*solution, Verdict) {
	a := c.Attempt
	if !c.any {
		return nil, c.noHelp() // as the cluster is, it was tried already
	}
	c.patience = p.patience
	var e *solution
	var exact bool
	if !a.Dependent() && a.Alike() {
		e, exact = c.chooseLike(ctx)
	} else if e, exact = c.chooseExactly(ctx); !exact {
		e, exact = c.chooseByPlans(ctx)
	}
	if e != nil && a.Dependent() && !a.AreOwned(e.Places, e.gone) { // they are asked about together, whoever leaves for whom
		e, exact = nil, false
	}
	exact = exact && (e != nil || !c.keptOff) // who leaves makes room on other nodes, too, and that was not tried
	switch {
	case e == nil && !exact:
		return nil, Untried
	case e == nil:
		return nil, c.noHelp()
	case len(e.gone) > 0 && a.Hindered(ctx):
		return nil, LeftOut // the gang waits for the nodes that it avoids
	}
	return e, Evicts
}

// comparing looks into several domains at a time: each asks about its own nodes.
func (c *candidates) comparing(ctx context.Context) evict.Comparing {
	return evict.Comparing{More: c.patience(), Each: func(domains int, look func(i int)) { c.InParallel(ctx, domains, look) }}
}

// chooseLike looks for the first eviction for members that need the same. If there is none, exact
// says that there can be none.
func (c *candidates) chooseLike(ctx context.Context) (e *solution, exact bool) {
	raw, r := c.raw(ctx), c.Request()
	found, exact := evict.ChooseAmongGangs(c.World, r, raw, c.gangs)
	if found == nil {
		return nil, exact
	}
	e = &solution{Outcome: place.Outcome{Places: c.Assign(found.Plan)}, gone: c.victims(found.Victims), cost: found.Cost}
	if len(e.gone) > 0 {
		e.why = func() evict.Choice {
			return evict.ConsiderAmongGangs(c.World, r, raw, c.gangs, found, c.comparing(ctx))
		}
	}
	return e, true
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
		e.why = func() evict.Choice {
			return evict.ConsiderJobAmongGangs(w, job, nodes, c.gangs, found, c.comparing(ctx))
		}
	}
	return e, true
}
