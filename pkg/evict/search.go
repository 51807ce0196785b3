package evict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
)

// branches looks for the first set of victims that treats gangs as whole and budgets as
// shared, by branch and bound. The first set that knows nothing of either costs no more
// than any other.
//
// Where it leaves a gang with too few, either all of it goes, and who cannot run without it, or
// one of those that it names stays (all of the gang, if it can spare nobody).
//
// Where it exceeds a budget, it is a set all the same, at its true cost. First the budget is
// charged: each of its victims is a violation, but for as many as it allows. That is no
// more than the true cost either, and the same where that many leave; so if they do, the
// set is the first. Else the budget is charged no longer, and one of its victims stays: a
// set with all of them exceeds it as much, and costs no less.
//
// What is found at one cost is compared by the plans that follow (P), and then by age.
type branches[P any] struct {
	gangs   []Gang
	victims [][]Victim      // by node index
	members [][]Pick        // by gang
	groups  []*bundle.Group // by gang
	// look returns the first set of victims in a branch, in which gangs and budgets do not
	// count but those that are charged, but for those who leave whole; ok is false if there
	// is none. It names them as split has left them.
	look    func(branch) (picks []Pick, p P, ok bool)
	compare func(a, b P) int
	guessed bool // look may miss cheaper sets: there are too many on a node
	// tired says that looks were as much work as they may be; then they find nothing. After
	// rested they may do some more. Nil is never.
	tired  func() bool
	rested func()

	start  branch // those stay who may not leave in any set
	most   int    // bounds the looks into branches
	dives  int    // bounds each of the two searches that follow when those were not enough
	seen   int
	gaveUp bool            // there may be a set, but none was found
	tried  map[string]bool // the same pods may be told to stay in another order
	open   []*result[P]
	best   *result[P] // of those that hold
	tied   bool       // another one costs the same
}

// mostBranches and mostWork bound the searches: nothing else is scheduled meanwhile, and
// each of them looks at all nodes.
const (
	mostBranches   = 64
	fewestBranches = 8
	mostWork       = 64_000 // nodes that are looked at
)

// branchesFor is how many searches a cluster of so many nodes is worth.
func branchesFor(nodes int) int {
	return min(max(mostWork/max(nodes, 1), fewestBranches), mostBranches)
}

// result is the first set of a branch.
type result[P any] struct {
	branch
	bound Cost // no set of the branch costs less
	own   Cost // what the first costs as the branch has it
	cost  Cost // what it costs
	picks []Pick
	plan  P
	// leaving are those who leave, by budget.
	leaving leaving
}

func newBranches[P any](gangs []Gang, victims [][]Victim, most int) *branches[P] {
	s := &branches[P]{gangs: gangs, victims: victims, most: most, dives: branchesFor(len(victims)), tried: map[string]bool{}}
	s.members, s.groups = make([][]Pick, len(gangs)+1), make([]*bundle.Group, len(gangs)+1)
	for _, f := range bundle.Groups(Bundles(gangs)) {
		for _, i := range f.Gangs {
			s.groups[i+1] = f
		}
	}
	for i, here := range victims {
		for v, victim := range here {
			if victim.Gang > 0 {
				s.members[victim.Gang] = append(s.members[victim.Gang], Pick{i, v})
			}
		}
	}
	var stuck []Pick
	for i, g := range gangs {
		if g.Spare > 0 {
			continue
		}
		if _, may := s.leaveWith(i+1, branch{}); !may {
			stuck = append(stuck, s.members[i+1]...)
		}
	}
	s.start = branch{}.without(stuck...)
	return s
}

// choose looks into branches, cheapest first, until no branch that is left can have a set
// that comes before the best. If there are too many branches, it tries two sets more that
// are easy to find, unless the best is known to be as cheap as any.
func (s *branches[P]) choose() *result[P] {
	s.try(s.start, Cost{Violations: math.MinInt})
	for len(s.open) > 0 && s.seen < s.most && !s.isTired() {
		i := s.cheapest()
		r := s.open[i]
		if s.best != nil && r.bound.Compare(s.best.cost) > 0 {
			break
		}
		s.open = slices.Delete(s.open, i, i+1)
		s.divide(r)
	}
	if s.gotTired() || s.seen >= s.most && !s.proven() {
		if s.rested != nil {
			s.rested()
		}
		s.giveUp()
		s.gaveUp = s.best == nil
		s.spare()
	} else if s.guessed {
		s.spare()
	}
	return s.best
}

func (s *branches[P]) isTired() bool { return s.tired != nil && s.tired() }

// gotTired says that after the first look there was more to look at, and too much.
func (s *branches[P]) gotTired() bool { return s.isTired() && (s.seen > 1 || len(s.open) > 0) }

