package mixed_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// unlike is a job of so many members, no two of which are alike, and all of which are needed.
func unlike(members int) mixed.Job {
	j := mixed.Job{Gangs: []mixed.Gang{{Need: offer.Slots(members)}}}
	for i := range members {
		j.Classes = append(j.Classes, mixed.Class{Kind: i, Ranks: []int{i}})
	}
	return j
}

// TestPossible: what the sums refuse, and what they leave to a search. Two blocks of two
// nodes, on each of which there is capacity for three members.
func TestPossible(t *testing.T) {
	tree := topology.Build([]string{"BlockLayer"}, []topology.Node{
		{Name: "n1", Path: []string{"b1"}},
		{Name: "n2", Path: []string{"b1"}},
		{Name: "n3", Path: []string{"b2"}},
		{Name: "n4", Path: []string{"b2"}},
	})
	room := offer.Slots(3) // of a node
	take := func(_ int, load []offer.Slots, _ int) offer.Slots {
		left := room
		for _, n := range load {
			left -= n
		}
		return left
	}
	one := func(node int) []offer.Slots {
		out := make([]offer.Slots, 4)
		out[node] = 1
		return out
	}
	job := func(members int, change func(*mixed.Job)) mixed.Job {
		j := unlike(members)
		change(&j)
		return j
	}
	gangs := func(need ...offer.Slots) (j mixed.Job) {
		for g, n := range need {
			class := mixed.Class{Gang: g}
			for i := range n {
				class.Ranks = append(class.Ranks, g*100+int(i))
			}
			j.Classes, j.Gangs = append(j.Classes, class), append(j.Gangs, mixed.Gang{Need: n})
		}
		return j
	}
	for _, c := range []struct {
		name          string
		j             mixed.Job
		counts, slots bool // possible by counts alone, and with what nodes take
	}{
		{"twelve of any kind", unlike(12), true, true},
		{"more than there is capacity for", gangs(13), true, false},
		{"eleven are no sum of threes", job(11, func(j *mixed.Job) { j.All.Multiple = offer.Multiples{0, 3} }), false, false},
		{"nine are", job(9, func(j *mixed.Job) { j.All.Multiple = offer.Multiples{0, 3} }), true, true},
		{"nine of ten are enough", job(10, func(j *mixed.Job) { j.All.Multiple, j.Gangs[0].Need = offer.Multiples{0, 3}, 8 }), true, true},
		{"twos and threes make no nine", job(9, func(j *mixed.Job) { j.All.Multiple = offer.Multiples{0, 3, 2} }), false, false},
		{"no number is a common multiple", job(12, func(j *mixed.Job) { j.All.Multiple = offer.Multiples{0, 1 << 62, 3} }), false, false},
		{"ten, beside two that run, are", job(10, func(j *mixed.Job) {
			j.All.Multiple, j.Gangs[0].Bound = offer.Multiples{3}, []offer.Slots{1, 0, 0, 1}
		}), true, true},
		{"eleven beside two are not", job(11, func(j *mixed.Job) {
			j.All.Multiple, j.Gangs[0].Bound = offer.Multiples{3}, []offer.Slots{1, 0, 0, 1}
		}), false, false},
		{"they run in two blocks", job(1, func(j *mixed.Job) { j.All.Must, j.Gangs[0].Bound = 1, []offer.Slots{1, 0, 0, 1} }), false, false},
		{"four on nodes that take three, in fours", job(4, func(j *mixed.Job) { j.All.Multiple = offer.Multiples{0, 0, 4} }), true, false},
		{"seven in a block", job(7, func(j *mixed.Job) { j.All.Must = 1 }), true, false},
		{"seven alike in a block", func() mixed.Job { j := gangs(7); j.All.Must = 1; return j }(), true, false},
		{"two gangs of six, each in a block", func() mixed.Job { j := gangs(6, 6); j.Sets = mixed.EachGang(2, plan.Gather{Must: 1}); return j }(), true, true},
		{"one of seven, the other of five", func() mixed.Job { j := gangs(7, 5); j.Sets = mixed.EachGang(2, plan.Gather{Must: 1}); return j }(), true, false},
		{"too many to look at, one for half a block more than it has", func() mixed.Job { j := gangs(900, 300); j.Sets = mixed.EachGang(2, plan.Gather{Must: 1}); return j }(), true, false},
		{"each in threes", func() mixed.Job {
			j := gangs(4, 5)
			j.Sets = mixed.EachGang(2, plan.Gather{Multiple: offer.Multiples{0, 3}})
			return j
		}(), false, false},
		{"each in threes, one with two that run", func() mixed.Job {
			j := gangs(3, 1)
			j.Sets, j.Gangs[1].Bound = mixed.EachGang(2, plan.Gather{Multiple: offer.Multiples{3}}), []offer.Slots{0, 2, 0, 0}
			return j
		}(), true, true},
		{"with one that runs elsewhere", func() mixed.Job {
			j := gangs(6)
			j.All.Must, j.Gangs[0].Bound = 1, one(3)
			return j
		}(), true, true},
	} {
		if room = 3; len(c.j.Classes[0].Ranks) > 100 {
			room = 300
		}
		w := mixed.World{World: plan.World{Tree: tree, Free: []offer.Slots{room, room, room, room}}}
		if got := mixed.Possible(w, c.j); got != c.counts {
			t.Errorf("%s: by counts %v", c.name, got)
		}
		w.Take = take
		if got := mixed.Possible(w, c.j); got != c.slots {
			t.Errorf("%s: with what nodes take %v", c.name, got)
		}
		if p, refusal := mixed.Choose(w, c.j); (p != nil) != c.slots {
			t.Errorf("%s: %v", c.name, refusal)
		}
	}
}

