package mixed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// sized is a world in which nodes have room, and kinds need some of it. Nodes are
// written as spine/rack/node=room.
func sized(needs []offer.Slots, nodes ...string) mixed.World {
	var all []topology.Node
	room := map[string]offer.Slots{}
	for _, n := range nodes {
		path, size, _ := strings.Cut(n, "=")
		names := strings.Split(path, "/")
		name := names[len(names)-1]
		all = append(all, topology.Node{Name: name, Path: names[:len(names)-1]})
		for _, digit := range size {
			room[name] = room[name]*10 + offer.Slots(digit-'0')
		}
	}
	w := mixed.World{World: plan.World{Tree: topology.Build([]string{"Spine", "Rack"}, all)}}
	for i := range all {
		w.Free = append(w.Free, room[w.Tree.NodeName(i)]/slices.Min(needs))
	}
	w.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
		left := room[w.Tree.NodeName(node)]
		for k, n := range load {
			left -= n * needs[k]
		}
		return left / needs[kind]
	}
	return w
}

// drawn writes a plan as node=classes, in its order.
func drawn(w mixed.World, p *mixed.Plan) string {
	if p == nil {
		return "refused"
	}
	var out []string
	for _, at := range places(p.Puts) {
		out = append(out, w.Tree.NodeName(at.Node)+"=")
	}
	i := -1
	for n, put := range p.Puts {
		if n == 0 || put.Node != p.Puts[n-1].Node {
			i++
		}
		out[i] += fmt.Sprint(put.Class)
	}
	return strings.Join(out, " ")
}

func TestJobs(t *testing.T) {
	gangs := func(sizes ...int) (j mixed.Job) {
		rank := 0
		for g, n := range sizes {
			c := mixed.Class{Gang: g}
			for range n {
				c.Ranks = append(c.Ranks, rank)
				rank++
			}
			j.Classes = append(j.Classes, c)
			j.Gangs = append(j.Gangs, mixed.Gang{Need: offer.Slots(n)})
		}
		j.All.Must, j.Sets = 1, mixed.EachGang(len(sizes), plan.Gather{Must: 2})
		return j
	}
	one := []offer.Slots{1}
	big := []offer.Slots{16, 4}
	racks := []string{"s/r1/n1=4", "s/r2/n2=3"}
	bound := func(j mixed.Job, gang int, counts ...offer.Slots) mixed.Job {
		j.Gangs[gang].Bound = counts
		return j
	}
	for _, c := range []struct {
		name string
		w    mixed.World
		j    mixed.Job
		want string
	}{
		{"16 is the first of 16, 4 and 4", sized(big, "s/r/n1=16", "s/r/n2=8"), mixed.Job{
			Classes: []mixed.Class{{Kind: 0, Ranks: []int{0}}, {Kind: 1, Ranks: []int{1, 2}}}, Gangs: []mixed.Gang{{Need: 3}},
		}, "n1=0 n2=11"},
		{"16 is the second", sized(big, "s/r/n1=16", "s/r/n2=8"), mixed.Job{
			Classes: []mixed.Class{{Kind: 1, Ranks: []int{0, 2}}, {Kind: 0, Ranks: []int{1}}}, Gangs: []mixed.Gang{{Need: 3}},
		}, "n1=1 n2=00"},
		{"16 is the last", sized(big, "s/r/n1=16", "s/r/n2=8"), mixed.Job{
			Classes: []mixed.Class{{Kind: 1, Ranks: []int{0, 1}}, {Kind: 0, Ranks: []int{2}}}, Gangs: []mixed.Gang{{Need: 3}},
		}, "n1=1 n2=00"},

		{"gangs of 2, 2 and 3 in racks of 4 and 3", sized(one, racks...), gangs(2, 2, 3), "n1=0011 n2=222"},
		{"2, 3 and 2", sized(one, racks...), gangs(2, 3, 2), "n1=0022 n2=111"},
		{"3, 2 and 2", sized(one, racks...), gangs(3, 2, 2), "n1=1122 n2=000"},
		{"2, 2 and 3 where there is one less", sized(one, "s/r1/n1=4", "s/r2/n2=2"), gangs(2, 2, 3), "refused"},
		{"7 fit, but not gang by gang", sized(one, "s/r1/n1=5", "s/r2/n2=2"), gangs(3, 3, 1), "refused"},

		{
			"a gang may be in two racks, not in two spines, though all take the same",
			sized(one, "s1/r/n1=1", "s2/r/n2=1", "s3/r3/n3=1", "s3/r4/n4=1", "s4/r/n5=1"),
			mixed.Job{Classes: []mixed.Class{{Ranks: []int{0, 1}}}, Gangs: []mixed.Gang{{Need: 1}}, Sets: mixed.EachGang(1, plan.Gather{Must: 1})},
			"n3=0 n4=0",
		},
		{
			"late members make up the multiple with the bound one", sized(one, "s/r1/n1=3", "s/r2/n2=9"),
			func() mixed.Job {
				j := bound(gangs(3), 0, 1, 0)
				j.All.Multiple = offer.Multiples{0, 0, 4}
				return j
			}(), "n1=000",
		},
		{
			"late members make up no multiple", sized(one, "s/r1/n1=9", "s/r2/n2=9"),
			func() mixed.Job {
				j := bound(gangs(4), 0, 1, 0)
				j.All.Multiple = offer.Multiples{0, 0, 4}
				return j
			}(), "refused",
		},
		{"late members go where their gang is", sized(one, "s/r1/n1=9", "s/r2/n2=2"), bound(gangs(2), 0, 0, 1), "n2=00"},
		{"and nowhere else", sized(one, "s/r1/n1=9", "s/r2/n2=1"), bound(gangs(2), 0, 0, 1), "refused"},
		{"another gang is free to go", sized(one, "s/r1/n1=9", "s/r2/n2=1"), bound(gangs(1, 2), 0, 0, 1), "n1=11 n2=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := mixed.Choose(c.w, c.j)
			if got := drawn(c.w, p); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
		})
	}
}

