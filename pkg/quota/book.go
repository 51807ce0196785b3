package quota

import (
	"maps"
	"math"
	"slices"
)

// State is what a pod has of its quota.
type State uint8

const (
	Waits State = iota // it has nothing, and asks for its amounts
	Keeps              // a place is kept for it
	Holds              // it is bound
)

// Pod is a pod as quotas see it.
type Pod struct {
	Name  string
	Gang  string // who is admitted with it; its own name if it is alone
	Quota string
	// Asks is what it takes. The list is shared, and must not change.
	Asks  List
	State State
	// Since is when it was bound, or got its place, in Unix nanoseconds.
	Since    int64
	Priority int32
	// Fixed pods are never evicted, so they never borrow.
	Fixed bool
}

// Book knows who has how much. The zero value is not usable; call NewBook.
type Book struct {
	// Runtime says that quotas are entitled to what they divide; otherwise each may have its max. ScaleMin says that
	// mins that are more than there is are cut in proportion.
	Runtime, ScaleMin bool

	tree   *Tree
	totals map[string]List // by top
	pods   map[string]*Pod
	away   map[string]bool // of pods, who is gone in this copy of a book; see Without
	gangs  map[string]*gang
	passed map[string]bool     // gangs that wait, and cannot start now for other reasons than quota
	groups map[string][]string // gangs that start together, by each of them
	claims map[string]*claim
	turns  int // of claims

	accounts []account // by node of the tree
	class    *classes  // as far as they are known
	version  uint64    // the last that an account has
	changes  uint64    // how often anything was changed
}

// gang is the pods that are admitted together.
type gang struct {
	name     string
	priority int32
	since    int64 // when the first of it got its place; math.MaxInt64 if nobody has one
	fixed    bool
	stale    bool // what is above is out of date
	pods     map[string]*Pod
	parts    []*part // by node
}

// part is what a gang has of one quota that pods name.
type part struct {
	gang               *gang
	node               int
	waits, keeps, hold vector
	fixed              vector // of pods that have a place, and never leave
	least              vector // of those who wait, what the gang cannot do without; nil is all
	pods               [3]int // by state
}

// account is what is known of a quota.
type account struct {
	used, reserved, fixed vector // of all pods below
	pods                  int    // that have a place
	parts                 []*part
	asked                 vector // what its own parts take, and ask for
	starters              int    // its own gangs that wait, and are not passed
	since                 int64  // when it was served last
	version               uint64 // of what it has, asks for and is entitled to
	// more is the version since which the quota has more, or is entitled to less: more of it may be evicted. less is the version since which it has
	// less, or is entitled to more: more may be evicted for it.
	more, less uint64

	// What follows is derived, see settle.
	dirty    bool   // it is out of date, here or below
	request  vector // what is asked for or taken, at most max
	idle     vector // of min, what nobody uses and nobody is lent
	waiting  int    // starters, here and below
	entitled vector
}

// NewBook returns the book of a tree in which nobody has anything.
func NewBook(t *Tree) *Book {
	b := &Book{
		Runtime: true, ScaleMin: true,
		totals: map[string]List{}, pods: map[string]*Pod{}, gangs: map[string]*gang{}, passed: map[string]bool{}, groups: map[string][]string{}, claims: map[string]*claim{},
	}
	b.plant(t)
	return b
}

// Replant returns the book with another tree, to be used from now on. Everybody has what they had; pods of quotas that there are no
// more have no quota until they are set again. Views and searches that have begun go on with the tree that they began with.
func (b *Book) Replant(t *Tree) *Book {
	is := NewBook(t)
	is.Runtime, is.ScaleMin, is.version = b.Runtime, b.ScaleMin, is.version+b.version
	is.turns = b.turns
	is.totals, is.pods, is.passed, is.groups = maps.Clone(b.totals), maps.Clone(b.pods), maps.Clone(b.passed), maps.Clone(b.groups)
	for i := range is.accounts {
		is.touch(i)
		is.accounts[i].more, is.accounts[i].less = is.version, is.version
	}
	for _, name := range slices.Sorted(maps.Keys(is.pods)) {
		is.count(is.pods[name], 1)
	}
	for _, name := range slices.Sorted(maps.Keys(b.claims)) {
		c := *b.claims[name]
		is.claim(&c)
	}
	return is
}

func (b *Book) plant(t *Tree) {
	b.tree, b.accounts, b.class = t, make([]account, len(t.nodes)), &classes{b, map[int]map[*gang]Class{}}
	size := len(t.resources)
	for i := range b.accounts {
		a := &b.accounts[i]
		a.dirty = true
		b.touch(i)
		a.more, a.less = b.version, b.version
		for _, v := range []*vector{&a.used, &a.reserved, &a.fixed, &a.asked, &a.request, &a.idle, &a.entitled} {
			*v = make(vector, size)
		}
	}
}

// touch notes that something else is true of a quota.
func (b *Book) touch(i int) {
	b.version++
	b.accounts[i].version = b.version
}

