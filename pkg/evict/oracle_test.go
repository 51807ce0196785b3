package evict_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// host is a node as its pods use it. A member and the victims take up units, and the free units may not fill a whole
// slot.
type host struct {
	free    int
	victims []evict.Victim
	size    []int
}

func (h host) slots(unit int, gone []int) offer.Slots {
	free := h.free
	for _, v := range gone {
		free += h.size[v]
	}
	return offer.Slots(free / unit)
}

type world struct {
	plan.World // but for Free and Room
	plan.Request
	unit  int
	hosts []host // by node index
}

func (w world) nodes() []evict.Node {
	out := make([]evict.Node, len(w.hosts))
	for i, h := range w.hosts {
		out[i] = evict.NewNode(h.victims, w.Want, func(gone []int) offer.Slots { return h.slots(w.unit, gone) })
	}
	return out
}

// after returns the world without some victims.
func (w world) after(gone []evict.Pick) plan.World {
	after := w.World
	after.Free = make([]offer.Slots, len(w.hosts))
	after.Capacity = make([]offer.Slots, len(w.hosts))
	for i, h := range w.hosts {
		var here, all []int
		for v := range h.victims {
			all = append(all, v)
			if slices.Contains(gone, evict.Pick{Node: i, Victim: v}) {
				here = append(here, v)
			}
		}
		after.Free[i], after.Capacity[i] = h.slots(w.unit, here), h.slots(w.unit, all)
	}
	return after
}

// fits reports whether the gang's minimum fits below one domain.
func (w world) fits(gone []evict.Pick, below topology.ID) bool {
	after := w.after(gone)
	reach := worlds.Reaches(w.Tree, after.Free, w.Multiple)
	for d := topology.Root; int(d) < w.Tree.Len(); d++ {
		joins := worlds.Total(w.Tree, w.Bound, d) == worlds.Total(w.Tree, w.Bound, topology.Root)
		if w.Tree.Layer(d) != w.Must || !joins || !worlds.Holds(w.Tree, below, d) && !worlds.Holds(w.Tree, d, below) {
			continue
		}
		if worlds.Holds(w.Tree, d, below) {
			d = below
		}
		for n := max(w.Min, 1); n <= w.Want; n++ {
			if reach[d].Has(n) && reach[topology.Root].Has(n) { // the root has multiples, too
				return true
			}
		}
		if d == below {
			return false
		}
	}
	return false
}

func (w world) cost(gone []evict.Pick) (c evict.Cost) {
	for _, p := range gone {
		v := w.hosts[p.Node].victims[p.Victim]
		if v.Violates {
			c.Violations++
		}
		if c.Pods+c.Requeued == 0 || v.Priority > c.Highest {
			c.Highest = v.Priority
		}
		if v.Pending {
			c.Requeued++
		} else {
			c.Pods++
		}
		c.Sum += int64(v.Priority)
	}
	return c
}

// cheapest searches all sets of victims and returns the sets of the least cost.
func (w world) cheapest() (out [][]evict.Pick) {
	sets := [][]evict.Pick{nil}
	for i, h := range w.hosts {
		for v := range h.victims {
			for _, s := range sets {
				sets = append(sets, append(slices.Clone(s), evict.Pick{Node: i, Victim: v}))
			}
		}
	}
	byCost := func(a, b []evict.Pick) int { return compareCosts(w.cost(a), w.cost(b)) }
	slices.SortStableFunc(sets, byCost)
	for _, s := range sets {
		if len(out) > 0 && byCost(out[0], s) < 0 {
			break
		}
		if w.fits(s, topology.Root) {
			out = append(out, s)
		}
	}
	return out
}

// compareCosts is the order of the specification.
func compareCosts(a, b evict.Cost) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(a.Pods, b.Pods),
		cmp.Compare(a.Requeued, b.Requeued),
		cmp.Compare(a.Highest, b.Highest),
		cmp.Compare(a.Sum, b.Sum),
	)
}

