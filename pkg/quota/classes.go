package quota

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Class is what a running gang is to a quota on its path.
type Class uint8

const (
	Absent     Class = iota // it has nothing there
	Guaranteed              // it fits the quota's min
	Straddles               // it does not, and without it the quota has less than its min, or a quota below has
	Borrows                 // without it, and without all other gangs that borrow, the quota still has its min
)

// classes are what gangs are to the quotas of a tree, each worked out when it is asked for.
type classes struct {
	book *Book
	of   map[int]map[*gang]Class
}

// forget says that something has changed of a gang.
func (c *classes) forget(g *gang) {
	for _, p := range g.parts {
		for i := p.node; i >= 0; i = c.book.tree.nodes[i].parent {
			delete(c.of, i)
		}
	}
}

// at sorts the gangs that have something below a quota. Those that are guaranteed in the quota next below on their
// path come first, then by priority, then the gang that runs longest. From the last one on, the gangs borrow that borrow below, too, and leave the
// quota its min. Of the others those are guaranteed, from the first on, that fit its min.
func (c *classes) at(i int) map[*gang]Class {
	if known := c.of[i]; known != nil {
		return known
	}
	n, out := &c.book.tree.nodes[i], map[*gang]Class{}
	c.of[i] = out
	order := c.order(i)
	above := make(vector, len(n.min))
	for _, h := range order {
		above.add(h.all)
	}
	above.sub(n.min)
	limited := slices.Contains(n.hasMin, true)
	for _, h := range slices.Backward(order) {
		if !h.kept && !h.gang.fixed && (!limited || h.has(n.hasMin) && fits(h.all, above, n.hasMin)) {
			out[h.gang] = Borrows
			above.sub(h.all)
		}
	}
	left := slices.Clone(n.min)
	for _, h := range order {
		switch {
		case out[h.gang] == Borrows:
		case limited && fits(h.all, left, n.hasMin):
			out[h.gang] = Guaranteed
			left.sub(h.all)
		default:
			out[h.gang] = Straddles
		}
	}
	return out
}

// holder is what a gang has below a quota.
type holder struct {
	gang *gang
	all  vector
	sure bool // it is guaranteed in all quotas next below
	kept bool // it does not borrow in one of them
}

// has says whether a gang has something of what is named.
func (h *holder) has(named []bool) bool {
	for r, n := range h.all {
		if n > 0 && named[r] {
			return true
		}
	}
	return false
}

// order lists who has something below a quota, in the order in which they are guaranteed.
func (c *classes) order(i int) (all []holder) {
	known := map[*gang]int{}
	add := func(p *part, sure, kept bool) {
		at, ok := known[p.gang]
		if !ok {
			at = len(all)
			known[p.gang], all = at, append(all, holder{p.gang, make(vector, len(p.hold)), sure, false})
		}
		h := &all[at]
		h.all.add(p.hold)
		h.all.add(p.keeps)
		h.sure, h.kept = h.sure && sure, h.kept || kept
	}
	for _, p := range c.book.accounts[i].parts {
		if p.pods[Holds]+p.pods[Keeps] > 0 {
			add(p, false, false)
		}
	}
	for _, child := range c.book.tree.nodes[i].children {
		for g, class := range c.at(child) {
			for _, p := range g.parts {
				if p.pods[Holds]+p.pods[Keeps] > 0 && c.book.tree.isBelow(p.node, child) {
					add(p, class == Guaranteed, class != Borrows)
				}
			}
		}
	}
	for _, h := range all {
		h.gang.facts()
	}
	slices.SortFunc(all, func(x, y holder) int {
		return cmp.Or(first(x.sure, y.sure), cmp.Compare(y.gang.priority, x.gang.priority), cmp.Compare(x.gang.since, y.gang.since), strings.Compare(x.gang.name, y.gang.name))
	})
	return all
}

// first orders those of whom something is true before the others.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// isBelow says whether a quota is another one, or below it.
func (t *Tree) isBelow(i, above int) bool {
	for i > above {
		i = t.nodes[i].parent
	}
	return i == above
}

// fits says whether amounts are no more than what is left, of what is named.
func fits(amounts, left vector, named []bool) bool {
	for r, n := range amounts {
		if named[r] && n > 0 && n > left[r] {
			return false
		}
	}
	return true
}

// Class says what a gang is to a quota.
func (b *Book) Class(gang, quota string) Class {
	i, ok := b.tree.byName[quota]
	if !ok {
		return Absent
	}
	if g := b.gangs[gang]; g != nil {
		return b.class.at(i)[g]
	}
	return Absent
}

// Balance is what a quota has at one moment.
type Balance struct {
	Quota                              string
	Path                               []string
	Min, Max                           List
	Used, Reserved, Request, Entitled  List
	Fixed                              List // of Used and Reserved, what is never evicted
	Share                              Share
	Guaranteed, Borrowing, WaitingHere []string // gangs, by name; those that wait only where pods name the quota
	Broken                             string
}

// Balance says what a quota has.
func (b *Book) Balance(quota string) (is Balance, ok bool) {
	if is, ok = b.Sums(quota); !ok {
		return is, false
	}
	i := b.tree.byName[quota]
	for g, class := range b.class.at(i) {
		if class == Guaranteed {
			is.Guaranteed = append(is.Guaranteed, g.name)
		} else {
			is.Borrowing = append(is.Borrowing, g.name)
		}
	}
	slices.Sort(is.Guaranteed)
	slices.Sort(is.Borrowing)
	for _, p := range b.accounts[i].parts {
		if p.pods[Waits] > 0 {
			is.WaitingHere = append(is.WaitingHere, p.gang.name)
		}
	}
	slices.SortFunc(is.WaitingHere, strings.Compare)
	return is, true
}

// Sums is Balance without gangs, which costs less than to sort them.
func (b *Book) Sums(quota string) (is Balance, ok bool) {
	i, ok := b.tree.byName[quota]
	if !ok {
		return Balance{}, false
	}
	n, a := &b.tree.nodes[i], &b.accounts[i]
	b.settle(n.top)
	none := make([]bool, len(n.named))
	is = Balance{
		Quota: n.Name, Path: b.tree.Path(n.Name), Broken: n.broken, Share: b.View().share(i), Min: b.tree.list(n.min, n.hasMin), Max: List{},
		Used: b.tree.list(a.used, n.named), Reserved: b.tree.list(a.reserved, none), Request: b.tree.list(a.request, n.named),
		Entitled: List{}, Fixed: b.tree.list(a.fixed, none),
	}
	for r, name := range b.tree.resources {
		if n.max[r] != math.MaxInt64 {
			is.Max[name] = n.max[r]
		}
		if n.named[r] && a.entitled[r] != math.MaxInt64 {
			is.Entitled[name] = a.entitled[r]
		}
	}
	return is, true
}
