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

// trial is a mixed.Trial for interdependent members.
type trial struct {
	shop
	tree  *topology.Tree
	rules []neighbours    // by kind
	there [][]offer.Slots // by kind and node index, pods that are no members
	load  [][]offer.Slots // by node index and kind, placed members
	puts  []mixed.Put     // with kinds for classes
	asked int
	moved int // puts and undos
}

// neighbours is what a kind asks of other nodes, each in domains of a layer; a rule
// with zeros asks nothing.
type neighbours struct {
	// No more than so many of the kind are in one domain.
	most, mostLayer int
	// A domain has no more of the kind than the one with the fewest, plus skew.
	skew, skewLayer int
	// One of another kind is in the domain before.
	after, afterLayer int
	// No other member is in the domain.
	apart      bool
	apartLayer int
}

const afterNobody = -1

func (s *trial) Fits(kind, node int) bool {
	s.asked++
	s.load[node][kind]++
	ok := s.accepts(node, s.load[node])
	s.load[node][kind]--
	r := s.rules[kind]
	at := func(kind, layer int) int { return s.count(kind, s.tree.Ancestor(s.tree.Node(node), layer)) }
	ok = ok && (r.most == 0 || at(kind, r.mostLayer) < r.most)
	ok = ok && (r.skew == 0 || at(kind, r.skewLayer)+1-s.fewest(kind, r.skewLayer) <= r.skew)
	return ok && (r.after == afterNobody || at(r.after, r.afterLayer) > 0) && s.alone(kind, node)
}

// alone: no pod keeps the kind off the node, and the kind accepts all pods there.
func (s *trial) alone(kind, node int) bool {
	for k, r := range s.rules {
		for other := range s.rules {
			if r.apart && (k == kind || other == kind) {
				ranked := other
				if other == kind {
					ranked = k
				}
				d := s.tree.Ancestor(s.tree.Node(node), r.apartLayer)
				if s.count(ranked, d) > 0 {
					return false
				}
			}
		}
	}
	return true
}

func (s *trial) count(kind int, d topology.ID) (n int) {
	for i := range s.load {
		if worlds.Holds(s.tree, d, s.tree.Node(i)) {
			n += int(s.there[kind][i] + s.load[i][kind])
		}
	}
	return n
}

func (s *trial) fewest(kind, layer int) int {
	least := 1 << 30
	for d := topology.Root; int(d) < s.tree.Len(); d++ {
		if s.tree.Layer(d) == layer {
			least = min(least, s.count(kind, d))
		}
	}
	return least
}

func (s *trial) Put(kind, node int) {
	s.moved++
	s.load[node][kind]++
	s.puts = append(s.puts, mixed.Put{Class: kind, Node: node})
}

func (s *trial) Undo() {
	s.moved++
	last := s.puts[len(s.puts)-1]
	s.puts = s.puts[:len(s.puts)-1]
	s.load[last.Node][last.Class]--
}

// stuck puts members in the order of a plan and returns which is the first that does
// not fit.
func (s *trial) stuck(j mixed.Job, p *mixed.Plan) (i int) {
	for i < len(p.Puts) && s.Fits(j.Classes[p.Puts[i].Class].Kind, p.Puts[i].Node) {
		s.Put(j.Classes[p.Puts[i].Class].Kind, p.Puts[i].Node)
		i++
	}
	for range i {
		s.Undo()
	}
	return i
}

// take is how many fit one after the other beside a load, in the trial as it is.
func (s *trial) take(node int, load []offer.Slots, kind int) (n offer.Slots) {
	had := slices.Clone(s.load[node])
	for k, n := range load {
		s.load[node][k] += n
	}
	for n < 9 && s.Fits(kind, node) {
		s.load[node][kind]++
		n++
	}
	s.load[node] = had
	return n
}

func drawTrial(t *rapid.T, s shop, tree *topology.Tree) *trial {
	out := &trial{shop: s, tree: tree}
	kinds := len(s.needs)
	for range kinds {
		out.there = append(out.there, make([]offer.Slots, tree.NumNodes()))
	}
	for range tree.NumNodes() {
		out.load = append(out.load, make([]offer.Slots, kinds))
	}
	if worlds.Chance(t, 3, "others are there") {
		for range 1 + worlds.Even(t, 2, "others") {
			out.there[worlds.Even(t, kinds, "kind")][worlds.Even(t, tree.NumNodes(), "node")]++
		}
	}
	layer := func() int { return worlds.Even(t, tree.Depth()+1, "layer") }
	for range kinds {
		r := neighbours{after: afterNobody}
		switch worlds.Even(t, 6, "rule") {
		case 1:
			r.most, r.mostLayer = 1+worlds.Even(t, 2, "most"), layer()
		case 2:
			r.skew, r.skewLayer = 1+worlds.Even(t, 2, "skew"), layer()
		case 3:
			r.after, r.afterLayer = worlds.Even(t, kinds, "after"), layer()
		case 4:
			r.skew, r.skewLayer = 1, layer()
			r.after, r.afterLayer = worlds.Even(t, kinds, "after"), layer()
		case 5:
			r.apart, r.apartLayer = true, layer()
		}
		out.rules = append(out.rules, r)
	}
	return out
}

