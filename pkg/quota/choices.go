package quota

import (
	"cmp"
	"slices"
)

// Choosing is who may start of gangs that need fewer members than wait: where these differ, a quota may have room for some of them
// and not for others. What is chosen is how many of each kind.
type Choosing struct {
	Ask   Ask // whose gang and priority it is; who is needed is not read
	Kinds []Kind
	Need  []int // by gang, how many must start
}

// Kind is members of one gang that ask for the same, and of whom one is as good as another. Count is how many wait.
type Kind struct {
	Want
	Gang int
}

// mostQuestions bounds what is asked of the quotas for one list of choices: with more, only those are listed that are found first, and those that
// begin with whoever needs least.
const mostQuestions = 512

// Most lists choices that are admitted and to which nobody can be added: those with most members first, of as many those of the first
// kinds. It lists one if Any finds one.
func (b *Book) Most(c Choosing, most int) [][]int {
	s := b.chooser(c)
	s.search(s.fill)
	if len(s.found) == 0 {
		if any := b.Any(c); any != nil { // the fewest are found with fewer questions
			s.keep(s.more(any, s.inOrder()))
		}
	}
	slices.SortStableFunc(s.found, func(x, y []int) int {
		return cmp.Or(cmp.Compare(sum(y), sum(x)), slices.Compare(y, x))
	})
	return s.found[:min(most, len(s.found))]
}

// Any is a choice that is admitted; nil if there is none.
func (b *Book) Any(c Choosing) []int {
	s := b.chooser(c)
	s.exact, s.enough = true, 1
	if s.search(s.needed); len(s.found) == 0 {
		return nil
	}
	return s.found[0]
}

// Later is a choice that is admitted but for its turn; nil if there is none.
func (b *Book) Later(c Choosing) []int {
	s := b.chooser(c)
	s.exact, s.enough = true, 1
	s.fits = func(l *load) bool {
		refusal := l.refused()
		return refusal == nil || refusal.Cause == NotNext
	}
	if s.search(s.needed); len(s.found) == 0 {
		return nil
	}
	return s.found[0]
}

func (b *Book) chooser(c Choosing) *chooser {
	return &chooser{Choosing: c, begin: &load{view: b.View(), ask: &c.Ask}, fits: func(l *load) bool { return l.refused() == nil }}
}

// Fewest lists choices of no more members than are needed that no limit would keep out which nobody can lend, if nobody else had anything:
// first those who need least of a resource. all says that there are no others.
func (b *Book) Fewest(c Choosing, most int) (choices [][]int, all bool) {
	l := &load{view: b.View(), ask: &c.Ask}
	for _, is := range c.Kinds {
		l.add(is.Want, 1)
	}
	if l.broken != nil {
		return nil, false
	}
	begin := &load{view: b.alone(c.Ask.Gang, l.at), ask: &c.Ask}
	s := &chooser{Choosing: c, begin: begin, fits: func(l *load) bool { return l.hard() == nil }, exact: true}
	s.search(s.needed)
	return s.found[:min(most, len(s.found))], s.asked < mostQuestions && len(s.found) <= most
}

// Cheapest is the choice of those who are needed that need least of a resource, those of the first kinds of as much.
func (c Choosing) Cheapest(resource string) []int { return c.needed(c.byNeed(resource)) }

// chooser is the search for choices.
type chooser struct {
	Choosing
	begin  *load
	fits   func(*load) bool
	exact  bool // no more than are needed
	enough int  // choices; 0 is all
	asked  int
	found  [][]int
}

// search begins with whoever needs least, as by has it, and goes on with all that may be.
func (s *chooser) search(by func(order []int) []int) {
	s.seed(by)
	s.descend(0, make([]int, len(s.Kinds)), s.begin)
}

func (s *chooser) may(l *load) bool {
	s.asked++
	return s.fits(l)
}

