package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
)

// Want is the request of Count members with equal requests.
type Want struct {
	Quota string // "" is no quota, which has no limits
	Asks  List
	Fixed bool // the members are never evicted, so they never borrow
	Count int
}

// Request is the request of a gang.
type Request struct {
	Gang     string
	Priority int32
	Need     []Want // all or none
	Optional []Want // as many as possible, in this order
}

// Cause is the kind of a refusal.
type Cause string

// The causes of a refusal.
const (
	Broken   Cause = "broken"   // the quota cannot be used.
	OverMax  Cause = "max"      // above the quota's max.
	OverMin  Cause = "min"      // pods that are never evicted are above the quota's min.
	Held     Cause = "claimed"  // what is free below max is held for a starving gang.
	OverFree Cause = "runtime"  // above the fair share, and not enough can be borrowed.
	NotNext  Cause = "not next" // above the fair share, and another quota is served first.
)

// Refusal says why a gang is not admitted: the first limit that it exceeds, from the quotas of its members upwards.
type Refusal struct {
	Cause Cause
	Quota string
	Path  []string // from the top to the quota of the members
	// Limit, Used, Reserved and Request are of the requested resources. The request is that of all required members below the quota, Pods
	// in number.
	Limit, Used, Reserved, Request List
	Pods                           int
	Exceeds                        []string // resources with too little, sorted
	Tree                           Standing // for OverFree: of the whole tree
	Borrowed                       []string // for OverFree: sibling quotas above their min
	Holder                         string   // for Held, the gang; for NotNext, the quota that is served first
	Message                        string   // for Broken
	Permanent                      bool     // exceeded also if no other gang used anything; see ExceededByAlone
}

// Standing is a limit, its use, and what is requested within it.
type Standing struct{ Limit, Used, Reserved, Request List }

// View is the book as if some pods had terminated.
type View struct {
	book  *Book
	freed map[int]*freed  // by node
	gone  map[string]*Pod // the terminated pods
}

// freed is the use of the view's terminated pods below a quota; fixed is the part of pods that are never evicted.
type freed struct {
	all, fixed vector
}

// View returns the unchanged book as a view.
func (b *Book) View() *View { return &View{book: b, freed: map[int]*freed{}, gone: map[string]*Pod{}} }

// Clone returns an independent copy of the view.
func (v *View) Clone() *View {
	c := &View{book: v.book, freed: make(map[int]*freed, len(v.freed)), gone: maps.Clone(v.gone)}
	for i, f := range v.freed {
		c.freed[i] = &freed{slices.Clone(f.all), slices.Clone(f.fixed)}
	}
	return c
}

// Leave counts pods as terminated in the view. Waiting pods, unknown pods, and pods already counted as terminated change nothing.
func (v *View) Leave(pods ...string) {
	for _, name := range pods {
		if p := v.book.pods[name]; p != nil && p.State != Waiting && v.gone[name] == nil && !v.book.removed[name] {
			v.gone[name] = p
			v.count(p, 1)
		}
	}
}

// Return undoes Leave for pods.
func (v *View) Return(pods ...string) {
	for _, name := range pods {
		if p := v.gone[name]; p != nil { // it may have been deleted meanwhile
			delete(v.gone, name)
			v.count(p, -1)
		}
	}
}

// count adds a pod's amounts to v.freed, for its quota and all quotas above it. With times -1 it subtracts them.
func (v *View) count(p *Pod, times int64) {
	i, ok := v.book.tree.byName[p.Quota]
	if !ok {
		return
	}
	amounts := v.book.tree.vector(p.Asks)
	for r := range amounts {
		amounts[r] *= times
	}
	for ; i >= 0; i = v.book.tree.nodes[i].parent {
		f := v.freed[i]
		if f == nil {
			f = &freed{all: make(vector, len(amounts)), fixed: make(vector, len(amounts))}
			v.freed[i] = f
		}
		f.all.add(amounts)
		if p.Fixed {
			f.fixed.add(amounts)
		}
	}
}

// taken returns the use of quota i in resource r, reservations included, without terminated pods.
func (v *View) taken(i, r int) int64 {
	a := &v.book.accounts[i]
	n := a.used[r] + a.reserved[r]
	if f := v.freed[i]; f != nil {
		n -= f.all[r]
	}
	return n
}

