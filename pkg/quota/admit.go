package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Want is what members of a gang ask for that ask for the same.
type Want struct {
	Quota string // "" is none, which limits nobody
	Asks  List
	Fixed bool
	Count int
}

// Ask is what a gang asks for.
type Ask struct {
	Gang     string
	Priority int32
	Need     []Want // all of them or nobody
	More     []Want // as many as may be, in this order
}

// Cause is what a refusal is for.
type Cause string

const (
	Broken   Cause = "broken"   // the quota cannot be used
	OverMax  Cause = "max"      // it would be above its max
	OverMin  Cause = "min"      // what is never evicted would be above its min
	Claimed  Cause = "claimed"  // what is left below its max is saved for a gang that starves
	OverFree Cause = "runtime"  // it would be above what it is entitled to, and nobody lends that much
	NotNext  Cause = "not next" // it would be above what it is entitled to, and another quota is served first
)

// Refusal says why a gang is not admitted: the first limit that it would pass, from the quotas that its members name
// upwards.
type Refusal struct {
	Cause Cause
	Quota string
	Path  []string // from the top down to the quota that the members name
	// Limit, Used, Reserved and Request are of the resources that are asked for; the request is that of all members
	// below the quota that must be admitted, Pods in number.
	Limit, Used, Reserved, Request List
	Pods                           int
	Exceeds                        []string // resources of which there is too little, sorted
	Tree                           Standing // for OverFree: of the whole tree
	Borrowed                       []string // for OverFree: the other quotas of its parent that have more than their min
	By                             string   // for Claimed, the gang; for NotNext, the quota that is served first
	Words                          string   // for Broken
	Ever                           bool     // it would be passed also if nobody else had anything; see Beyond
}

// Standing is what there is, and what of it is taken.
type Standing struct{ Limit, Used, Reserved List }

// View is the book as if some pods had left.
type View struct {
	book  *Book
	freed map[int]*freed // by node
	gone  map[string]*Pod
}

type freed struct {
	all, fixed vector
}

// View returns the book as it is.
func (b *Book) View() *View { return &View{book: b, freed: map[int]*freed{}, gone: map[string]*Pod{}} }

// Clone is the same view, which others may change.
func (v *View) Clone() *View {
	c := &View{book: v.book, freed: make(map[int]*freed, len(v.freed)), gone: maps.Clone(v.gone)}
	for i, f := range v.freed {
		c.freed[i] = &freed{slices.Clone(f.all), slices.Clone(f.fixed)}
	}
	return c
}

// Any says whether somebody has left.
func (v *View) Any() bool { return len(v.gone) > 0 }

// Leave has pods leave the view. Who waits, has left already, or is not known, has nothing to give back.
func (v *View) Leave(pods ...string) {
	for _, name := range pods {
		if p := v.book.pods[name]; p != nil && p.State != Waits && v.gone[name] == nil && !v.book.away[name] {
			v.gone[name] = p
			v.count(p, 1)
		}
	}
}

// Return has pods come back that have left.
func (v *View) Return(pods ...string) {
	for _, name := range pods {
		if p := v.gone[name]; p != nil { // it may really have gone meanwhile
			delete(v.gone, name)
			v.count(p, -1)
		}
	}
}

// count notes what a pod gives back.
func (v *View) count(p *Pod, times int64) {
	i, ok := v.book.tree.byName[p.Quota]
	if !ok {
		return
	}
	back := v.book.tree.vector(p.Asks)
	for r := range back {
		back[r] *= times
	}
	for ; i >= 0; i = v.book.tree.nodes[i].parent {
		f := v.freed[i]
		if f == nil {
			f = &freed{all: make(vector, len(back)), fixed: make(vector, len(back))}
			v.freed[i] = f
		}
		f.all.add(back)
		if p.Fixed {
			f.fixed.add(back)
		}
	}
}

// taken is what a quota has used and keeps of a resource.
func (v *View) taken(i, r int) int64 {
	a := &v.book.accounts[i]
	n := a.used[r] + a.reserved[r]
	if f := v.freed[i]; f != nil {
		n -= f.all[r]
	}
	return n
}

// idle is what nobody uses of a quota and those below it that lend nothing.
func (v *View) idle(i, r int) (sum int64) {
	if v.freed[i] == nil {
		return v.book.accounts[i].idle[r]
	}
	n := &v.book.tree.nodes[i]
	for _, c := range n.children {
		sum += v.idle(c, r)
	}
	if n.Keeps {
		sum = max(sum, n.min[r]-v.taken(i, r))
	}
	return sum
}

