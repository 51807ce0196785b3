package evict_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/test/pictures"
	"github.com/muster-scheduler/muster/test/request"
	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// only returns the world without the nodes outside of a domain.
func (w world) only(d topology.ID) world {
	w.hosts = slices.Clone(w.hosts)
	for i := range w.hosts {
		if !worlds.Holds(w.Tree, d, w.Tree.Node(i)) {
			w.hosts[i] = host{}
		}
	}
	return w
}

// candidates lists the possible domains of an eviction: the domains of a layer with all bound members.
func candidates(w plan.World, must int) (out []topology.ID) {
	count := make([]int, w.Tree.Depth()+1)
	for d := topology.Root; int(d) < w.Tree.Len(); d++ {
		count[w.Tree.Layer(d)]++
	}
	layer := must
	for l := 1; layer == 0 && l < w.Tree.Depth(); l++ {
		if count[l] > 1 {
			layer = l
		}
	}
	for d := topology.Root; int(d) < w.Tree.Len(); d++ {
		if w.Tree.Layer(d) == layer && worlds.Total(w.Tree, w.Bound, d) == worlds.Total(w.Tree, w.Bound, topology.Root) {
			out = append(out, d)
		}
	}
	return out
}

// twin is a considered domain, found by a search over all sets of victims.
type twin struct {
	evict.Considered
	row []int // what decides between equal costs, as rank has it
}

// consider searches all sets of victims in each candidate domain, and in the cluster if the plan spans candidates.
func (w world) consider(found *evict.Eviction) (out []twin) {
	in := candidates(w.World, w.Must)
	if !slices.ContainsFunc(in, func(d topology.ID) bool { return worlds.Holds(w.Tree, d, found.Plan.Domain) }) {
		in = append(in, topology.Root)
	}
	for _, d := range in {
		one := w.only(d)
		sets := one.cheapest()
		t := twin{Considered: evict.Considered{Domain: d, Outcome: evict.Impossible}}
		for _, s := range sets {
			p, _ := plan.Choose(one.after(s), w.Request)
			row := w.rank(w.after(s), p) // of parents in the whole world
			if t.row == nil || slices.Compare(row, t.row) < 0 {
				t.row = row
			}
			t.Outcome, t.Cost = evict.Possible, w.cost(s)
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b twin) int {
		return cmp.Or(cmp.Compare(a.Outcome, b.Outcome), compareCosts(a.Cost, b.Cost), slices.Compare(a.row, b.row))
	})
	return out
}

// rule returns the first rule by which a is better than b.
func (w world) rule(a, b twin) evict.Rule {
	switch {
	case b.Outcome != evict.Possible:
		return evict.Alone
	case a.Cost.Violations != b.Cost.Violations:
		return evict.ByBudgets
	case a.Cost.Pods != b.Cost.Pods:
		return evict.ByPods
	case a.Cost.Requeued != b.Cost.Requeued:
		return evict.ByRequeued
	case a.Cost.Highest != b.Cost.Highest:
		return evict.ByHighest
	case a.Cost.Sum != b.Cost.Sum:
		return evict.BySum
	}
	rules := []evict.Rule{evict.ByMembers, evict.ByDepth}
	for range w.Prefer {
		rules = append(rules, evict.ByPreferences)
	}
	upwards := -a.row[1] + 1
	rules = slices.Concat(rules, slices.Repeat([]evict.Rule{evict.ByAttraction}, upwards),
		[]evict.Rule{evict.BySoft}, slices.Repeat([]evict.Rule{evict.ByBinpack}, upwards))
	for i, r := range rules {
		if a.row[i] != b.row[i] {
			return r
		}
	}
	return evict.ByNames
}

var ruleKinds = []string{
	"alone", "budgets", "pods", "highestPriority", "members", "binpack",
	"in the cluster", "with impossible domains", "with bound members", "no victims",
}