// most goes through every sequence of puts and returns the most members that a legal
// plan can place, 0 if there is no plan.
func (o *jobTwin) most(s *trial) (most int) {
	left := make([]int, len(o.Classes))
	for c, class := range o.Classes {
		left[c] = len(class.Ranks)
	}
	seen := map[string]bool{}
	var puts []mixed.Put
	var visit func()
	visit = func() {
		key := fmt.Sprint(sorted(puts))
		if seen[key] {
			return
		}
		seen[key] = true
		if len(puts) > most && o.legal(o.way(puts)) {
			most = len(puts)
		}
		for c, class := range o.Classes {
			for node := range o.Tree.NumNodes() {
				if left[c] == 0 || !s.Fits(class.Kind, node) {
					continue
				}
				s.Put(class.Kind, node)
				puts = append(puts, mixed.Put{Class: c, Node: node})
				left[c]--
				visit()
				left[c]++
				puts = puts[:len(puts)-1]
				s.Undo()
			}
		}
	}
	visit()
	return most
}

func sorted(puts []mixed.Put) []mixed.Put {
	return slices.SortedFunc(slices.Values(puts), func(a, b mixed.Put) int {
		if a.Class != b.Class {
			return a.Class - b.Class
		}
		return a.Node - b.Node
	})
}

// way is what puts look like to the twin.
func (o *jobTwin) way(puts []mixed.Put) way {
	at := make(way, len(o.ranked))
	for i := range at {
		at[i] = o.Tree.NumNodes()
	}
	next := make([]int, len(o.Classes))
	for i := range o.ranked {
		next[o.ranked[len(o.ranked)-1-i].class] = len(o.ranked) - 1 - i
	}
	for _, p := range sorted(puts) {
		at[next[p.Class]] = p.Node
		next[p.Class]++
	}
	return at
}

// checkPuts: no more members than there are, and the domain is where they are.
func (o *jobTwin) checkPuts(t *rapid.T, p *mixed.Plan) {
	count := make([]int, len(o.Classes))
	for _, put := range p.Puts {
		count[put.Class]++
	}
	for c, n := range count {
		if n > len(o.Classes[c].Ranks) {
			t.Fatalf("%d of class %d: %v\n%s", n, c, p, o)
		}
	}
	if at := o.way(p.Puts); !o.legal(at) || o.domain(at) != p.Domain {
		t.Fatalf("%+v is invalid, or not in that domain\n%s", p, o)
	}
}

// TestJobInTrial: for interdependent members a plan is found exactly if one exists. The plan passes in its order and
// leaves no member in the trial.
func TestJobInTrial(t *testing.T) {
	kinds := []string{
		"refused", "refused by neighbours only", "placed", "unlike members", "several gangs", "in part", "with bound members",
		"with multiples", "the order matters", "where no member fits at first", "one wants no neighbours",
	}
	worlds.Check(t, 6000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 2+worlds.Even(t, 4, "most")).Build()
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		j := drawJob(t, tree, kinds, 500)
		st := drawTrial(t, s, tree)
		w.Take, w.Trial = st.take, st
		for i := range w.Free {
			w.Free[i] = 0
			for k := range kinds {
				w.Free[i] = max(w.Free[i], st.take(i, make([]offer.Slots, kinds), k))
			}
		}
		o := newJobTwin(s, w, j)
		p, refusal := mixed.Choose(w, j)
		if len(st.puts) > 0 {
			t.Fatalf("%v are left in the trial", st.puts)
		}
		most := o.most(st)
		if (refusal == nil) != (most > 0) || (p == nil) != (refusal != nil) {
			t.Fatalf("Choose says %v, the twin places %d\n%s\n%+v, others %v", refusal, most, o, st.rules, st.there)
		}
		y.Count("refused", refusal != nil)
		if refusal != nil {
			alike := w
			alike.Take, alike.Trial = s.take, nil
			_, refused := mixed.Choose(alike, j)
			y.Count("refused by neighbours only", refused == nil)
			return
		}
		o.checkPuts(t, p)
		if !p.InOrder {
			t.Fatalf("%+v: any order?", p)
		}
		inOrder := true
		for _, put := range sorted(p.Puts) {
			kind := j.Classes[put.Class].Kind
			inOrder = inOrder && st.Fits(kind, put.Node)
			st.Put(kind, put.Node)
		}
		for range p.Puts {
			st.Undo()
		}
		if i := st.stuck(j, p); i < len(p.Puts) {
			t.Fatalf("%v: the one of %d does not fit\n%s\n%+v, others %v", p.Puts, i, o, st.rules, st.there)
		}
		y.Count("placed", true)
		if len(p.Puts) < most {
			t.Fatalf("%v places fewer than %d\n%s\n%+v, others %v", p.Puts, most, o, st.rules, st.there)
		}
		o.countMembers(y, p)
		y.Count("the order matters", !inOrder)
		y.Count("one wants no neighbours", len(p.Puts) > 1 && slices.ContainsFunc(p.Puts, func(x mixed.Put) bool {
			return st.rules[j.Classes[x.Class].Kind].apart
		}))
		y.Count("where no member fits at first", slices.ContainsFunc(p.Puts, func(x mixed.Put) bool {
			return st.take(x.Node, make([]offer.Slots, kinds), j.Classes[x.Class].Kind) == 0
		}))
	})
}