// Version is another number whenever a quota has, asks for or is entitled to something else than before; 0 if there is no such quota.
func (b *Book) Version(quota string) uint64 {
	i, ok := b.tree.byName[quota]
	if !ok {
		return 0
	}
	b.settle(b.tree.nodes[i].top)
	return b.accounts[i].version
}

// Changes is another number whenever anything has changed that the book was told.
func (b *Book) Changes() uint64 { return b.changes }

// Tree returns the quotas of the book.
func (b *Book) Tree() *Tree { return b.tree }

// Total says how much there is for the tree with that top. What it does not name is without end.
func (b *Book) Total(top string, l List) {
	b.changes++
	b.totals[top] = l
	if i, ok := b.tree.byName[top]; ok {
		b.accounts[i].dirty = true
	}
}

// Set says how a pod is now.
func (b *Book) Set(p Pod) {
	if was := b.pods[p.Name]; was != nil {
		if was.equal(&p) {
			return
		}
		defer b.stir(was, &p)
		defer b.tidy(b.count(was, -1)) // what is known of its gang lasts if this is all of it
	} else {
		defer b.stir(nil, &p)
	}
	b.pods[p.Name] = &p
	b.count(&p, 1)
}

// equal returns whether two pods are the same to quotas.
func (p *Pod) equal(o *Pod) bool {
	return o.State == p.State && o.Quota == p.Quota && o.Gang == p.Gang && o.Since == p.Since &&
		o.Priority == p.Priority && o.Fixed == p.Fixed && maps.Equal(o.Asks, p.Asks)
}

// stir notes of which quotas more may be evicted, and for which, since a pod has changed: its gang may borrow now, or be evicted now, wherever it
// has something. A quota above others may have more gangs that borrow also when a pod below it terminates. nil is a pod that is not there.
func (b *Book) stir(was, is *Pod) {
	for _, p := range []*Pod{was, is} {
		if p == nil {
			continue
		}
		i, known := b.tree.byName[p.Quota]
		if known && p.State != Waits {
			for at := i; at >= 0; at = b.tree.nodes[at].parent {
				b.touch(at)
				a := &b.accounts[at]
				if p == was {
					a.less = b.version
				}
				if p == is || at != i {
					a.more = b.version
				}
			}
		}
		if g := b.gangs[p.Gang]; g != nil {
			for _, of := range g.parts {
				for at := of.node; at >= 0 && of.pods[Holds]+of.pods[Keeps] > 0; at = b.tree.nodes[at].parent {
					b.touch(at)
					b.accounts[at].more = b.version
				}
			}
		}
	}
}

// Now brings the entitlements up to date, and returns the moment for Reclaim.AnySince: what changes later has a higher one.
func (b *Book) Now() uint64 {
	for i := range b.tree.nodes {
		if b.tree.nodes[i].parent < 0 {
			b.settle(i)
		}
	}
	return b.version
}

// Remove forgets a pod.
func (b *Book) Remove(pod string) {
	if was := b.pods[pod]; was != nil {
		delete(b.pods, pod)
		b.tidy(b.count(was, -1))
		b.stir(was, nil)
	}
}

// Needs says what a gang that is known cannot do without of what it waits for: it asks for all if that fits the max of its
// quotas. Whoever is not spoken of needs all.
func (b *Book) Needs(name string, need []Want) {
	g := b.gangs[name]
	if g == nil {
		return
	}
	for _, p := range g.parts {
		least := make(vector, len(b.tree.resources))
		for _, w := range need {
			if i, ok := b.tree.byName[w.Quota]; ok && i == p.node {
				for r, n := range b.tree.vector(w.Asks) {
					least[r] = plus(least[r], times(n, w.Count))
				}
			}
		}
		if slices.Equal(least, p.least) {
			continue
		}
		b.ask(p, -1)
		p.least = least
		b.ask(p, 1)
	}
}

// Passed says whether a gang that is known and waits can start now as far as others than quotas are concerned: one that cannot keeps
// nobody from what is idle.
func (b *Book) Passed(name string, is bool) {
	g := b.gangs[name]
	if g == nil || b.passed[name] == is {
		return
	}
	for _, p := range g.parts {
		b.ask(p, -1)
	}
	if delete(b.passed, name); is {
		b.passed[name] = true
	}
	for _, p := range g.parts {
		b.ask(p, 1)
	}
}

// Together says that gangs which are known start together, and with nobody else: none of them is served before the last of their quotas is.
func (b *Book) Together(names ...string) {
	for _, name := range names {
		for _, was := range b.groups[name] {
			delete(b.groups, was)
		}
	}
	for _, name := range names {
		if b.gangs[name] != nil && len(names) > 1 {
			b.groups[name] = names
		}
	}
}

// together are the gangs that start together with one, itself among them.
func (b *Book) together(name string) []string {
	if all := b.groups[name]; all != nil {
		return all
	}
	return []string{name}
}

