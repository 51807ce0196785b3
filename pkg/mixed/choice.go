package mixed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Where a job can do without some of its gangs (Job.Choice), each set of gangs that may run
// without the others is a job like any other. They are tried from those with the most members
// down: the first plan that no other can beat by the rules, and of equal ones that of the first
// gangs.

// Sets of gangs are looked at, and searched, so many at the most.
const (
	setsLookedAt = 1 << 14
	setsSearched = 64
	vecsOfSet    = maxVecsSeen / 32
	leastSets    = 16 // are told apart of those of which nobody can be left out
	setsCounted  = 1 << 8
)

// chooseSome returns the first plan for any set of gangs.
func chooseSome(w World, j Job) (*Plan, *plan.Refusal) {
	w.Work = nil // tables are those of one job
	c := j.alike()
	sets, s := c.Sets(setsLookedAt), &some{job: j, choice: c, world: w}
	searched := 0
	set := sets.Next()
	for ; set != nil; set = sets.Next() {
		if s.best != nil && c.Members(set) < len(s.best.Puts) {
			break // nor has any that follows
		}
		if !s.mayFit(set) {
			continue
		}
		if searched++; searched > setsSearched {
			break
		}
		s.try(set)
	}
	cut := searched > setsSearched || set == nil && sets.Cut()
	if s.best == nil && cut {
		s.grow()
	}
	if s.best == nil { // said is what those lack that need least
		return s.refuse(cut)
	}
	s.best.NotAll = s.best.NotAll || cut
	return s.best, nil
}

// some is the search for the best set.
type some struct {
	job      Job
	choice   *choice.Choice
	world    World
	best     *Plan
	set      choice.Set // that it is for
	judge    *search
	capacity []offer.Slots // by kind, what a domain that may hold all takes; made when asked for
}

// try plans for one set.
func (s *some) try(set choice.Set) *plan.Refusal {
	sub, ok := s.job.only(s.choice, set)
	if !ok || len(sub.job.Classes) == 0 {
		return nil
	}
	p, refusal := chooseAll(s.world, sub.job, vecsOfSet)
	if refusal != nil {
		return refusal
	}
	p = sub.translate(p)
	if s.best == nil || s.before(p, set) {
		s.best, s.set = p, set
	}
	return nil
}

// grow looks for a set that no gang can be added to, where there are too many to look at: from a
// least one on.
func (s *some) grow() {
	s.price()
	for _, set := range s.choice.Least(leastSets, setsLookedAt, nil) {
		if s.try(set); s.best != nil {
			break
		}
	}
	if s.best == nil {
		return
	}
	for _, unit := range s.choice.Units() {
		more := slices.Clone(s.set)
		for _, i := range unit {
			more[i] = true
		}
		if !slices.Equal(more, s.set) && s.mayFit(more) {
			s.try(more)
		}
	}
}

// costUnit is what a domain takes in all, so that what a member asks for is a whole number.
const costUnit = 1 << 30

// price says of each gang how much it asks for: of what the domain takes that takes most of a kind,
// a member of it takes that part.
func (s *some) price() {
	if s.capacity == nil {
		s.capacity = s.capacities()
	}
	for i := range s.choice.Gangs {
		s.choice.Gangs[i].Cost = 0
	}
	for _, c := range s.job.Classes {
		s.choice.Gangs[c.Gang].Cost += len(c.Ranks) * (costUnit / int(max(1, s.capacity[c.Kind])))
	}
}

// before says whether the plan for a set comes before the best.
func (s *some) before(p *Plan, set choice.Set) bool {
	if len(p.Puts) != len(s.best.Puts) {
		return len(p.Puts) > len(s.best.Puts)
	}
	if s.judge == nil {
		w := s.world
		w.Take = nil
		s.judge = newOutline(w, s.job)
	}
	_, o := s.judge.Order(s.judge.draft(p), s.judge.draft(s.best), "")
	return cmp.Or(o, set.Compare(s.set)) < 0
}

// refuse says why not even the least are placed; or they are, if not all sets were searched.
func (s *some) refuse(cut bool) (*Plan, *plan.Refusal) {
	least := s.choice.All()
	if fewest := s.job.least(s.choice, s.world.Tree, 1); len(fewest) > 0 {
		least = fewest[0]
	}
	r := s.try(s.orOne(least))
	if s.best != nil {
		s.best.NotAll = true
		return s.best, nil
	}
	if r == nil { // nobody of it waits
		m := newSearch(s.world, s.job)
		r = m.refuse(false)
	}
	r.Cut = r.Cut || cut
	r.Some = &plan.Some{}
	for i, g := range s.choice.Gangs {
		if len(g.Above) == 0 {
			continue
		}
		switch {
		case !g.Open:
			r.Some.Started++
		default:
			r.Some.Of++
			if least[i] {
				r.Some.Least++
			}
		}
	}
	if r.Some.Least == r.Some.Of && r.Some.Started == 0 {
		r.Some = nil // it is no choice
	}
	return nil, r
}