// inTrial is a world of so many nodes with so much cpu, in blocks by turns, and a trial
// for kinds that need so much.
func inTrial(nodes, blocks int, cpu offer.Slots, needs []offer.Slots, rules ...neighbours) (mixed.World, *trial) {
	var all []topology.Node
	for i := range nodes {
		all = append(all, topology.Node{Name: fmt.Sprintf("n%03d", i), Path: []string{"s", fmt.Sprint("b", i%blocks)}})
	}
	tree := topology.Build([]string{"Spine", "Block"}, all)
	st := &trial{shop: shop{single: make([]bool, len(needs))}, tree: tree, rules: rules}
	for _, n := range needs {
		st.needs = append(st.needs, [2]offer.Slots{n, 0})
		st.there = append(st.there, make([]offer.Slots, nodes))
	}
	for len(st.rules) < len(needs) {
		st.rules = append(st.rules, neighbours{after: afterNobody})
	}
	w := mixed.World{World: plan.World{Tree: tree}, Take: st.take, Trial: st}
	for range nodes {
		st.has = append(st.has, [2]offer.Slots{cpu, 0})
		st.load = append(st.load, make([]offer.Slots, len(needs)))
		w.Free = append(w.Free, cpu/slices.Min(needs))
	}
	return w, st
}

// oneGang is a job of one gang with so many members of each kind.
func oneGang(need offer.Slots, members ...int) mixed.Job {
	j := mixed.Job{Gangs: []mixed.Gang{{Need: need}}, All: plan.Gather{Must: 1}}
	rank := 0
	for kind, n := range members {
		c := mixed.Class{Kind: kind}
		for range n {
			c.Ranks = append(c.Ranks, rank)
			rank++
		}
		j.Classes = append(j.Classes, c)
	}
	return j
}

// TestElasticInTrial: an optional member that keeps other members off stays out of the plan, even
// if the lowest ranks do.
func TestElasticInTrial(t *testing.T) {
	apart := neighbours{after: afterNobody, apart: true, apartLayer: 2}
	for _, c := range []struct {
		name  string
		needs []offer.Slots
		job   mixed.Job
		rules []neighbours
		want  []int // by class
	}{
		{"one of three with a block each", []offer.Slots{1, 1, 2}, oneGang(5, 3, 4, 4), []neighbours{apart}, []int{1, 4, 4}},
		{"twenty others", []offer.Slots{1, 1}, oneGang(20, 3, 20), []neighbours{apart}, []int{1, 20}},
		{"others in five sizes", []offer.Slots{1, 1, 2, 3, 4}, oneGang(6, 3, 2, 2, 1, 1), []neighbours{apart}, []int{1, 2, 2, 1, 1}},
		{"two kinds that want a block each", []offer.Slots{1, 1, 1, 2}, oneGang(6, 2, 2, 8, 8), []neighbours{apart, apart}, []int{1, 0, 8, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, st := inTrial(4, 2, 16, c.needs, c.rules...)
			p, refusal := mixed.Choose(w, c.job)
			t.Logf("%d questions, %d moves", st.asked, st.moved)
			if refusal != nil {
				t.Fatal(refusal)
			}
			got := make([]int, len(c.want))
			for _, put := range p.Puts {
				got[put.Class]++
			}
			if !slices.Equal(got, c.want) || st.stuck(c.job, p) < len(p.Puts) {
				t.Errorf("%v of each class: %v", got, p.Puts)
			}
		})
	}
}