// count adds a pod to what is known, or takes it away, and returns its gang; nil if it has no quota.
func (b *Book) count(p *Pod, sign int64) *gang {
	i, ok := b.tree.byName[p.Quota]
	if !ok {
		return nil
	}
	g := b.gangs[p.Gang]
	if g == nil {
		g = &gang{name: p.Gang, pods: map[string]*Pod{}}
		b.gangs[p.Gang] = g
	}
	v := b.tree.vector(p.Asks)
	for r := range v {
		v[r] *= sign
	}
	of := b.part(g, i)
	b.ask(of, -1)
	of.count(p, v, int(sign))
	b.ask(of, 1)
	if p.State != Waits {
		b.charge(i, p, v, int(sign))
	}
	if g.stale = true; sign > 0 {
		g.pods[p.Name] = p
	} else {
		delete(g.pods, p.Name)
	}
	b.class.forget(g)
	return g
}

// ask counts what a gang takes and asks for of its quota, or takes it away before it changes.
func (b *Book) ask(p *part, n int) {
	b.changes++
	a := &b.accounts[p.node]
	asks := p.pods[Waits] > 0 && b.everFits(p)
	for r := range a.asked {
		of := p.hold[r] + p.keeps[r]
		if asks {
			of += p.waits[r]
		}
		a.asked[r] += int64(n) * of
	}
	if asks && !b.passed[p.gang.name] {
		a.starters += n
	}
	for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
		b.accounts[i].dirty = true
		if beside := b.tree.nodes[i].beside; beside >= 0 {
			b.accounts[beside].dirty = true
		}
	}
}

// everFits says whether a gang could have what it needs of a quota if nobody else had anything.
func (b *Book) everFits(p *part) bool {
	for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
		n := &b.tree.nodes[i]
		if n.broken != "" {
			return false
		}
		for r, w := range p.waits {
			if p.least != nil {
				w = min(w, p.least[r])
			}
			if w > 0 && n.max[r]-p.hold[r]-p.keeps[r] < w {
				return false
			}
		}
	}
	return true
}

// part is what a gang has of a quota.
func (b *Book) part(g *gang, node int) *part {
	at, ok := slices.BinarySearchFunc(g.parts, node, func(p *part, n int) int { return p.node - n })
	if !ok {
		size := len(b.tree.resources)
		p := &part{gang: g, node: node, waits: make(vector, size), keeps: make(vector, size), hold: make(vector, size), fixed: make(vector, size)}
		g.parts = slices.Insert(g.parts, at, p)
		b.accounts[node].parts = append(b.accounts[node].parts, p)
	}
	return g.parts[at]
}

func (p *part) count(pod *Pod, v vector, n int) {
	[]vector{Waits: p.waits, Keeps: p.keeps, Holds: p.hold}[pod.State].add(v)
	p.pods[pod.State] += n
	if pod.Fixed && pod.State != Waits {
		p.fixed.add(v)
	}
}

// charge counts a pod with a place at its quota and all above.
func (b *Book) charge(node int, p *Pod, v vector, n int) {
	for i := node; i >= 0; i = b.tree.nodes[i].parent {
		a := &b.accounts[i]
		b.touch(i)
		if p.State == Holds {
			a.used.add(v)
		} else {
			a.reserved.add(v)
		}
		if p.Fixed {
			a.fixed.add(v)
		}
		if a.pods += n; n > 0 {
			a.since = max(a.since, p.Since)
		}
	}
}

// tidy keeps true what is derived of a gang's pods, and forgets a gang without any.
func (b *Book) tidy(g *gang) {
	if g == nil {
		return
	}
	g.parts = slices.DeleteFunc(g.parts, func(p *part) bool {
		if p.pods != [3]int{} {
			return false
		}
		a := &b.accounts[p.node]
		at := slices.Index(a.parts, p)
		a.parts[at] = a.parts[len(a.parts)-1]
		a.parts = a.parts[:len(a.parts)-1]
		return true
	})
	if len(g.parts) == 0 {
		delete(b.gangs, g.name)
		delete(b.passed, g.name)
		delete(b.groups, g.name)
		delete(b.claims, g.name)
	}
}

// Gang is what a gang is to quotas.
type Gang struct {
	Name     string
	Quotas   []string // that its pods name, parents before children
	Priority int32    // the highest of its pods
	Since    int64    // when the first of those who have a place got it; math.MaxInt64 if nobody has
	Fixed    bool     // a pod of it is never evicted
	Waits    bool     // a pod of it has no place
}

// Gang says what is known of a gang; ok is false if none of its pods has a quota.
func (b *Book) Gang(name string) (is Gang, ok bool) {
	g := b.gangs[name]
	if g == nil {
		return Gang{}, false
	}
	g.facts()
	is = Gang{Name: name, Priority: g.priority, Since: g.since, Fixed: g.fixed}
	for _, p := range g.parts {
		is.Quotas, is.Waits = append(is.Quotas, b.tree.nodes[p.node].Name), is.Waits || p.pods[Waits] > 0
	}
	return is, true
}

// facts reads off a gang's pods what is asked about rarely.
func (g *gang) facts() {
	if !g.stale {
		return
	}
	g.stale = false
	g.priority, g.since, g.fixed = math.MinInt32, math.MaxInt64, false
	for _, p := range g.pods {
		g.priority, g.fixed = max(g.priority, p.Priority), g.fixed || p.Fixed
		if p.State != Waits {
			g.since = min(g.since, p.Since)
		}
	}
}
