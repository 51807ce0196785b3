package quota

import (
	"maps"
	"math"
	"slices"
)

// Gains tells those who wait that more may be evicted for them than when it was looked last, or when they were tried since. The zero value has
// looked at nothing.
//
// It compares quotas, not gangs with gangs: of each quota who may leave and what it has too much is looked at once for all who wait, and again only
// if it has changed. Of who waits is known no more than where on the way up from its quotas it may take back what others borrow.
type Gains struct {
	yields  map[string]*yield  // by quota
	rights  map[string]footing // by what is asked for
	changes uint64             // of the book, when excesses were lowered last
}

// yield is what may be taken back of one quota.
type yield struct {
	version  uint64 // of what it was found out; 0 if it is to be found out anew
	stirred  uint64
	borrow   leavers
	own      leavers // who may leave for others of the same quota
	excess   List
	moreThen moreThan
}

// moreThan is what is new in a yield: of who is new, the lowest priority, and the resources of which it has more than it had.
type moreThan struct {
	borrow, own int64
	excess      map[string]bool
}

// leavers are gangs that may leave, with their priorities, and the lowest of these.
type leavers struct {
	is    map[string]int32
	least int64
}

// nobody is a priority that no gang is below.
const nobody = math.MaxInt64

// footing is the right to what others borrow, by quota on the way up from those that are asked; nil if nobody who leaves helps.
type footing map[string]Right

// Look compares a book with what it was when it was looked last. It is for as long as the book does not change.
type Look struct {
	book   *Book
	policy Policy
	was    map[string]footing
	now    map[string]footing
	of     []*yield // by node
	known  map[string]bool
}

// Look begins to look. Whoever is not asked about (More) is forgotten.
func (g *Gains) Look(b *Book, p Policy) *Look {
	l := &Look{book: b, policy: p, was: g.rights, now: map[string]footing{}, known: map[string]bool{}}
	yields := make(map[string]*yield, len(b.tree.nodes))
	for i := range b.tree.nodes {
		name := b.tree.nodes[i].Name
		y := g.yields[name].next(b, i)
		l.of, yields[name] = append(l.of, y), y
	}
	g.yields, g.rights, g.changes = yields, l.now, b.changes
	return l
}

// next is what may be taken back of a quota now.
func (y *yield) next(b *Book, node int) *yield {
	name := b.tree.nodes[node].Name
	version, stirred := b.Version(name), b.accounts[node].stirred
	if y != nil && y.version == version && version != 0 && y.stirred == stirred {
		y.moreThen = moreThan{borrow: nobody, own: nobody}
		return y
	}
	if y == nil {
		y = &yield{}
	}
	is := &yield{version: version, stirred: stirred, excess: b.Excess(name)}
	is.borrow, is.own = leavers{map[string]int32{}, nobody}, leavers{map[string]int32{}, nobody}
	if b.tree.nodes[node].parent >= 0 { // nobody is beside the others
		for g, class := range b.class.at(node) {
			if class == Borrows {
				is.borrow.add(b, g)
			}
		}
	}
	for _, p := range b.accounts[node].parts {
		if p.pods[Holds]+p.pods[Keeps] > 0 {
			is.own.add(b, p.gang)
		}
	}
	is.moreThen = moreThan{is.borrow.leastNew(y.borrow), is.own.leastNew(y.own), map[string]bool{}}
	for what, n := range is.excess {
		if n > y.excess[what] {
			is.moreThen.excess[what] = true
		}
	}
	return is
}

// add adds a gang, if it ever leaves for others.
func (l *leavers) add(b *Book, g *gang) {
	if g.facts(); b.mayLeave(g) {
		l.is[g.name], l.least = g.priority, min(l.least, int64(g.priority))
	}
}

func (b *Book) mayLeave(g *gang) bool {
	return !g.fixed && !slices.ContainsFunc(g.parts, func(p *part) bool {
		n := &b.tree.nodes[p.node]
		return p.pods[Holds]+p.pods[Keeps] > 0 && (n.Spared || n.broken != "")
	})
}

// leastNew is the lowest priority of those who may leave now and might not before, or not for as many.
func (l leavers) leastNew(was leavers) (least int64) {
	least = nobody
	for name, priority := range l.is {
		if before, known := was.is[name]; !known || priority < before {
			least = min(least, int64(priority))
		}
	}
	return least
}

