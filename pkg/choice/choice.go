// Package choice says which gangs of a group may start without the others, where a group
// needs only some of them.
//
// Gangs hang in a tree. Of the children of each level so many start, or none of them does;
// of those of the topmost level never none. A gang starts whole or not at all.
//
//	       root 2              of its three children two start at least
//	    ┌───┼────┐
//	  a 1   b    c 1
//	 ┌─┴─┐       │
//	a0   a1      c0
//
// The package knows numbers only: neither members nor places, nor who asks.
package choice

// Level is one of those above a gang: at least so many of its children start, or none.
type Level struct {
	Name  string
	Least int
}

// Gang is one gang of a group.
type Gang struct {
	// Above are the levels above it, from the next one up; nil if there is none: then it is
	// not counted.
	Above []Level
	// Open says that it may start, or be left out. The others have started, or must start
	// whatever is chosen.
	Open    bool
	Need    int // so many members must be placed for it to be whole
	Members int // so many wait
	// Total is which of Choice.Totals it counts for, from 1; 0 is none.
	Total int
	// Like is the same for gangs that differ in nothing that a plan must know; "" is like
	// nobody. Of gangs that are alike the first are taken.
	Like string
	// Cost is how much it asks for, in whatever unit: of sets that need as many members those that cost
	// least are the easier ones. It may be left out.
	Cost int
}

// Choice is the gangs of a group of which some may be left out.
type Choice struct {
	Gangs []Gang
	// Totals are how many members must be placed in all of the gangs that count for one.
	Totals []int
}

// Set says of each gang whether it takes part in a plan. Those that are not open do.
type Set []bool

// Any says whether a gang may be left out: if none may, there is no choice.
func (c *Choice) Any() bool {
	if c == nil {
		return false
	}
	for _, g := range c.Gangs {
		if g.Open {
			return true
		}
	}
	return false
}

// Holds says whether the gangs of a set may run without the others.
func (c *Choice) Holds(set Set) bool {
	t := c.tree(set)
	for _, l := range t {
		if n := len(l.run); n < l.least && (n > 0 || l.top) {
			return false
		}
	}
	return true
}

// level is what a set makes of a level.
type level struct {
	least int
	top   bool
	run   map[child]bool // children of which anybody runs
}

// child is one of a level: another one, or a gang.
type child struct {
	level string
	gang  int
}

func (c *Choice) tree(set Set) map[string]*level {
	t := map[string]*level{}
	for i, g := range c.Gangs {
		below := child{gang: i}
		for k, above := range g.Above {
			l := t[above.Name]
			if l == nil {
				l = &level{run: map[child]bool{}}
				t[above.Name] = l
			}
			l.least, l.top = above.Least, k == len(g.Above)-1
			if set[i] {
				l.run[below] = true
			}
			below = child{level: above.Name}
		}
	}
	return t
}

// Lasting leaves out of a set who cannot run in any part of it, since a level below the topmost
// has too few.
func (c *Choice) Lasting(set Set) Set {
	out := append(Set(nil), set...)
	for again := true; again; {
		again = false
		t := c.tree(out)
		for i, g := range c.Gangs {
			for _, above := range g.Above {
				if l := t[above.Name]; out[i] && g.Open && !l.top && len(l.run) < l.least {
					out[i], again = false, true
				}
			}
		}
	}
	return out
}

// goOn says that in a set only those take part who have started, and that some of their members
// wait: those follow, whatever became of gangs that the levels above them miss.
func (c *Choice) goOn(set Set) bool {
	waits := false
	for i, g := range c.Gangs {
		if g.Open && set[i] {
			return false
		}
		waits = waits || !g.Open && len(g.Above) > 0 && g.Members > 0
	}
	return waits && len(c.Totals) == 0
}

// Needs is how many members of each gang must be placed where a set takes part; ok is false if
// it may not, or if there are not as many. Of gangs that have started members may follow alone. What a total asks for beyond the gangs' own needs is asked
// of those first that are below no level, then of the others in order.
func (c *Choice) Needs(set Set) (needs []int, ok bool) {
	if !c.Holds(set) && !c.goOn(set) {
		return nil, false
	}
	needs = make([]int, len(c.Gangs))
	left := append([]int(nil), c.Totals...)
	for i, g := range c.Gangs {
		switch {
		case !set[i]:
			continue
		case !g.may():
			return nil, false
		}
		needs[i] = g.Need
		if g.Total > 0 {
			left[g.Total-1] -= g.Need
		}
	}
	for _, bare := range []bool{true, false} {
		for i, g := range c.Gangs {
			if g.Total == 0 || !set[i] || bare != (len(g.Above) == 0) || left[g.Total-1] <= 0 {
				continue
			}
			more := min(left[g.Total-1], g.Members-g.Need)
			needs[i] += max(0, more)
			left[g.Total-1] -= max(0, more)
		}
	}
	for _, n := range left {
		if n > 0 {
			return nil, false
		}
	}
	return needs, true
}

// Members is how many members of a set wait.
func (c *Choice) Members(set Set) (n int) {
	for i, g := range c.Gangs {
		if set[i] {
			n += g.Members
		}
	}
	return n
}

// may says whether a gang can take part: an open one whose members are too few cannot.
func (g *Gang) may() bool { return !g.Open || g.Members >= g.Need }

// All is the set of all who can take part.
func (c *Choice) All() Set {
	set := make(Set, len(c.Gangs))
	for i := range c.Gangs {
		set[i] = c.Gangs[i].may()
	}
	return set
}

// Nobody is the set of those who are not open.
func (c *Choice) Nobody() Set {
	set := make(Set, len(c.Gangs))
	for i, g := range c.Gangs {
		set[i] = !g.Open
	}
	return set
}
