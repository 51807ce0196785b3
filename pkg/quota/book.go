package quota

import (
	"maps"
	"math"
	"slices"
)

// State is what a pod uses of its quota.
type State uint8

// The states of a pod.
const (
	Waiting  State = iota // it requests its amounts and uses none
	Reserved              // a node is reserved for it
	Bound                 // it is bound
)

// Pod is a pod as quotas see it.
type Pod struct {
	Name  string
	Gang  string // the gang it is admitted with; unique to a pod without a gang
	Quota string
	// Asks is its request. The list is shared, and must not change.
	Asks  List
	State State
	// Since is when it was bound or got its node, in Unix nanoseconds.
	Since    int64
	Priority int32
	// Fixed pods are never evicted, so they never borrow.
	Fixed bool
}

// Book records the use of quotas. The zero value is not usable; call NewBook.
type Book struct {
	// Runtime limits quotas by their fair share; otherwise only by max. ScaleMin scales mins that exceed the total.
	Runtime, ScaleMin bool

	tree       *Tree
	totals     map[string]List // by top
	pods       map[string]*Pod
	removed    map[string]bool // pods removed in this copy of a book; see Without
	gangs      map[string]*gang
	passedOver map[string]bool     // waiting gangs that cannot start for reasons other than quota
	groups     map[string][]string // gangs that start together, by each of them
	holds      map[string]*hold
	holdCount  int // number of holds made

	accounts []account // by node of the tree
	class    *classes  // computed on demand
	version  uint64    // the last version of any account
	changes  uint64    // number of changes
}

// gang is pods that are admitted together.
type gang struct {
	name     string
	priority int32
	since    int64 // when its first pod got its node; math.MaxInt64 without any
	fixed    bool
	stale    bool // the fields above are out of date
	pods     map[string]*Pod
	parts    []*part // by node
}

// part is what a gang uses and requests of the quota node.
type part struct {
	gang                     *gang
	node                     int
	waiting, reserved, bound vector // sums over the pods in each State
	fixed                    vector // of reserved and bound pods that are never evicted
	needed                   vector // of the waiting pods, what the gang needs to start; nil is all
	pods                     [3]int // number of pods by State
}

// account is the use of a quota.
type account struct {
	used, reserved, fixed vector // of all pods below
	pods                  int    // reserved and bound pods below
	parts                 []*part
	requested             vector // use and request of its own parts
	starters              int    // its own waiting gangs that are not passed over
	since                 int64  // when a pod below it got its node last
	version               uint64 // of its use, request and fair share
	// grown is the version of the last growth of its use, or cut of its fair share: more of its pods may be evicted. shrunk is that of the
	// last opposite change: more may be evicted for it.
	grown, shrunk uint64

	// The following fields are derived, see settle.
	dirty     bool   // out of date, here or below
	request   vector // requested or used, at most max
	idle      vector // unused min that is not lent
	waiting   int    // starters, here and below
	fairShare vector
}

// NewBook returns the book of a tree without pods.
func NewBook(t *Tree) *Book {
	b := &Book{
		Runtime: true, ScaleMin: true,
		totals: map[string]List{}, pods: map[string]*Pod{}, gangs: map[string]*gang{},
		passedOver: map[string]bool{}, groups: map[string][]string{}, holds: map[string]*hold{},
	}
	b.setTree(t)
	return b
}

// Replant returns a book with another tree and the same pods. Pods of deleted quotas have no quota until they are set again. Views and
// searches of this book keep its tree.
func (b *Book) Replant(t *Tree) *Book {
	replanted := NewBook(t)
	replanted.Runtime = b.Runtime
	replanted.ScaleMin = b.ScaleMin
	replanted.version += b.version
	replanted.holdCount = b.holdCount
	replanted.totals, replanted.pods = maps.Clone(b.totals), maps.Clone(b.pods)
	replanted.passedOver, replanted.groups = maps.Clone(b.passedOver), maps.Clone(b.groups)
	for i := range replanted.accounts {
		replanted.touch(i)
		replanted.accounts[i].grown, replanted.accounts[i].shrunk = replanted.version, replanted.version
	}
	for _, name := range slices.Sorted(maps.Keys(replanted.pods)) {
		replanted.count(replanted.pods[name], 1)
	}
	for _, name := range slices.Sorted(maps.Keys(b.holds)) {
		c := *b.holds[name]
		replanted.setHold(&c)
	}
	return replanted
}

// setTree sets the tree, with empty accounts.
func (b *Book) setTree(t *Tree) {
	b.tree, b.accounts, b.class = t, make([]account, len(t.nodes)), &classes{b, map[int]map[*gang]Class{}}
	size := len(t.resources)
	for i := range b.accounts {
		a := &b.accounts[i]
		a.dirty = true
		b.touch(i)
		a.grown, a.shrunk = b.version, b.version
		for _, v := range []*vector{&a.used, &a.reserved, &a.fixed, &a.requested, &a.request, &a.idle, &a.fairShare} {
			*v = make(vector, size)
		}
	}
}