// orOne is a set, or if nobody of it waits, the one with the gang more that needs least.
func (s *some) orOne(set choice.Set) choice.Set {
	if s.choice.Members(set) > 0 {
		return set
	}
	best := s.choice.All()
	for i := range set {
		one := slices.Clone(set)
		one[i] = true
		if _, ok := s.choice.Needs(one); ok && s.choice.Members(one) > 0 && s.choice.Members(one) < s.choice.Members(best) {
			best = one
		}
	}
	return best
}

// mayFit asks, kind by kind, whether what a set needs is more than any domain takes that may hold
// all of it.
func (s *some) mayFit(set choice.Set) bool {
	if s.world.Trial != nil {
		return true // there may be room for some when others are there
	}
	if s.capacity == nil {
		s.capacity = s.capacities()
	}
	left := slices.Clone(s.capacity)
	for _, c := range s.job.Classes {
		g := s.choice.Gangs[c.Gang]
		if !set[c.Gang] || g.Need < g.Members {
			continue
		}
		if left[c.Kind] -= offer.Slots(len(c.Ranks)); left[c.Kind] < 0 {
			return false
		}
	}
	return true
}

func (s *some) capacities() []offer.Slots {
	out, nobody := make([]offer.Slots, s.job.kinds()), make([]offer.Slots, s.job.kinds())
	for k := range out {
		slots := make([]offer.Slots, s.world.Tree.NumNodes())
		for i := range slots {
			slots[i] = s.world.Take(i, nobody, k)
		}
		sums := offer.Sum(s.world.Tree, slots)
		for _, d := range plan.DomainsAt(s.world.Tree, s.job.All.Must) {
			out[k] = max(out[k], sums[d])
		}
	}
	return out
}

// part is the job of one set of gangs.
type part struct {
	job     Job
	classes []int   // of the whole job, by class
	seats   [][]int // where classes of several gangs are one: of which class each is, by rank; else nil
}

// only is the job for some gangs; ok is false if they must not run without the others. The others
// stay, without members who wait, for those who run count by the rules. If all members are needed,
// and only all gangs together gather, it is no matter of which gang they are.
func (j Job) only(c *choice.Choice, set choice.Set) (p part, ok bool) {
	needs, ok := c.Needs(set)
	if !ok {
		return p, false
	}
	p.job = Job{All: j.All, Sets: j.Sets, Gangs: slices.Clone(j.Gangs)}
	sum, want := 0, 0
	for i := range p.job.Gangs {
		p.job.Gangs[i].Need = offer.Slots(needs[i])
		sum += needs[i]
	}
	for i, class := range j.Classes {
		if set[class.Gang] {
			p.job.Classes, p.classes = append(p.job.Classes, class), append(p.classes, i)
			want += len(class.Ranks)
		}
	}
	if sum == want && len(j.Sets) == 0 {
		return p.asOne(), true
	}
	return p, true
}

// asOne makes all gangs one, and members of one kind one class.
func (p part) asOne() part {
	one := part{job: Job{All: p.job.All, Gangs: []Gang{{Need: p.job.need()}}}}
	for _, g := range p.job.Gangs {
		one.job.Gangs[0].Bound = plus(one.job.Gangs[0].Bound, g.Bound)
	}
	of := map[int]int{} // by rank
	for i, c := range p.job.Classes {
		k := slices.IndexFunc(one.job.Classes, func(o Class) bool { return o.Kind == c.Kind })
		if k < 0 {
			k = len(one.job.Classes)
			one.job.Classes = append(one.job.Classes, Class{Kind: c.Kind})
		}
		one.job.Classes[k].Ranks = append(one.job.Classes[k].Ranks, c.Ranks...)
		for _, r := range c.Ranks {
			of[r] = p.classes[i]
		}
	}
	for k := range one.job.Classes {
		slices.Sort(one.job.Classes[k].Ranks)
	}
	slices.SortFunc(one.job.Classes, func(a, b Class) int { return cmp.Compare(a.Ranks[0], b.Ranks[0]) })
	for _, c := range one.job.Classes {
		seats := make([]int, len(c.Ranks))
		for i, r := range c.Ranks {
			seats[i] = of[r]
		}
		one.seats = append(one.seats, seats)
	}
	return one
}

