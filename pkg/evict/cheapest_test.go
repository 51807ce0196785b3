package evict_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// problem returns the problem of a world with homogeneous members.
func (w gangWorld) problem() evict.Problem {
	return evict.Problem{World: w.World, Request: w.Request, Nodes: w.raw(), Gangs: w.gangs}
}

func (w gangWorld) found(p evict.Problem) *evict.Eviction {
	found := evict.Cheapest(p)
	if found.Plan == nil && found.Placed == nil {
		return nil
	}
	return &evict.Eviction{Plan: found.Plan, Cost: found.Cost, Victims: found.Victims}
}

// foundBy is what Cheapest would have found.
func foundBy(e *evict.Eviction) evict.Found {
	return evict.Found{Plan: e.Plan, Cost: e.Cost, Victims: e.Victims}
}

// Cheapest finds the same cost as a search over all sets of victims.
func TestCheapest(t *testing.T) {
	worlds.Check(t, 2000, gangKinds, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.drawGangRequest(t)
		fits := func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) }
		choose := func(w gangWorld) *evict.Eviction { return w.found(w.problem()) }
		if w.compare(t, y, choose, fits) {
			w.checkPlan(t, choose(w))
		}
	})
}

// quality counts how often and how far found costs exceed the least cost.
type quality struct{ worlds, equal, pods, least int }

// Without the exhaustive search, the victims cost little more than the cheapest set.
func TestBoundedSearchIsNearLeastCost(t *testing.T) {
	defer evict.WithoutExhausting()()
	var like quality
	worlds.Check(t, 2000, []string{"impossible", "the cheapest"}, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.drawGangRequest(t)
		e := w.found(w.problem())
		if e == nil && !evict.Cheapest(w.problem()).Conclusive {
			y.Count("not found", true)
			return
		}
		w.checkFew(t, y, e, func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
		if e == nil {
			return
		}
		w.checkPlan(t, e)
		_, least := w.cheapest(func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
		like.add(e.Cost, least)
	})
	t.Logf("%d worlds, %.1f %% at the least cost, %.4f pods per pod", like.worlds, 100*float64(like.equal)/float64(like.worlds),
		float64(like.pods)/float64(like.least))
	if like.worlds >= 500 && (float64(like.equal) < 0.97*float64(like.worlds) || float64(like.pods) > 1.02*float64(like.least)) {
		t.Errorf("the search is further from the least cost than it should be")
	}
}

func (q *quality) add(cost, least evict.Cost) {
	q.worlds++
	if cost == least {
		q.equal++
	}
	q.pods += cost.Pods + cost.Requeued
	q.least += least.Pods + least.Requeued
}

// members is a job's placement check.
type members struct {
	j gangJob
	w gangWorld
}

// placed is a plan of a job.
type placed struct {
	members
	plan *mixed.Plan
}

func (m members) Fits(gone []evict.Pick) (evict.Placed, bool) {
	on := m.j.on(m.w)
	after := m.w.after(gone)
	nodes := m.j.nodes(m.w)
	by := map[int][]int{}
	for _, p := range gone {
		by[p.Node] = append(by[p.Node], p.Victim)
	}
	on.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
		return nodes[node](by[node], load, kind)
	}
	for i := range on.Free {
		on.Free[i] = min(m.j.take(after.Free[i], nil, 0), m.j.take(after.Free[i], nil, 1))
	}
	p, refusal := mixed.Choose(on, m.j.Job)
	if refusal != nil {
		return nil, !refusal.Incomplete
	}
	return placed{m, p}, true
}

func (p placed) Uses(node int) bool {
	return slices.ContainsFunc(p.plan.Puts, func(put mixed.Put) bool { return put.Node == node })
}

func (p placed) Places() (out []plan.Place) {
	for _, put := range p.plan.Puts {
		out = append(out, plan.Place{Node: put.Node, Count: 1})
	}
	return out
}

func (p placed) All() bool {
	members := 0
	for _, c := range p.j.Classes {
		members += len(c.Ranks)
	}
	return len(p.plan.Puts) == members
}

func (p placed) Holds(gone []evict.Pick, _ []int) bool {
	free := p.w.after(gone).Free
	for _, put := range p.plan.Puts {
		free[put.Node] -= offer.Slots(p.j.units[put.Class])
	}
	return !slices.ContainsFunc(free, func(n offer.Slots) bool { return n < 0 })
}

// problem returns the problem of a job with members of two kinds.
func (j gangJob) problem(w gangWorld) evict.Problem {
	want := offer.Slots(0)
	for _, g := range j.Gangs {
		want += g.Need
	}
	need := max(j.units[0], j.units[1])
	raw := make([]evict.RawNode, len(w.hosts))
	for i, h := range w.hosts {
		raw[i] = evict.RawNode{Victims: h.victims, Slots: func(gone []int) offer.Slots { return h.slots(need, gone) }}
	}
	return evict.Problem{
		World: w.World, Nodes: raw, Gangs: w.gangs, Placement: members{j, w},
		Request: plan.Request{Want: want, Min: want, Must: j.All.Must, Multiple: j.All.Multiple},
	}
}

// The same for members of two kinds.
func TestCheapestForTwoKindsOfMembers(t *testing.T) {
	worlds.Check(t, 1000, gangKinds, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.unit, w.Bound = 1, make([]offer.Slots, len(w.hosts))
		j := drawGangJob(t, w)
		choose := func(w gangWorld) *evict.Eviction { return w.found(j.problem(w)) }
		w.compare(t, y, choose, func(gone []evict.Pick) bool { return j.fits(w, gone) })
	})
}

// The same for members of two kinds.
func TestBoundedSearchForTwoKindsIsNearLeastCost(t *testing.T) {
	defer evict.WithoutExhausting()()
	var q quality
	worlds.Check(t, 1000, []string{"impossible", "the cheapest"}, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.unit, w.Bound = 1, make([]offer.Slots, len(w.hosts))
		j := drawGangJob(t, w)
		e := w.found(j.problem(w))
		if e == nil && !evict.Cheapest(j.problem(w)).Conclusive {
			y.Count("not found", true)
			return
		}
		fits := func(gone []evict.Pick) bool { return j.fits(w, gone) }
		w.checkFew(t, y, e, fits)
		if e == nil {
			return
		}
		_, least := w.cheapest(fits)
		q.add(e.Cost, least)
	})
	t.Logf("%d worlds, %.1f %% at the least cost, %.4f pods per pod", q.worlds, 100*float64(q.equal)/float64(q.worlds),
		float64(q.pods)/float64(q.least))
}
