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

// If a job can omit some gangs (Job.Choice), each set of gangs that may run alone is a job. Sets are tried from the most members down. The
// first plan wins that no other set can beat; ties go to the first gangs. These constants limit the number of sets examined and searched.
const (
	setsLookedAt = 1 << 14          // sets examined, valid or not
	setsSearched = 64               // sets for which a plan is searched
	vecsOfSet    = maxVecsSeen / 32 // vectors examined for one set
	leastSets    = 16               // minimal sets listed
	setsCounted  = 1 << 8           // sets examined for minimal sets if a podCountMultiple applies
)

// chooseOptional returns the best plan of any set of gangs that may run without the other gangs, or the refusal of the smallest set.
func chooseOptional(w World, j Job) (*Plan, *plan.Refusal) {
	w.Work = nil // tables belong to one job
	c := j.comparableChoice()
	sets, s := c.Sets(setsLookedAt), &setSearch{job: j, choice: c, world: w}
	searched := 0
	set := sets.Next()
	for ; set != nil; set = sets.Next() {
		if s.best != nil && c.Members(set) < len(s.best.Puts) {
			break // all following sets have fewer members
		}
		if !s.mayFit(set) {
			continue
		}
		if searched++; searched > setsSearched {
			break
		}
		s.try(set)
	}
	cut := searched > setsSearched || set == nil && sets.Incomplete()
	if s.best == nil && cut {
		s.grow()
	}
	if s.best == nil { // the refusal describes the smallest set
		return s.refuse(cut)
	}
	s.best.NotAll = s.best.NotAll || cut
	return s.best, nil
}

// setSearch is the search for the best set of gangs.
type setSearch struct {
	job      Job
	choice   *choice.Choice
	world    World
	best     *Plan
	bestSet  choice.Set    // the set of best
	judge    *search       // compares plans; nil until needed
	capacity []offer.Slots // by kind, the most that a domain of the Must layer takes; computed on demand
}

// try searches a plan for one set, and stores it in best if it precedes the best one. It returns the refusal. It returns nil if a plan was
// found, if the set is invalid, or if no member is pending.
func (s *setSearch) try(set choice.Set) *plan.Refusal {
	sub, ok := s.job.forSet(s.choice, set)
	if !ok || len(sub.job.Classes) == 0 {
		return nil
	}
	p, refusal := chooseAll(s.world, sub.job, vecsOfSet)
	if refusal != nil {
		return refusal
	}
	p = sub.translate(p)
	if s.best == nil || s.before(p, set) {
		s.best, s.bestSet = p, set
	}
	return nil
}

// grow replaces trying all sets if they are too many: it finds a plan for a minimal set, and then adds each unit for which a plan exists.
func (s *setSearch) grow() {
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
		more := slices.Clone(s.bestSet)
		for _, i := range unit {
			more[i] = true
		}
		if !slices.Equal(more, s.bestSet) && s.mayFit(more) {
			s.try(more)
		}
	}
}

// costUnit is the cost of as many members as a domain takes. It is large so that the cost of one member is a whole number.
const costUnit = 1 << 30

