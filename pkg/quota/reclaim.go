package quota

import (
	"maps"
	"math"
	"slices"
)

// Policy says which gangs of other quotas may be evicted.
type Policy string

// The policies, as users write them.
const (
	AnyPriority   Policy = "Any"
	LowerPriority Policy = "LowerPriority"
	Never         Policy = "Never"
)

// Right is why a gang may be evicted for another one.
type Right uint8

const (
	None     Right = iota
	Own            // it is of the same quota, and of lower priority
	ByMin          // it borrows, and the other one's quota stays within its min
	ByShares       // it borrows, its quota has more than it is entitled to, and the other one's has not
)

// Reclaim is the search for gangs that may be evicted for one, from the moment it begins: the book must not change
// meanwhile.
type Reclaim struct {
	book   *Book
	ask    Ask
	policy Policy
	load   *load
	later  bool  // another quota is served first: a preemptor that waits for that alone evicts no pod
	below  Share // see BelowMin

	after   *Reclaim // the search when afterOf have terminated; see afterOwn
	afterOf []string
}

// Reclaim begins the search for gangs that may be evicted for one.
func (b *Book) Reclaim(a Ask, p Policy) *Reclaim {
	r := &Reclaim{book: b, ask: a, policy: p}
	r.load = &load{view: b.View(), ask: &r.ask}
	for _, w := range a.Need {
		r.load.add(w, w.Count)
	}
	for _, at := range r.load.at {
		b.settle(b.tree.nodes[at.node].top)
	}
	refusal := r.load.refused()
	r.later = refusal != nil && refusal.Cause == NotNext
	return r
}

// View is what quotas have as long as nobody has left for the ask.
func (r *Reclaim) View() *View { return r.book.View() }

// Right says whether a gang may be evicted as things are, and why. A gang that nobody knows has no quota, and may not.
func (r *Reclaim) Right(gang string) (least Right) {
	for _, t := range r.titles(gang) {
		if t.right == None {
			return None
		}
		least = max(least, t.right)
	}
	return least
}

// Freed is the search as it is when some pods have left who ask again for what they had: what quotas are entitled to is as it was.
func (r *Reclaim) Freed(pods ...string) *Reclaim {
	freed := *r
	freed.load = r.load.clone()
	freed.load.view = r.load.view.Clone()
	freed.load.view.Leave(pods...)
	return &freed
}

// RightFor is the right of those who ask of one quota to what a gang has of another one, or of the same: another member's right is not theirs.
func (r *Reclaim) RightFor(quota, gang, of string) Right {
	leaf, is := r.book.tree.byName[quota]
	g := r.book.gangs[gang]
	if !is || g == nil || gang == r.ask.Gang || r.load.broken != nil {
		return None
	}
	g.facts()
	for _, p := range g.parts {
		if r.book.tree.nodes[p.node].Name == of && r.mayGive(p) {
			return r.between(leaf, p).right
		}
	}
	return None
}

// Any says whether any gang may be evicted. Where no gang may leave for what a quota has, none is asked about.
func (r *Reclaim) Any() bool { return r.AnySince(0) }

