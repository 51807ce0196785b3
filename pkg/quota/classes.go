package quota

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Class says how a quota on its path counts a running gang.
type Class uint8

// The classes of a running gang.
const (
	Absent     Class = iota // it uses nothing there.
	Guaranteed              // it fits the quota's min.
	Straddling              // it does not fit, and without it this quota or one below is under its min.
	Borrows                 // without it, and all other borrowing gangs, the quota keeps its min.
)

// classes is the classes of gangs by quota, computed on demand.
type classes struct {
	book    *Book
	byQuota map[int]map[*gang]Class
}

// forget deletes the known classes of the quotas that gang g uses, and of the quotas above.
func (c *classes) forget(g *gang) {
	for _, p := range g.parts {
		for i := p.node; i >= 0; i = c.book.tree.nodes[i].parent {
			delete(c.byQuota, i)
		}
	}
}

// at returns the classes of the gangs below quota i, ordered by: guaranteed in the child quota, priority, age. From the last on, a gang
// borrows if it borrows below and the quota keeps its min without it. From the first on, the other gangs that fit the min are guaranteed.
func (c *classes) at(i int) map[*gang]Class {
	if known := c.byQuota[i]; known != nil {
		return known
	}
	n, out := &c.book.tree.nodes[i], map[*gang]Class{}
	c.byQuota[i] = out
	order := c.order(i)
	above := make(vector, len(n.min))
	for _, h := range order {
		above.add(h.all)
	}
	above.sub(n.min)
	limited := slices.Contains(n.hasMin, true)
	for _, h := range slices.Backward(order) {
		if !h.straddles && !h.gang.fixed && (!limited || h.uses(n.hasMin) && fits(h.all, above, n.hasMin)) {
			out[h.gang] = Borrows
			above.sub(h.all)
		}
	}
	free := slices.Clone(n.min)
	for _, h := range order {
		switch {
		case out[h.gang] == Borrows:
		case limited && fits(h.all, free, n.hasMin):
			out[h.gang] = Guaranteed
			free.sub(h.all)
		default:
			out[h.gang] = Straddling
		}
	}
	return out
}

// gangUse is a gang's use below a quota.
type gangUse struct {
	gang       *gang
	all        vector
	guaranteed bool // in all child quotas
	straddles  bool // in some child quota it does not borrow
}

// uses returns whether a gang uses a named resource.
func (h *gangUse) uses(named []bool) bool {
	for r, n := range h.all {
		if n > 0 && named[r] {
			return true
		}
	}
	return false
}

// order returns the use of the gangs below quota i, in the order in which at guarantees them.
func (c *classes) order(i int) (all []gangUse) {
	known := map[*gang]int{}
	add := func(p *part, guaranteed, straddles bool) {
		at, ok := known[p.gang]
		if !ok {
			at = len(all)
			known[p.gang], all = at, append(all, gangUse{p.gang, make(vector, len(p.bound)), guaranteed, false})
		}
		h := &all[at]
		h.all.add(p.bound)
		h.all.add(p.reserved)
		h.guaranteed, h.straddles = h.guaranteed && guaranteed, h.straddles || straddles
	}
	for _, p := range c.book.accounts[i].parts {
		if p.pods[Bound]+p.pods[Reserved] > 0 {
			add(p, false, false)
		}
	}
	for _, child := range c.book.tree.nodes[i].children {
		for g, class := range c.at(child) {
			for _, p := range g.parts {
				if p.pods[Bound]+p.pods[Reserved] > 0 && c.book.tree.isBelow(p.node, child) {
					add(p, class == Guaranteed, class != Borrows)
				}
			}
		}
	}
	for _, h := range all {
		h.gang.refresh()
	}
	slices.SortFunc(all, func(x, y gangUse) int {
		return cmp.Or(first(x.guaranteed, y.guaranteed), cmp.Compare(y.gang.priority, x.gang.priority),
			cmp.Compare(x.gang.since, y.gang.since), strings.Compare(x.gang.name, y.gang.name))
	})
	return all
}

// first compares two flags: true is before false.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// isBelow returns whether quota i equals above or is below it.
func (t *Tree) isBelow(i, above int) bool {
	for i > above {
		i = t.nodes[i].parent
	}
	return i == above
}

// fits returns whether the amounts of named resources are at most free.
func fits(amounts, free vector, named []bool) bool {
	for r, n := range amounts {
		if named[r] && n > 0 && n > free[r] {
			return false
		}
	}
	return true
}

// Balance is the state of a quota.
type Balance struct {
	Quota                              string
	Path                               []string
	Min, Max                           List
	Used, Reserved, Request, FairShare List
	Fixed                              List // of Used and Reserved, the part that is never evicted
	Share                              Share
	Guaranteed, Borrowing, WaitingHere []string // gangs, by name; waiting gangs only at the quota of their pods
	Broken                             string
}

// Balance returns the state of a quota; ok is false if the quota does not exist.
func (b *Book) Balance(quota string) (balance Balance, ok bool) {
	if balance, ok = b.Sums(quota); !ok {
		return balance, false
	}
	i := b.tree.byName[quota]
	for g, class := range b.class.at(i) {
		if class == Guaranteed {
			balance.Guaranteed = append(balance.Guaranteed, g.name)
		} else {
			balance.Borrowing = append(balance.Borrowing, g.name)
		}
	}
	slices.Sort(balance.Guaranteed)
	slices.Sort(balance.Borrowing)
	for _, p := range b.accounts[i].parts {
		if p.pods[Waiting] > 0 {
			balance.WaitingHere = append(balance.WaitingHere, p.gang.name)
		}
	}
	slices.SortFunc(balance.WaitingHere, strings.Compare)
	return balance, true
}

// Sums is Balance without lists of gangs, which are costly to compute.
func (b *Book) Sums(quota string) (balance Balance, ok bool) {
	i, ok := b.tree.byName[quota]
	if !ok {
		return Balance{}, false
	}
	n, a := &b.tree.nodes[i], &b.accounts[i]
	b.settle(n.top)
	none := make([]bool, len(n.named))
	balance = Balance{
		Quota: n.Name, Path: b.tree.Path(n.Name), Broken: n.broken, Share: b.View().share(i), Min: b.tree.list(n.min, n.hasMin), Max: List{},
		Used: b.tree.list(a.used, n.named), Reserved: b.tree.list(a.reserved, none), Request: b.tree.list(a.request, n.named),
		FairShare: List{}, Fixed: b.tree.list(a.fixed, none),
	}
	for r, name := range b.tree.resources {
		if n.max[r] != math.MaxInt64 {
			balance.Max[name] = n.max[r]
		}
		if n.named[r] && a.fairShare[r] != math.MaxInt64 {
			balance.FairShare[name] = a.fairShare[r]
		}
	}
	return balance, true
}