// seed begins with the choices of those who need least of each resource.
func (s *chooser) seed(by func(order []int) []int) {
	var names []string
	for _, is := range s.Kinds {
		for name := range is.Asks {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		chosen, l := by(s.byNeed(name)), s.begin.clone()
		for i, n := range chosen {
			l.add(s.Kinds[i].Want, n)
		}
		if s.suffices(len(chosen), chosen) && s.may(l) {
			s.keep(chosen)
		}
	}
}

// inOrder are the kinds as they are.
func (c Choosing) inOrder() []int {
	order := make([]int, len(c.Kinds))
	for i := range order {
		order[i] = i
	}
	return order
}

// byNeed orders the kinds by what each of their members asks for of a resource.
func (c Choosing) byNeed(resource string) []int {
	order := c.inOrder()
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(c.Kinds[x].Asks[resource], c.Kinds[y].Asks[resource]) })
	return order
}

// needed is how many of each kind start if no more do than must, the first ones of an order.
func (c Choosing) needed(order []int) []int {
	left, chosen := slices.Clone(c.Need), make([]int, len(c.Kinds))
	for _, i := range order {
		chosen[i] = min(c.Kinds[i].Count, left[c.Kinds[i].Gang])
		left[c.Kinds[i].Gang] -= chosen[i]
	}
	return chosen
}

// fill is needed, and as many more as may be.
func (s *chooser) fill(order []int) []int { return s.more(s.needed(order), order) }

// more is a choice, and as many more as may be if it may be itself.
func (s *chooser) more(chosen, order []int) []int {
	l := s.begin.clone()
	for i, n := range chosen {
		l.add(s.Kinds[i].Want, n)
	}
	if !s.may(l) {
		return chosen
	}
	for _, i := range order {
		n := s.most(l, s.Kinds[i].Want, s.Kinds[i].Count-chosen[i])
		l.add(s.Kinds[i].Want, n)
		chosen[i] += n
	}
	return chosen
}

// most is how many more members a load may have, of so many.
func (s *chooser) most(l *load, w Want, count int) int {
	low, high := 0, count // of low it is known, of more than high not
	for low < high {
		n := (low + high + 1) / 2
		some := l.clone()
		some.add(w, n)
		if s.may(some) {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

// descend tries how many there may be of a kind, and of those after it: who asks for less passes no limit that he who asks for more does not.
func (s *chooser) descend(at int, chosen []int, l *load) {
	if s.asked >= mostQuestions || s.enough > 0 && len(s.found) >= s.enough || !s.suffices(at, chosen) {
		return
	}
	if at == len(s.Kinds) {
		if s.exact || s.full(chosen, l) {
			s.keep(chosen)
		}
		return
	}
	is := s.Kinds[at]
	high := is.Count
	if s.exact {
		high = min(high, s.lacks(chosen[:at], is.Gang))
	}
	high = s.most(l, is.Want, high)
	for n := high; n >= 0; n-- {
		some := l.clone()
		some.add(is.Want, n)
		chosen[at] = n
		s.descend(at+1, chosen, some)
		if at == len(s.Kinds)-1 { // fewer of the last one are in no list
			break
		}
	}
	chosen[at] = 0
}

// lacks is how many of a gang must still be chosen.
func (s *chooser) lacks(chosen []int, gang int) int {
	n := s.Need[gang]
	for i, many := range chosen {
		if s.Kinds[i].Gang == gang {
			n -= many
		}
	}
	return max(0, n)
}

// suffices says whether there are as many members as are needed with those of the kinds to come.
func (s *chooser) suffices(at int, chosen []int) bool {
	for g := range s.Need {
		n := s.lacks(chosen[:at], g)
		for _, is := range s.Kinds[at:] {
			if is.Gang == g {
				n -= is.Count
			}
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// full says whether nobody can be added.
func (s *chooser) full(chosen []int, l *load) bool {
	for i, is := range s.Kinds {
		if chosen[i] < is.Count && s.most(l, is.Want, 1) > 0 {
			return false
		}
	}
	return true
}

func (s *chooser) keep(chosen []int) {
	if sum(chosen) > 0 && !slices.ContainsFunc(s.found, func(is []int) bool { return slices.Equal(is, chosen) }) {
		s.found = append(s.found, slices.Clone(chosen))
	}
}

func sum(of []int) (n int) {
	for _, i := range of {
		n += i
	}
	return n
}