// touch gives the account of quota i a new version.
func (b *Book) touch(i int) {
	b.version++
	b.accounts[i].version = b.version
}

// Version returns a number that changes with a quota's use, request or fair share; 0 if the quota does not exist.
func (b *Book) Version(quota string) uint64 {
	i, ok := b.tree.byName[quota]
	if !ok {
		return 0
	}
	b.settle(b.tree.nodes[i].top)
	return b.accounts[i].version
}

// Changes returns a number that grows with each change of the book.
func (b *Book) Changes() uint64 { return b.changes }

// Tree returns the quotas of the book.
func (b *Book) Tree() *Tree { return b.tree }

// Total sets the capacity of the tree with the topmost quota top. Resources that l does not name are unlimited.
func (b *Book) Total(top string, l List) {
	b.changes++
	b.totals[top] = l
	if i, ok := b.tree.byName[top]; ok {
		b.accounts[i].dirty = true
	}
}

// Set adds or replaces the pod of that name. An equal pod changes nothing.
func (b *Book) Set(p Pod) {
	if previous := b.pods[p.Name]; previous != nil {
		if previous.equal(&p) {
			return
		}
		defer b.markChanged(previous, &p)
		defer b.removeEmpty(b.count(previous, -1)) // after the new pod was added, so that a gang with only this pod is not deleted
	} else {
		defer b.markChanged(nil, &p)
	}
	b.pods[p.Name] = &p
	b.count(&p, 1)
}

// equal returns whether two pods have the same effect on quotas.
func (p *Pod) equal(o *Pod) bool {
	return o.State == p.State && o.Quota == p.Quota && o.Gang == p.Gang && o.Since == p.Since &&
		o.Priority == p.Priority && o.Fixed == p.Fixed && maps.Equal(o.Asks, p.Asks)
}

// markChanged sets grown and shrunk (see account) after a pod changed from previous to current; nil is a pod that does not exist. The pod's
// gang may now borrow wherever it uses anything. A quota above other quotas may gain borrowing gangs also when a pod terminates.
func (b *Book) markChanged(previous, current *Pod) {
	for _, p := range []*Pod{previous, current} {
		if p == nil {
			continue
		}
		i, known := b.tree.byName[p.Quota]
		if known && p.State != Waiting {
			for at := i; at >= 0; at = b.tree.nodes[at].parent {
				b.touch(at)
				a := &b.accounts[at]
				if p == previous {
					a.shrunk = b.version
				}
				if p == current || at != i {
					a.grown = b.version
				}
			}
		}
		if g := b.gangs[p.Gang]; g != nil {
			for _, share := range g.parts {
				for at := share.node; at >= 0 && share.pods[Bound]+share.pods[Reserved] > 0; at = b.tree.nodes[at].parent {
					b.touch(at)
					b.accounts[at].grown = b.version
				}
			}
		}
	}
}

// Now updates the fair shares, and returns the present version for Reclaim.AnySince. Later changes have a higher one.
func (b *Book) Now() uint64 {
	for i := range b.tree.nodes {
		if b.tree.nodes[i].parent < 0 {
			b.settle(i)
		}
	}
	return b.version
}

// Remove removes a pod. An unknown pod changes nothing.
func (b *Book) Remove(pod string) {
	if removed := b.pods[pod]; removed != nil {
		delete(b.pods, pod)
		b.removeEmpty(b.count(removed, -1))
		b.markChanged(removed, nil)
	}
}

// SetNeeds sets what a waiting gang needs to start; by default all. The gang's whole request counts if the needed part fits the max of its
// quotas. An unknown gang changes nothing.
func (b *Book) SetNeeds(name string, need []Want) {
	g := b.gangs[name]
	if g == nil {
		return
	}
	for _, p := range g.parts {
		needed := make(vector, len(b.tree.resources))
		for _, w := range need {
			if i, ok := b.tree.byName[w.Quota]; ok && i == p.node {
				for r, n := range b.tree.vector(w.Asks) {
					needed[r] = plus(needed[r], times(n, w.Count))
				}
			}
		}
		if slices.Equal(needed, p.needed) {
			continue
		}
		b.addToAccount(p, -1)
		p.needed = needed
		b.addToAccount(p, 1)
	}
}

// SetPassedOver sets whether a waiting gang is passed over: it cannot start for a reason other than quota. Other quotas need not wait
// for such a gang's turn. An unknown gang changes nothing.
func (b *Book) SetPassedOver(name string, passedOver bool) {
	g := b.gangs[name]
	if g == nil || b.passedOver[name] == passedOver {
		return
	}
	for _, p := range g.parts {
		b.addToAccount(p, -1)
	}
	if delete(b.passedOver, name); passedOver {
		b.passedOver[name] = true
	}
	for _, p := range g.parts {
		b.addToAccount(p, 1)
	}
}

