package choice

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Sets yields the sets of gangs that may run without the others, one after the other: most
// members first, then those with the first gangs. Of gangs that are alike there are only
// the sets with the first of them. Last come those who have started, alone, if gangs are missing
// without whom they could not start.
type Sets struct {
	of      *Choice
	classes [][]int // gangs that are alike, in order
	tries   int
	queue   queue
	started bool // those who have started were yielded alone, or may not follow alone
}

// Sets prepares to yield sets, of which no more than so many are looked at.
func (c *Choice) Sets(tries int) *Sets {
	s := &Sets{of: c, classes: c.classes(), tries: tries}
	all := make([]int, len(s.classes))
	for k, class := range s.classes {
		all[k] = len(class)
	}
	s.push(all, 0)
	s.started = !c.goOn(c.Nobody()) || c.Holds(c.Nobody())
	return s
}

// Next is the next set; nil if there is none, or if too many were looked at.
func (s *Sets) Next() Set {
	for len(s.queue) > 0 && s.tries > 0 {
		s.tries--
		p := heap.Pop(&s.queue).(part)
		for k := p.from; k < len(s.classes); k++ {
			if p.counts[k] > 0 {
				less := slices.Clone(p.counts)
				less[k]--
				s.push(less, k)
			}
		}
		if s.of.holds(p.set) {
			return p.set
		}
	}
	if !s.started {
		s.started = true
		return s.of.Nobody()
	}
	return nil
}

// holds says whether a set may run without the others, and has as many members as it needs.
func (c *Choice) holds(set Set) bool {
	_, ok := c.Needs(set)
	return ok && c.Holds(set)
}

// Cut says that there are sets which were not looked at.
func (s *Sets) Cut() bool { return len(s.queue) > 0 }

// push adds a set, by how many of each class are in it, unless it and all that are left of it
// when more are taken away do not hold. Only from some class on more are: so each set comes
// once.
func (s *Sets) push(counts []int, from int) {
	set := s.set(counts)
	if s.of.holds(s.of.Lasting(set)) {
		heap.Push(&s.queue, part{counts, from, set, s.of.Members(set)})
	}
}

// classes are the open gangs who can take part, those together that are alike and below the same
// levels.
func (c *Choice) classes() (out [][]int) {
	known := map[string]int{}
	for i, g := range c.Gangs {
		if !g.Open || !g.may() {
			continue
		}
		key := fmt.Sprint(g.Like, "\x1f", g.Need, g.Members, g.Total, g.Above)
		k, ok := known[key]
		if !ok || g.Like == "" {
			k = len(out)
			known[key], out = k, append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

// part is some gangs of each class.
type part struct {
	counts  []int
	from    int
	set     Set
	members int
}

// Compare puts the set first that has the first gang which only one of them has.
func (s Set) Compare(o Set) int {
	for i := range s {
		if s[i] != o[i] {
			if s[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// queue is a heap of parts.
type queue []part

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(p any)   { *q = append(*q, p.(part)) }

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].members, q[i].members), q[i].set.Compare(q[j].set)) < 0
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	*q = (*q)[:last]
	return p
}

// Least lists sets of which nobody can be left out: those with the fewest members first, then
// those that cost least, then those with the first gangs, no more than so many. Of those only that
// may be; nil asks nothing. Where there are too many to look at all, it is one of them, or none.
func (c *Choice) Least(most, tries int, may func(Set) bool) (out []Set) {
	if may == nil {
		may = func(Set) bool { return true }
	}
	s := &Sets{of: c, classes: c.classes()}
	level := [][]int{make([]int, len(s.classes))}
	seen := map[string]bool{}
	for len(level) > 0 {
		var next [][]int
		for _, counts := range level {
			if tries--; tries < 0 {
				return c.reduce(c.All(), may)
			}
			set := s.set(counts)
			if slices.ContainsFunc(out, func(less Set) bool { return less.within(set) }) {
				continue
			}
			if c.holds(set) && may(set) {
				out = append(out, set)
				continue
			}
			for k, class := range s.classes {
				if counts[k] == len(class) {
					continue
				}
				more := slices.Clone(counts)
				more[k]++
				if key := fmt.Sprint(more); !seen[key] {
					seen[key] = true
					next = append(next, more)
				}
			}
		}
		level = next
	}
	slices.SortFunc(out, func(a, b Set) int {
		return cmp.Or(cmp.Compare(c.needed(a), c.needed(b)), cmp.Compare(c.cost(a), c.cost(b)), a.Compare(b))
	})
	return out[:min(most, len(out))]
}

// needed is how many members a set needs.
func (c *Choice) needed(set Set) (n int) {
	needs, _ := c.Needs(set)
	for _, need := range needs {
		n += need
	}
	return n
}

// cost is what the gangs of a set ask for that may be left out.
func (c *Choice) cost(set Set) (n int) {
	for i, g := range c.Gangs {
		if set[i] && g.Open {
			n += g.Cost
		}
	}
	return n
}

func (s *Sets) set(counts []int) Set {
	set := s.of.Nobody()
	for k, class := range s.classes {
		for _, i := range class[:counts[k]] {
			set[i] = true
		}
	}
	return set
}

// within says whether all of a set are in another one.
func (s Set) within(o Set) bool {
	for i := range s {
		if s[i] && !o[i] {
			return false
		}
	}
	return true
}

// reduce takes gangs out of a set, the largest first, and all below a level where none can be
// missed, as long as the rest may run. There is none if not even all may.
func (c *Choice) reduce(set Set, may func(Set) bool) []Set {
	set = c.Lasting(set)
	if !c.holds(set) || !may(set) {
		return nil
	}
	for _, without := range c.Units() {
		less := slices.Clone(set)
		for _, i := range without {
			less[i] = less[i] && !c.Gangs[i].Open
		}
		if c.holds(less) && may(less) {
			set = less
		}
	}
	return []Set{set}
}

// Units are who may be left out, or added, together: those below one level, the largest first, and
// of those the dearest, then each gang.
func (c *Choice) Units() (out [][]int) {
	known := map[string]int{}
	for i, g := range c.Gangs {
		for _, above := range g.Above {
			k, ok := known[above.Name]
			if !ok {
				k = len(out)
				known[above.Name], out = k, append(out, nil)
			}
			out[k] = append(out[k], i)
		}
	}
	size := func(unit []int) (n, cost int) {
		for _, i := range unit {
			n, cost = n+c.Gangs[i].Need, cost+c.Gangs[i].Cost
		}
		return n, cost
	}
	bySize := func(a, b []int) int {
		m, x := size(a)
		n, y := size(b)
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(y, x), slices.Compare(b, a))
	}
	slices.SortFunc(out, bySize)
	var each [][]int
	for i := range c.Gangs {
		each = append(each, []int{i})
	}
	slices.SortFunc(each, bySize)
	return append(out, each...)
}