// price sets Cost of each gang: the part of the largest domain's capacity that its members take, in costUnits.
func (s *setSearch) price() {
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

// before returns whether plan p for a set precedes the best: more members, then the better plan by the rules, then first gangs.
func (s *setSearch) before(p *Plan, set choice.Set) bool {
	if len(p.Puts) != len(s.best.Puts) {
		return len(p.Puts) > len(s.best.Puts)
	}
	if s.judge == nil {
		w := s.world
		w.Take = nil
		s.judge = newOutline(w, s.job)
	}
	_, o := s.judge.Order(s.judge.draft(p), s.judge.draft(s.best), "")
	return cmp.Or(o, set.Compare(s.bestSet)) < 0
}

// refuse searches the smallest set again and returns its refusal, or its plan, marked NotAll. cut: some sets were not searched.
func (s *setSearch) refuse(cut bool) (*Plan, *plan.Refusal) {
	least := s.choice.All()
	if fewest := s.job.least(s.choice, s.world.Tree, 1); len(fewest) > 0 {
		least = fewest[0]
	}
	r := s.try(s.withPendingMember(least))
	if s.best != nil {
		s.best.NotAll = true
		return s.best, nil
	}
	if r == nil { // no member of it waits
		m := newSearch(s.world, s.job)
		r = m.refuse(false)
	}
	r.Incomplete = r.Incomplete || cut
	r.Optional = &plan.OptionalGangs{}
	for i, g := range s.choice.Gangs {
		if len(g.Above) == 0 {
			continue
		}
		switch {
		case !g.Open:
			r.Optional.Started++
		default:
			r.Optional.Of++
			if least[i] {
				r.Optional.Least++
			}
		}
	}
	if r.Optional.Least == r.Optional.Of && r.Optional.Started == 0 {
		r.Optional = nil // there is no choice
	}
	return nil, r
}

// withPendingMember returns set if it has a pending member. Otherwise it adds the gang with the fewest pending members that gives a valid
// set. If no gang does, it returns the smallest valid set with pending members; all gangs if there is none, or if multiples apply.
func (s *setSearch) withPendingMember(set choice.Set) choice.Set {
	if s.choice.Members(set) > 0 {
		return set
	}
	best, found := s.choice.All(), false
	for i := range set {
		larger := slices.Clone(set)
		larger[i] = true
		if _, ok := s.choice.Needs(larger); ok && s.choice.Members(larger) > 0 && s.choice.Members(larger) < s.choice.Members(best) {
			best, found = larger, true
		}
	}
	if !found && s.job.multiple(s.world.Tree) == 1 {
		pending := func(set choice.Set) bool { return s.choice.Members(set) > 0 }
		if sets := s.choice.Least(1, setsLookedAt, pending); len(sets) > 0 {
			return sets[0]
		}
	}
	return best
}

// mayFit returns false if set needs more independent members of one kind than any domain of the Must layer takes.
func (s *setSearch) mayFit(set choice.Set) bool {
	if s.world.Trial != nil {
		return true // members may fit beside other members
	}
	if s.capacity == nil {
		s.capacity = s.capacities()
	}
	remaining := slices.Clone(s.capacity)
	for _, c := range s.job.Classes {
		g := s.choice.Gangs[c.Gang]
		if !set[c.Gang] || g.Need < g.Members {
			continue
		}
		if remaining[c.Kind] -= offer.Slots(len(c.Ranks)); remaining[c.Kind] < 0 {
			return false
		}
	}
	return true
}

// capacities returns, by kind, the most members of that kind alone that one domain of the Must layer takes.
func (s *setSearch) capacities() []offer.Slots {
	out, noLoad := make([]offer.Slots, s.job.kinds()), make([]offer.Slots, s.job.kinds())
	for k := range out {
		slots := make([]offer.Slots, s.world.Tree.NumNodes())
		for i := range slots {
			slots[i] = s.world.Take(i, noLoad, k)
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
	job           Job
	classes       []int   // class of the whole job, by class
	memberClasses [][]int // if classes of several gangs are merged, the class of each member by rank; else nil
}

// forSet returns the job for the gangs in set; ok is false if they must not run without the other gangs. The other gangs remain, without
// pending members, because their running members count. If all members are needed and only all gangs together gather, the gangs are merged.
func (j Job) forSet(c *choice.Choice, set choice.Set) (p part, ok bool) {
	needs, ok := c.Needs(set)
	if !ok {
		return p, false
	}
	p.job = Job{All: j.All, Sets: j.Sets, Gangs: slices.Clone(j.Gangs)}
	members := make([]int, len(j.Gangs))
	for i, class := range j.Classes {
		if set[class.Gang] {
			p.job.Classes, p.classes = append(p.job.Classes, class), append(p.classes, i)
			members[class.Gang] += len(class.Ranks)
		}
	}
	for i := range p.job.Gangs {
		p.job.Gangs[i].Need = offer.Slots(needs[i])
	}
	if slices.Equal(members, needs) && len(j.Sets) == 0 {
		return p.merged(), true
	}
	return p, true
}

// merged returns p with all gangs combined into one gang, and all members of one kind into one class.
func (p part) merged() part {
	whole := part{job: Job{All: p.job.All, Gangs: []Gang{{Need: p.job.need()}}}}
	for _, g := range p.job.Gangs {
		whole.job.Gangs[0].Bound = plus(whole.job.Gangs[0].Bound, g.Bound)
	}
	classOfRank := map[int]int{} // by rank
	for i, c := range p.job.Classes {
		k := slices.IndexFunc(whole.job.Classes, func(o Class) bool { return o.Kind == c.Kind })
		if k < 0 {
			k = len(whole.job.Classes)
			whole.job.Classes = append(whole.job.Classes, Class{Kind: c.Kind})
		}
		whole.job.Classes[k].Ranks = append(whole.job.Classes[k].Ranks, c.Ranks...)
		for _, r := range c.Ranks {
			classOfRank[r] = p.classes[i]
		}
	}
	for k := range whole.job.Classes {
		slices.Sort(whole.job.Classes[k].Ranks)
	}
	slices.SortFunc(whole.job.Classes, func(a, b Class) int { return cmp.Compare(a.Ranks[0], b.Ranks[0]) })
	for _, c := range whole.job.Classes {
		classOfMember := make([]int, len(c.Ranks))
		for i, r := range c.Ranks {
			classOfMember[i] = classOfRank[r]
		}
		whole.memberClasses = append(whole.memberClasses, classOfMember)
	}
	return whole
}

// translate returns the plan with classes of the whole job instead of p.job's. Members of a merged class take nodes by rank.
func (p part) translate(original *Plan) *Plan {
	out := *original
	out.Puts = slices.Clone(original.Puts)
	if p.memberClasses == nil {
		for i := range out.Puts {
			out.Puts[i].Class = p.classes[out.Puts[i].Class]
		}
		return &out
	}
	order := make([]int, len(out.Puts))
	for i := range order {
		order[i] = i
	}
	if original.InOrder {
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(original.Puts[x].Node, original.Puts[y].Node) })
	}
	next := make([]int, len(p.memberClasses))
	for _, i := range order {
		c := original.Puts[i].Class
		out.Puts[i].Class = p.memberClasses[c][next[c]]
		next[c]++
	}
	return &out
}

// comparableChoice returns the job's choice with Like set: equal keys mark interchangeable gangs.
func (j Job) comparableChoice() *choice.Choice {
	c := &choice.Choice{Gangs: slices.Clone(j.Choice.Gangs), Totals: j.Choice.Totals}
	for g := range c.Gangs {
		if j.Gangs[g].runs() {
			continue // running members make the gang unique
		}
		kinds := map[int]int{}
		for _, class := range j.Classes {
			if class.Gang == g {
				kinds[class.Kind] += len(class.Ranks)
			}
		}
		key := "kinds"
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			key += fmt.Sprint(" ", k, "×", kinds[k])
		}
		for i, set := range j.Sets {
			switch {
			case !slices.Contains(set.Gangs, g):
			case len(set.Gangs) == 1:
				key += fmt.Sprint(" alone ", set.Gather)
			default:
				key += fmt.Sprint(" in ", i)
			}
		}
		c.Gangs[g].Like = key
	}
	return c
}

