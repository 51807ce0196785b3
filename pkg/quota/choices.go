package quota

import (
	"cmp"
	"slices"
)

// Candidates is the waiting members of gangs that need only some of them. If members differ, a quota may have capacity for some only. A
// choice is the number of members of each kind that start.
type Candidates struct {
	Ask   Request // its gang and priority; Need and Optional are not read
	Kinds []Kind
	Need  []int // by gang, how many must start
}

// Kind is Count waiting members of one gang that are interchangeable.
type Kind struct {
	Want
	Gang int
}

// mostQuestions bounds the quota checks for one list of choices. Beyond it the list has the choices found first, and choices that begin
// with the smallest requests.
const mostQuestions = 512

// MaximalChoices returns up to most admitted choices to which no member can be added: the largest first, and of equal size the first kinds
// first. It returns at least one if AnyChoice does.
func (b *Book) MaximalChoices(c Candidates, most int) [][]int {
	s := b.chooser(c)
	s.search(s.fill)
	if len(s.found) == 0 {
		if minimal := b.AnyChoice(c); minimal != nil { // the minimal choice needs fewer checks
			s.keep(s.extend(minimal, s.inOrder()))
		}
	}
	slices.SortStableFunc(s.found, func(x, y []int) int {
		return cmp.Or(cmp.Compare(sum(y), sum(x)), slices.Compare(y, x))
	})
	return s.found[:min(most, len(s.found))]
}

// AnyChoice returns an admitted choice of the needed number of members; nil if there is none.
func (b *Book) AnyChoice(c Candidates) []int {
	return b.chooser(c).first()
}

// ChoiceMissingTurn returns a choice that would be admitted if no other quota were served first; nil if there is none.
func (b *Book) ChoiceMissingTurn(c Candidates) []int {
	s := b.chooser(c)
	s.fits = func(l *load) bool {
		refusal := l.refusal()
		return refusal == nil || refusal.Cause == NotNext
	}
	return s.first()
}

// first returns the first choice of the needed number of members that fits; nil if there is none.
func (s *chooser) first() []int {
	s.exact, s.enough = true, 1
	if s.search(s.needed); len(s.found) == 0 {
		return nil
	}
	return s.found[0]
}

// chooser returns the search for choices that the book admits now.
func (b *Book) chooser(c Candidates) *chooser {
	return &chooser{Candidates: c, begin: &load{view: b.View(), gangRequest: &c.Ask}, fits: func(l *load) bool { return l.refusal() == nil }}
}

// MinimalChoices returns choices of the needed number of members that fit the hard limits if no other gang used anything, the smallest
// requests first. all says that the list is complete.
func (b *Book) MinimalChoices(c Candidates, most int) (choices [][]int, all bool) {
	l := &load{view: b.View(), gangRequest: &c.Ask}
	for _, kind := range c.Kinds {
		l.add(kind.Want, 1)
	}
	if l.broken != nil {
		return nil, false
	}
	begin := &load{view: b.onlyGang(c.Ask.Gang, l.requests), gangRequest: &c.Ask}
	s := &chooser{Candidates: c, begin: begin, fits: func(l *load) bool { return l.overHardLimit() == nil }, exact: true}
	s.search(s.needed)
	return s.found[:min(most, len(s.found))], s.checks < mostQuestions && len(s.found) <= most
}

// Cheapest returns the choice of needed members with the smallest request of a resource; of equal ones, the first kinds.
func (c Candidates) Cheapest(resource string) []int { return c.needed(c.byNeed(resource)) }

// chooser is the search for choices.
type chooser struct {
	Candidates
	begin  *load // before any member is chosen
	fits   func(*load) bool
	exact  bool // only as many members as needed
	enough int  // number of choices to find; 0 is all
	checks int
	found  [][]int
}

// search sets found. It begins with the choices that pick makes of the smallest requests, and continues with all choices.
func (s *chooser) search(pick func(order []int) []int) {
	s.seed(pick)
	s.descend(0, make([]int, len(s.Kinds)), s.begin)
}

// check returns whether a load fits, and counts the check.
func (s *chooser) check(l *load) bool {
	s.checks++
	return s.fits(l)
}

