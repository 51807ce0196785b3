package evict

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// JobNode is a node that members of a job may go to.
type JobNode struct {
	Victims []Victim
	// Take says how many members of a kind the node takes beside a load, by kind, when some
	// of its victims have left. It must not fall when more leave.
	Take func(gone []int, load []offer.Slots, kind int) offer.Slots
}

// JobEviction is an Eviction for members that differ.
type JobEviction struct {
	Plan    *plan.JobPlan
	Cost    Cost
	Victims []Pick
}

// ChooseJob is Choose for members that differ: the first eviction by the same order, in
// which room is made for what every gang needs, and as many more members are placed as
// find room at no more cost. It is nil if no eviction makes a plan, or if exact is false:
// then there are too many ways to look at all of them. w.Free is read for the size of
// domains only; w.Room must say what nodes take when all victims have gone.
func ChooseJob(w plan.JobWorld, j plan.Job, nodes []JobNode) (e *JobEviction, exact bool) {
	return chooseJobAbove(w, j, nodes, math.MinInt32, newJobMemory(nodes, mostJobWork), nil)
}

// chooseJobAbove is ChooseJob where priorities up to a floor are all the same, as for like
// members. Searches that share a memory differ on the changed nodes only.
func chooseJobAbove(w plan.JobWorld, j plan.Job, nodes []JobNode, floor int32, m *jobMemory, changed map[int]bool) (e *JobEviction, exact bool) {
	s := &jobSearch{world: w, job: j, nodes: nodes, sets: slices.Clone(m.sets), changed: changed}
	s.world.Width, s.world.Work = priceWidth, m.work
	for i := range changed {
		s.sets[i] = nodes[i].setsOfVictims()
	}
	return s.choose(priorities(floor, func(yield func([]Victim) bool) {
		for i := 0; i < len(nodes) && yield(nodes[i].Victims); i++ {
		}
	}))
}

// jobMemory is what searches for members that differ share, which differ on a few nodes.
type jobMemory struct {
	sets [][][]int // of the first of them
	work *plan.Work
}

// How much they do together: no more than the largest that is the only one. Those that follow
// when this was not enough do a part of it again, and those that only explain what was found.
const (
	mostJobWork = plan.OneWork
	lastShare   = 4
	easyWork    = 1 << 20 // in one domain, however many there are
)

func newJobMemory(nodes []JobNode, most int) *jobMemory {
	m := &jobMemory{sets: make([][][]int, len(nodes)), work: plan.NewWork(most)}
	for i, n := range nodes {
		m.sets[i] = n.setsOfVictims()
	}
	return m
}

type jobSearch struct {
	world   plan.JobWorld
	job     plan.Job
	nodes   []JobNode
	sets    [][][]int // by node index, who may leave together, cheapest first; the first is nobody
	changed map[int]bool
}

// setsOfVictims lists the sets that can be best.
func (n JobNode) setsOfVictims() [][]int {
	sets, every := everySet(n.Victims)
	if !every {
		sets = append(smallSets(len(n.Victims)), indexes(len(n.Victims)))
	}
	ages := ages(n.Victims)
	age := func(set []int) (out []int) {
		for _, v := range set {
			out = append(out, ages[v])
		}
		return sorted(out)
	}
	slices.SortFunc(sets, func(a, b []int) int {
		return cmp.Or(costOf(n.Victims, a).comparePrice(costOf(n.Victims, b)), slices.Compare(age(a), age(b)))
	})
	return append([][]int{nil}, sets...)
}

// choose finds the lowest cost, then the lowest ceiling on victims' priority that still
// reaches it, as for like members.
func (s *jobSearch) choose(ceilings []int32) (*JobEviction, bool) {
	highest := len(ceilings) - 1
	found, least, exact := s.under(ceilings[highest])
	if found == nil {
		return nil, exact
	}
	lowest := highest
	sort.Search(highest, func(i int) bool {
		p, price, ok := s.under(ceilings[i])
		if !ok || p == nil || !slices.Equal(counts(price), counts(least)) {
			return false
		}
		found, least, lowest = p, price, i
		return true
	})
	e := s.evict(found, ceilings[lowest])
	return cmp.Or(s.again(e, ceilings[lowest]), e), true
}

// again plans once more as if the victims had left: prices no longer keep members from
// the nodes that plans fill first. It returns nil if that would cost more.
func (s *jobSearch) again(e *JobEviction, ceiling int32) *JobEviction {
	gone := make([][]int, len(s.nodes))
	for _, v := range e.Victims {
		gone[v.Node] = append(gone[v.Node], v.Victim)
	}
	w := s.world
	w.Trial = nil
	w.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
		return s.nodes[node].Take(gone[node], load, kind)
	}
	w.Free = slices.Clone(w.Free)
	for _, v := range e.Victims {
		w.Free[v.Node] = s.least(v.Node, gone[v.Node])
	}
	p, refusal := plan.ChooseJob(w, s.job)
	if refusal != nil {
		return nil
	}
	if other := s.evict(p, ceiling); other.Cost.Compare(e.Cost) <= 0 {
		return other
	}
	return nil
}

// least is how many members a node takes whichever they are.
func (s *jobSearch) least(node int, gone []int) (least offer.Slots) {
	for i, c := range s.job.Classes {
		if n := s.nodes[node].Take(gone, nil, c.Kind); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// under looks for the cheapest plan where victims above the ceiling stay.
func (s *jobSearch) under(ceiling int32) (*plan.JobPlan, offer.Price, bool) {
	w := s.world
	w.Ways = func(node int) []plan.Way { return s.ways(node, ceiling) }
	w.Name = func(node int) int {
		if s.changed[node] {
			return 0
		}
		return 1 + int(ceiling) - math.MinInt32
	}
	return plan.PriceJob(w, s.job)
}

func (s *jobSearch) ways(node int, ceiling int32) (ways []plan.Way) {
	n := s.nodes[node]
	for _, set := range s.sets[node] {
		cost := costOf(n.Victims, set)
		if cost.under(ceiling) {
			ways = append(ways, plan.Way{
				Price: cost.price(),
				Take:  func(load []offer.Slots, kind int) offer.Slots { return n.Take(set, load, kind) },
			})
		}
	}
	return ways
}

// evict names the victims: on each node the cheapest set that makes room for its load.
func (s *jobSearch) evict(p *plan.JobPlan, ceiling int32) *JobEviction {
	e := &JobEviction{Plan: p}
	loads := make([][]offer.Slots, len(s.nodes))
	for _, put := range p.Puts {
		kind := s.job.Classes[put.Class].Kind
		for len(loads[put.Node]) <= kind {
			loads[put.Node] = append(loads[put.Node], 0)
		}
		loads[put.Node][kind]++
	}
	for i, load := range loads {
		for _, set := range s.sets[i] {
			cost := costOf(s.nodes[i].Victims, set)
			if load == nil || !cost.under(ceiling) || !s.nodes[i].holds(set, load) {
				continue
			}
			e.Cost = e.Cost.Add(cost)
			for _, v := range set {
				e.Victims = append(e.Victims, Pick{Node: i, Victim: v})
			}
			break
		}
	}
	return e
}

// holds says whether a node takes a load when some have left: kind by kind.
func (n JobNode) holds(gone []int, load []offer.Slots) bool {
	beside := make([]offer.Slots, len(load))
	for k, many := range load {
		if many > 0 && n.Take(gone, beside, k) < many {
			return false
		}
		beside[k] = many
	}
	return true
}