// SetStartTogether sets the gangs that start together. Each of them is served only at the turn of the last of their quotas.
func (b *Book) SetStartTogether(names ...string) {
	for _, name := range names {
		for _, former := range b.groups[name] {
			delete(b.groups, former)
		}
	}
	for _, name := range names {
		if b.gangs[name] != nil && len(names) > 1 {
			b.groups[name] = names
		}
	}
}

// together returns the gangs that start together with the named gang, which is included.
func (b *Book) together(name string) []string {
	if all := b.groups[name]; all != nil {
		return all
	}
	return []string{name}
}

// count adds pod p (sign 1) or removes it (sign -1). It returns the pod's gang; nil if the pod has no quota.
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
	gangPart := b.part(g, i)
	b.addToAccount(gangPart, -1)
	gangPart.count(p, v, int(sign))
	b.addToAccount(gangPart, 1)
	if p.State != Waiting {
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

// addToAccount adds n times what a part uses and requests to its quota's account. It marks that account and all above as dirty.
func (b *Book) addToAccount(p *part, n int) {
	b.changes++
	a := &b.accounts[p.node]
	asks := p.pods[Waiting] > 0 && b.everFits(p)
	for r := range a.requested {
		amount := p.bound[r] + p.reserved[r]
		if asks {
			amount += p.waiting[r]
		}
		a.requested[r] += int64(n) * amount
	}
	if asks && !b.passedOver[p.gang.name] {
		a.starters += n
	}
	for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
		b.accounts[i].dirty = true
		if beside := b.tree.nodes[i].beside; beside >= 0 {
			b.accounts[beside].dirty = true
		}
	}
}

// everFits returns whether a gang's needed part would fit the max of its quota and of all above, if no other gang used anything.
func (b *Book) everFits(p *part) bool {
	for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
		n := &b.tree.nodes[i]
		if n.broken != "" {
			return false
		}
		for r, w := range p.waiting {
			if p.needed != nil {
				w = min(w, p.needed[r])
			}
			if w > 0 && n.max[r]-p.bound[r]-p.reserved[r] < w {
				return false
			}
		}
	}
	return true
}

// part returns the gang's part in quota node, and creates the part if needed.
func (b *Book) part(g *gang, node int) *part {
	at, ok := slices.BinarySearchFunc(g.parts, node, func(p *part, n int) int { return p.node - n })
	if !ok {
		size := len(b.tree.resources)
		p := &part{
			gang: g, node: node,
			waiting: make(vector, size), reserved: make(vector, size), bound: make(vector, size), fixed: make(vector, size),
		}
		g.parts = slices.Insert(g.parts, at, p)
		b.accounts[node].parts = append(b.accounts[node].parts, p)
	}
	return g.parts[at]
}

// count adds a pod with the amounts v, or removes it: n is 1 or -1, and v has the same sign.
func (p *part) count(pod *Pod, v vector, n int) {
	[]vector{Waiting: p.waiting, Reserved: p.reserved, Bound: p.bound}[pod.State].add(v)
	p.pods[pod.State] += n
	if pod.Fixed && pod.State != Waiting {
		p.fixed.add(v)
	}
}

// charge adds v, the amounts of a reserved or bound pod, to its quota and to all quotas above. n is added to their numbers of pods: 1, or
// -1 to remove the pod. v has the same sign as n.
func (b *Book) charge(node int, p *Pod, v vector, n int) {
	for i := node; i >= 0; i = b.tree.nodes[i].parent {
		a := &b.accounts[i]
		b.touch(i)
		if p.State == Bound {
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

// removeEmpty deletes the parts of a gang without pods, and the gang if no part remains.
func (b *Book) removeEmpty(g *gang) {
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
		delete(b.passedOver, g.name)
		delete(b.groups, g.name)
		delete(b.holds, g.name)
	}
}

// Waits returns whether one of a gang's pods is waiting; known is false if none of its pods has a quota.
func (b *Book) Waits(gang string) (waits, known bool) {
	g := b.gangs[gang]
	return g != nil && slices.ContainsFunc(g.parts, func(p *part) bool { return p.pods[Waiting] > 0 }), g != nil
}

// refresh recomputes priority, since and fixed of a gang if they are out of date.
func (g *gang) refresh() {
	if !g.stale {
		return
	}
	g.stale = false
	g.priority = math.MinInt32
	g.since = math.MaxInt64
	g.fixed = false
	for _, p := range g.pods {
		g.priority, g.fixed = max(g.priority, p.Priority), g.fixed || p.Fixed
		if p.State != Waiting {
			g.since = min(g.since, p.Since)
		}
	}
}