// seed adds to found, for each resource, the choice that pick makes of the kinds sorted by their request of that resource.
func (s *chooser) seed(pick func(order []int) []int) {
	var names []string
	for _, kind := range s.Kinds {
		for name := range kind.Asks {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		chosen, l := pick(s.byNeed(name)), s.begin.clone()
		for i, n := range chosen {
			l.add(s.Kinds[i].Want, n)
		}
		if s.suffices(len(chosen), chosen) && s.check(l) {
			s.keep(chosen)
		}
	}
}

// inOrder returns the kinds in their order.
func (c Candidates) inOrder() []int {
	order := make([]int, len(c.Kinds))
	for i := range order {
		order[i] = i
	}
	return order
}

// byNeed returns the kinds sorted by their request of a resource, smallest first.
func (c Candidates) byNeed(resource string) []int {
	order := c.inOrder()
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(c.Kinds[x].Asks[resource], c.Kinds[y].Asks[resource]) })
	return order
}

// needed returns the needed number of members, taken from the first kinds of an order.
func (c Candidates) needed(order []int) []int {
	missing, chosen := slices.Clone(c.Need), make([]int, len(c.Kinds))
	for _, i := range order {
		chosen[i] = min(c.Kinds[i].Count, missing[c.Kinds[i].Gang])
		missing[c.Kinds[i].Gang] -= chosen[i]
	}
	return chosen
}

// fill returns the choice that needed makes of order, with as many further members as fit.
func (s *chooser) fill(order []int) []int { return s.extend(s.needed(order), order) }

// extend adds as many members as fit to chosen, in the given order of kinds, and returns it; unchanged if chosen itself does not fit.
func (s *chooser) extend(chosen, order []int) []int {
	l := s.begin.clone()
	for i, n := range chosen {
		l.add(s.Kinds[i].Want, n)
	}
	if !s.check(l) {
		return chosen
	}
	for _, i := range order {
		n := l.addable(s.Kinds[i].Want, s.Kinds[i].Count-chosen[i], s.check)
		l.add(s.Kinds[i].Want, n)
		chosen[i] += n
	}
	return chosen
}

// descend tries all counts of kind number at and of the kinds after it, the largest count first. l is the load of the kinds chosen before.
func (s *chooser) descend(at int, chosen []int, l *load) {
	if s.checks >= mostQuestions || s.enough > 0 && len(s.found) >= s.enough || !s.suffices(at, chosen) {
		return
	}
	if at == len(s.Kinds) {
		if s.exact || s.isMaximal(chosen, l) {
			s.keep(chosen)
		}
		return
	}
	kind := s.Kinds[at]
	high := kind.Count
	if s.exact {
		high = min(high, s.lacks(chosen[:at], kind.Gang))
	}
	high = l.addable(kind.Want, high, s.check)
	for n := high; n >= 0; n-- {
		candidate := l.clone()
		candidate.add(kind.Want, n)
		chosen[at] = n
		s.descend(at+1, chosen, candidate)
		if at == len(s.Kinds)-1 { // smaller counts of the last kind are never listed
			break
		}
	}
	chosen[at] = 0
}

// lacks returns how many needed members of a gang are still missing in chosen.
func (s *chooser) lacks(chosen []int, gang int) int {
	n := s.Need[gang]
	for i, count := range chosen {
		if s.Kinds[i].Gang == gang {
			n -= count
		}
	}
	return max(0, n)
}

// suffices returns whether the first at counts of chosen, together with all members of later kinds, reach the needed members.
func (s *chooser) suffices(at int, chosen []int) bool {
	for g := range s.Need {
		n := s.lacks(chosen[:at], g)
		for _, kind := range s.Kinds[at:] {
			if kind.Gang == g {
				n -= kind.Count
			}
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// isMaximal returns whether no further member fits beside chosen, whose load is l.
func (s *chooser) isMaximal(chosen []int, l *load) bool {
	for i, kind := range s.Kinds {
		if chosen[i] < kind.Count && l.addable(kind.Want, 1, s.check) > 0 {
			return false
		}
	}
	return true
}

// keep adds a choice to found, unless it is empty or known.
func (s *chooser) keep(chosen []int) {
	if sum(chosen) > 0 && !slices.ContainsFunc(s.found, func(known []int) bool { return slices.Equal(known, chosen) }) {
		s.found = append(s.found, slices.Clone(chosen))
	}
}

func sum(counts []int) (n int) {
	for _, i := range counts {
		n += i
	}
	return n
}