// rank returns the values of the rules for plans, in their order and as far as they differ between domains. Lower is
// better.
func (w world) rank(after plan.World, p *plan.Plan) (row []int) {
	row = append(row, -int(p.Count()), -w.Tree.Layer(p.Domain))
	for _, preferred := range w.Prefer {
		l := preferred.Layer
		touched := map[topology.ID]bool{}
		for _, at := range p.Places {
			if d := w.Tree.Ancestor(w.Tree.Node(at.Node), l); worlds.Total(w.Tree, w.Bound, d) == 0 {
				touched[d] = true
			}
		}
		row = append(row, len(touched))
	}
	for l := w.Tree.Layer(p.Domain); l >= 0; l-- {
		row = append(row, -int(worlds.Total(w.Tree, w.Attract, w.Tree.Ancestor(p.Domain, l))))
	}
	penalty := 0
	for _, at := range p.Places {
		if w.Penalty != nil {
			penalty += int(at.Count) * int(w.Penalty[at.Node])
		}
	}
	row = append(row, penalty)
	for l := w.Tree.Layer(p.Domain); l >= 0; l-- {
		row = append(row, int(worlds.Total(w.Tree, after.Capacity, w.Tree.Ancestor(p.Domain, l))))
	}
	return append(row, int(p.Domain))
}

func drawWorld(t *rapid.T, net worlds.Network) world {
	w := world{World: plan.World{Tree: net.Build()}, unit: rapid.IntRange(1, 2).Draw(t, "unit")}
	n := w.Tree.NumNodes()
	w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
	if rapid.IntRange(0, 5).Draw(t, "bound") == 0 {
		w.Bound[rapid.IntRange(0, n-1).Draw(t, "node")] = 1
	}
	if rapid.IntRange(0, 3).Draw(t, "attract") == 0 {
		w.Attract[rapid.IntRange(0, n-1).Draw(t, "node")] = 1
	}
	if worlds.Chance(t, 3, "soft preferences") {
		for range n {
			w.Penalty = append(w.Penalty, []int64{0, 0, 1, 2, 300}[worlds.Even(t, 5, "penalty")])
		}
	}
	w.hosts = make([]host, n)
	priorities := rapid.SampledFrom([][]int32{{1000}, {1, 500, 1000}, {-7, 0, 3, 9}, {1, 2, 9, 9}}).Draw(t, "priorities")
	shaped, waits := rapid.Bool().Draw(t, "shaped"), rapid.IntRange(0, 3).Draw(t, "some wait") == 0
	total := 0
	for i := range w.hosts {
		h := &w.hosts[i]
		h.free = rapid.IntRange(0, 3).Draw(t, "free") * rapid.IntRange(0, 1).Draw(t, "any free")
		for range rapid.IntRange(0, min(4, 7-total)).Draw(t, "victims") {
			v := evict.Victim{
				Name:     fmt.Sprint("v", total),
				Priority: rapid.SampledFrom(priorities).Draw(t, "priority"),
				Started:  int64(rapid.IntRange(0, 2).Draw(t, "started")),
				Violates: rapid.IntRange(0, 4).Draw(t, "violates") == 0,
			}
			size := rapid.IntRange(1, 3).Draw(t, "size")
			v.Pending = waits && !v.Violates && rapid.Bool().Draw(t, "waits")
			if shaped {
				v.Shape = fmt.Sprint("size ", size)
			}
			h.victims, h.size = append(h.victims, v), append(h.size, size)
			total++
		}
	}
	w.drawRequest(t)
	return w
}