// The cost of each domain equals that of a search over all sets of victims. The chosen domain has the least cost, and
// the named rule is the first one that decides.
func TestConsider(t *testing.T) {
	worlds.Check(t, 3000, ruleKinds, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, rapid.SampledFrom([]int{3, 5, 8}).Draw(t, "most")))
		if worlds.Chance(t, 2, "spread") {
			w.Must = 0
		}
		e := evict.Choose(w.World, w.Request, w.nodes())
		if e == nil {
			return
		}
		got := evict.Consider(gangWorld{world: w}.problem(), foundBy(e), evict.Comparing{})
		w.checkChoice(t, y, e, got)
	})
}

func (w world) checkChoice(t *rapid.T, y worlds.Tally, e *evict.Eviction, got evict.Choice) {
	want := w.consider(e)
	won := got.Considered[0]
	if won.Outcome != evict.Possible || won.Cost != e.Cost || !worlds.Holds(w.Tree, won.Domain, e.Plan.Domain) {
		t.Fatalf("%+v won, not %+v", won, e)
	}
	if len(got.Considered) != len(want) {
		t.Fatalf("%+v was considered, not %+v", got.Considered, want)
	}
	for i, c := range got.Considered {
		if c != want[i].Considered {
			t.Fatalf("%+v was considered, not %+v", got.Considered, want)
		}
	}
	rule := evict.Alone
	if len(want) > 1 {
		rule = w.rule(want[0], want[1])
	}
	if got.Rule != rule {
		t.Fatalf("won by %s, not by %s: %+v", got.Rule, rule, want)
	}
	y.Count(string(got.Rule), true)
	y.Count("in the cluster", won.Domain == topology.Root && len(want) > 1)
	y.Count("with impossible domains", want[len(want)-1].Outcome == evict.Impossible)
	y.Count("with bound members", slices.Max(w.Bound) > 0 && len(want) > 1)
	y.Count("no victims", e.Cost.Pods == 0)
}

// The same for many evictions of equal cost, so that the last rules decide.
func TestConsiderTies(t *testing.T) {
	worlds.Check(t, 2000, []string{
		"highestPriority", "depth", "attraction", "softPreferences", "binpack", "names",
	}, func(t *rapid.T, y worlds.Tally) {
		w := world{World: plan.World{Tree: worlds.Wide(t).Build()}, unit: 1}
		w.hosts = make([]host, w.Tree.NumNodes())
		w.Bound, w.Attract = make([]offer.Slots, len(w.hosts)), make([]offer.Slots, len(w.hosts))
		if worlds.Chance(t, 4, "soft preferences") {
			for range w.hosts {
				w.Penalty = append(w.Penalty, int64(worlds.Even(t, 2, "penalty")))
			}
		}
		uniform, half := worlds.Chance(t, 2, "one priority"), len(w.hosts)/2
		mirrored := len(w.hosts)%2 == 0 && worlds.Chance(t, 4, "mirrored")
		for i := range w.hosts {
			w.Attract[i] = offer.Slots(worlds.Even(t, 8, "attract") / 7)
			h := &w.hosts[i]
			h.free = worlds.Even(t, 4, "free") / 2
			if !worlds.Chance(t, 4, "no victim") {
				h.victims = []evict.Victim{{Name: fmt.Sprint("v", i), Priority: 5}}
				h.size = []int{1 + worlds.Even(t, 3, "size")}
			}
			if mirrored && i >= half {
				*h, w.Attract[i] = host{
					free: w.hosts[i-half].free, victims: slices.Clone(w.hosts[i-half].victims), size: w.hosts[i-half].size,
				}, w.Attract[i-half]
			}
			if !uniform && len(h.victims) > 0 && worlds.Chance(t, 2, "less important") {
				h.victims[0].Priority = 1
			}
		}
		w.Want = offer.Slots(2 + worlds.Even(t, 4, "want"))
		w.Min, w.Must, w.Prefer, w.Multiple = w.Want, 1, plan.PreferGather(2), make(offer.Multiples, 4)
		e := evict.Choose(w.World, w.Request, w.nodes())
		if e == nil {
			return
		}
		w.checkChoice(t, y, e, evict.Consider(gangWorld{world: w}.problem(), foundBy(e), evict.Comparing{}))
	})
}