// Least returns the minimal sets of gangs that may run without the others, without duplicates. Sets that no podCountMultiple allows are
// skipped, unless all are such sets. Sets whose needs alone are a multiple follow: a smaller set with members beyond its needs may need
// other nodes.
func (j Job) Least(t *topology.Tree) []choice.Set { return j.least(j.comparableChoice(), t, leastSets) }

// multiple returns the largest podCountMultiple that applies to the job or to a set; 1 for none.
func (j Job) multiple(t *topology.Tree) offer.Slots {
	multiple := j.All.Multiple.Common(t.Depth())
	for _, set := range j.Sets {
		multiple = max(multiple, set.Multiple.Common(t.Depth()))
	}
	return multiple
}

// least is Least for the comparable choice c, with at most most sets.
func (j Job) least(c *choice.Choice, t *topology.Tree, most int) []choice.Set {
	multiple := j.multiple(t)
	if multiple == 1 {
		return c.Least(most, setsLookedAt, nil)
	}
	valid := func(set choice.Set) bool {
		sub, ok := j.forSet(c, set)
		if !ok || len(sub.job.Classes) == 0 {
			return ok
		}
		m := newOutline(World{World: plan.World{Tree: t, Free: make([]offer.Slots, t.NumNodes())}}, sub.job)
		return m.Split || m.possible()
	}
	sets := c.Least(most, setsCounted, valid)
	if len(sets) == 0 {
		return c.Least(most, setsLookedAt, nil)
	}
	if sub, _ := j.forSet(c, sets[0]); len(sub.job.Classes) == 0 {
		return sets[:1] // the job has what it needs
	}
	for _, set := range c.Least(most, setsCounted, func(set choice.Set) bool {
		sub, _ := j.forSet(c, set)
		return valid(set) && sub.job.need()%multiple == 0
	}) {
		if len(sets) < most && !slices.ContainsFunc(sets, func(s choice.Set) bool { return slices.Equal(s, set) }) {
			sets = append(sets, set)
		}
	}
	return sets
}