// asked counts questions, and is a trial on which each question is about one node, and
// about how even it is there.
type asked struct {
	world mixed.World
	load  [][]offer.Slots // by node and kind
	puts  [][2]int
	count int

	spread bool    // each kind evenly over the spines, which are of equal size
	in     [][]int // by spine and kind
}

func (a *asked) Fits(kind, node int) bool {
	a.count++
	return a.world.Take(node, a.load[node], kind) > 0 && (!a.spread || a.in[a.spine(node)][kind] == slices.MinFunc(a.in, func(x, y []int) int {
		return x[kind] - y[kind]
	})[kind])
}

func (a *asked) spine(node int) int { return node * len(a.in) / len(a.load) }

func (a *asked) Put(kind, node int) {
	a.load[node][kind]++
	a.in[a.spine(node)][kind]++
	a.puts = append(a.puts, [2]int{kind, node})
}

func (a *asked) Undo() {
	last := a.puts[len(a.puts)-1]
	a.puts = a.puts[:len(a.puts)-1]
	a.load[last[1]][last[0]]--
	a.in[a.spine(last[1])][last[0]]--
}

// TestLargeJobs: 20 kinds of 30 members on 2,000 nodes are too much to try everything.
// What is asked has a bound, plans hold, and refusals say what they are.
func TestLargeJobs(t *testing.T) {
	const kinds, members, nodes = 20, 30, 2000
	job := func(gangs int, need offer.Slots) (j mixed.Job) {
		j.Gangs = make([]mixed.Gang, gangs)
		for k := range kinds {
			c := mixed.Class{Kind: k, Gang: k % gangs}
			for n := range members {
				c.Ranks = append(c.Ranks, k*members+n)
			}
			j.Classes = append(j.Classes, c)
			j.Gangs[c.Gang].Need += need
		}
		return j
	}
	for _, c := range []struct {
		name    string
		room    offer.Slots // of a node; kind k needs k%5+1
		job     mixed.Job
		each    int
		trials  bool
		spread  bool
		away    int // so many find no place, and need none
		refused bool
		cut     bool
	}{
		{name: "room for all", room: 8, job: job(1, members)},
		{name: "room for some", room: 1, job: job(1, members), refused: true},
		{name: "no room for the largest", room: 4, job: job(1, members), refused: true},
		{name: "no capacity for the largest, which is optional", room: 4, job: job(5, 0), away: 120},
		{name: "each gang in a rack", room: 16, job: job(20, members), each: 2},
		{name: "each gang in a rack that is too small", room: 5, job: job(4, members), each: 2, refused: true},
		{name: "in a trial", room: 8, job: job(1, members), trials: true},
		{name: "spread over spines", room: 8, job: job(1, members), trials: true, spread: true},
		{name: "in a trial that is too small", room: 4, job: job(1, members), trials: true, refused: true, cut: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var names []string
			for i := range nodes {
				names = append(names, fmt.Sprintf("s%d/r%d/n%d=%d", i*10/nodes, i/20, i, c.room))
			}
			var needs []offer.Slots
			for k := range kinds {
				needs = append(needs, offer.Slots(k%5+1))
			}
			w := sized(needs, names...)
			a := &asked{world: w, load: make([][]offer.Slots, nodes), spread: c.spread, in: make([][]int, 10)}
			for s := range a.in {
				a.in[s] = make([]int, kinds)
			}
			for i := range a.load {
				a.load[i] = make([]offer.Slots, kinds)
			}
			w.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
				a.count++
				return a.world.Take(node, load, kind)
			}
			if c.trials {
				w.Trial = a
			}
			c.job.Sets = mixed.EachGang(len(c.job.Gangs), plan.Gather{Must: c.each})
			p, refusal := mixed.Choose(w, c.job)
			t.Logf("%d questions, %v", a.count, refusal)
			if a.count > 60_000 {
				t.Errorf("%d questions", a.count)
			}
			if (refusal != nil) != c.refused || refusal != nil && refusal.Incomplete != c.cut || len(a.puts) > 0 {
				t.Fatalf("%v, %d left in the trial", refusal, len(a.puts))
			}
			if p == nil {
				return
			}
			if len(p.Puts) != kinds*members-c.away {
				t.Errorf("%d members find a place", len(p.Puts))
			}
			homes := map[int]topology.ID{}
			for i, put := range p.Puts {
				class := c.job.Classes[put.Class]
				if !a.Fits(class.Kind, put.Node) {
					t.Fatalf("%d of %d does not fit", i, len(p.Puts))
				}
				a.Put(class.Kind, put.Node)
				home := w.Tree.Ancestor(w.Tree.Node(put.Node), c.each)
				if had, ok := homes[class.Gang]; ok && had != home {
					t.Fatalf("gang %d is in two racks", class.Gang)
				}
				homes[class.Gang] = home
			}
		})
	}
}