// cheapest is the first open branch of the lowest bound.
func (s *branches[P]) cheapest() (best int) {
	for i, r := range s.open {
		if r.bound.Compare(s.open[best].bound) < 0 {
			best = i
		}
	}
	return best
}

// proven says that no open branch has a cheaper set than the best.
func (s *branches[P]) proven() bool {
	return s.best != nil && !slices.ContainsFunc(s.open, func(r *result[P]) bool { return r.bound.Compare(s.best.cost) < 0 })
}

// find looks into a branch of which nothing may cost less than a bound.
func (s *branches[P]) find(b branch, bound Cost) *result[P] {
	s.seen++
	picks, p, ok := s.look(b)
	if !ok {
		return nil
	}
	r := &result[P]{branch: b, picks: s.original(b, picks), plan: p, leaving: leaving{}}
	var alone Cost
	for _, at := range r.picks {
		v := s.victims[at.Node][at.Victim]
		alone = alone.Add(v.cost())
		r.leaving.add(v.Budgets)
	}
	for g := range b.whole {
		alone = alone.Add(s.gangs[g-1].Cost)
		r.leaving.add(s.gangs[g-1].Budgets)
	}
	r.own, r.cost = alone, alone
	r.cost.Violations += r.leaving.violations()
	for budget := range b.charged {
		r.own.Violations += r.leaving[budget] - budget.Allowed
	}
	r.bound = r.own
	if r.bound.Compare(bound) < 0 {
		r.bound = bound
	}
	return r
}

// try looks into a branch once, and opens it if there may be more in it than is found.
func (s *branches[P]) try(b branch, bound Cost) {
	name := fmt.Sprint(b)
	if s.tried[name] {
		return
	}
	s.tried[name] = true
	r := s.find(b, bound)
	if r == nil {
		return
	}
	if g, _ := s.broken(r); g == 0 {
		s.offer(r)
		if r.cost == r.own {
			return // nothing in the branch comes before it
		}
	}
	s.open = append(s.open, r)
}

// offer takes a set that holds if it comes before the best.
func (s *branches[P]) offer(r *result[P]) {
	if s.best != nil && r.cost.Compare(s.best.cost) <= 0 {
		s.tied = r.cost == s.best.cost
	}
	if s.best == nil || cmp.Or(r.cost.Compare(s.best.cost), s.compare(r.plan, s.best.plan), s.compareVictims(r, s.best)) < 0 {
		s.best = r
	}
}

// compareVictims is the rule by age and by names.
func (s *branches[P]) compareVictims(a, b *result[P]) int {
	return slices.CompareFunc(s.byAge(a), s.byAge(b), compareVictims)
}

func (s *branches[P]) byAge(r *result[P]) (out []*Victim) {
	for _, p := range s.all(r) {
		out = append(out, &s.victims[p.Node][p.Victim])
	}
	slices.SortFunc(out, compareVictims)
	return out
}

// divide opens branches that have all sets of a branch among them that come before the
// one that was found.
func (s *branches[P]) divide(r *result[P]) {
	if g, named := s.broken(r); g > 0 {
		for _, b := range s.mend(r.branch, g, named) {
			s.try(b, r.bound)
		}
		return
	}
	var exceeded, fresh, short []Budget
	for budget, many := range r.leaving {
		if many > budget.Allowed && !r.charged[budget] {
			exceeded = append(exceeded, budget)
			if !r.plain[budget] {
				fresh = append(fresh, budget)
			}
		}
	}
	for budget := range r.charged {
		if r.leaving[budget] < budget.Allowed {
			short = append(short, budget)
		}
	}
	switch {
	case len(fresh) > 0:
		s.try(r.charge(fresh...), r.bound)
	case len(short) > 0:
		s.try(r.discharge(short...), r.bound)
	default:
		s.try(r.without(s.beyond(r, exceeded)...), r.bound) // one of the others, but a good one
		for _, p := range r.picks {
			if s.counts(p, exceeded) {
				s.try(r.without(p), r.bound)
			}
		}
	}
}

// counts says whether a victim counts towards one of some budgets.
func (s *branches[P]) counts(p Pick, budgets []Budget) bool {
	return slices.ContainsFunc(s.victims[p.Node][p.Victim].Budgets, func(b Budget) bool { return slices.Contains(budgets, b) })
}

// beyond lists those who count towards budgets that are exceeded, but for as many of the
// picks, the cheapest, as are allowed.
func (s *branches[P]) beyond(r *result[P], exceeded []Budget) (stay []Pick) {
	victim := func(p Pick) Victim { return s.victims[p.Node][p.Victim] }
	so := leaving{}
	for g := range r.whole {
		so.add(s.gangs[g-1].Budgets)
	}
	leave := map[Pick]bool{}
	picks := slices.Clone(r.picks)
	slices.SortStableFunc(picks, func(a, b Pick) int { return victim(a).Compare(victim(b)) })
	for _, p := range picks {
		if !slices.ContainsFunc(victim(p).Budgets, func(b Budget) bool { return slices.Contains(exceeded, b) && so[b] >= b.Allowed }) {
			leave[p] = true
			so.add(victim(p).Budgets)
		}
	}
	for i, here := range s.victims {
		for v := range here {
			if p := (Pick{i, v}); !leave[p] && s.counts(p, exceeded) {
				stay = append(stay, p)
			}
		}
	}
	return stay
}