// translate names the classes of a plan as the whole job does. Members take their places by rank.
func (p part) translate(of *Plan) *Plan {
	out := *of
	out.Puts = slices.Clone(of.Puts)
	if p.seats == nil {
		for i := range out.Puts {
			out.Puts[i].Class = p.classes[out.Puts[i].Class]
		}
		return &out
	}
	order := make([]int, len(out.Puts))
	for i := range order {
		order[i] = i
	}
	if of.InOrder {
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(of.Puts[x].Node, of.Puts[y].Node) })
	}
	next := make([]int, len(p.seats))
	for _, i := range order {
		c := of.Puts[i].Class
		out.Puts[i].Class = p.seats[c][next[c]]
		next[c]++
	}
	return &out
}

// alike is the job's choice, which knows now which gangs differ in nothing that matters here.
func (j Job) alike() *choice.Choice {
	c := &choice.Choice{Gangs: slices.Clone(j.Choice.Gangs), Totals: j.Choice.Totals}
	for g := range c.Gangs {
		if j.Gangs[g].runs() {
			continue // where they run, nobody else of it does
		}
		kinds := map[int]int{}
		for _, class := range j.Classes {
			if class.Gang == g {
				kinds[class.Kind] += len(class.Ranks)
			}
		}
		like := "kinds"
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			like += fmt.Sprint(" ", k, "×", kinds[k])
		}
		for i, set := range j.Sets {
			switch {
			case !slices.Contains(set.Gangs, g):
			case len(set.Gangs) == 1:
				like += fmt.Sprint(" alone ", set.Gather)
			default:
				like += fmt.Sprint(" in ", i)
			}
		}
		c.Gangs[g].Like = like
	}
	return c
}

// Least lists the sets of gangs of which none can be left out, as far as they differ. Sets whose
// members are too many or too few for a podCountMultiple are none, unless all are.
func (j Job) Least(t *topology.Tree) []choice.Set { return j.least(j.alike(), t, leastSets) }

func (j Job) least(c *choice.Choice, t *topology.Tree, most int) []choice.Set {
	every := j.All.Multiple.Common(t.Depth())
	for _, set := range j.Sets {
		every = max(every, set.Multiple.Common(t.Depth()))
	}
	if every == 1 {
		return c.Least(most, setsLookedAt, nil)
	}
	legal := func(set choice.Set) bool {
		sub, ok := j.only(c, set)
		if !ok || len(sub.job.Classes) == 0 {
			return ok
		}
		m := newOutline(World{World: plan.World{Tree: t, Free: make([]offer.Slots, t.NumNodes())}}, sub.job)
		return m.Split || m.possible()
	}
	if sets := c.Least(most, setsCounted, legal); len(sets) > 0 {
		return sets
	}
	return c.Least(most, setsLookedAt, nil)
}

// Choose returns the first plan by the order of the rules, or nil and why there is none. What is not a question for like members is decided so:
//
//   - of two sets of as many members, the one with the lower ranks;
//   - a domain is as large as the number of members that it takes whichever they are;
//   - a domain in which members of several classes find room gets as many as can be,
//     of the first classes;
//   - where gangs may be left out, of two sets of gangs of which as many members are placed
//     that whose plan comes first, and then that with the first gangs.
//
// Where there are too many ways to look at all of them, or members depend on one
// another across nodes, the plan is one that holds, found by trying the best domains
// first, and a refusal may be wrong; both say so.
func Choose(w World, j Job) (*Plan, *plan.Refusal) {
	if j.Choice.Any() {
		return chooseSome(w, j)
	}
	return chooseAll(w, j, maxVecsSeen)
}

func (m *search) draft(p *Plan) *plan.Draft {
	d := &plan.Draft{Domain: p.Domain, Members: len(p.Puts), Penalty: func() int64 { return m.penaltyOf(p) }}
	for _, c := range m.columns {
		d.Charged = append(d.Charged, func() int64 { return m.chargedBy(p, c) })
	}
	return d
}

func (m *search) penaltyOf(p *Plan) (n int64) {
	for _, put := range p.Puts {
		n += m.penalty(m.Classes[put.Class].Kind, put.Node)
	}
	return n
}

// chargedBy is what a plan costs by a column.
func (m *search) chargedBy(p *Plan, c column) (n int64) {
	type part struct {
		domain topology.ID
		set    int
	}
	members := map[part]offer.Slots{}
	for _, put := range p.Puts {
		at := m.Tree.Ancestor(m.Tree.Node(put.Node), c.Layer)
		if c.sets == nil {
			members[part{at, 0}]++
			continue
		}
		for _, i := range m.setsOf[m.Classes[put.Class].Gang] {
			if slices.Contains(c.sets, i) {
				members[part{at, i}]++
			}
		}
	}
	for at, many := range members {
		bound := m.BoundIn(at.domain)
		if c.sets != nil {
			bound = m.boundOfSet(at.set, at.domain)
		}
		n += c.Charge.Of(bound, many)
	}
	return n
}