// onlyHere returns the world with one domain. Gangs keep their members elsewhere.
func (w gangWorld) onlyHere(d topology.ID) gangWorld {
	all := w.world
	w.world = w.only(d)
	w.elsewhere, w.away = slices.Clone(w.elsewhere), slices.Clone(w.away)
	for i, h := range all.hosts {
		if worlds.Holds(w.Tree, d, w.Tree.Node(i)) {
			continue
		}
		for _, v := range h.victims {
			if g := v.Gang - 1; g >= 0 {
				w.elsewhere[g], w.away[g] = w.elsewhere[g].Add(evict.CostOf(v)), slices.Concat(w.away[g], v.Budgets)
			}
		}
	}
	return w
}

// checkCosts fails unless each domain has its least cost and the chosen domain has the least of all.
func (w gangWorld) checkCosts(
	t *rapid.T, y worlds.Tally, cost evict.Cost, got evict.Choice, apart bool, fits func(gangWorld, []evict.Pick) bool,
) {
	won := got.Considered[0]
	if won.Cost != cost {
		t.Fatalf("%+v won, not %+v\n%s", won, cost, w)
	}
	for i, c := range got.Considered {
		one := w.onlyHere(c.Domain)
		sets, least := one.cheapest(func(gone []evict.Pick) bool { return fits(one, gone) })
		if c.Outcome == evict.Untried && apart {
			continue // the plan is not in the domain alone
		}
		if (len(sets) > 0) != (c.Outcome == evict.Possible) || c.Outcome == evict.Untried || least != c.Cost {
			t.Fatalf("%+v in %d, not %+v\n%s", c, c.Domain, least, w)
		}
		if i == 1 && c.Outcome == evict.Possible {
			y.Count("two possible", true)
			alike := compareCosts(won.Cost, c.Cost) == 0
			if compareCosts(won.Cost, c.Cost) > 0 || alike == slices.Contains([]evict.Rule{
				evict.ByBudgets, evict.ByPods, evict.ByRequeued, evict.ByHighest, evict.BySum,
			}, got.Rule) {
				t.Fatalf("%+v won over %+v by %s\n%s", won, c, got.Rule, w)
			}
			y.Count("decided by the plan", alike)
		}
		if i > 0 && c.Outcome == evict.Possible && got.Considered[i-1].Outcome != evict.Possible {
			t.Fatalf("%+v are not best first", got.Considered)
		}
	}
	y.Count("several victims", won.Cost.Pods > 1)
	y.Count("with violations", won.Cost.Violations > 0)
}

var choiceKinds = []string{"two possible", "several victims", "with violations"}

// The compared sets evict gangs whole or only their spare members, also with members elsewhere and with shared
// budgets.
func TestConsiderAmongGangs(t *testing.T) {
	worlds.Check(t, 1000, choiceKinds, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.drawGangRequest(t)
		e := w.choose()
		if e == nil {
			return
		}
		got := evict.Consider(w.problem(), foundBy(e), evict.Comparing{})
		if other := evict.Consider(w.problem(), foundBy(e), evict.Comparing{Each: together}); !reflect.DeepEqual(other, got) {
			t.Fatalf("looked into at the same time they are %+v, one after the other %+v", other, got)
		}
		w.checkCosts(t, y, e.Cost, got, false, func(w gangWorld, gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
	})
}

func (w gangWorld) raw() []evict.RawNode {
	nodes := make([]evict.RawNode, len(w.hosts))
	for i, h := range w.hosts {
		nodes[i] = evict.RawNode{Victims: h.victims, Slots: func(gone []int) offer.Slots { return h.slots(w.unit, gone) }}
	}
	return nodes
}

// together calls do for each number concurrently.
func together(n int, do func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { do(i) })
	}
	wait.Wait()
}