// mend returns the branches of a branch in which a gang is not left with too few as it is
// without those that are named.
func (s *branches[P]) mend(b branch, gang int, named []Pick) (out []branch) {
	g := s.gangs[gang-1]
	if all, may := s.leaveWith(gang, b); may {
		out = append(out, b.with(all...))
	}
	if g.Spare == 0 {
		return append(out, b.without(s.members[gang]...))
	}
	for _, p := range named[:g.Spare+1] { // not even these leave together
		out = append(out, b.without(p))
	}
	return out
}

// leaveWith lists who leaves whole in a branch if a gang does as well. It says false if that may
// not be: one of them may not leave, or somebody of it stays.
func (s *branches[P]) leaveWith(gang int, b branch) (all []int, may bool) {
	for _, i := range s.groups[gang].Evicted(func(i int) bool { return i+1 == gang || b.whole[i+1] }) {
		g := i + 1
		if all = append(all, g); b.whole[g] {
			continue
		}
		if !s.gangs[i].Whole || slices.ContainsFunc(s.members[g], func(p Pick) bool { return b.stay[p] }) {
			return nil, false
		}
	}
	return all, true
}

// broken returns the first gang of which too many would leave, and who; 0 if there is none.
func (s *branches[P]) broken(r *result[P]) (gang int, named []Pick) {
	all := s.allBroken(r)
	for g := range all {
		if gang == 0 || g < gang {
			gang = g
		}
	}
	return gang, all[gang]
}

// allBroken returns, by gang, who would leave if they are too many.
func (s *branches[P]) allBroken(r *result[P]) map[int][]Pick {
	by := map[int][]Pick{}
	for _, p := range r.picks {
		if g := s.victims[p.Node][p.Victim].Gang; g > 0 {
			by[g] = append(by[g], p)
		}
	}
	all := func(i int) bool {
		g := i + 1
		return r.whole[g] || s.gangs[i].Whole && len(by[g]) >= s.gangs[i].Cost.victims()
	}
	closed := map[*bundle.Group]bool{} // whether all leave who must when those do of whom all are named
	broken := map[int][]Pick{}
	for g, named := range by {
		if len(named) <= s.gangs[g-1].Spare {
			continue
		}
		f := s.groups[g]
		if _, known := closed[f]; all(g-1) && !known {
			left := f.Evicted(func(i int) bool { return r.whole[i+1] || all(i) && len(by[i+1]) > s.gangs[i].Spare })
			closed[f] = !slices.ContainsFunc(left, func(i int) bool { return !all(i) })
		}
		if !all(g-1) || !closed[f] {
			broken[g] = named
		}
	}
	return broken
}

// all names the victims, those of whole gangs included.
func (s *branches[P]) all(r *result[P]) []Pick {
	picks := slices.Clone(r.picks)
	for g := range r.whole {
		picks = append(picks, s.members[g]...)
	}
	slices.SortFunc(picks, func(a, b Pick) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Victim, b.Victim))
	})
	return picks
}

// touched lists the nodes on which a branch makes a difference to that from the start.
func (s *branches[P]) touched(b branch) map[int]bool {
	nodes := map[int]bool{}
	for p := range b.stay {
		if !s.start.stay[p] {
			nodes[p.Node] = true
		}
	}
	for g := range b.whole {
		for _, p := range s.members[g] {
			nodes[p.Node] = true
		}
	}
	if len(b.charged) > 0 {
		for i, here := range s.victims {
			if slices.ContainsFunc(here, func(v Victim) bool {
				return slices.ContainsFunc(v.Budgets, func(budget Budget) bool { return b.charged[budget] })
			}) {
				nodes[i] = true
			}
		}
	}
	return nodes
}

// original translates picks of a branch into picks of all victims.
func (s *branches[P]) original(b branch, picks []Pick) []Pick {
	out := make([]Pick, len(picks))
	for i, p := range picks {
		left, _ := b.split(p.Node, s.victims[p.Node])
		out[i] = Pick{p.Node, left[p.Victim]}
	}
	return out
}

// floor is the highest priority of those that leave in any case: below it a ceiling
// makes no difference.
func (s *branches[P]) floor(b branch) int32 {
	floor := int32(math.MinInt32)
	for g := range b.whole {
		floor = max(floor, s.gangs[g-1].Cost.Highest)
	}
	return floor
}