func (w *world) drawRequest(t *rapid.T) {
	room := 0
	for _, n := range w.after(nil).Capacity {
		room += int(n)
	}
	w.Want = offer.Slots(rapid.IntRange(1, min(room, 8)+1).Draw(t, "want"))
	w.Min = w.Want
	if rapid.IntRange(0, 2).Draw(t, "elastic") == 0 {
		w.Min = offer.Slots(rapid.IntRange(0, int(w.Want)).Draw(t, "min"))
	}
	w.Must = rapid.IntRange(0, w.Tree.Depth()).Draw(t, "must")
	w.Must *= rapid.IntRange(0, 1).Draw(t, "gather")
	for l := range w.Tree.Depth() + 1 {
		if rapid.Bool().Draw(t, "prefer") {
			w.Prefer = append(w.Prefer, plan.Preference{Layer: l})
		}
	}
	w.Multiple = worlds.Multiples(t, w.Tree)
}

// The eviction is one of the cheapest of all sets of victims.
func TestChoose(t *testing.T) {
	kinds := []string{
		"impossible", "no victims", "one victim", "several victims", "with multiples", "with bound members", "in part",
		"with violations", "decided by the highest", "decided by the sum", "decided by the plan", "decided by age",
		"with multiples beyond any count", "sent back only", "evicted and sent back",
	}
	worlds.Check(t, 6000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, rapid.SampledFrom([]int{1, 3, 5, 8}).Draw(t, "most")))
		e := evict.Choose(w.World, w.Request, w.nodes())
		sets := w.cheapest()
		if (e == nil) != (len(sets) == 0) {
			t.Fatalf("eviction: %v, sets: %v", e, sets)
		}
		y.Count("impossible", e == nil)
		y.Count("with multiples beyond any count", worlds.BeyondCount(w.Multiple))
		if e == nil {
			return
		}
		if got, want := w.cost(e.Victims), w.cost(sets[0]); got != want || e.Cost != want {
			t.Fatalf("%v cost %+v (%+v), %v would cost %+v", e.Victims, got, e.Cost, sets[0], want)
		}
		w.checkPlan(t, e)
		w.checkNeed(t, e)
		w.checkOrder(t, y, e, sets)
		w.count(y, e)
	})
}

// checkPlan fails unless the plan fits after the victims have terminated.
func (w world) checkPlan(t *rapid.T, e *evict.Eviction) {
	after := w.after(e.Victims)
	counts := make([]offer.Slots, len(w.hosts))
	for _, at := range e.Plan.Places {
		counts[at.Node] += at.Count
		if at.Count <= 0 || counts[at.Node] > after.Free[at.Node] {
			t.Fatalf("%d members on %s, which takes %d", at.Count, w.Tree.NodeName(at.Node), after.Free[at.Node])
		}
		if !worlds.Holds(w.Tree, e.Plan.Domain, w.Tree.Node(at.Node)) {
			t.Fatalf("%s is not in domain %d", w.Tree.NodeName(at.Node), e.Plan.Domain)
		}
	}
	n := e.Plan.Count()
	bound := worlds.Total(w.Tree, w.Bound, e.Plan.Domain) == worlds.Total(w.Tree, w.Bound, topology.Root)
	if n < max(w.Min, 1) || n > w.Want || w.Tree.Layer(e.Plan.Domain) < w.Must || !bound || !worlds.Legal(w.Tree, counts, w.Multiple) {
		t.Fatalf("a plan for %d in domain %d: %v", n, e.Plan.Domain, e.Plan.Places)
	}
}

// checkNeed fails if the needed members fit into the plan's domain without evicting some victim.
func (w world) checkNeed(t rapid.TB, e *evict.Eviction) {
	for i, v := range e.Victims {
		if w.fits(slices.Delete(slices.Clone(e.Victims), i, i+1), e.Plan.Domain) {
			t.Fatalf("%v is evicted for nothing", v)
		}
	}
}

