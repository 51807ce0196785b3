package choice

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Sets is an iterator over the valid sets of gangs: most members first, then first gangs first. Interchangeable gangs are taken in order.
// If the started gangs have pending members, and alone do not reach the minimum of their levels, their set is the last.
type Sets struct {
	choice  *Choice
	classes [][]int // interchangeable gangs, in order
	tries   int
	queue   queue
	started bool // the set of the started gangs was yielded, is in the queue, or is invalid
}

// Sets returns an iterator over the valid sets. It examines at most tries sets, valid or not.
func (c *Choice) Sets(tries int) *Sets {
	s := &Sets{choice: c, classes: c.classes(), tries: tries}
	all := make([]int, len(s.classes))
	for k, class := range s.classes {
		all[k] = len(class)
	}
	s.push(all, 0)
	s.started = !c.continuesStarted(c.Mandatory()) || c.Holds(c.Mandatory())
	return s
}

// Next returns the next set; nil if there is none. The limit does not apply to the set of the started gangs.
func (s *Sets) Next() Set {
	for len(s.queue) > 0 && s.tries > 0 {
		s.tries--
		p := heap.Pop(&s.queue).(part)
		for k := p.from; k < len(s.classes); k++ {
			if p.counts[k] > 0 {
				smaller := slices.Clone(p.counts)
				smaller[k]--
				s.push(smaller, k)
			}
		}
		if s.choice.valid(p.set) {
			return p.set
		}
	}
	if !s.started {
		s.started = true
		return s.choice.Mandatory()
	}
	return nil
}

// valid returns whether a set may run without the rest and has the members that it needs.
func (c *Choice) valid(set Set) bool {
	_, ok := c.Needs(set)
	return ok && c.Holds(set)
}

// Incomplete returns whether some sets were not examined.
func (s *Sets) Incomplete() bool { return len(s.queue) > 0 }

// push adds the set with so many gangs of each class to the queue, unless neither it nor any subset is valid. Its subsets will omit gangs
// only of classes number from and later, so each set appears once.
func (s *Sets) push(counts []int, from int) {
	set := s.set(counts)
	if s.choice.valid(s.choice.Sustainable(set)) {
		heap.Push(&s.queue, part{counts, from, set, s.choice.Members(set)})
	}
}

// classes returns the eligible open gangs as indexes, grouped into classes of interchangeable gangs on the same levels.
func (c *Choice) classes() (out [][]int) {
	known := map[string]int{}
	for i, g := range c.Gangs {
		if !g.Open || !g.eligible() {
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

// part is a set in the queue.
type part struct {
	counts  []int // gangs in the set, by class
	from    int   // see push
	set     Set
	members int
}

// Compare returns -1 if s contains the first gang in which the sets differ, 1 if o does, 0 if they are equal. Both must have equal lengths.
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

// queue is a heap of parts, most members first.
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

// Least returns up to most minimal sets that satisfy allowed (nil allows all): fewest members first, then lowest cost, then first gangs.
// After tries examined sets it returns one set from which no unit can be removed; nil if the set of all gangs is not allowed.
func (c *Choice) Least(most, tries int, allowed func(Set) bool) (out []Set) {
	if allowed == nil {
		allowed = func(Set) bool { return true }
	}
	s := &Sets{choice: c, classes: c.classes()}
	level := [][]int{make([]int, len(s.classes))}
	seen := map[string]bool{}
	for len(level) > 0 {
		var next [][]int
		for _, counts := range level {
			if tries--; tries < 0 {
				return c.reduce(c.All(), allowed)
			}
			set := s.set(counts)
			if slices.ContainsFunc(out, func(smaller Set) bool { return smaller.subsetOf(set) }) {
				continue
			}
			if c.valid(set) && allowed(set) {
				out = append(out, set)
				continue
			}
			for k, class := range s.classes {
				if counts[k] == len(class) {
					continue
				}
				larger := slices.Clone(counts)
				larger[k]++
				if key := fmt.Sprint(larger); !seen[key] {
					seen[key] = true
					next = append(next, larger)
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

// needed returns the number of members that must be placed for a set.
func (c *Choice) needed(set Set) (n int) {
	needs, _ := c.Needs(set)
	for _, need := range needs {
		n += need
	}
	return n
}

// cost returns the cost of the open gangs of a set.
func (c *Choice) cost(set Set) (n int) {
	for i, g := range c.Gangs {
		if set[i] && g.Open {
			n += g.Cost
		}
	}
	return n
}

// set returns the set of the mandatory gangs and the first counts[k] gangs of each class k.
func (s *Sets) set(counts []int) Set {
	set := s.choice.Mandatory()
	for k, class := range s.classes {
		for _, i := range class[:counts[k]] {
			set[i] = true
		}
	}
	return set
}

// subsetOf returns whether o contains all of s.
func (s Set) subsetOf(o Set) bool {
	for i := range s {
		if s[i] && !o[i] {
			return false
		}
	}
	return true
}

// reduce removes units from a set, largest first, as long as the remaining set is valid and allowed. It returns the result as a list; nil
// if the whole set is not valid and allowed.
func (c *Choice) reduce(set Set, allowed func(Set) bool) []Set {
	set = c.Sustainable(set)
	if !c.valid(set) || !allowed(set) {
		return nil
	}
	for _, unit := range c.Units() {
		smaller := slices.Clone(set)
		for _, i := range unit {
			smaller[i] = smaller[i] && !c.Gangs[i].Open
		}
		if c.valid(smaller) && allowed(smaller) {
			set = smaller
		}
	}
	return []Set{set}
}

// Units returns gangs, as indexes, to omit or add together: the gangs below each level, then each gang by itself. Each of the two lists
// starts with the units with most needed members, then the most expensive. Units overlap.
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
	var single [][]int
	for i := range c.Gangs {
		single = append(single, []int{i})
	}
	slices.SortFunc(single, bySize)
	return append(out, single...)
}