// The same for members of two kinds.
func TestConsiderJobAmongGangs(t *testing.T) {
	worlds.Check(t, 1000, choiceKinds, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.unit = 1
		w.Bound = make([]offer.Slots, len(w.hosts))
		j := drawGangJob(t, w)
		found := evict.Cheapest(j.problem(w))
		if found.Placed == nil {
			return
		}
		got := evict.Consider(j.problem(w), found, evict.Comparing{})
		if other := evict.Consider(j.problem(w), found, evict.Comparing{Each: together}); !reflect.DeepEqual(other, got) {
			t.Fatalf("looked into at the same time they are %+v, one after the other %+v", other, got)
		}
		w.checkCosts(t, y, found.Cost, got, true, func(w gangWorld, gone []evict.Pick) bool { return j.fits(w, gone) })
	})
}

// Each case has two spines that differ by one rule. The explanation names that rule and the first spine.
func TestExplanationNamesDecidingRule(t *testing.T) {
	for _, c := range []struct{ rule, want, s1, s2, kinds string }{
		{"alone", "want=2 must=SpineLayer: s2 2, s1 impossible", "n1 a#", "n2 bc", ""},
		{"budgets", "want=2 must=SpineLayer: s2 2, s1 1", "n1 aa", "n2 bc", "a: pdb"},
		{"pods", "want=2 must=SpineLayer: s2 1, s1 2", "n1 ab", "n2 cc", "c: priority=9000"},
		{"highestPriority", "want=2 must=SpineLayer: s2 2, s1 2", "n1 ab", "n2 cd", "a: priority=1\nc: priority=600\nd: priority=600"},
		{"sum", "want=2 must=SpineLayer: s2 2, s1 2", "n1 ab", "n2 cd", "c: priority=1"},
		{"members", "want=3 min=2 must=SpineLayer: s2 1, s1 1", "n1 aa", "n2 ccc", ""},
		{"depth", "want=2 must=SpineLayer: s2 1, s1 1", "n1 .#  n3 a", "n2 .c", ""},
		{"preferences", "want=3 must=SpineLayer prefer=NodeTopologyLayer: s2 1, s1 1", "n1 a  n3 .  n5 .", "n2 c  n4 ..", ""},
		{"attraction", "want=2 must=SpineLayer: s2 1, s1 1", "n1 .a", "n2 .c@", ""},
		{"binpack", "want=2 must=SpineLayer: s2 1, s1 1", "n1 a  n3 .  n5 b", "n2 c  n4 .", ""},
		{"names", "want=2 must=SpineLayer: s1 1, s2 1", "n1 .a", "n2 .c", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p, err := pictures.Parse(strings.TrimSpace(fmt.Sprintf("s1\n  b1 %s\ns2\n  b2 %s\n%s", c.s1, c.s2, c.kinds)))
			if err != nil {
				t.Fatal(err)
			}
			words, _, _ := strings.Cut(c.want, ": ")
			r, err := request.Parse(p.Tree, strings.Fields(words))
			if err != nil {
				t.Fatal(err)
			}
			choice := chosen(t, p, r)
			var told []string
			for _, d := range choice.Considered {
				cost := fmt.Sprint(d.Cost.Pods)
				if d.Outcome == evict.Impossible {
					cost = "impossible"
				}
				told = append(told, p.Tree.Path(d.Domain)+" "+cost)
			}
			if got := words + ": " + strings.Join(told, ", "); got != c.want || string(choice.Rule) != c.rule {
				t.Fatalf("%s by %s, not %s by %s", got, choice.Rule, c.want, c.rule)
			}
		})
	}
}