// checkOrder fails if another set of the least cost leads to a better domain, or to the same plan with younger
// victims.
func (w world) checkOrder(t *rapid.T, y worlds.Tally, e *evict.Eviction, sets [][]evict.Pick) {
	rank := w.rank(w.after(e.Victims), e.Plan)
	ranks, older := false, false
	for _, s := range sets {
		after := w.after(s)
		p, _ := plan.Choose(after, w.Request)
		order := slices.Compare(w.rank(after, p), rank)
		if order < 0 {
			t.Fatalf("%v leads to %v, the better %v to %v", e.Victims, rank, s, w.rank(after, p))
		}
		ranks = ranks || order > 0
		if slices.Equal(p.Places, e.Plan.Places) {
			age := w.compareAges(s, e.Victims)
			if age < 0 {
				t.Fatalf("%v are younger than %v", s, e.Victims)
			}
			older = older || age > 0
		}
	}
	y.Count("decided by the plan", ranks)
	y.Count("decided by age", older)
}

// compareAges compares sets that free the same nodes, node by node: youngest first,
// then by name.
func (w world) compareAges(a, b []evict.Pick) int {
	on := func(s []evict.Pick, node int) (out []evict.Victim) {
		for _, p := range s {
			if p.Node == node {
				out = append(out, w.hosts[node].victims[p.Victim])
			}
		}
		slices.SortFunc(out, younger)
		return out
	}
	for i := range w.hosts {
		if o := slices.CompareFunc(on(a, i), on(b, i), younger); o != 0 {
			return o
		}
	}
	return 0
}

func younger(a, b evict.Victim) int {
	return cmp.Or(-cmp.Compare(a.Started, b.Started), cmp.Compare(a.Name, b.Name))
}

// count counts the kinds of worlds.
func (w world) count(y worlds.Tally, e *evict.Eviction) {
	y.Count("no victims", len(e.Victims) == 0)
	y.Count("sent back only", e.Cost.Pods == 0 && e.Cost.Requeued > 0)
	y.Count("evicted and sent back", e.Cost.Pods > 0 && e.Cost.Requeued > 0)
	y.Count("one victim", e.Cost.Pods == 1)
	y.Count("several victims", e.Cost.Pods > 1)
	y.Count("with multiples", slices.Max(w.Multiple) > 1 && e.Cost.Pods > 0)
	y.Count("with bound members", slices.Max(w.Bound) > 0 && e.Cost.Pods > 0)
	y.Count("with violations", e.Cost.Violations > 0)
	y.Count("in part", e.Plan.Count() < w.Want)
	differs := func(change func(*evict.Victim)) bool {
		other := w
		other.hosts = slices.Clone(w.hosts)
		for i := range other.hosts {
			other.hosts[i].victims = slices.Clone(w.hosts[i].victims)
			for v := range other.hosts[i].victims {
				change(&other.hosts[i].victims[v])
			}
		}
		o := evict.Choose(other.World, other.Request, other.nodes())
		return !slices.Equal(o.Victims, e.Victims)
	}
	y.Count("decided by the highest", differs(func(v *evict.Victim) { v.Priority = 0 }))
	y.Count("decided by the sum", differs(func(v *evict.Victim) { v.Priority = max(v.Priority, e.Cost.Highest) }))
}

