package mixed_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// sharedNodes is a tree of nodes in blocks of so many, and how many members of two kinds each takes: one of the second kind
// needs as much as two of the first.
func sharedNodes(nodes, block int, free []offer.Slots) mixed.World {
	var list []topology.Node
	for i := range nodes {
		list = append(list, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("b", i/block)}})
	}
	return mixed.World{
		World: plan.World{Tree: topology.Build([]string{"BlockLayer"}, list), Free: free},
		Take: func(node int, load []offer.Slots, kind int) offer.Slots {
			left := free[node]
			for k, n := range load {
				left -= n * offer.Slots(k+1)
			}
			return max(left, 0) / offer.Slots(kind+1)
		},
	}
}

// TestWork: searches that share their work find what each of them finds alone, on worlds of which one node after the other
// changes.
func TestWork(t *testing.T) {
	worlds.Check(t, 500, []string{"a plan", "no plan", "another plan", "another job"}, func(t *rapid.T, y worlds.Tally) {
		free := make([]offer.Slots, 6)
		for i := range free {
			free[i] = offer.Slots(worlds.Even(t, 6, "free"))
		}
		w := sharedNodes(6, 3, free)
		j := mixed.Job{
			Gangs: []mixed.Gang{{Need: 5}}, All: plan.Gather{Must: worlds.Even(t, 2, "must")},
			Classes: []mixed.Class{{Ranks: []int{0, 1, 2}}, {Kind: 1, Ranks: []int{3, 4}}},
		}
		work := mixed.NewWork(mixed.SingleSearchEffort)
		var last *mixed.Plan
		for step := range 4 {
			w.Work = nil
			alone, refusal := mixed.Choose(w, j)
			w.Work = work
			shared, also := mixed.Choose(w, j)
			if fmt.Sprint(alone, refusal) != fmt.Sprint(shared, also) {
				t.Fatalf("step %d: %+v %v, alone %+v %v\n%v", step, shared, also, alone, refusal, free)
			}
			y.Count("a plan", alone != nil)
			y.Count("no plan", alone == nil)
			y.Count("another plan", last != nil && alone != nil && !slices.Equal(last.Puts, alone.Puts))
			last = alone
			free[worlds.Even(t, 6, "node")] = offer.Slots(worlds.Even(t, 6, "free"))
			if worlds.Chance(t, 8, "another job") {
				j.Classes = slices.Clone(j.Classes)
				j.Classes[1].Ranks = append(slices.Clone(j.Classes[1].Ranks), 5+step)
				y.Count("another job", true)
			}
		}
	})
}

// TestWorkIsBounded: a search after another one for the same job merges anew only the domains in which a node has changed.
func TestWorkIsBounded(t *testing.T) {
	free := make([]offer.Slots, 40)
	for i := range free {
		free[i] = offer.Slots(3 + i%5)
	}
	w := sharedNodes(40, 10, free)
	j := mixed.Job{Gangs: []mixed.Gang{{Need: 24}}, Classes: make([]mixed.Class, 2)}
	for rank := range 24 {
		c := &j.Classes[rank%2]
		c.Kind, c.Ranks = rank%2, append(c.Ranks, rank)
	}
	w.Work = mixed.NewWork(mixed.SingleSearchEffort)
	search := func() (spent int) {
		before := w.Work.Left()
		if p, refusal := mixed.Choose(w, j); p == nil {
			t.Fatal(refusal)
		}
		return before - w.Work.Left()
	}
	first := search()
	free[7]++
	if changed := search(); changed > first*3/4 {
		t.Errorf("%d where one node has changed, %d for all", changed, first)
	}
	if again := search(); again > first/2 {
		t.Errorf("%d for what is known, %d before", again, first)
	}
}