// TestBackToTheFirstNode: the first member fits only the last node, which is full then.
func TestBackToTheFirstNode(t *testing.T) {
	w, st := inTrial(5, 2, 4, []offer.Slots{1}, neighbours{after: afterNobody, skew: 1, skewLayer: 3})
	last := len(st.has) - 1
	st.has[last][0], w.Free[last] = 1, 1
	for i := range last {
		st.there[0][i] = 1
	}
	j := oneGang(5, 5)
	p, refusal := mixed.Choose(w, j)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if p.Puts[0].Node != last || st.stuck(j, p) < len(p.Puts) {
		t.Errorf("%v", p.Puts)
	}
}

// TestPlanOfTablesIsInOrder: members that must be spread over two blocks bind in turn, although tables list them block by block.
func TestPlanOfTablesIsInOrder(t *testing.T) {
	w, st := inTrial(4, 2, 1, []offer.Slots{1}, neighbours{after: afterNobody, skew: 1, skewLayer: 2})
	j := oneGang(4, 4)
	p, refusal := mixed.Choose(w, j)
	if refusal != nil || len(p.Puts) != 4 || st.stuck(j, p) < 4 {
		t.Errorf("%v %v", p, refusal)
	}
}

// TestSplitGangGetsNoMember: a gang whose bound members are in two blocks, and must gather in one, gets no further member.
func TestSplitGangGetsNoMember(t *testing.T) {
	w, _ := inTrial(4, 2, 1, []offer.Slots{1})
	j := oneGang(1, 1)
	j.Gangs = append(j.Gangs, mixed.Gang{Bound: []offer.Slots{1, 0, 1, 0}})
	j.Classes = append(j.Classes, mixed.Class{Gang: 1, Ranks: []int{1}})
	j.Sets = []mixed.Set{{Gather: plan.Gather{Must: 2}, Gangs: []int{1}}}
	p, refusal := mixed.Choose(w, j)
	if refusal != nil || len(p.Puts) != 1 || p.Puts[0].Class != 0 {
		t.Errorf("%v %v", p, refusal)
	}
}

// TestRefusalsInTrial: a question to a trial takes long, so a refusal asks few.
func TestRefusalsInTrial(t *testing.T) {
	plain := neighbours{after: afterNobody}
	apart := neighbours{after: afterNobody, apart: true, apartLayer: 2}
	oneANode := neighbours{after: afterNobody, most: 1, mostLayer: 3}
	even := neighbours{after: afterNobody, skew: 1, skewLayer: 2}
	for _, c := range []struct {
		name   string
		nodes  int
		blocks int
		cpu    offer.Slots
		needs  []offer.Slots
		job    mixed.Job
		rules  []neighbours
		most   int
	}{
		{"one a node on five nodes", 5, 2, 16, []offer.Slots{1, 1}, oneGang(8, 1, 7), []neighbours{plain, oneANode}, 800},
		{"one a node, two kinds", 5, 2, 16, []offer.Slots{1, 1}, oneGang(8, 2, 6), []neighbours{oneANode, oneANode}, 2200},
		{"too much for five nodes", 5, 2, 4, []offer.Slots{2, 3}, oneGang(8, 4, 4), []neighbours{even}, 2800},
		{"three with a block each", 4, 2, 16, []offer.Slots{1, 1, 2}, oneGang(11, 3, 4, 4), []neighbours{apart}, 4500},
		{"elastic, two with a block each", 4, 2, 16, []offer.Slots{1, 9}, oneGang(6, 2, 6), []neighbours{apart}, 300},
		{"twelve with one of ten blocks each", 100, 10, 16, []offer.Slots{1, 4}, oneGang(16, 12, 4), []neighbours{apart}, 4500},
		{"forty, one a node, on thirty nodes", 30, 3, 16, []offer.Slots{1, 2}, oneGang(40, 1, 39), []neighbours{plain, oneANode}, 4500},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, st := inTrial(c.nodes, c.blocks, c.cpu, c.needs, c.rules...)
			asked := 0
			w.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
				had := st.asked
				defer func() { asked += st.asked - had }()
				return st.take(node, load, kind)
			}
			p, refusal := mixed.Choose(w, c.job)
			t.Logf("%d questions, %d moves, %v", st.asked-asked, st.moved, refusal != nil && refusal.Incomplete)
			if p != nil {
				t.Fatal(p)
			}
			if st.asked-asked > c.most {
				t.Errorf("%d questions", st.asked-asked)
			}
		})
	}
}