// A node has more sets of victims than are searched. An eviction is found if there is any, and no victim is needless.
// It is mostly, but not always, the cheapest.
func TestManyVictims(t *testing.T) {
	kinds := []string{"impossible", "several victims", "the cheapest"}
	worlds.Check(t, 300, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, 3))
		w.unit = rapid.IntRange(1, 4).Draw(t, "a member's units")
		h := &w.hosts[rapid.IntRange(0, len(w.hosts)-1).Draw(t, "crowded")]
		h.victims, h.size = nil, nil
		for i := range rapid.IntRange(9, 10).Draw(t, "many") {
			h.victims = append(h.victims, evict.Victim{
				Name:     fmt.Sprint("many", i),
				Priority: rapid.SampledFrom([]int32{1, 1, 1, 5}).Draw(t, "priority"),
				Started:  int64(rapid.IntRange(0, 2).Draw(t, "started")),
			})
			h.size = append(h.size, rapid.IntRange(1, 3).Draw(t, "size"))
		}
		for i := range w.hosts { // other nodes have few, so that the twin can try all sets
			if other := &w.hosts[i]; other != h {
				other.victims, other.size = other.victims[:min(1, len(other.victims))], other.size[:min(1, len(other.size))]
			}
		}
		w.drawRequest(t)
		e := evict.Choose(w.World, w.Request, w.nodes())
		if all := w.allVictims(); (e != nil) != w.fits(all, topology.Root) {
			t.Fatalf("eviction %v, but it is possible: %v", e, w.fits(all, topology.Root))
		}
		y.Count("impossible", e == nil)
		if e == nil {
			return
		}
		if e.Cost != w.cost(e.Victims) {
			t.Fatalf("%v cost %+v, not %+v", e.Victims, w.cost(e.Victims), e.Cost)
		}
		w.checkPlan(t, e)
		w.checkNeed(t, e)
		y.Count("several victims", len(e.Victims) > 1)
		if e.Cost.Pods > 0 && y["worlds"]%4 == 0 {
			least := w.cost(w.cheapest()[0])
			y.Count("the cheapest", least == e.Cost)
			y.Count("dearer", least != e.Cost)
		}
	})
}

// The estimate for five slots may be cheaper than that for four, although only four are used.
func TestPutBack(t *testing.T) {
	w := world{unit: 4, hosts: []host{{}}}
	w.Tree = topology.Build(nil, []topology.Node{{Name: "n1"}})
	w.Want, w.Min, w.Multiple = 5, 4, offer.Multiples{0, 4}
	for i, size := range []int{1, 1, 1, 1, 1, 1, 1, 1, 2, 5, 1, 5, 1, 1, 1} {
		w.hosts[0].victims = append(w.hosts[0].victims, evict.Victim{Name: fmt.Sprint("many", i)})
		w.hosts[0].size = append(w.hosts[0].size, size)
	}
	e := evict.Choose(w.World, w.Request, w.nodes())
	if e == nil || e.Plan.Count() != 4 {
		t.Fatalf("%+v", e)
	}
	w.checkNeed(t, e)
}

func (w world) allVictims() (all []evict.Pick) {
	for i, h := range w.hosts {
		for v := range h.victims {
			all = append(all, evict.Pick{Node: i, Victim: v})
		}
	}
	return all
}

// The victims do not depend on the order of nodes or of the victims in the input.
func TestInputOrderDoesNotChangeVictims(t *testing.T) {
	worlds.Check(t, 500, []string{"evicted"}, func(t *rapid.T, y worlds.Tally) {
		net := worlds.Draw(t, 8)
		w := drawWorld(t, net)
		other := w
		other.Tree = net.Shuffled(t).Build()
		other.hosts = slices.Clone(w.hosts)
		for i, h := range w.hosts {
			order := rapid.Permutation(indexes(len(h.victims))).Draw(t, "victims")
			other.hosts[i].victims, other.hosts[i].size = nil, nil
			for _, v := range order {
				other.hosts[i].victims = append(other.hosts[i].victims, h.victims[v])
				other.hosts[i].size = append(other.hosts[i].size, h.size[v])
			}
		}
		a, b := w.describe(), other.describe()
		if a != b || a != w.describe() {
			t.Fatalf("%s\nin another order\n%s", a, b)
		}
		y.Count("evicted", a != "")
	})
}

func indexes(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func (w world) describe() string {
	e := evict.Choose(w.World, w.Request, w.nodes())
	if e == nil {
		return ""
	}
	var names []string
	for _, v := range e.Victims {
		names = append(names, w.hosts[v.Node].victims[v.Victim].Name)
	}
	slices.Sort(names)
	return fmt.Sprint(e.Cost, *e.Plan, names)
}