func (v *View) fixed(i, r int) int64 {
	n := v.book.accounts[i].fixed[r]
	if f := v.freed[i]; f != nil {
		n -= f.fixed[r]
	}
	return n
}

// Admit says how many of each Want of More are admitted with those that a gang needs, or why it is not.
func (b *Book) Admit(a Ask) (more []int, refusal *Refusal) { return b.View().Admit(a) }

// Admit is Book.Admit where some have left.
func (v *View) Admit(a Ask) (more []int, refusal *Refusal) {
	l := &load{view: v, ask: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if refusal := l.refused(); refusal != nil {
		return nil, refusal
	}
	more = make([]int, len(a.More))
	for at, w := range a.More {
		with := func(n int) bool {
			some := l.clone()
			some.add(w, n)
			return some.refused() == nil
		}
		low, high := 0, w.Count // of low it is known, of more than high not
		for low < high {
			if n := (low + high + 1) / 2; with(n) {
				low = n
			} else {
				high = n - 1
			}
		}
		if more[at] = low; low > 0 {
			l.add(w, low)
		}
	}
	return more, nil
}

// Within says which limit that nobody lends is passed by somebody who was admitted before: a max, or the min for those who never leave; nil
// if none is. What is saved for others, and what they are entitled to, was asked when he was admitted.
func (v *View) Within(a Ask) *Refusal {
	l := &load{view: v, ask: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if l.broken != nil {
		return l.broken
	}
	return l.hard()
}

// Beyond is the first limit that nobody can lend which a gang would pass even if nobody else had anything of its quotas: it is
// admitted only when the limit is raised, or it asks for less. It is nil if there is none. Of the quotas of a path one further up may be too
// small for it although there is too little of another one now, whose pods may leave.
func (b *Book) Beyond(a Ask) *Refusal {
	l := &load{view: b.View(), ask: &a}
	for _, w := range a.Need {
		l.add(w, w.Count)
	}
	if l.broken != nil {
		return nil
	}
	alone := *l
	alone.view = b.alone(a.Gang, l.at)
	first := alone.hard()
	if first == nil {
		return nil
	}
	for _, r := range l.at {
		if b.tree.nodes[r.node].Name == first.Quota {
			refusal := l.over(r, first.Cause) // what others have is said all the same
			refusal.Ever = true
			return refusal
		}
	}
	return nil
}

// alone is a view of the quotas that are asked in which all have left but one gang.
func (b *Book) alone(name string, asked []*request) *View {
	v := b.View()
	for _, r := range asked {
		a := &b.accounts[r.node]
		f := &freed{all: slices.Clone(a.used), fixed: slices.Clone(a.fixed)}
		f.all.add(a.reserved)
		v.freed[r.node] = f
	}
	if g := b.gangs[name]; g != nil {
		for _, p := range g.parts {
			for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
				if f := v.freed[i]; f != nil {
					f.all.sub(p.hold)
					f.all.sub(p.keeps)
					f.fixed.sub(p.fixed)
				}
			}
		}
	}
	return v
}

// load is what a gang asks for of each quota on its paths.
type load struct {
	view   *View
	ask    *Ask
	at     []*request // from the quotas that members name upwards, path by path
	broken *Refusal
}

type request struct {
	node, leaf int
	all, fixed vector
	pods       int
}

// wanted are the resources that are asked for.
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
	c.at = make([]*request, len(l.at))
	for i, r := range l.at {
		of := *r
		of.all, of.fixed = slices.Clone(r.all), slices.Clone(r.fixed)
		c.at[i] = &of
	}
	return &c
}

// add has so many more members ask.
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
		r := l.of(i, leaf)
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

func times(n int64, count int) int64 {
	if n > math.MaxInt64/int64(count) {
		return math.MaxInt64
	}
	return n * int64(count)
}

// of is the request to a quota.
func (l *load) of(node, leaf int) *request {
	for _, r := range l.at {
		if r.node == node {
			return r
		}
	}
	size := len(l.view.book.tree.resources)
	r := &request{node: node, leaf: leaf, all: make(vector, size), fixed: make(vector, size)}
	l.at = append(l.at, r)
	return r
}

