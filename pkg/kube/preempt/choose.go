package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
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
// there stays.
func (p *Preemptor) choose(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	for _, n := range a.Nodes {
		if n != nil {
			p.searched.Add(1)
		}
	}
	c := p.candidates(ctx, a, p.Limits().MaxGrace)
	e, verdict := p.chooseWithin(ctx, c)
	if e == nil && c.late && verdict != LeftOut {
		c = p.candidates(ctx, a, forEver)
		e, verdict = p.chooseWithin(ctx, c)
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
		e, exact = c.chooseForJob(ctx)
	}
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

// mostPutBack bounds the plans that are made to find out who may stay, and mostJobWork what they
// cost together, those that are easy to make apart.
const (
	mostPutBack = 64
	mostJobWork = plan.OneWork / 4
)

// chooseForJob looks for victims where chooseExactly does not find them, and leaves gangs
// alone. It starts from those that like members would need, each as needy as the
// neediest, or from all that there are, and keeps everyone without whose leaving there
// is a plan, the dearest first: so no victim is needless, though another set may be
// cheaper. If there is none, exact says that there can be none.
func (c *candidates) chooseForJob(ctx context.Context) (e *solution, exact bool) {
	work := plan.NewWork(mostJobWork)
	chosen := c.Chosen(c.Group.Need())
	needed := c.For(chosen).Sharing(work)
	// Others than these members may fit, gangs may leave, and who depends on others does not fit
	// the better the fewer there are.
	exact = len(chosen) == len(c.Group.Pending) && len(c.gangs) == 0 && !c.Dependent()
	plans := func(out []evict.Pick) ([]evict.Pick, bool) {
		found, refusal, err := needed.Choose(ctx, c.gone(out))
		if refusal != nil || err != nil {
			exact = exact && err == nil && !refusal.Cut
			return out, false
		}
		return c.used(ctx, out, found.Places), true
	}
	alone := c.withoutGangs()
	var out []evict.Pick
	if choice, _ := evict.ChooseAmongGangs(needed.World, needed.Request(), alone.raw(ctx), nil); choice != nil {
		out = alone.translate(c, choice.Victims)
	}
	out, enough := plans(out)
	if !enough {
		if out, enough = plans(alone.translate(c, alone.everybody())); !enough {
			return nil, exact
		}
	}
	out = c.keep(out, plans)
	work.Allow(mostJobWork)
	found, refusal, err := c.Sharing(work).Choose(ctx, c.gone(out))
	if refusal != nil || err != nil {
		return nil, false
	}
	used := c.used(ctx, out, found.Places)
	e = &solution{Outcome: found, gone: c.victims(used)}
	for _, at := range used {
		e.cost = e.cost.Add(evict.CostOf(c.here[at.Node].victims[at.Victim]))
	}
	return e, true
}

// keep lets victims stay without whom there is a plan all the same: half of them at
// once as long as that goes, then one by one.
func (c *candidates) keep(out []evict.Pick, plans func([]evict.Pick) ([]evict.Pick, bool)) []evict.Pick {
	c.dearestFirst(out)
	tries := 0
	for size := max(len(out)/2, 1); size > 0; size /= 2 {
		for i := 0; i < len(out) && tries < mostPutBack; tries++ {
			fewer, enough := plans(slices.Delete(slices.Clone(out), i, min(i+size, len(out))))
			if !enough {
				i += size
				continue
			}
			tried := slices.DeleteFunc(slices.Clone(out[:i]), func(p evict.Pick) bool { return !slices.Contains(fewer, p) })
			out, i = fewer, len(tried)
		}
	}
	return out
}

func (c *candidates) dearestFirst(out []evict.Pick) {
	slices.SortStableFunc(out, func(x, y evict.Pick) int {
		return c.here[y.Node].victims[y.Victim].Compare(c.here[x.Node].victims[x.Victim])
	})
}

// used are the victims whose places a plan uses, the dearest first: each is put back where the
// members of its node have room beside it. Where members depend on one another it may be
// another node on which somebody makes room.
func (c *candidates) used(ctx context.Context, out []evict.Pick, places []gang.Place) []evict.Pick {
	if c.Dependent() {
		return out
	}
	out = slices.Clone(out)
	c.dearestFirst(out)
	left := make([][]int, len(c.here))
	for _, p := range out {
		left[p.Node] = append(left[p.Node], p.Victim)
	}
	loads := c.Loads(places)
	return slices.DeleteFunc(out, func(p evict.Pick) bool {
		without := slices.DeleteFunc(slices.Clone(left[p.Node]), func(v int) bool { return v == p.Victim })
		if !c.Holds(ctx, p.Node, loads[p.Node], c.here[p.Node].without(without)) {
			return false
		}
		left[p.Node] = without
		return true
	})
}
