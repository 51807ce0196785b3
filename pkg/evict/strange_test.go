package evict_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// perPair is a preference that charges for every two members of a domain.
var perPair = plan.NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// strangePriorities have the largest distances, or are unique.
var strangePriorities = [][]int32{
	{math.MinInt32, math.MaxInt32},
	{math.MinInt32, -1, 0, 1, math.MaxInt32},
	{math.MaxInt32},
	{math.MinInt32},
	{-2_000_000_000, 7, 2_000_000_000},
	{0, 1 << 16, 1 << 30},
	{-3, -2, -1},
	{0},
	{math.MaxInt32 - 1, math.MaxInt32},
}

// drawStrange draws shapes that drawSharedWorld never draws.
//
//	Victims: extreme priorities; victims that free nothing or as much as several nodes, with and without a shape.
//	Gangs: gangs of one; running members in several domains; budgets that two members share, or that allow all.
//	Nodes and plans: nodes without a domain; pods that attract by number; preferences with other charges.
func drawStrange(t *rapid.T) gangWorld {
	w := gangWorld{
		world: world{World: plan.World{Tree: worlds.Draw(t, 1+worlds.Even(t, 6, "most")).Build()}, unit: 1 + worlds.Even(t, 4, "unit")},
	}
	n := w.Tree.NumNodes()
	w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
	for range max(0, worlds.Even(t, 6, "bound")-3) {
		w.Bound[worlds.Even(t, n, "node")] += offer.Slots(1 + worlds.Even(t, 3, "members"))
	}
	for range max(0, worlds.Even(t, 6, "attract")-3) {
		w.Attract[worlds.Even(t, n, "node")] += offer.Slots(1 + worlds.Even(t, 3, "pods"))
	}
	for i := range worlds.Even(t, 4, "budgets") {
		w.budgets = append(w.budgets,
			evict.Budget{Name: fmt.Sprint("budget", i), Allowed: []int{0, 1, 2, 3, 1 << 30}[worlds.Even(t, 5, "allowed")]})
	}
	w.gangs = make([]evict.Gang, worlds.Even(t, 5, "gangs"))
	for i := range w.gangs {
		w.gangs[i] = evict.Gang{
			Gang: bundle.Gang{Group: worlds.Even(t, 3, "group"), Spare: worlds.Even(t, 3, "spare")}, Whole: !worlds.Chance(t, 5, "not whole"),
		}
	}
	if rapid.Bool().Draw(t, "tree") {
		for i := range w.gangs {
			w.gangs[i].Group = min(w.gangs[i].Group, 1)
		}
		w.drawTree(t)
	}
	w.waits = make([]int, len(w.gangs))
	for i := range w.gangs {
		if w.waits[i] = max(0, worlds.Even(t, 6, "waiting members")-3); w.waits[i] == allWait {
			w.gangs[i].Spare = 0
		}
	}
	priorities := strangePriorities[worlds.Even(t, len(strangePriorities), "priorities")]
	w.hosts = make([]host, n)
	w.elsewhere, w.away = make([]evict.Cost, len(w.gangs)), make([][]evict.Budget, len(w.gangs))
	draw := func(gang int) evict.Victim {
		v := evict.Victim{
			Gang: gang, Priority: priorities[worlds.Even(t, len(priorities), "priority")],
			Started: []int64{
				0, 1, math.MaxInt64, math.MinInt64,
			}[worlds.Even(t, 4, "started")], Violates: worlds.Chance(t, 6, "violates"), Budgets: w.drawBudgets(t),
		}
		if gang > 0 {
			w.wait(t, &v, gang)
			g := &w.gangs[gang-1]
			g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
		}
		return v
	}
	total := 0
	for i := range w.hosts {
		h := &w.hosts[i]
		h.free = []int{0, 0, 0, 1, 5}[worlds.Even(t, 5, "free")]
		for range min(worlds.Even(t, 5, "victims"), 9-total) {
			v, size := draw(worlds.Even(t, len(w.gangs)+1, "gang")), []int{0, 1, 1, 2, 3, 7}[worlds.Even(t, 6, "size")]
			v.Name = fmt.Sprint("v", total)
			if rapid.Bool().Draw(t, "shaped") {
				v.Shape = fmt.Sprint("size ", size)
			}
			h.victims, h.size = append(h.victims, v), append(h.size, size)
			total++
		}
	}
	for i := range w.gangs {
		for range worlds.Even(t, 3, "elsewhere") {
			v := draw(i + 1)
			w.elsewhere[i], w.away[i] = w.elsewhere[i].Add(evict.CostOf(v)), append(w.away[i], v.Budgets...)
		}
	}
	w.drawGangRequest(t)
	w.Want, w.Min = min(w.Want, 20), min(w.Min, w.Want, 20)
	return w
}

// In worlds of all shapes the victims are the twin's, with single and with wide prices. A bounded search
// finds valid victims and no needless one.
func TestUnusualWorldsEvictCheapestVictims(t *testing.T) {
	worlds.Check(t, 1500, []string{"impossible", "equal costs", "a gang is evicted whole"}, func(t *rapid.T, y worlds.Tally) {
		w := drawStrange(t)
		fits := func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) }
		if w.compare(t, y, gangWorld.choose, fits) {
			e := w.choose()
			w.checkPlan(t, e)
			w.checkOrder(t, y, e)
		}
		e := evict.Cheapest(w.problem())
		back := evict.InSeveralNumbers()
		other := evict.Cheapest(w.problem())
		back()
		if !reflect.DeepEqual(e, other) {
			t.Fatalf("%+v\nin several numbers\n%+v\n%s", e, other, w)
		}
		back = evict.WithoutExhausting()
		few := w.choose()
		back()
		if few != nil {
			w.checkFew(t, y, few, fits)
			w.checkPlan(t, few)
		}
	})
}

// Preferences with other charges never decide which pods are evicted. Single prices equal wide prices.
func TestPreferencesDoNotChangeVictims(t *testing.T) {
	worlds.Check(t, 1500, []string{"evicted", "other charges"}, func(t *rapid.T, y worlds.Tally) {
		w := drawStrange(t)
		for l := range w.Tree.Depth() + 1 {
			if worlds.Chance(t, 2, "pairs") {
				w.Prefer = append(w.Prefer, plan.Preference{Layer: l, Charge: perPair})
			}
		}
		e := w.choose()
		back := evict.InSeveralNumbers()
		other := w.choose()
		back()
		if !reflect.DeepEqual(e, other) {
			t.Fatalf("%+v\nin several numbers\n%+v\n%s", e, other, w)
		}
		if e == nil {
			return
		}
		_, least := w.cheapest(func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
		if e.Cost != least {
			t.Fatalf("%+v, not %+v\n%s", e, least, w)
		}
		w.checkPlan(t, e)
		follows, _ := plan.Choose(w.after(e.Victims), w.Request)
		if !slices.Equal(follows.Places, e.Plan.Places) {
			t.Fatalf("%+v, not %+v\n%s", e.Plan, follows, w)
		}
		y.Count("evicted", len(e.Victims) > 0)
		y.Count("other charges", len(e.Victims) > 0 && slices.ContainsFunc(w.Prefer, func(p plan.Preference) bool { return p.Charge == perPair }))
	})
}
