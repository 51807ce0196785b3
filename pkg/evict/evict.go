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

// Victim is a pod on a node that may be evicted.
type Victim struct {
	Name     string
	Priority int32
	Started  int64 // Unix nanoseconds
	Size     int64 // what its eviction releases, in thousandths of what a member of the preemptor requests
	// Leads says that the other members of its gang depend on the victim, so it is evicted last. Rank is its rank in the gang:
	// higher ranks are evicted first.
	Leads    bool
	Rank     int
	Violates bool // a disruption budget forbids the eviction in any case
	// Pending says that the pod does not run yet and only goes back to the queue: it counts as no pod and towards no budget.
	// A gang without running members can spare none.
	Pending bool
	// Shape identifies what the pod uses. Victims of one shape free the same capacity on a node; "" is unique.
	Shape string
	// Gang is the number of the victim's gang, counted from 1; 0 without a gang.
	Gang int
	// Budgets are the disruption budgets that it counts towards. Only Cheapest adds up victims of one budget; for Choose, a budget
	// that allows an eviction allows all.
	Budgets []Budget

	bundle *Cost // cost of the whole bundle, charged instead; nil if the victim is evicted alone
}

// Eviction is the result: the victims and the resulting plan.
type Eviction struct {
	Plan    *plan.Plan
	Cost    Cost
	Victims []Pick
}

// Pick identifies one victim.
type Pick struct {
	Node   int // node index
	Victim int // index into that node's victims
}

// Choose returns the first eviction by the order of the package comment, or nil if none makes a plan possible. It frees capacity for the
// request's Min members, and places as many of Want as fit at no more cost. nodes is by node index; w.Free is not read.
func Choose(w plan.World, r plan.Request, nodes []Node) *Eviction {
	w.Capacity = make([]offer.Slots, len(nodes))
	for i, n := range nodes {
		w.Capacity[i] = n.Capacity
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

// choose returns the eviction of lowest cost; nil if there is none. Among evictions of equal counts it finds the lowest ceiling on the
// victims' priority. Under a ceiling the highest priority does not matter, and the rest of the cost is additive, as prices must be. A lower
// ceiling makes no domain cheaper, so domains with more victims are not searched again.
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
	lowest := sort.Search(highest, testFirst(s.lowestCeiling(ceilings, s.within, s.need), func(i int) bool {
		under := s.searchUnder(ceilings[i])
		price, ok := under.Charge(s.need)
		if !ok || !slices.Equal(counts(price), counts(least)) {
			return false
		}
		found, least = under, price // the last one found is the lowest
		narrow()
		return true
	}))
	return s.evict(found.Plan(found.Most(least)), ceilings[lowest])
}

// testFirst returns a predicate for sort.Search over test, which must be monotonic. It tests least first, which mostly is the answer.
func testFirst(least int, test func(int) bool) func(int) bool {
	tested, atLeast := false, false
	return func(i int) bool {
		if i < least {
			return false
		}
		if !tested {
			tested, atLeast = true, test(least)
		}
		return atLeast || i > least && test(i)
	}
}

// priorities returns the priorities of all victims, ascending and unique; [0] without victims.
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

// searchUnder returns the search in which nodes charge for their victims, and victims above the ceiling are not evicted.
func (s *tariffSearch) searchUnder(ceiling int32) *plan.Search {
	search := plan.NewSearch(s.world, s.request, s.width(), s.under(ceiling, s.within))
	search.Within(s.within)
	return search
}

// evict returns the eviction for plan p, with victims up to the priority ceiling. It plans again without the victims. The new plan may need
// less of a node, so victims are chosen once more. If all sets were tried, the cost is minimal and every victim is needed. Otherwise
// victims are put back one by one.
func (s *tariffSearch) evict(p *plan.Plan, ceiling int32) *Eviction {
	world, _ := s.worldAfter(p, ceiling)
	p, _ = plan.Choose(world, s.request)
	world, gone := s.worldAfter(p, ceiling)
	if s.putBack(p, world.Free, gone) {
		p, _ = plan.Choose(world, s.request)
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

// worldAfter returns the world after the cheapest evictions that plan p needs. gone is the victims by node index.
func (s *tariffSearch) worldAfter(p *plan.Plan, ceiling int32) (w plan.World, gone [][]int) {
	w = s.world
	w.Free = make([]offer.Slots, len(s.nodes))
	for i, n := range s.nodes {
		w.Free[i] = n.free()
	}
	gone = make([][]int, len(s.nodes))
	for _, place := range p.Places {
		o := s.nodes[place.Node].cheapest(place.Count, ceiling)
		gone[place.Node], w.Free[place.Node] = o.Gone, o.Slots
	}
	return w, gone
}

// putBack drops unneeded victims from gone and updates free, the most expensive first, on nodes where not every set was tried.
func (s *tariffSearch) putBack(p *plan.Plan, free []offer.Slots, gone [][]int) (changed bool) {
	steps := s.request.Multiple.Steps(s.world.Tree.Depth() + 1)
	for i, n := range s.nodes {
		if n.guessed == nil {
			continue
		}
		dearest := slices.Clone(gone[i])
		sortByCost(n.Victims, dearest)
		slices.Reverse(dearest)
		for _, v := range dearest {
			before := free[i]
			without := slices.DeleteFunc(slices.Clone(gone[i]), func(g int) bool { return g == v })
			free[i] = n.guessed(without)
			if offer.Roll(s.world.Tree, free, steps)[p.Domain] < s.need {
				free[i] = before
				continue
			}
			gone[i], changed = without, true
		}
	}
	return changed
}
