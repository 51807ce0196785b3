// Package company decides between places that are equally good for a gang by those who wait
// beside it: which domain it takes so that most of their members start, too, and so that it is
// least in the way of those who wait for more room than there is.
//
// It is arithmetic on numbers: how much is free in each domain and how large it is, how many
// members the gang has, and each of the others. It knows neither the tree nor who they are. It does
// not decide whether the gang starts: it does, and the others follow in their order, each as
// soon as some domain takes it. Equal input gives equal output, in a bounded number of steps.
package company

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Most is how many of the others count: the first of those whom some domain takes, and the
// first of those who wait for more.
const Most = 16

// steps is how many places are tried in all. With too few of them what is found is no worse for the others
// than if each took the smallest domain that takes it.
const steps = 1 << 12

// Hole is a domain in which members of a gang gather.
type Hole struct {
	Free offer.Slots // now
	Size offer.Slots // with nobody in it
}

// Best returns those of the domains that may take a gang, by index, which are best for the others, in their order:
// those with which most of their members start, of them those with which the first of them do, and
// of them those that are least in the way of others who start nowhere now. All have as many
// slots free as the gang has members, at least.
func Best(holes []Hole, may []int, members offer.Slots, others []offer.Slots) []int {
	if len(may) < 2 || len(others) == 0 {
		return may
	}
	return leastInTheWay(holes, mostStart(holes, may, members, others), others)
}

// mostStart is the first half of Best. Domains differ by what is free in them, if at all.
func mostStart(holes []Hole, may []int, members offer.Slots, others []offer.Slots) []int {
	var free []offer.Slots
	for _, i := range may {
		free = append(free, holes[i].Free)
	}
	slices.Sort(free)
	free = slices.Compact(free)
	s := newSearch(holes, others)
	if len(free) < 2 || len(s.others) == 0 {
		return may
	}
	exact := free[0] == members // nothing is left over there: whoever can start elsewhere can with that, too
	var best outcome
	var out []offer.Slots
	for _, size := range free {
		s.steps = steps / len(free)
		o := s.from(size, members, best)
		switch c := o.compare(best); {
		case c > 0 && !exact || out == nil:
			best, out = o, []offer.Slots{size}
		case c == 0:
			out = append(out, size)
		}
	}
	return where(may, func(i int) bool { return slices.Contains(out, holes[i].Free) })
}

// leastInTheWay is the second half: whom no domain takes now is hindered where it could be with nobody there.
func leastInTheWay(holes []Hole, may []int, others []offer.Slots) []int {
	most, large := Hole{}, 0 // the others for whom there is no room
	for _, h := range holes {
		most.Free, most.Size = max(most.Free, h.Free), max(most.Size, h.Size)
	}
	hinders := make(map[int]int, len(may))
	for _, n := range others {
		if n <= most.Free || n > most.Size || large == Most {
			continue
		}
		large++
		for _, i := range may {
			if holes[i].Size >= n {
				hinders[i]++
			}
		}
	}
	least := large
	for _, i := range may {
		least = min(least, hinders[i])
	}
	return where(may, func(i int) bool { return hinders[i] == least })
}

func where(all []int, is func(i int) bool) (out []int) {
	for _, i := range all {
		if is(i) {
			out = append(out, i)
		}
	}
	return out
}
