package company

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// outcome is what comes of the others: how many of their members start, and who they are, the
// first in the highest bit.
type outcome struct {
	members offer.Slots
	who     uint32
}

// compare is more than 0 for the better one.
func (o outcome) compare(p outcome) int {
	switch {
	case o.members > p.members, o.members == p.members && o.who > p.who:
		return 1
	case o == p:
		return 0
	}
	return -1
}

func (o outcome) with(i int, members offer.Slots) outcome {
	return outcome{o.members + members, o.who | 1<<(31-i)}
}

// search looks for the best way to place the others one by one: whoever some domain takes
// starts, and has a choice where. One that it just fills needs none: whatever could start with
// another choice can with this one.
type search struct {
	others []offer.Slots
	free   []offer.Slots // of domains that take any of the others, rising
	sum    offer.Slots   // of all of free
	steps  int
	best   outcome
	wanted outcome // what is worse need not be known
}

// newSearch leaves out whom no domain takes, and domains that take nobody.
func newSearch(holes []Hole, others []offer.Slots) *search {
	s := &search{}
	largest := offer.Slots(0)
	for _, h := range holes {
		largest = max(largest, h.Free)
	}
	for _, n := range others {
		if n > 0 && n <= largest && len(s.others) < Most {
			s.others = append(s.others, n)
		}
	}
	if len(s.others) == 0 {
		return s
	}
	least := slices.Min(s.others)
	for _, h := range holes {
		if h.Free >= least {
			s.free = append(s.free, h.Free)
		}
	}
	slices.Sort(s.free)
	s.few()
	for _, n := range s.free {
		s.sum += n
	}
	return s
}

// few leaves out domains that are like so many others that nobody would come to them.
func (s *search) few() {
	kept := s.free[:0]
	for _, n := range s.free {
		if like := len(kept) - len(s.others) - 1; like < 0 || kept[like] != n {
			kept = append(kept, n)
		}
	}
	s.free = kept
}

// from is the outcome if so many members take a domain of which so much is free; if that is worse
// than what is wanted, any outcome that is.
func (s *search) from(free, members offer.Slots, wanted outcome) outcome {
	s.best, s.wanted = outcome{}, wanted
	if i, ok := slices.BinarySearch(s.free, free); ok {
		s.take(i, members, func() { s.follow(0, outcome{}) })
	} else {
		s.follow(0, outcome{}) // none of the others could be there
	}
	return s.best
}

// follow places the others from the i-th on, each in the smallest domain first.
func (s *search) follow(i int, now outcome) {
	if now.compare(s.best) > 0 {
		s.best = now
	}
	if i == len(s.others) {
		return
	}
	if most := s.bound(i, now); most.compare(s.best) <= 0 || most.compare(s.wanted) < 0 {
		return
	}
	n := s.others[i]
	from, exact := slices.BinarySearch(s.free, n)
	if from == len(s.free) {
		s.follow(i+1, now)
		return
	}
	for k := from; k < len(s.free) && (k == from || s.steps > 0); k++ {
		if k > from && s.free[k] == s.free[k-1] {
			continue
		}
		s.steps--
		s.take(k, n, func() { s.follow(i+1, now.with(i, n)) })
		if exact {
			return
		}
	}
}

// bound is no worse than what can come of the others from the i-th on.
func (s *search) bound(i int, now outcome) outcome {
	all, largest := now, s.free[len(s.free)-1]
	for k := i; k < len(s.others); k++ {
		if n := s.others[k]; n <= largest {
			all = all.with(k, n)
		}
	}
	all.members = min(all.members, now.members+s.sum)
	return all
}

// take does something while so many members are in the i-th domain.
func (s *search) take(i int, members offer.Slots, do func()) {
	before := s.free[i]
	left := before - members
	at := i // the others stay in order while it moves down
	for ; at > 0 && s.free[at-1] > left; at-- {
		s.free[at] = s.free[at-1]
	}
	s.free[at], s.sum = left, s.sum-members
	do()
	s.sum += members
	for ; at < i; at++ {
		s.free[at] = s.free[at+1]
	}
	s.free[i] = before
}
