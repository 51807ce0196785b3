// Package choice decides which gangs of a group may start without the rest, if the group needs only some of them.
//
// Gangs are the leaves of a tree of levels. Of the children of each level, at least so many start, or none. The topmost level must start.
// A gang starts whole or not at all.
//
//	       root 2              at least two of its three children start
//	    ┌───┼────┐
//	  a 1   b    c 1
//	 ┌─┴─┐       │
//	a0   a1      c0
//
// The package knows numbers, but no members, nodes or callers.
package choice

import "slices"

// Level is a level above a gang: at least Least of its children start, or none.
type Level struct {
	Name  string
	Least int
}

// Gang is one gang of a group.
type Gang struct {
	// Above are the levels above the gang, lowest first; nil if no level counts it.
	Above []Level
	// Open says that the gang may start or be omitted. Other gangs have started, or must start.
	Open    bool
	Need    int // members that must be placed to make it whole
	Members int // pending members
	// Total is the number of the total in Choice.Totals, counted from 1; 0 for none.
	Total int
	// Like is a key that is equal for interchangeable gangs; "" is unique. Of interchangeable gangs, the first are taken.
	Like string
	// Cost is the amount that the gang requests, in any unit. Among sets with equally many members, lower cost is easier. It may be 0.
	Cost int
}

// Choice is the gangs of a group, of which some may be omitted.
type Choice struct {
	Gangs []Gang
	// Totals are the members to place in all gangs of each total.
	Totals []int
}

// Set says for each gang whether it takes part in a plan. Gangs that are not open always do.
type Set []bool

// Any returns whether some gang may be omitted; false for a nil Choice.
func (c *Choice) Any() bool {
	return c != nil && slices.ContainsFunc(c.Gangs, func(g Gang) bool { return g.Open })
}

// Holds returns whether the gangs of a set may run without the other gangs. Each level must have enough children in the set, or none; the
// topmost must have enough. Member counts are not checked.
func (c *Choice) Holds(set Set) bool {
	t := c.levels(set)
	for _, l := range t {
		if n := len(l.running); n < l.least && (n > 0 || l.top) {
			return false
		}
	}
	return true
}

// level is a level with its children in a set.
type level struct {
	least   int
	top     bool
	running map[child]bool // children in the set, or with gangs in it
}

// child is a child of a level: another level, or a gang.
type child struct {
	level string
	gang  int
}

// levels returns each level by name, with its children that are in the set or have gangs in it.
func (c *Choice) levels(set Set) map[string]*level {
	t := map[string]*level{}
	for i, g := range c.Gangs {
		lower := child{gang: i}
		for k, above := range g.Above {
			l := t[above.Name]
			if l == nil {
				l = &level{running: map[child]bool{}}
				t[above.Name] = l
			}
			l.least, l.top = above.Least, k == len(g.Above)-1
			if set[i] {
				l.running[lower] = true
			}
			lower = child{level: above.Name}
		}
	}
	return t
}

// Sustainable returns a copy of the set without the open gangs below a level that has too few children in the set. The topmost level does
// not count. This is repeated until nothing changes.
func (c *Choice) Sustainable(set Set) Set {
	out := append(Set(nil), set...)
	for changed := true; changed; {
		changed = false
		t := c.levels(out)
		for i, g := range c.Gangs {
			for _, above := range g.Above {
				if l := t[above.Name]; out[i] && g.Open && !l.top && len(l.running) < l.least {
					out[i], changed = false, true
				}
			}
		}
	}
	return out
}

// Requires returns whether no other gangs suffice without gang i. It is true for every gang of a nil Choice.
func (c *Choice) Requires(i int) bool {
	if !c.Any() {
		return true
	}
	others := c.All()
	others[i] = false
	_, ok := c.Needs(others)
	return !ok
}

// continuesStarted returns whether a set has only started gangs, with pending members. These may be placed even if levels lack gangs.
func (c *Choice) continuesStarted(set Set) bool {
	pending := false
	for i, g := range c.Gangs {
		if g.Open && set[i] {
			return false
		}
		pending = pending || !g.Open && len(g.Above) > 0 && g.Members > 0
	}
	return pending && len(c.Totals) == 0
}

// Needs returns how many members of each gang must be placed for a set, 0 for gangs outside of it; ok is false if the set is invalid or has
// too few members. Members of started gangs may be placed alone. If a total exceeds the needs of its gangs, the excess is assigned to gangs
// without levels first, then to the others in order.
func (c *Choice) Needs(set Set) (needs []int, ok bool) {
	if !c.Holds(set) && !c.continuesStarted(set) {
		return nil, false
	}
	needs = make([]int, len(c.Gangs))
	missing := append([]int(nil), c.Totals...)
	for i, g := range c.Gangs {
		switch {
		case !set[i]:
			continue
		case !g.eligible():
			return nil, false
		}
		needs[i] = g.Need
		if g.Total > 0 {
			missing[g.Total-1] -= g.Need
		}
	}
	for _, withoutLevel := range []bool{true, false} {
		for i, g := range c.Gangs {
			if g.Total == 0 || !set[i] || withoutLevel != (len(g.Above) == 0) || missing[g.Total-1] <= 0 {
				continue
			}
			more := min(missing[g.Total-1], g.Members-g.Need)
			needs[i] += max(0, more)
			missing[g.Total-1] -= max(0, more)
		}
	}
	for _, n := range missing {
		if n > 0 {
			return nil, false
		}
	}
	return needs, true
}

// Members returns the number of pending members of a set's gangs, needed or not.
func (c *Choice) Members(set Set) (n int) {
	for i, g := range c.Gangs {
		if set[i] {
			n += g.Members
		}
	}
	return n
}

// eligible returns whether a gang can take part in a set: an open gang must have as many pending members as it needs.
func (g *Gang) eligible() bool { return !g.Open || g.Members >= g.Need }

// All returns the set of all eligible gangs.
func (c *Choice) All() Set {
	set := make(Set, len(c.Gangs))
	for i := range c.Gangs {
		set[i] = c.Gangs[i].eligible()
	}
	return set
}

// Mandatory returns the set of the gangs that are not open.
func (c *Choice) Mandatory() Set {
	set := make(Set, len(c.Gangs))
	for i, g := range c.Gangs {
		set[i] = !g.Open
	}
	return set
}