// chosen returns the explanation of an eviction on a picture, and fails without an eviction.
func chosen(t *testing.T, p *pictures.Cluster, r plan.Request) evict.Choice {
	t.Helper()
	nodes, gangs := p.Running()
	problem := evict.Problem{World: p.World(), Request: r, Nodes: nodes, Gangs: gangs}
	found := evict.Cheapest(problem)
	if found.Plan == nil {
		t.Fatal("no eviction")
	}
	return evict.Consider(problem, found, evict.Comparing{})
}

// The considered domains of a gang without a required layer.
func TestConsiderLayers(t *testing.T) {
	for what, c := range map[string]struct{ picture, want string }{
		"the topmost layer of several": {"s1\n  b1 n1 a\ns2\n  b2 n2 b", "s1 s2"},
		"not one of a single domain":   {"s1\n  b1 n1 a\n  b2 n2 b", "s1/b1 s1/b2"},
		"no nodes":                     {"s1\n  b1 n1 a n2 b", "the cluster"},
		"only with bound members":      {"s1\n  b1 n1 a\ns2\n  b2 n2 b=", "s2"},
		"the cluster for all":          {"s1\n  b1 n1 #=\ns2\n  b2 n2 b=", "the cluster"},
	} {
		t.Run(what, func(t *testing.T) {
			p, err := pictures.Parse(c.picture)
			if err != nil {
				t.Fatal(err)
			}
			r := plan.Request{Want: 1, Min: 1}
			choice := chosen(t, p, r)
			var told []string
			for _, d := range choice.Considered {
				told = append(told, cmp.Or(p.Tree.Path(d.Domain), "the cluster"))
			}
			if got := strings.Join(told, " "); got != c.want {
				t.Fatalf("%s, not %s", got, c.want)
			}
		})
	}
}

// Domains are reported as untried when the time is over.
func TestDomainsBeyondTheTimeAreUntried(t *testing.T) {
	p, err := pictures.Parse("s1\n  b1 n1 aa\ns2\n  b2 n2 b\ns3\n  b3 n3 c\ns4\n  b4 n4 #")
	if err != nil {
		t.Fatal(err)
	}
	w, r := p.World(), plan.Request{Want: 1, Min: 1, Must: 1}
	raw := make([]evict.RawNode, len(p.Nodes))
	for i, n := range p.Victims(r.Want) {
		raw[i] = evict.RawNode{Victims: n.Victims, Slots: func(gone []int) offer.Slots { return offer.Slots(len(gone)) }}
	}
	looks := 0
	problem := evict.Problem{World: w, Request: r, Nodes: raw}
	got := evict.Consider(problem, evict.Cheapest(problem), evict.Comparing{More: func() bool { looks++; return looks == 1 }})
	cost := evict.Cost{Pods: 1, Highest: 1000, Sum: 1000}
	want := []evict.Considered{
		{Domain: p.Tree.Ancestor(p.Tree.Node(0), 1), Cost: cost},
		{Domain: p.Tree.Ancestor(p.Tree.Node(1), 1), Cost: cost},
		{Domain: p.Tree.Ancestor(p.Tree.Node(2), 1), Outcome: evict.Untried},
		{Domain: p.Tree.Ancestor(p.Tree.Node(3), 1), Outcome: evict.Untried},
	}
	if !slices.Equal(got.Considered, want) || got.Rule != evict.ByNames {
		t.Fatalf("%+v", got)
	}
}