// More says whether more may be evicted for somebody who waits than before; what is equal for those who ask for the same.
func (l *Look) More(what string, a Ask) bool {
	if is, known := l.known[what]; known {
		return is
	}
	r := l.book.Reclaim(a, l.policy)
	was, now := l.was[what], r.footing()
	l.now[what] = now
	l.known[what] = now != nil && (l.moreOwn(r, was == nil) || l.moreOthers(r, was, now))
	return l.known[what]
}

// moreOwn says whether more of lower priority may leave of the quotas that are asked; anew that none counts who might before.
func (l *Look) moreOwn(r *Reclaim, anew bool) bool {
	for _, leaf := range r.leaves() {
		y := l.of[leaf]
		if y.moreThen.own < int64(r.ask.Priority) || anew && y.own.least < int64(r.ask.Priority) {
			return true
		}
	}
	return false
}

// moreOthers says whether more of those may leave who borrow of others.
func (l *Look) moreOthers(r *Reclaim, was, now footing) bool {
	t := l.book.tree
	below := int64(nobody) // whom it is right to evict
	if l.policy == LowerPriority {
		below = int64(r.ask.Priority)
	}
	for name, right := range now {
		mine := t.byName[name]
		for _, others := range t.nodes[t.nodes[mine].parent].children {
			y := l.of[others]
			if others == mine || y.borrow.least >= below {
				continue
			}
			anew := was[name] == None || right == ByMin && was[name] == ByShares || y.moreThen.borrow < below
			if right == ByMin && anew || right == ByShares && r.anyOf(mine, func(of string) bool { return y.excess[of] > 0 && (anew || y.moreThen.excess[of]) }) {
				return true
			}
		}
	}
	return false
}

// leaves are the quotas that members name.
func (r *Reclaim) leaves() (nodes []int) {
	for _, at := range r.load.at {
		if at.node == at.leaf {
			nodes = append(nodes, at.leaf)
		}
	}
	return nodes
}

// footing is where those who ask may take back what others borrow: if these have too much where it is by shares.
func (r *Reclaim) footing() footing {
	if _, helps := r.Shorts(); !helps {
		return nil
	}
	f, t := footing{}, r.book.tree
	if r.policy == Never {
		return f
	}
	for _, leaf := range r.leaves() {
		for i := leaf; t.nodes[i].parent >= 0; i = t.nodes[i].parent {
			switch {
			case r.within(i):
				f[t.nodes[i].Name] = ByMin
			case r.book.Runtime && r.staysEntitled(i, r.load.view):
				f[t.nodes[i].Name] = ByShares
			}
		}
	}
	return f
}

// anyOf says whether something is true of a resource that is asked for and that a quota names.
func (r *Reclaim) anyOf(node int, is func(resource string) bool) bool {
	for d, wants := range r.load.top(node).all {
		if wants > 0 && r.book.tree.nodes[node].named[d] && is(r.book.tree.resources[d]) {
			return true
		}
	}
	return false
}

// Tried notes that somebody is tried for what he asks for: he has seen what is true now, and if that is less than when it was looked last then it is
// more when it is as much again.
func (g *Gains) Tried(b *Book, what string, a Ask, p Policy) {
	g.Seen(b)
	now := b.Reclaim(a, p).footing()
	was, known := g.rights[what]
	if known && now != nil {
		maps.DeleteFunc(now, func(name string, _ Right) bool { return was[name] == None })
		for name := range now {
			now[name] = max(now[name], was[name]) // by shares is less than by min
		}
	}
	if g.rights == nil {
		g.rights = map[string]footing{}
	}
	if g.rights[what] = now; known && was == nil {
		g.rights[what] = nil
	}
}

// Seen notes that somebody sees what is true now.
func (g *Gains) Seen(b *Book) {
	if g.changes == b.changes {
		return
	}
	g.changes = b.changes
	for name, y := range g.yields {
		if len(y.excess) == 0 {
			continue
		}
		now := b.Excess(name)
		for what, n := range y.excess {
			if now[what] < n {
				y.excess[what], y.version = now[what], 0
			}
		}
	}
}