// TestPairsInRacks: leaders and their workers, each pair in a rack, in a cluster that has far more room:
// too many members for tables. A pair that finds a rack is placed whole before the next one takes the rest of it.
func TestPairsInRacks(t *testing.T) {
	var names []string
	for i := range 36 {
		names = append(names, fmt.Sprintf("s%d/r%d/n%d=4", i/12, i/4, i))
	}
	for pairs := 1; pairs <= 8; pairs++ {
		j := mixed.Job{}
		for p := range pairs {
			for kind, size := range []int{1, 4} {
				c := mixed.Class{Gang: len(j.Gangs), Kind: kind}
				for range size {
					c.Ranks = append(c.Ranks, len(j.Gangs)*10+len(c.Ranks))
				}
				j.Classes, j.Gangs = append(j.Classes, c), append(j.Gangs, mixed.Gang{Need: offer.Slots(size)})
			}
			j.Sets = append(j.Sets, mixed.Set{Gangs: []int{2 * p, 2*p + 1}, Gather: plan.Gather{Must: 2}})
		}
		w := sized([]offer.Slots{1, 2}, names...)
		p, refusal := mixed.Choose(w, j)
		if p == nil {
			t.Fatalf("%d pairs: %v", pairs, refusal)
		}
		places := make([][]offer.Slots, len(j.Gangs))
		for g := range places {
			places[g] = make([]offer.Slots, w.Tree.NumNodes())
		}
		for _, put := range p.Puts {
			places[j.Classes[put.Class].Gang][put.Node]++
		}
		if b := j.Holds(w.Tree, places); b != nil {
			t.Fatalf("%d pairs: %v", pairs, b)
		}
	}
}

// TestSplitSets: a refusal counts the gangs that run in several domains, each once.
func TestSplitSets(t *testing.T) {
	w := sized([]offer.Slots{1}, "s/r1/n1=4", "s/r2/n2=4")
	j := mixed.Job{Gangs: []mixed.Gang{{Need: 1}, {Need: 1, Bound: []offer.Slots{1, 1}}, {Need: 1}}}
	for g := range j.Gangs {
		j.Classes = append(j.Classes, mixed.Class{Gang: g, Ranks: []int{g}})
	}
	rack := plan.Gather{Must: 2}
	j.Sets = []mixed.Set{{Gangs: []int{0, 1}, Gather: rack}, {Gangs: []int{1, 2}, Gather: rack}}
	_, refusal := mixed.Choose(w, j)
	if refusal == nil || !strings.Contains(refusal.String(), "the members already bound of 1 of the gangs are in several domains of Rack") {
		t.Fatal(refusal)
	}
}