// idle returns the unused min of resource r that quota i, and quotas below it, do not lend.
func (v *View) idle(i, r int) (sum int64) {
	if v.freed[i] == nil {
		return v.book.accounts[i].idle[r]
	}
	n := &v.book.tree.nodes[i]
	for _, c := range n.children {
		sum += v.idle(c, r)
	}
	if n.NotLent {
		sum = max(sum, n.min[r]-v.taken(i, r))
	}
	return sum
}

// fixed returns the part of taken that belongs to pods that are never evicted.
func (v *View) fixed(i, r int) int64 {
	n := v.book.accounts[i].fixed[r]
	if f := v.freed[i]; f != nil {
		n -= f.fixed[r]
	}
	return n
}

// Admit returns how many members of each Want in Optional are admitted in addition to Need, the first Wants first. If not all of Need are
// admitted, more is nil and refusal says why.
func (b *Book) Admit(a Request) (more []int, refusal *Refusal) { return b.View().Admit(a) }

// Admit is Book.Admit without the use of the pods that have terminated in the view.
func (v *View) Admit(a Request) (more []int, refusal *Refusal) {
	l := &load{view: v, gangRequest: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if refusal := l.refusal(); refusal != nil {
		return nil, refusal
	}
	more = make([]int, len(a.Optional))
	for at, w := range a.Optional {
		if more[at] = l.addable(w, w.Count, func(more *load) bool { return more.refusal() == nil }); more[at] > 0 {
			l.add(w, more[at])
		}
	}
	return more, nil
}

// addable returns how many of count members fit, if they are added to the load.
func (l *load) addable(w Want, count int, fits func(*load) bool) int {
	return count - sort.Search(count, func(omitted int) bool {
		more := l.clone()
		more.add(w, count-omitted)
		return fits(more)
	})
}

// HardLimit returns a refusal if an admitted gang exceeds a max, or with pods that are never evicted a min; else nil. A quota that cannot
// be used refuses too. Holds and fair shares were checked at admission.
func (v *View) HardLimit(a Request) *Refusal {
	l := &load{view: v, gangRequest: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if l.broken != nil {
		return l.broken
	}
	return l.overHardLimit()
}

// ExceededByAlone returns the first hard limit that a gang would exceed if no other gang used its quotas; nil if none. Such a gang starts
// only after the limit is raised. The limit may be further up the path than the one that is short now.
func (b *Book) ExceededByAlone(a Request) *Refusal {
	l := &load{view: b.View(), gangRequest: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if l.broken != nil {
		return nil
	}
	unshared := *l
	unshared.view = b.onlyGang(a.Gang, l.requests)
	first := unshared.overHardLimit()
	if first == nil {
		return nil
	}
	for _, r := range l.requests {
		if b.tree.nodes[r.node].Name == first.Quota {
			refusal := l.exceeds(r, first.Cause) // with the present use
			refusal.Permanent = true
			return refusal
		}
	}
	return nil
}

// onlyGang returns a view in which only the named gang uses anything of the requested quotas.
func (b *Book) onlyGang(name string, requests []*request) *View {
	v := b.View()
	for _, r := range requests {
		a := &b.accounts[r.node]
		f := &freed{all: slices.Clone(a.used), fixed: slices.Clone(a.fixed)}
		f.all.add(a.reserved)
		v.freed[r.node] = f
	}
	if g := b.gangs[name]; g != nil {
		for _, p := range g.parts {
			for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
				if f := v.freed[i]; f != nil {
					f.all.sub(p.bound)
					f.all.sub(p.reserved)
					f.fixed.sub(p.fixed)
				}
			}
		}
	}
	return v
}

// load is the request of a gang to each quota on its paths.
type load struct {
	view        *View
	gangRequest *Request
	requests    []*request // from the quotas of the members upwards, path by path
	broken      *Refusal
}

// request is the request of a load to the quota node. leaf is the members' quota at or below it.
type request struct {
	node, leaf int
	all, fixed vector
	pods       int
}

// wanted returns the numbers of the requested resources.
func (r *request) wanted() (all []int) {
	for d, n := range r.all {
		if n > 0 {
			all = append(all, d)
		}
	}
	return all
}

func (l *load) clone() *load {
	c := *l
	c.requests = make([]*request, len(l.requests))
	for i, r := range l.requests {
		copied := *r
		copied.all, copied.fixed = slices.Clone(r.all), slices.Clone(r.fixed)
		c.requests[i] = &copied
	}
	return &c
}

// add adds members to the requests to their quota and all quotas above. It sets broken if that quota cannot have pods.
func (l *load) add(w Want, count int) {
	t := l.view.book.tree
	if w.Quota == "" {
		return
	}
	leaf, ok := t.byName[w.Quota]
	if l.broken == nil {
		l.broken = t.unusable(w.Quota)
	}
	if !ok || l.broken != nil || count == 0 {
		return
	}
	asks := t.vector(w.Asks)
	for i := leaf; i >= 0; i = t.nodes[i].parent {
		r := l.requestTo(i, leaf)
		r.pods += count
		for at, n := range asks {
			more := times(n, count)
			r.all[at] = plus(r.all[at], more)
			if w.Fixed {
				r.fixed[at] = plus(r.fixed[at], more)
			}
		}
	}
}

// times returns the product, or math.MaxInt64 (unlimited) on overflow. count is positive.
func times(n int64, count int) int64 {
	if n > math.MaxInt64/int64(count) {
		return math.MaxInt64
	}
	return n * int64(count)
}

// requestTo returns the load's request to quota node, and creates it if needed.
func (l *load) requestTo(node, leaf int) *request {
	for _, r := range l.requests {
		if r.node == node {
			return r
		}
	}
	size := len(l.view.book.tree.resources)
	r := &request{node: node, leaf: leaf, all: make(vector, size), fixed: make(vector, size)}
	l.requests = append(l.requests, r)
	return r
}

// unusable returns the refusal of a quota that admits no pods; nil if the quota is usable.
func (t *Tree) unusable(name string) *Refusal {
	r := &Refusal{Cause: Broken, Quota: name, Path: t.Path(name)}
	i, ok := t.byName[name]
	switch {
	case !ok:
		r.Message = "there is no such quota"
	case t.nodes[i].broken != "":
		r.Message = t.nodes[i].broken
	case t.nodes[i].Inner:
		r.Message = "it is marked as a parent (is-parent), and pods cannot belong to parents; name a quota below it, or remove the mark"
	default:
		return nil
	}
	return r
}

// refusal returns the refusal by the first limit that the load exceeds; nil if it is admitted.
func (l *load) refusal() *Refusal {
	if l.broken != nil {
		return l.broken
	}
	b := l.view.book
	if refusal := l.overHardLimit(Held); refusal != nil {
		return refusal
	}
	if !b.Runtime {
		return nil
	}
	for _, r := range l.requests {
		if b.tree.nodes[r.node].parent < 0 {
			b.settle(r.node)
			if refusal := l.overHeldTree(r); refusal != nil {
				return refusal
			}
		}
	}
	for _, r := range l.requests {
		if refusal := l.overFairShare(r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// overHardLimit returns the refusal by the first hard limit that the load exceeds: max, min for pods that are never evicted, and the causes
// in also; nil if there is none.
func (l *load) overHardLimit(also ...Cause) *Refusal {
	for _, cause := range append([]Cause{OverMax, OverMin}, also...) {
		for _, r := range l.requests {
			if refusal := l.exceeds(r, cause); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// exceeds returns the refusal if request r exceeds its quota's limit of the given cause; else nil.
func (l *load) exceeds(r *request, cause Cause) *Refusal {
	v, n := l.view, &l.view.book.tree.nodes[r.node]
	limit := n.max
	asks := r.all
	used := v.taken
	named := n.named
	switch cause {
	case OverMin:
		limit = n.min
		asks = r.fixed
		used = v.fixed
		named = n.hasMin
	case Held:
		if len(v.book.holds) == 0 {
			return nil
		}
	}
	var exceeds []int
	firstHolder := ""
	for d, wants := range asks {
		free := limit[d]
		if wants > 0 && free != math.MaxInt64 {
			free -= used(r.node, d)
			if cause == Held {
				held, holder := v.book.heldFor(l.gangRequest, r.node, d)
				if firstHolder == "" {
					firstHolder = holder
				}
				free -= held
			}
		}
		if wants > 0 && free < wants && named[d] {
			exceeds = append(exceeds, d)
		}
	}
	if exceeds == nil {
		return nil
	}
	refusal := l.refuse(r, cause, limit, exceeds)
	if cause == Held {
		refusal.Holder = firstHolder
	}
	return refusal
}

// overHeldTree returns the refusal if a tree's free capacity is held for other gangs (see Hold) and the rest is too little; else nil.
func (l *load) overHeldTree(top *request) *Refusal {
	b := l.view.book
	sum, first := make(vector, len(b.tree.resources)), ""
	for _, name := range slices.Sorted(maps.Keys(b.holds)) {
		if c := b.holds[name]; c.free && b.mustRespect(l.gangRequest, c) && !l.exempt(c) {
			sum.add(c.load.requestOf(top.node).all)
			first = cmp.Or(first, name)
		}
	}
	if first == "" {
		return nil
	}
	var exceeds []int
	for d, wants := range top.all {
		all := b.accounts[top.node].fairShare[d]
		if wants > 0 && sum[d] > 0 && all != math.MaxInt64 && all-l.view.taken(top.node, d)-sum[d] < wants {
			exceeds = append(exceeds, d)
		}
	}
	if exceeds == nil {
		return nil
	}
	refusal := l.refuse(top, Held, b.accounts[top.node].fairShare, exceeds)
	refusal.Holder = first
	return refusal
}

// exempt returns whether the load may ignore a hold on a tree's free capacity. It must be of other quotas than the hold and stay within
// their min. Staying within their fair share is enough if the hold fits the fair share of its own quotas.
func (l *load) exempt(c *hold) bool {
	b := l.view.book
	within := func(limit func(n *node, a *account, d int) (int64, bool)) bool {
		return !slices.ContainsFunc(l.requests, func(r *request) bool {
			n, a := &b.tree.nodes[r.node], &b.accounts[r.node]
			for d, wants := range r.all {
				if most, named := limit(n, a, d); n.parent >= 0 && wants > 0 && (!named || most-l.view.taken(r.node, d) < wants) {
					return true
				}
			}
			return false
		})
	}
	if slices.ContainsFunc(c.load.requests, func(r *request) bool { return r.node == r.leaf && l.includes(r.node) }) {
		return false
	}
	if within(func(n *node, _ *account, d int) (int64, bool) { return n.min[d], n.hasMin[d] }) {
		return true
	}
	for _, r := range c.load.requests {
		if b.tree.nodes[r.node].parent >= 0 && (l.includes(r.node) || b.exceedsFairShare(r)) {
			return false
		}
	}
	return within(func(n *node, a *account, d int) (int64, bool) { return a.fairShare[d], n.named[d] })
}

// exceedsFairShare returns whether a request by itself is larger than the fair share of its quota, in any resource.
func (b *Book) exceedsFairShare(r *request) bool {
	for d, wants := range r.all {
		if b.tree.nodes[r.node].named[d] && wants > b.accounts[r.node].fairShare[d] {
			return true
		}
	}
	return false
}

// mustRespect returns whether hold c of another gang, of at least a's priority, precedes any hold of a's gang: a may not use c's capacity.
func (b *Book) mustRespect(a *Request, c *hold) bool {
	own := b.holds[a.Gang]
	return c.gangRequest.Gang != a.Gang && c.gangRequest.Priority >= a.Priority && (own == nil || own.turn > c.turn)
}

// refuse returns the Refusal of request r, with the limit and the use of the requested resources.
func (l *load) refuse(r *request, cause Cause, limit vector, exceeds []int) *Refusal {
	t, a := l.view.book.tree, &l.view.book.accounts[r.node]
	out := &Refusal{
		Cause: cause, Quota: t.nodes[r.node].Name, Path: t.Path(t.nodes[r.leaf].Name), Pods: r.pods,
		Limit: List{}, Used: List{}, Reserved: List{}, Request: List{},
	}
	for d, n := range r.all {
		if n > 0 && (t.nodes[r.node].named[d] || t.nodes[r.node].parent < 0 && limit[d] != math.MaxInt64) {
			name := t.resources[d]
			out.Limit[name] = limit[d]
			out.Used[name] = a.used[d]
			out.Reserved[name] = a.reserved[d]
			out.Request[name] = n
			if cause == OverMin {
				out.Used[name] = l.view.fixed(r.node, d)
				out.Reserved[name] = 0
				out.Request[name] = r.fixed[d]
			}
		}
	}
	for _, d := range exceeds {
		out.Exceeds = append(out.Exceeds, t.resources[d])
	}
	return out
}

// overFairShare returns the refusal if a quota would exceed its fair share and may not borrow; else nil. It may borrow what is free in the
// whole tree, if no sibling quota with a waiting gang is served before it. A gang is indivisible: an excess smaller than the gang must not
// stop it while capacity is idle.
func (l *load) overFairShare(r *request) *Refusal {
	v, n := l.view, &l.view.book.tree.nodes[r.node]
	fairShare, exceeds := v.book.accounts[r.node].fairShare, l.borrows(r)
	if exceeds == nil {
		return nil
	}
	if short := l.lackingInTree(l.requestOf(n.top)); short != nil {
		refusal := l.refuse(r, OverFree, fairShare, exceeds)
		refusal.Borrowed = l.borrowers(r, exceeds)
		top := l.refuse(l.requestOf(n.top), OverFree, v.book.accounts[n.top].fairShare, nil)
		refusal.Tree = Standing{Limit: top.Limit, Used: top.Used, Reserved: top.Reserved, Request: top.Request}
		return refusal
	}
	if n.parent < 0 {
		return nil
	}
	for _, s := range v.book.tree.nodes[n.parent].children {
		if s == r.node || l.includes(s) || v.book.accounts[s].waiting == 0 || !v.before(s, r.node) || !l.anyPreceding(s) {
			continue
		}
		refusal := l.refuse(r, NotNext, fairShare, exceeds)
		refusal.Holder = v.book.tree.nodes[s].Name
		return refusal
	}
	return nil
}

// borrows returns the resources in which the quota would exceed its fair share.
func (l *load) borrows(r *request) (exceeds []int) {
	n, fairShare := &l.view.book.tree.nodes[r.node], l.view.book.accounts[r.node].fairShare
	for d, wants := range r.all {
		if wants > 0 && n.named[d] && !n.Detached && fairShare[d] != math.MaxInt64 && fairShare[d]-l.view.taken(r.node, d) < wants {
			exceeds = append(exceeds, d)
		}
	}
	return exceeds
}

// requestOf returns the load's request to quota node; an empty one if there is none.
func (l *load) requestOf(node int) *request {
	for _, r := range l.requests {
		if r.node == node {
			return r
		}
	}
	return &request{node: node}
}

// includes returns whether the load has a request to quota node.
func (l *load) includes(node int) bool {
	return slices.ContainsFunc(l.requests, func(r *request) bool { return r.node == node })
}

// lackingInTree returns the resources of which the tree has less free than requested. The idle min of quotas that lend nothing is not free.
func (l *load) lackingInTree(top *request) (short []int) {
	b := l.view.book
	for d, wants := range top.all {
		free := b.accounts[top.node].fairShare[d]
		if wants == 0 || free == math.MaxInt64 {
			continue
		}
		free -= l.view.taken(top.node, d)
		for _, r := range l.requests {
			if b.tree.nodes[r.node].top != top.node {
				continue
			}
			for _, c := range b.tree.nodes[r.node].children {
				switch at := l.requestOf(c); {
				case at.all == nil:
					free -= l.view.idle(c, d)
				case at.leaf == c: // the request uses some of the min
					free -= max(0, l.view.idle(c, d)-at.all[d])
				}
			}
		}
		if free < wants {
			short = append(short, d)
		}
	}
	return short
}

// borrowers returns the siblings of r's quota that use more than their min of a resource in exceeds.
func (l *load) borrowers(r *request, exceeds []int) (all []string) {
	t := l.view.book.tree
	if p := t.nodes[r.node].parent; p >= 0 {
		for _, c := range t.nodes[p].children {
			if c != r.node && slices.ContainsFunc(exceeds, func(d int) bool { return l.view.taken(c, d) > t.nodes[c].min[d] }) {
				all = append(all, t.nodes[c].Name)
			}
		}
	}
	slices.SortFunc(all, strings.Compare)
	return all
}

// anyPreceding returns whether a gang waiting below quota i has its turn before the load. Only the quota must keep that gang from starting:
// it fits every max, and its request is free.
func (l *load) anyPreceding(i int) bool {
	v, b := l.view, l.view.book
	if b.accounts[i].waiting == 0 {
		return false
	}
	if b.accounts[i].starters > 0 {
		for _, p := range b.accounts[i].parts {
			if p.pods[Waiting] == 0 || b.passedOver[p.gang.name] || slices.Contains(b.together(l.gangRequest.Gang), p.gang.name) {
				continue
			}
			if waiting := v.waitingLoad(p.gang.name); waiting.starts() && waiting.precedes(l) {
				return true
			}
		}
	}
	return slices.ContainsFunc(b.tree.nodes[i].children, l.anyPreceding)
}

// waitingLoad returns the request of all waiting members of a gang and of the gangs that start together with it.
func (v *View) waitingLoad(gang string) *load {
	b := v.book
	l := &load{view: v, gangRequest: &Request{Gang: gang}}
	for _, name := range b.together(gang) {
		if b.gangs[name] == nil {
			continue
		}
		for _, p := range b.gangs[name].parts {
			if p.pods[Waiting] == 0 {
				continue
			}
			if l.broken == nil {
				l.broken = b.tree.unusable(b.tree.nodes[p.node].Name)
			}
			for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
				l.requestTo(i, p.node).all.add(p.waiting)
			}
		}
	}
	return l
}

// starts returns whether the load fits every max and what is free in its trees.
func (l *load) starts() bool {
	t := l.view.book.tree
	return l.broken == nil && !slices.ContainsFunc(l.requests, func(r *request) bool {
		if t.nodes[r.node].parent < 0 {
			l.view.book.settle(r.node)
		}
		return l.exceeds(r, OverMax) != nil || t.nodes[r.node].parent < 0 && l.lackingInTree(r) != nil
	})
}

// precedes returns whether the load has its turn before another load, which borrows. A gang of several quotas has the turn of the last one
// in which it borrows; otherwise two gangs could wait for each other.
func (l *load) precedes(other *load) bool {
	leaf, borrows := l.lastBorrowing()
	if !borrows {
		return true
	}
	otherLeaf, _ := other.lastBorrowing()
	return l.view.earlier(leaf, otherLeaf)
}

// lastBorrowing returns the members' quota served last, among those on whose path the load borrows; borrows is false if there is none.
func (l *load) lastBorrowing() (leaf int, borrows bool) {
	nodes := l.view.book.tree.nodes
	for _, r := range l.requests {
		if r.node != r.leaf || borrows && !l.view.earlier(leaf, r.node) {
			continue
		}
		for i := r.node; nodes[i].parent >= 0; i = nodes[i].parent {
			if l.borrows(l.requestOf(i)) != nil {
				leaf, borrows = r.node, true
				break
			}
		}
	}
	return leaf, borrows
}

// hold is capacity held for a starving gang.
type hold struct {
	gangRequest Request
	load        *load
	free        bool // also holds what is free in the tree
	turn        int  // the earlier hold is served first
}

// Hold holds a gang's request below the max of each quota on its paths. Gangs of its priority and below get only the rest, except gangs
// with an earlier hold. With free it also holds what is free in the tree, see exempt. ReleaseHold ends it.
func (b *Book) Hold(a Request, free bool) {
	b.holdCount++
	turn := b.holdCount
	if previous := b.holds[a.Gang]; previous != nil {
		turn = previous.turn
	}
	b.setHold(&hold{gangRequest: a, free: free, turn: turn})
}

// setHold computes the load of a hold, and records the hold by its gang.
func (b *Book) setHold(c *hold) {
	c.load = &load{view: b.View(), gangRequest: &c.gangRequest}
	for _, w := range c.gangRequest.Need {
		c.load.add(w, w.Count)
	}
	b.holds[c.gangRequest.Gang] = c
	b.changes++
}

// ReleaseHold ends the hold of a gang, if it has one.
func (b *Book) ReleaseHold(gang string) {
	b.changes++
	delete(b.holds, gang)
}

// heldFor returns how much of resource d is held in quota node for gangs that request a must respect, and the first of these gangs.
func (b *Book) heldFor(a *Request, node, d int) (sum int64, first string) {
	for _, name := range slices.Sorted(maps.Keys(b.holds)) {
		c := b.holds[name]
		if !b.mustRespect(a, c) {
			continue
		}
		for _, r := range c.load.requests {
			if r.node == node && r.all[d] > 0 {
				sum = plus(sum, r.all[d])
				if first == "" {
					first = name
				}
			}
		}
	}
	return sum, first
}