// For members of two kinds the lowest highest priority comes before the lowest sum, also on one node. The plan uses
// the capacity of terminated victims.
func TestConsiderJobRules(t *testing.T) {
	victims := func(priorities ...int32) (out []evict.Victim) {
		for _, p := range priorities {
			out = append(out, evict.Victim{Name: fmt.Sprint("p", p), Priority: p})
		}
		return out
	}
	for what, c := range map[string]struct {
		s1, s2  []host // by node
		members int
		rule    evict.Rule
		cost    evict.Cost
		places  []int // by node index
	}{
		"two domains": {
			s1:      []host{{victims: victims(1, 9), size: []int{1, 1}}},
			s2:      []host{{victims: victims(6, 6), size: []int{1, 1}}},
			members: 2, rule: evict.ByHighest, cost: evict.Cost{Pods: 2, Highest: 6, Sum: 12}, places: []int{0, 2},
		},
		"one node": {
			s1:      []host{{victims: victims(1, 9, 6, 6), size: []int{1, 3, 2, 2}}},
			members: 4, rule: evict.Alone, cost: evict.Cost{Pods: 2, Highest: 6, Sum: 12}, places: []int{4},
		},
		"fewer of higher priority": {
			s1:      []host{{victims: victims(9), size: []int{2}}},
			s2:      []host{{victims: victims(6, 6), size: []int{1, 1}}},
			members: 2, rule: evict.ByPods, cost: evict.Cost{Pods: 1, Highest: 9, Sum: 9}, places: []int{2, 0},
		},
		"the largest node first": {
			s1:      []host{{victims: victims(9), size: []int{3}}, {free: 2}, {free: 2}, {victims: victims(9), size: []int{3}}},
			s2:      []host{{free: 1}},
			members: 8, rule: evict.Alone, cost: evict.Cost{Pods: 2, Highest: 9, Sum: 18}, places: []int{3, 2, 0, 3, 0},
		},
	} {
		t.Run(what, func(t *testing.T) {
			var leaves []topology.Node
			for i, hosts := range [][]host{c.s1, c.s2} {
				for range hosts {
					leaves = append(leaves, topology.Node{Name: fmt.Sprint("n", len(leaves)), Path: []string{fmt.Sprint("s", i+1)}})
				}
			}
			j := gangJob{units: [2]int{1, 1}}
			j.All.Must, j.Gangs = 1, []mixed.Gang{{Need: offer.Slots(c.members)}}
			j.Classes = []mixed.Class{{Kind: 0, Ranks: []int{0}}, {Kind: 1}}
			for rank := 1; rank < c.members; rank++ {
				j.Classes[1].Ranks = append(j.Classes[1].Ranks, rank)
			}
			w := gangWorld{world: world{unit: 1, hosts: slices.Concat(c.s1, c.s2)}}
			w.Tree = topology.Build([]string{"SpineLayer"}, leaves)
			w.Bound = make([]offer.Slots, len(leaves))
			e := evict.Cheapest(j.problem(w))
			if e.Placed == nil || !e.Conclusive {
				t.Fatalf("%+v", e)
			}
			choice := evict.Consider(j.problem(w), e, evict.Comparing{})
			if e.Cost != c.cost || choice.Rule != c.rule {
				t.Fatalf("cost %+v, won by %s", e.Cost, choice.Rule)
			}
			places := make([]int, len(leaves))
			for _, at := range e.Placed.Places() {
				places[at.Node] += int(at.Count)
			}
			if !slices.Equal(places, c.places) {
				t.Fatalf("places %v, not %v", places, c.places)
			}
		})
	}
}

// Costs compare by budgets, then pods, then the highest priority, then the sum of priorities.
func TestCompareCosts(t *testing.T) {
	rising := []evict.Cost{
		{Pods: 2, Highest: 5, Sum: 10},
		{Pods: 2, Highest: 9, Sum: 2},
		{Pods: 2, Highest: 9, Sum: 10},
		{Pods: 3, Highest: 1, Sum: 3},
		{Violations: 1, Pods: 1, Highest: -1, Sum: -1},
	}
	for i, a := range rising {
		for k, b := range rising {
			if got := a.Compare(b); got != cmp.Compare(i, k) {
				t.Errorf("%+v before %+v: %d", a, b, got)
			}
		}
	}
}