// unusable says why pods of a quota wait whatever they ask for.
func (t *Tree) unusable(name string) *Refusal {
	r := &Refusal{Cause: Broken, Quota: name, Path: t.Path(name)}
	i, ok := t.byName[name]
	switch {
	case !ok:
		r.Words = "there is no such quota"
	case t.nodes[i].broken != "":
		r.Words = t.nodes[i].broken
	case t.nodes[i].Inner:
		r.Words = "it is a parent of other quotas, to which pods cannot belong; supported values: a quota below it"
	default:
		return nil
	}
	return r
}

// refused is the first limit that the load would pass.
func (l *load) refused() *Refusal {
	if l.broken != nil {
		return l.broken
	}
	b := l.view.book
	if refusal := l.hard(Claimed); refusal != nil {
		return refusal
	}
	if !b.Runtime {
		return nil
	}
	for _, r := range l.at {
		if b.tree.nodes[r.node].parent < 0 {
			b.settle(r.node)
			if refusal := l.saved(r); refusal != nil {
				return refusal
			}
		}
	}
	for _, r := range l.at {
		if refusal := l.above(r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// hard is the first limit that nobody can lend which the load would pass.
func (l *load) hard(also ...Cause) *Refusal {
	for _, cause := range append([]Cause{OverMax, OverMin}, also...) {
		for _, r := range l.at {
			if refusal := l.over(r, cause); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// over says whether a quota would pass a limit that nobody can lend.
func (l *load) over(r *request, cause Cause) *Refusal {
	v, n := l.view, &l.view.book.tree.nodes[r.node]
	limit, asks, has, named := n.max, r.all, v.taken, n.named
	switch cause {
	case OverMin:
		limit, asks, has, named = n.min, r.fixed, v.fixed, n.hasMin
	case Claimed:
		if len(v.book.claims) == 0 {
			return nil
		}
	}
	var exceeds []int
	by := ""
	for d, wants := range asks {
		room := limit[d]
		if wants > 0 && room != math.MaxInt64 {
			room -= has(r.node, d)
			if cause == Claimed {
				claimed, of := v.book.claimed(l.ask, r.node, d)
				if by == "" {
					by = of
				}
				room -= claimed
			}
		}
		if wants > 0 && room < wants && named[d] {
			exceeds = append(exceeds, d)
		}
	}
	if exceeds == nil {
		return nil
	}
	refusal := l.refuse(r, cause, limit, exceeds)
	if cause == Claimed {
		refusal.By = by
	}
	return refusal
}

// saved says whether what is free in a tree is saved for others.
func (l *load) saved(top *request) *Refusal {
	b := l.view.book
	sum, first := make(vector, len(b.tree.resources)), ""
	for _, name := range slices.Sorted(maps.Keys(b.claims)) {
		if c := b.claims[name]; c.free && b.respects(l.ask, c) && !l.spared(c) {
			sum.add(c.load.top(top.node).all)
			first = cmp.Or(first, name)
		}
	}
	if first == "" {
		return nil
	}
	var exceeds []int
	for d, wants := range top.all {
		all := b.accounts[top.node].entitled[d]
		if wants > 0 && sum[d] > 0 && all != math.MaxInt64 && all-l.view.taken(top.node, d)-sum[d] < wants {
			exceeds = append(exceeds, d)
		}
	}
	if exceeds == nil {
		return nil
	}
	refusal := l.refuse(top, Claimed, b.accounts[top.node].entitled, exceeds)
	refusal.By = first
	return refusal
}

// spared says whether a claim to what is free in the tree does not bind whoever asks: he is of another quota, and stays within his min; or
// within what he is entitled to, if the claim is one of quotas that are entitled to as much as it is for.
func (l *load) spared(c *claim) bool {
	b := l.view.book
	within := func(limit func(n *node, a *account, d int) (int64, bool)) bool {
		return !slices.ContainsFunc(l.at, func(r *request) bool {
			n, a := &b.tree.nodes[r.node], &b.accounts[r.node]
			for d, wants := range r.all {
				if most, named := limit(n, a, d); n.parent >= 0 && wants > 0 && (!named || most-l.view.taken(r.node, d) < wants) {
					return true
				}
			}
			return false
		})
	}
	if slices.ContainsFunc(c.load.at, func(r *request) bool { return r.node == r.leaf && l.asks(r.node) }) {
		return false
	}
	if within(func(n *node, _ *account, d int) (int64, bool) { return n.min[d], n.hasMin[d] }) {
		return true
	}
	for _, r := range c.load.at {
		if b.tree.nodes[r.node].parent >= 0 && (l.asks(r.node) || b.larger(r)) {
			return false
		}
	}
	return within(func(n *node, a *account, d int) (int64, bool) { return a.entitled[d], n.named[d] })
}

// larger says whether a request is for more than a quota is entitled to.
func (b *Book) larger(r *request) bool {
	for d, wants := range r.all {
		if b.tree.nodes[r.node].named[d] && wants > b.accounts[r.node].entitled[d] {
			return true
		}
	}
	return false
}

// respects says whether who asks must respect a claim of somebody else.
func (b *Book) respects(a *Ask, c *claim) bool {
	own := b.claims[a.Gang]
	return c.ask.Gang != a.Gang && c.ask.Priority >= a.Priority && (own == nil || own.turn > c.turn)
}

// refuse says that a request is refused.
func (l *load) refuse(r *request, cause Cause, limit vector, exceeds []int) *Refusal {
	t, a := l.view.book.tree, &l.view.book.accounts[r.node]
	out := &Refusal{
		Cause: cause, Quota: t.nodes[r.node].Name, Path: t.Path(t.nodes[r.leaf].Name), Pods: r.pods,
		Limit: List{}, Used: List{}, Reserved: List{}, Request: List{},
	}
	for d, n := range r.all {
		if n > 0 && (t.nodes[r.node].named[d] || t.nodes[r.node].parent < 0 && limit[d] != math.MaxInt64) {
			name := t.resources[d]
			out.Limit[name], out.Used[name], out.Reserved[name], out.Request[name] = limit[d], a.used[d], a.reserved[d], n
			if cause == OverMin {
				out.Used[name], out.Reserved[name], out.Request[name] = l.view.fixed(r.node, d), 0, r.fixed[d]
			}
		}
	}
	for _, d := range exceeds {
		out.Exceeds = append(out.Exceeds, t.resources[d])
	}
	return out
}

// above says whether a quota would be above what it is entitled to, and may not: it borrows only what is free in the
// whole tree, and what no quota wants that is served before it. A gang cannot be divided, so that it is above by less
// than itself must not keep it out when nobody else can use what is idle.
func (l *load) above(r *request) *Refusal {
	v, n := l.view, &l.view.book.tree.nodes[r.node]
	entitled, exceeds := v.book.accounts[r.node].entitled, l.borrows(r)
	if exceeds == nil {
		return nil
	}
	if short := l.tooFew(l.top(n.top)); short != nil {
		refusal := l.refuse(r, OverFree, entitled, exceeds)
		refusal.Borrowed = l.borrowers(r, exceeds)
		top := l.refuse(l.top(n.top), OverFree, v.book.accounts[n.top].entitled, nil)
		refusal.Tree = Standing{Limit: top.Limit, Used: top.Used, Reserved: top.Reserved}
		return refusal
	}
	if n.parent < 0 {
		return nil
	}
	for _, s := range v.book.tree.nodes[n.parent].children {
		if s == r.node || l.asks(s) || v.book.accounts[s].waiting == 0 || !v.before(s, r.node) || !l.anyFirst(s) {
			continue
		}
		refusal := l.refuse(r, NotNext, entitled, exceeds)
		refusal.By = v.book.tree.nodes[s].Name
		return refusal
	}
	return nil
}

// borrows are the resources of which a quota would have more than it is entitled to.
func (l *load) borrows(r *request) (exceeds []int) {
	n, entitled := &l.view.book.tree.nodes[r.node], l.view.book.accounts[r.node].entitled
	for d, wants := range r.all {
		if wants > 0 && n.named[d] && !n.Apart && entitled[d] != math.MaxInt64 && entitled[d]-l.view.taken(r.node, d) < wants {
			exceeds = append(exceeds, d)
		}
	}
	return exceeds
}

func (l *load) top(node int) *request {
	for _, r := range l.at {
		if r.node == node {
			return r
		}
	}
	return &request{node: node}
}

// asks says whether the load asks a quota for anything.
func (l *load) asks(node int) bool {
	return slices.ContainsFunc(l.at, func(r *request) bool { return r.node == node })
}

// tooFew are the resources of which less is free in a tree than is asked for, without what is kept for quotas that
// lend nothing.
func (l *load) tooFew(top *request) (short []int) {
	b := l.view.book
	for d, wants := range top.all {
		free := b.accounts[top.node].entitled[d]
		if wants == 0 || free == math.MaxInt64 {
			continue
		}
		free -= l.view.taken(top.node, d)
		for _, r := range l.at {
			if b.tree.nodes[r.node].top != top.node {
				continue
			}
			for _, c := range b.tree.nodes[r.node].children {
				if idle := l.view.idle(c, d); idle > 0 && !l.asks(c) {
					free -= idle
				}
			}
		}
		if free < wants {
			short = append(short, d)
		}
	}
	return short
}

// borrowers are the other quotas of a quota's parent that have more than their min of what is short.
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

// anyFirst says whether a gang waits below a quota that could start now, and has its turn before who asks: nothing else keeps it, it would
// pass no max, and what it asks for is free.
func (l *load) anyFirst(i int) bool {
	v, b := l.view, l.view.book
	if b.accounts[i].waiting == 0 {
		return false
	}
	if b.accounts[i].starters > 0 {
		for _, p := range b.accounts[i].parts {
			if p.pods[Waits] == 0 || b.passed[p.gang.name] || slices.Contains(b.together(l.ask.Gang), p.gang.name) {
				continue
			}
			if other := v.all(p.gang.name); other.starts() && other.first(l) {
				return true
			}
		}
	}
	return slices.ContainsFunc(b.tree.nodes[i].children, l.anyFirst)
}

// all is what all who wait of a gang ask for, and of those that start together with it.
func (v *View) all(gang string) *load {
	b := v.book
	l := &load{view: v, ask: &Ask{Gang: gang}}
	for _, name := range b.together(gang) {
		if b.gangs[name] == nil {
			continue
		}
		for _, p := range b.gangs[name].parts {
			if p.pods[Waits] == 0 {
				continue
			}
			if l.broken == nil {
				l.broken = b.tree.unusable(b.tree.nodes[p.node].Name)
			}
			for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
				l.of(i, p.node).all.add(p.waits)
			}
		}
	}
	return l
}

// starts says whether no max is passed, and what is asked for is free.
func (l *load) starts() bool {
	t := l.view.book.tree
	return l.broken == nil && !slices.ContainsFunc(l.at, func(r *request) bool {
		if t.nodes[r.node].parent < 0 {
			l.view.book.settle(r.node)
		}
		return l.over(r, OverMax) != nil || t.nodes[r.node].parent < 0 && l.tooFew(r) != nil
	})
}

// first says whether one has its turn before another one, who borrows: who asks several quotas has his turn with the last of those in which he
// borrows. Otherwise two of whom each is before the other one somewhere would wait for each other.
func (l *load) first(other *load) bool {
	mine, borrows := l.last()
	if !borrows {
		return true
	}
	theirs, _ := other.last()
	return l.view.earlier(mine, theirs)
}

// last is the quota that is served last of those that members name and in which, or above which, somebody borrows.
func (l *load) last() (leaf int, any bool) {
	nodes := l.view.book.tree.nodes
	for _, r := range l.at {
		if r.node != r.leaf || any && !l.view.earlier(leaf, r.node) {
			continue
		}
		for i := r.node; nodes[i].parent >= 0; i = nodes[i].parent {
			if l.borrows(l.top(i)) != nil {
				leaf, any = r.node, true
				break
			}
		}
	}
	return leaf, any
}

// claim is what is saved for a gang that starves.
type claim struct {
	ask  Ask
	load *load
	free bool // also what is free in the tree
	turn int  // who claims first goes first
}

// Claim saves for a gang what it asks for, below the max of each quota on its paths: others of its priority and below
// get only what is left, but for those who claimed before it. With free it is also saved of what is free in the tree, see spared. Unclaim
// ends it.
func (b *Book) Claim(a Ask, free bool) {
	b.turns++
	turn := b.turns
	if was := b.claims[a.Gang]; was != nil {
		turn = was.turn
	}
	b.claim(&claim{ask: a, free: free, turn: turn})
}

func (b *Book) claim(c *claim) {
	c.load = &load{view: b.View(), ask: &c.ask}
	for _, w := range c.ask.Need {
		c.load.add(w, w.Count)
	}
	b.claims[c.ask.Gang] = c
	b.changes++
}

// Unclaim gives up what is saved for a gang.
func (b *Book) Unclaim(gang string) {
	b.changes++
	delete(b.claims, gang)
}

// claimed is how much of a quota is saved for gangs that one must respect, and the first of them.
func (b *Book) claimed(a *Ask, node, d int) (sum int64, first string) {
	for _, name := range slices.Sorted(maps.Keys(b.claims)) {
		c := b.claims[name]
		if !b.respects(a, c) {
			continue
		}
		for _, r := range c.load.at {
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