// AnySince returns whether a gang may be evicted of a quota of which more may be than at an earlier moment (Book.Now), or for a quota for which
// more may be.
func (r *Reclaim) AnySince(moment uint64) bool {
	t, accounts := r.book.tree, r.book.accounts
	may := func(g *gang) bool { return r.Right(g.name) != None }
	for _, leaf := range r.leaves() {
		if accounts[leaf].more > moment && slices.ContainsFunc(accounts[leaf].parts, func(p *part) bool { return may(p.gang) }) {
			return true
		}
		for mine := leaf; t.nodes[mine].parent >= 0 && r.policy != Never; mine = t.nodes[mine].parent {
			within := r.within(mine)
			for _, others := range t.nodes[t.nodes[mine].parent].children {
				if others == mine || accounts[others].more <= moment && accounts[mine].less <= moment || !within && !r.shares(mine, others, r.load.view) {
					continue
				}
				lacks := r.below > 0 && within && r.aboveMin(others, r.load.view)
				for g, class := range r.book.class.at(others) {
					if (class == Borrows || lacks) && may(g) {
						return true
					}
				}
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

// Own are the pods of all gangs of which any may be evicted since they are of the same quotas and of lower priority.
func (r *Reclaim) Own() (pods []string) {
	for name, g := range r.book.gangs {
		if r.Right(name) == Own {
			pods = slices.AppendSeq(pods, maps.Keys(g.pods))
		}
	}
	slices.Sort(pods)
	return pods
}

// More says whether some gang may be evicted that may not in another search.
func (r *Reclaim) More(than *Reclaim) bool {
	for name := range r.book.gangs {
		if r.Right(name) != None && than.Right(name) == None {
			return true
		}
	}
	return false
}

// title is the right to what a gang has of one quota. With pairs, it is against one quota for another, as long as the other one has too much.
type title struct {
	right Right
	node  int    // the quota of which the gang has it
	pairs []pair // ByShares; ByMin, if not only gangs that borrow may be evicted
}

// pair is a quota for which a gang leaves, and one of which it does; they are next below the lowest one above both.
type pair struct{ mine, others int }

// titles are the rights to a gang, one for each quota in which it has something.
func (r *Reclaim) titles(name string) (all []title) {
	g := r.book.gangs[name]
	if g == nil || name == r.ask.Gang || r.load.broken != nil {
		return nil
	}
	g.facts()
	for _, p := range g.parts {
		if p.pods[Holds]+p.pods[Keeps] == 0 {
			continue
		}
		var best title
		if r.mayGive(p) {
			best = r.best(p)
		}
		best.node = p.node
		all = append(all, best)
	}
	return all
}

// mayGive says whether a gang ever leaves for what it has of a quota.
func (r *Reclaim) mayGive(p *part) bool {
	n := &r.book.tree.nodes[p.node]
	return !p.gang.fixed && !n.Spared && n.broken == ""
}

// best is the best right to what a gang has of one quota, for any of those that the ask is for.
func (r *Reclaim) best(p *part) (best title) {
	for _, at := range r.load.at {
		if at.node != at.leaf {
			continue
		}
		switch is := r.between(at.leaf, p); {
		case is.right == None:
		case best.right == None || is.right < best.right || is.right == best.right && len(is.pairs) == 0:
			best = is
		case is.right == best.right && len(best.pairs) > 0:
			best.pairs = append(best.pairs, is.pairs...)
		}
	}
	return best
}

// between is the right of a quota that members name to what a gang has of another one.
func (r *Reclaim) between(leaf int, p *part) title {
	if leaf == p.node {
		if p.gang.priority < r.ask.Priority {
			return title{right: Own}
		}
		return title{}
	}
	if r.policy == Never || r.policy == LowerPriority && p.gang.priority >= r.ask.Priority {
		return title{}
	}
	mine, others := r.book.tree.apart(leaf, p.node)
	if mine < 0 {
		return title{}
	}
	switch borrows, within := r.book.class.at(others)[p.gang] == Borrows, r.within(mine); {
	case !borrows && (!within || r.below == 0 || !r.aboveMin(others, r.load.view)):
		return title{}
	case within && r.below > 0:
		return title{right: ByMin, pairs: []pair{{mine, others}}}
	case within:
		return title{right: ByMin}
	case r.shares(mine, others, r.load.view):
		return title{right: ByShares, pairs: []pair{{mine, others}}}
	}
	return title{}
}

// BelowMin has the search go on with pods of gangs that do not borrow as a whole, as long as the quotas of which they are lack less than a part of what
// there is of their mins when all victims have terminated: with 1 each keeps its min. It is for an ask within the min of its own quota for which
// there are no other victims.
func (r *Reclaim) BelowMin(lacks Share) { r.below, r.after = lacks, nil }

// Shortfall returns how much the quota lacks of its min that lacks most when the victims of Check have terminated, as a part of what there is; 0 if each
// keeps its min.
func (r *Reclaim) Shortfall(victims map[string][]string) (most Share) {
	after, rest, _ := r.inOrder(victims)
	v := after.when(rest)
	for gang := range rest {
		for _, t := range after.titles(gang) {
			if t.right == ByMin && len(t.pairs) > 0 {
				most = max(most, after.shortfall(t, v))
			}
		}
	}
	return most
}

// when returns the view in which all victims have terminated.
func (r *Reclaim) when(victims map[string][]string) *View {
	v := r.book.View()
	for _, pods := range victims {
		v.Leave(pods...)
	}
	return v
}

// aboveMin returns whether a quota has more than its min of a resource that is asked for and that its min names; a min may name none.
func (r *Reclaim) aboveMin(node int, v *View) bool {
	n := &r.book.tree.nodes[node]
	limited := slices.Contains(n.hasMin, true)
	return slices.ContainsFunc(r.load.top(n.top).wanted(), func(d int) bool { return n.hasMin[d] == limited && v.taken(node, d) > n.min[d] })
}

// shortfall is how much a victim's quota, or one above it up to that of the title, lacks of its min in a view: of the resource of which that is the
// largest part of what there is, and no more than has terminated.
func (r *Reclaim) shortfall(t title, v *View) (least Share) {
	b := r.book
	least = math.MaxUint64
	for _, p := range t.pairs {
		most := Share(0)
		for i := t.node; i >= p.others; i = b.tree.nodes[i].parent {
			n := &b.tree.nodes[i]
			for d, is := range n.min {
				if lacks := min(r.load.view.taken(i, d), is) - v.taken(i, d); n.hasMin[d] && lacks > 0 {
					most = max(most, 1, Share(mulDiv(uint64(lacks), whole, uint64(max(b.accounts[n.top].entitled[d], 1)))))
				}
			}
		}
		least = min(least, most)
	}
	return least
}

// apart returns the quotas next below the lowest one that is above both; -1 if there is none, or one is above the other.
func (t *Tree) apart(i, j int) (above, of int) {
	a, b := t.up(i), t.up(j)
	for n := range min(len(a), len(b)) {
		if a[n] != b[n] {
			if n == 0 {
				break
			}
			return a[n], b[n]
		}
	}
	return -1, -1
}

// up lists the quotas from the top of the tree down to one.
func (t *Tree) up(i int) (path []int) {
	for ; i >= 0; i = t.nodes[i].parent {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// within says whether a quota stays within its min with what is asked for, in what its min names; it must name some of
// that.
func (r *Reclaim) within(node int) (any bool) {
	n := &r.book.tree.nodes[node]
	for d, wants := range r.load.top(node).all {
		if wants == 0 || !n.hasMin[d] {
			continue
		}
		if any = true; n.min[d]-r.load.view.taken(node, d) < wants {
			return false
		}
	}
	return any
}

// shares says whether a quota stays within what it is entitled to while another one has more than that, of something
// that is asked for.
func (r *Reclaim) shares(mine, others int, v *View) (over bool) {
	b := r.book
	if !b.Runtime || !r.staysEntitled(mine, v) {
		return false
	}
	t := b.tree
	for d, wants := range r.load.top(mine).all {
		over = over || wants > 0 && t.nodes[mine].named[d] && t.nodes[others].named[d] && v.taken(others, d) > b.accounts[others].entitled[d]
	}
	return over
}

// staysEntitled says whether a quota stays within what it is entitled to with what is asked for.
func (r *Reclaim) staysEntitled(node int, v *View) bool {
	n := &r.book.tree.nodes[node]
	for d, wants := range r.load.top(node).all {
		if e := r.book.accounts[node].entitled[d]; wants > 0 && n.named[d] && e != math.MaxInt64 && e-v.taken(node, d) < wants {
			return false
		}
	}
	return true
}

// Enough says whether it is right that these gangs leave, and whether the ask is admitted then. Victims are the pods
// that leave, by gang.
func (r *Reclaim) Enough(victims map[string][]string) bool {
	return r.IsRight(victims) && r.Admits(victims) && r.eachByRight(victims)
}

// Verdict is what the quotas say of a victim set as a whole.
type Verdict uint8

const (
	// Exceeds: the set takes more from some quota than may be taken for the ask. A larger set may not be better.
	Exceeds Verdict = iota
	// Short: every victim may be evicted, but the ask needs more of its quotas than the set frees.
	Short
	// Admitted: every victim may be evicted, and then the ask is admitted.
	Admitted
)

// Check returns the verdict on a victim set, whose pods are given by gang. Victims of the quota that the ask names may be evicted before the
// others: a quota that stays within its min once they have terminated may then take back what other quotas borrow. An ask of several quotas
// has no such order, since evictions in one quota give members of another one no right.
func (r *Reclaim) Check(victims map[string][]string) Verdict {
	if r.later {
		return Exceeds
	}
	switch after, rest, ok := r.inOrder(victims); {
	case !ok:
		return Exceeds
	case after.Admits(rest) && after.eachByRight(rest):
		return Admitted
	}
	return Short
}

// inOrder returns the search in which all victims may be evicted, and those that are left then: where not all may be as things are, the search as it is when
// those of the own quota have terminated. ok is false if they may not be evicted then either.
func (r *Reclaim) inOrder(victims map[string][]string) (after *Reclaim, rest map[string][]string, ok bool) {
	if r.IsRight(victims) {
		return r, victims, true
	}
	var own []string
	rest = map[string][]string{}
	for gang, pods := range victims {
		if r.Right(gang) == Own {
			own = append(own, pods...)
		} else {
			rest[gang] = pods
		}
	}
	if len(own) == 0 || r.several() {
		return r, victims, false
	}
	after = r.afterOwn(own)
	return after, rest, after.IsRight(rest)
}

// afterOwn returns the search as it is when these pods of the own quota have terminated. The last one is kept: sets that are checked one after
// another mostly differ in the victims of other quotas.
func (r *Reclaim) afterOwn(own []string) *Reclaim {
	slices.Sort(own)
	if r.after == nil || !slices.Equal(r.afterOf, own) {
		r.after, r.afterOf = r.book.Without(own...).Reclaim(r.ask, r.policy), own
		r.after.below = r.below
	}
	return r.after
}

// several returns whether members of several quotas ask.
func (r *Reclaim) several() bool {
	return slices.ContainsFunc(r.ask.Need, func(w Want) bool { return w.Quota != r.ask.Need[0].Quota })
}

// IsRight says whether it is right that these gangs leave: if it is not then neither is it that others do besides.
func (r *Reclaim) IsRight(victims map[string][]string) bool {
	if r.later {
		return false
	}
	shares, lacks := map[string][]title{}, map[string][]title{}
	v := r.when(victims)
	for _, name := range slices.Sorted(maps.Keys(victims)) {
		titles := r.titles(name)
		if len(titles) == 0 || slices.ContainsFunc(titles, func(t title) bool { return t.right == None }) {
			return false
		}
		for _, t := range titles {
			switch {
			case len(t.pairs) == 0:
			case t.right == ByMin && r.shortfall(t, v) >= r.below:
				return false
			case t.right == ByMin:
				lacks[name] = append(lacks[name], t)
			default:
				shares[name] = append(shares[name], t)
			}
		}
	}
	return r.inTurn(shares, victims, nil) && r.inTurn(lacks, victims, victims) // the others go first
}

// Admits says whether the ask is admitted when these gangs have left, be it right or not.
func (r *Reclaim) Admits(victims map[string][]string) bool {
	_, refusal := r.when(victims).Admit(Ask{Gang: r.ask.Gang, Priority: r.ask.Priority, Need: r.ask.Need})
	return refusal == nil
}

// eachByRight says whether those who ask of each quota would be admitted if only those had left who may leave for it: who leaves for others who
// ask frees nothing for them. So nobody without a right has others leave by theirs, who have enough without that.
func (r *Reclaim) eachByRight(victims map[string][]string) bool {
	leaves := slices.DeleteFunc(slices.Clone(r.load.at), func(at *request) bool { return at.node != at.leaf })
	if len(leaves) < 2 {
		return true
	}
	stay := map[string]map[string]bool{} // by quota that is asked, who does not leave for it
	for _, at := range leaves {
		quota, is := r.book.tree.nodes[at.node].Name, map[string]bool{}
		for gang, pods := range victims {
			for _, pod := range pods {
				if p := r.book.pods[pod]; p != nil && r.RightFor(quota, gang, p.Quota) == None {
					is[pod] = true
				}
			}
		}
		stay[quota] = is
	}
	for _, is := range stay {
		if len(is) == 0 {
			continue
		}
		v := r.book.View()
		for _, pods := range victims {
			v.Leave(slices.DeleteFunc(slices.Clone(pods), func(pod string) bool { return is[pod] })...)
		}
		some := &load{view: v, ask: &r.ask}
		for _, w := range r.ask.Need {
			if !containsAll(stay[w.Quota], is) { // somebody leaves for these who does not for those
				w.Asks = nil
			}
			some.add(w, w.Count)
		}
		if refusal := some.refused(); refusal != nil && refusal.Cause != NotNext {
			return false
		}
	}
	return true
}

// containsAll says whether one set has all that another one has.
func containsAll(set, of map[string]bool) bool {
	for name := range of {
		if !set[name] {
			return false
		}
	}
	return true
}

// inTurn says whether there is one order in which gangs leave so that, before each of them does, each quota of which it
// does has too much. It is found from its end: who may be the last may stay the last whatever the order of the others
// is, since fewer have left before them then. Those of first have left before any of them.
func (r *Reclaim) inTurn(titles map[string][]title, victims, first map[string][]string) bool {
	v := r.when(first)
	for name := range titles {
		v.Leave(victims[name]...)
	}
	rest := slices.Sorted(maps.Keys(titles))
	for len(rest) > 0 {
		before := len(rest)
		rest = slices.DeleteFunc(rest, func(name string) bool {
			v.Return(victims[name]...)
			if !slices.ContainsFunc(titles[name], func(t title) bool { return !r.tooMuch(t, v) }) {
				return true
			}
			v.Leave(victims[name]...)
			return false
		})
		if len(rest) == before {
			return false
		}
	}
	return true
}

// tooMuch says whether a quota has too much of which something may be taken as long as it has.
func (r *Reclaim) tooMuch(t title, v *View) bool {
	return slices.ContainsFunc(t.pairs, func(p pair) bool {
		if t.right == ByMin {
			return r.aboveMin(p.others, v)
		}
		return r.shares(p.mine, p.others, v)
	})
}

// Turns are gangs that leave one after another, each by right as it is when those before it have left.
type Turns struct {
	reclaim *Reclaim
	view    *View
	titles  map[string][]title // by gang
}

// Turns begins with nobody who has left.
func (r *Reclaim) Turns() *Turns { return &Turns{r, r.load.view.Clone(), map[string][]title{}} }

// May says whether a gang may leave now, with some pods of it and of others.
func (t *Turns) May(gang string, with map[string][]string) bool {
	titles, known := t.titles[gang]
	if !known {
		titles = t.reclaim.titles(gang)
		t.titles[gang] = titles
	}
	if len(titles) == 0 || slices.ContainsFunc(titles, func(is title) bool {
		return is.right == None || len(is.pairs) > 0 && !t.reclaim.tooMuch(is, t.view)
	}) {
		return false
	}
	v := t.view
	if t.reclaim.below > 0 {
		v = v.Clone()
		for _, pods := range with {
			v.Leave(pods...)
		}
	}
	return !slices.ContainsFunc(titles, func(is title) bool {
		return is.right == ByMin && len(is.pairs) > 0 && t.reclaim.shortfall(is, v) >= t.reclaim.below
	})
}

// Leave has pods leave.
func (t *Turns) Leave(pods ...string) { t.view.Leave(pods...) }

// Shortage is what must be freed below a quota before the ask is admitted.
type Shortage struct {
	Quota  string
	Amount List
}

// Shorts lists what must be freed, from the quotas that members name upwards; ok is false if nobody who leaves helps.
func (r *Reclaim) Shorts() (all []Shortage, ok bool) {
	l, b := r.load, r.book
	if l.broken != nil {
		return nil, false
	}
	refusal := l.refused()
	if refusal == nil {
		return nil, true
	}
	if refusal.Cause == OverMin || refusal.Cause == Claimed || r.later {
		return nil, false
	}
	for _, at := range l.at {
		n := &b.tree.nodes[at.node]
		short := List{}
		for d, wants := range at.all {
			limit := n.max[d]
			if refusal.Cause == OverFree {
				if e := b.accounts[at.node].entitled[d]; n.named[d] && !n.Apart {
					limit = min(limit, e)
				}
			}
			if limit == math.MaxInt64 || wants == 0 {
				continue
			}
			if n.max[d] < wants {
				return nil, false // it would never fit
			}
			if more := wants + l.view.taken(at.node, d) - limit; more > 0 {
				short[b.tree.resources[d]] = more
			}
		}
		if len(short) > 0 {
			all = append(all, Shortage{Quota: n.Name, Amount: short})
		}
	}
	return all, true
}