// TestRefusalNamesDeeperGangs: a refusal says how many gangs must gather where, as far as it knows them.
func TestRefusalNamesDeeperGangs(t *testing.T) {
	for want, sets := range map[string][]mixed.Set{
		"; each gang in one domain of Rack":               mixed.EachGang(3, plan.Gather{Must: 2}),
		"; one of the gangs in one domain of Rack":        {{Gangs: []int{1}, Gather: plan.Gather{Must: 2}}},
		"; 2 of the gangs, each in one domain of Rack":    mixed.EachGang(2, plan.Gather{Must: 2}),
		"; 2 of the gangs together in one domain of Rack": {{Gangs: []int{0, 1}, Gather: plan.Gather{Must: 2}}},
		"; 2 sets of 2 gangs, each set in one domain of Rack": {
			{Gangs: []int{0, 1}, Gather: plan.Gather{Must: 2}}, {Gangs: []int{1, 2}, Gather: plan.Gather{Must: 2}},
		},
	} {
		j := mixed.Job{Sets: sets}
		for g := range 3 {
			j.Gangs = append(j.Gangs, mixed.Gang{Need: 1})
			j.Classes = append(j.Classes, mixed.Class{Gang: g, Ranks: []int{g}})
		}
		_, refusal := mixed.Choose(sized([]offer.Slots{1}, "s/r1/n1=1", "s/r2/n2=1"), j)
		if refusal == nil || !strings.Contains(refusal.String(), want) {
			t.Errorf("%v, not %q", refusal, want)
		}
	}
}

// TestSetsTooLarge: a refusal names the sets that no domain takes, what they need and the best domain for
// each; a set of which as many find room as can be counts for the domains above.
func TestSetsTooLarge(t *testing.T) {
	rack := plan.Gather{Must: 2}
	for name, c := range map[string]struct {
		sets []mixed.Set
		need []offer.Slots // by gang
		runs offer.Slots   // of the first gang, on n1
		want string
	}{
		"one gang": {
			mixed.EachGang(2, rack),
			[]offer.Slots{2, 4},
			0,
			"desiredOfferSlot: 6, topology topologyNode ClusterTopologyLayer/: 5; each gang in one domain of Rack; " +
				"one of the gangs needs 4 in one domain of Rack, the best, s/r2, has capacity for 3",
		},
		"two gangs together": {
			[]mixed.Set{{Gangs: []int{0, 1}, Gather: rack}},
			[]offer.Slots{2, 2},
			0,
			"ClusterTopologyLayer/: 3; 2 of the gangs together in one domain of Rack; 2 of the gangs together need 4 in one domain of Rack, the best, " +
				"s/r2, has capacity for 3",
		},
		"each would fit alone": {
			mixed.EachGang(3, rack), []offer.Slots{3, 2, 1}, 0, "ClusterTopologyLayer/: 5; each gang in one domain of Rack",
		},
		"where some run": {
			mixed.EachGang(2, rack),
			[]offer.Slots{3, 1},
			2,
			"one of the gangs needs 3 more in one domain of Rack, the best, s/r1, has capacity for 2",
		},
		"four gangs": {
			mixed.EachGang(4, rack),
			[]offer.Slots{4, 4, 4, 4},
			0,
			"the best, s/r2, has capacity for 3; one of the gangs needs 4 in one domain of Rack, the best, s/r2, has capacity for 3; " +
				"one of the gangs needs 4 in one domain of Rack, the best, s/r2, has capacity for 3",
		},
	} {
		w := sized([]offer.Slots{1}, "s/r1/n1=2", "s/r2/n2=3")
		j := mixed.Job{Sets: c.sets}
		rank := 0
		for g, n := range c.need {
			class := mixed.Class{Gang: g}
			for range n {
				class.Ranks = append(class.Ranks, rank)
				rank++
			}
			j.Classes, j.Gangs = append(j.Classes, class), append(j.Gangs, mixed.Gang{Need: n})
		}
		if c.runs > 0 {
			j.Gangs[0].Bound = []offer.Slots{c.runs, 0}
		}
		_, refusal := mixed.Choose(w, j)
		if refusal == nil || !strings.HasSuffix(refusal.String(), c.want) {
			t.Errorf("%s: %v, not %q", name, refusal, c.want)
		}
	}
}

// TestSetTooLargeWithMore: members beyond what a gang of a set needs do not count for another gang.
func TestSetTooLargeWithMore(t *testing.T) {
	j := mixed.Job{
		Gangs:   []mixed.Gang{{Need: 1}, {Need: 2}},
		Classes: []mixed.Class{{Ranks: []int{0, 1, 2}}, {Gang: 1, Kind: 1, Ranks: []int{3, 4}}},
		Sets:    []mixed.Set{{Gangs: []int{0, 1}, Gather: plan.Gather{Must: 2}}},
	}
	_, refusal := mixed.Choose(sized([]offer.Slots{1, 2}, "s/r1/n1=2", "s/r2/n2=3"), j)
	if refusal == nil || !strings.HasSuffix(refusal.String(), "need 3 in one domain of Rack, the best, s/r2, has capacity for 2") {
		t.Error(refusal)
	}
}