// TestRefusedByTheSums: 16 members, no two alike, are no sum of threes, whatever 95 nodes
// take of them; nodes are asked what each takes of each kind, and little more. Members that
// depend on one another are put nowhere.
func TestRefusedByTheSums(t *testing.T) {
	var nodes []topology.Node
	for i := range 95 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("b", i/8)}})
	}
	w := mixed.World{World: plan.World{Tree: topology.Build([]string{"BlockLayer"}, nodes)}}
	for range nodes {
		w.Free = append(w.Free, 6)
	}
	asked := 0
	w.Take = func(_ int, load []offer.Slots, _ int) offer.Slots {
		asked++
		left := offer.Slots(6)
		for _, n := range load {
			left -= n
		}
		return left
	}
	j := unlike(16)
	j.All.Multiple = offer.Multiples{0, 3}
	for _, trial := range []mixed.Trial{nil, noTrial{t}} {
		asked, w.Trial = 0, trial
		p, refusal := mixed.Choose(w, j)
		if p != nil || refusal.Incomplete || refusal.Want != 16 || refusal.Domains[0].Slots != 15 || !strings.Contains(refusal.String(), "BlockLayer=3") {
			t.Fatalf("%+v, %v", p, refusal)
		}
		if asked > (16+4)*95+512 {
			t.Fatalf("%d questions", asked)
		}
	}
	asked = 0
	if mixed.Possible(w, j) || asked > 16*95 {
		t.Fatalf("it may be possible, or %d questions", asked)
	}
}

// noTrial is a trial that fails the test when asked.
type noTrial struct{ *testing.T }

func (s noTrial) Fits(int, int) bool { s.Fatal("somebody was to fit"); return false }
func (s noTrial) Put(int, int)       { s.Fatal("somebody was put") }
func (s noTrial) Undo()              { s.Fatal("somebody was put") }

// TestSums: in small worlds there is a way exactly when the question whether there is one
// says so, and counts alone refuse nothing for which there is one.
func TestSums(t *testing.T) {
	kinds := []string{"refused by counts", "refused by slots", "possible", "bound members", "several gangs"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 2+worlds.Even(t, 5, "most")).Build()
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		j := drawJob(t, tree, kinds, 1000)
		o := newJobTwin(s, w, j)
		ways := o.all(o.legal)
		counts := w
		counts.Take = nil
		byCounts, bySlots := mixed.Possible(counts, j), mixed.Possible(w, j)
		if len(ways) > 0 && !byCounts {
			t.Fatalf("refused by counts, the twin knows %d ways\n%s", len(ways), o)
		}
		if bySlots != (len(ways) > 0) {
			t.Fatalf("possible: %v, the twin knows %d ways\n%s", bySlots, len(ways), o)
		}
		y.Count("refused by counts", !byCounts)
		y.Count("refused by slots", byCounts && !bySlots)
		y.Count("possible", len(ways) > 0)
		y.Count("bound members", o.bound[0][topology.Root] > 0)
		y.Count("several gangs", len(j.Gangs) > 1)
	})
}