// Choose returns the first plan by the rules of package plan, or why there is none. Heterogeneous members need further rules:
//
//   - of two equally large sets of members, the one with lower ranks is first;
//   - the size of a domain is the number of members of any kind that it takes;
//   - a domain for several classes gets as many members as possible, first classes first;
//   - if gangs may be omitted, the better plan is first among equally large sets, then the first gangs.
//
// If there are too many combinations, or members are interdependent, it tries the best domains first.
// The plan is then valid but may not be the first, and a refusal may be wrong. Both report this.
func Choose(w World, j Job) (*Plan, *plan.Refusal) {
	if j.Choice.Any() {
		return chooseOptional(w, j)
	}
	return chooseAll(w, j, maxVecsSeen)
}

// draft returns the properties of a plan that the rules compare.
func (m *search) draft(p *Plan) *plan.Draft {
	d := &plan.Draft{Domain: p.Domain, Members: len(p.Puts), Penalty: func() int64 { return m.penaltyOf(p) }}
	for _, c := range m.columns {
		d.Charged = append(d.Charged, func() int64 { return m.chargedBy(p, c) })
	}
	return d
}

// penaltyOf returns what soft preferences charge for all members of a plan.
func (m *search) penaltyOf(p *Plan) (n int64) {
	for _, put := range p.Puts {
		n += m.penalty(m.Classes[put.Class].Kind, put.Node)
	}
	return n
}

// chargedBy returns what the preference of column c charges for all members of a plan.
func (m *search) chargedBy(p *Plan, c column) (n int64) {
	type domainSet struct {
		domain topology.ID
		set    int
	}
	members := map[domainSet]offer.Slots{}
	for _, put := range p.Puts {
		key := m.Tree.Ancestor(m.Tree.Node(put.Node), c.Layer)
		if c.sets == nil {
			members[domainSet{key, 0}]++
			continue
		}
		for _, i := range m.setsOf[m.Classes[put.Class].Gang] {
			if slices.Contains(c.sets, i) {
				members[domainSet{key, i}]++
			}
		}
	}
	for key, many := range members {
		bound := m.BoundIn(key.domain)
		if c.sets != nil {
			bound = m.boundInSet(key.set, key.domain)
		}
		n += c.Charge.Of(bound, many)
	}
	return n
}
