package evict

import (
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Victim is a pod that may be evicted.
type Victim struct {
	Name     string
	Priority int32
	Started  int64 // Unix nanoseconds; the larger, the younger
	Size     int64 // what its eviction releases, in thousandths of what a member of the preemptor requests
	// Leads says that the other members of its gang depend on the victim, so it is the last of them to be evicted. Rank is its rank
	// in its gang: of several, the highest ranks are evicted first.
	Leads    bool
	Rank     int
	Violates bool // a disruption budget forbids it, whoever else leaves
	// Waits says that it does not run yet, and only goes back to the queue: it counts as no pod
	// and towards no budget. A gang of which nobody runs can spare none of those who wait.
	Waits bool
	// Shape says what the pod takes up. Victims of one shape on a node free the same
	// room; "" is like no other.
	Shape string
	// Gang is the number of the victim's gang, counted from 1; 0 if it has none.
	Gang int
	// Budgets are the disruption budgets that it counts towards. Only Cheapest knows what several
	// victims do to one; for Choose a budget that allows an eviction allows all.
	Budgets []Budget

	bundle *Cost // what is charged for it instead, if it is not evicted alone; nil if it is
}

// Eviction is the choice: who leaves, and the plan that follows.
type Eviction struct {
	Plan    *plan.Plan
	Cost    Cost
	Victims []Pick
}

// Pick names one victim.
type Pick struct {
	Node   int // node index
	Victim int // index into that node's victims
}

// Choose returns the first eviction by the order of the package comment, or nil if
// none makes a plan. The request's Min members are made room for; as many of its
// Want as find room at no more cost are placed. nodes is by node index; w.Free is
// not read.
func Choose(w plan.World, r plan.Request, nodes []Node) *Eviction {
	w.Room = make([]offer.Slots, len(nodes))
	for i, n := range nodes {
		w.Room[i] = n.Room
	}
	need, ok := offer.Up(max(r.Min, 1), r.Multiple.Steps(w.Tree.Depth() + 1)[0])
	if !ok {
		return nil
	}
	s := &tariffSearch{world: w, request: r, nodes: nodes, need: need, tariff: newTariff(w.Tree, nodes), within: everywhere}
	return s.choose()
}

// tariffSearch is the search for the cheapest set by the prices of single pods.
type tariffSearch struct {
	*tariff
	world   plan.World
	request plan.Request
	nodes   []Node
	need    offer.Slots
	within  []topology.ID // the domains that can still decide
}

// choose finds the lowest cost, then the lowest ceiling on victims' priority that
// still reaches it. Under a ceiling the highest priority no longer matters, and what
// is left of a cost adds up, as prices must. A lower ceiling makes nothing cheaper, so
// domains in which more would leave are not looked at again.
func (s *tariffSearch) choose() *Eviction {
	ceilings := priorities(func(yield func([]Victim) bool) {
		for i := 0; i < len(s.nodes) && yield(s.nodes[i].Victims); i++ {
		}
	})
	highest, counts := len(ceilings)-1, s.counts
	found := s.searchUnder(ceilings[highest])
	least, ok := found.Charge(s.need)
	if !ok {
		return nil
	}
	narrow := func() {
		s.within = nil
		found.EachCharge(s.need, func(d topology.ID, p offer.Price) {
			if slices.Equal(counts(p), counts(least)) {
				s.within = append(s.within, d)
			}
		})
	}
	narrow()
	lowest := sort.Search(highest, askFirst(s.roomy(ceilings, s.within, s.need), func(i int) bool {
		under := s.searchUnder(ceilings[i])
		price, ok := under.Charge(s.need)
		if !ok || !slices.Equal(counts(price), counts(least)) {
			return false
		}
		found, least = under, price // the last one that is found is the lowest
		narrow()
		return true
	}))
	return s.evict(found.Plan(found.Most(least)), ceilings[lowest])
}

// askFirst asks about the least number that may be the answer before any other: mostly it is. What is true of a number
// is true of all that are larger.
func askFirst(least int, is func(int) bool) func(int) bool {
	asked, yes := false, false
	return func(i int) bool {
		if i < least {
			return false
		}
		if !asked {
			asked, yes = true, is(least)
		}
		return yes || i > least && is(i)
	}
}

// priorities lists the priorities of victims, node by node, rising; there is always one.
func priorities(nodes iter.Seq[[]Victim]) []int32 {
	known := map[int32]bool{}
	for victims := range nodes {
		for i := range victims {
			known[victims[i].cost().Highest] = true
		}
	}
	if len(known) == 0 {
		return []int32{0}
	}
	return slices.Sorted(maps.Keys(known))
}

// searchUnder returns the search for node assignments where nodes charge for their victims, and victims above the ceiling stay.
func (s *tariffSearch) searchUnder(ceiling int32) *plan.Search {
	search := plan.NewSearch(s.world, s.request, s.width(), s.under(ceiling, s.within))
	search.Within(s.within)
	return search
}

// evict lets the victims go that stand in the way of a plan, and plans as if they
// had gone. That plan may take less of a node than was made free, so once it stands
// the youngest are chosen that make it possible.
//
// Where all sets were tried the cost is minimal, so without any one victim the members
// would not fit: every victim's place is used. Elsewhere each one is put back to see.
func (s *tariffSearch) evict(p *plan.Plan, ceiling int32) *Eviction {
	after, _ := s.after(p, ceiling)
	p, _ = plan.Choose(after, s.request)
	after, gone := s.after(p, ceiling)
	if s.putBack(p, after.Free, gone) {
		p, _ = plan.Choose(after, s.request)
	}
	e := &Eviction{Plan: p}
	for node, victims := range gone {
		e.Cost = e.Cost.Add(costOf(s.nodes[node].Victims, victims))
		for _, v := range victims {
			e.Victims = append(e.Victims, Pick{Node: node, Victim: v})
		}
	}
	return e
}

// after returns the world once the cheapest victims for a plan have gone, and who
// they are, by node index.
func (s *tariffSearch) after(p *plan.Plan, ceiling int32) (w plan.World, gone [][]int) {
	w = s.world
	w.Free = make([]offer.Slots, len(s.nodes))
	for i, n := range s.nodes {
		w.Free[i] = n.free()
	}
	gone = make([][]int, len(s.nodes))
	for _, at := range p.Places {
		o := s.nodes[at.Node].cheapest(at.Count, ceiling)
		gone[at.Node], w.Free[at.Node] = o.Gone, o.Slots
	}
	return w, gone
}

// putBack keeps victims that may stay, the dearest first, on nodes where not every
// set was tried. It says whether there are any.
func (s *tariffSearch) putBack(p *plan.Plan, free []offer.Slots, gone [][]int) (any bool) {
	steps := s.request.Multiple.Steps(s.world.Tree.Depth() + 1)
	for i, n := range s.nodes {
		if n.guessed == nil {
			continue
		}
		dearest := slices.Clone(gone[i])
		sortByCost(n.Victims, dearest)
		slices.Reverse(dearest)
		for _, v := range dearest {
			had := free[i]
			without := slices.DeleteFunc(slices.Clone(gone[i]), func(g int) bool { return g == v })
			free[i] = n.guessed(without)
			if offer.Roll(s.world.Tree, free, steps)[p.Domain] < s.need {
				free[i] = had
				continue
			}
			gone[i], any = without, true
		}
	}
	return any
}
