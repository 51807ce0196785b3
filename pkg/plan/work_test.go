package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// priced is a world whose nodes have some places for nothing and more at a price.
type priced struct {
	free, more []offer.Slots
	price      []int64
	version    []int
}

func (p priced) world(tree *topology.Tree) plan.JobWorld {
	takes := func(slots offer.Slots) func([]offer.Slots, int) offer.Slots {
		return func(load []offer.Slots, kind int) offer.Slots {
			for k, n := range load {
				slots -= n * offer.Slots(k+1)
			}
			return max(slots, 0) / offer.Slots(kind+1)
		}
	}
	return plan.JobWorld{
		World: plan.World{Tree: tree, Free: p.free}, Width: 1,
		Ways: func(node int) []plan.Way {
			return []plan.Way{
				{Price: offer.Price{0}, Take: func(load []offer.Slots, kind int) offer.Slots { return takes(p.free[node])(load, kind) }},
				{Price: offer.Price{p.price[node]}, Take: func(load []offer.Slots, kind int) offer.Slots {
					return takes(p.free[node]+p.more[node])(load, kind)
				}},
			}
		},
		Name: func(node int) int { return p.version[node] },
	}
}

// TestWork: searches that share their work find what each of them finds alone, on worlds of
// which one node after the other changes, under a new name or under none.
func TestWork(t *testing.T) {
	worlds.Check(t, 500, []string{"a plan", "no plan", "another plan", "unnamed", "another job"}, func(t *rapid.T, y worlds.Tally) {
		var nodes []topology.Node
		for i := range 6 {
			nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("b", i/3)}})
		}
		tree := topology.Build([]string{"BlockLayer"}, nodes)
		j := plan.Job{
			Gangs: []plan.Gang{{Need: 5}}, All: plan.Gather{Must: worlds.Even(t, 2, "must")},
			Classes: []plan.Class{{Ranks: []int{0, 1, 2}}, {Kind: 1, Ranks: []int{3, 4}}},
		}
		p := priced{make([]offer.Slots, 6), make([]offer.Slots, 6), make([]int64, 6), make([]int, 6)}
		draw := func(i int) {
			p.free[i], p.more[i] = offer.Slots(worlds.Even(t, 2, "free")), offer.Slots(worlds.Even(t, 4, "more"))
			p.price[i] = int64(1 + worlds.Even(t, 3, "price"))
		}
		for i := range nodes {
			draw(i)
			p.version[i] = 1
		}
		work := plan.NewWork(plan.OneWork)
		var last *plan.JobPlan
		for step := range 4 {
			w := p.world(tree)
			alone, price, exact := plan.PriceJob(w, j)
			w.Work = work
			shared, same, also := plan.PriceJob(w, j)
			if fmt.Sprint(alone, price, exact) != fmt.Sprint(shared, same, also) {
				t.Fatalf("step %d: %+v at %v, alone %+v at %v\n%+v", step, shared, same, alone, price, p)
			}
			y.Count("a plan", alone != nil)
			y.Count("no plan", alone == nil)
			y.Count("another plan", last != nil && alone != nil && !slices.Equal(last.Puts, alone.Puts))
			last = alone
			i := worlds.Even(t, 6, "node")
			draw(i)
			p.version[i] = step + 2
			if worlds.Chance(t, 3, "unnamed") {
				p.version[i] = 0
				y.Count("unnamed", true)
			}
			if worlds.Chance(t, 8, "another job") {
				j.Classes = slices.Clone(j.Classes)
				j.Classes[1].Ranks = append(slices.Clone(j.Classes[1].Ranks), 5+step)
				y.Count("another job", true)
			}
		}
	})
}

// TestWorkIsBounded: of many searches for unlike members on unlike nodes the first looks at as much as one
// may, and all together at little more; those of what is known look at nothing.
func TestWorkIsBounded(t *testing.T) {
	var nodes []topology.Node
	for i := range 40 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("b", i/10)}})
	}
	tree := topology.Build([]string{"BlockLayer"}, nodes)
	j := plan.Job{Gangs: []plan.Gang{{Need: 24}}, Classes: make([]plan.Class, 2)}
	for rank := range 24 {
		c := &j.Classes[rank%2]
		c.Kind, c.Ranks = rank%2, append(c.Ranks, rank)
	}
	p := priced{make([]offer.Slots, 40), make([]offer.Slots, 40), make([]int64, 40), make([]int, 40)}
	for i := range nodes {
		p.more[i], p.price[i], p.version[i] = offer.Slots(3+i%5), int64(100+i), 1
	}
	w := p.world(tree)
	w.Work = plan.NewWork(plan.OneWork)
	search := func() (spent int, exact bool) {
		before := w.Work.Left()
		found, _, exact := plan.PriceJob(w, j)
		if exact && found == nil {
			t.Fatal("no plan")
		}
		return before - w.Work.Left(), exact
	}
	first, exact := search()
	if !exact {
		t.Fatal("too much")
	}
	p.version[7] = 0
	if changed, exact := search(); !exact || changed > first*3/4 {
		t.Errorf("%d for one node that may have changed, %d for all", changed, first)
	}
	p.version[7] = 1
	if again, exact := search(); !exact || again > first/2 {
		t.Errorf("%d for what is known, %d before", again, first)
	}
	w.Work.Allow(first / 100)
	w.Name = nil
	p.price[7] = 50
	if spent, exact := search(); exact || !w.Work.Spent() {
		t.Errorf("%d of %d, exact: %v", spent, first/100, exact)
	}
}
