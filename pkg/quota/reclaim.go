package quota

import (
	"maps"
	"math"
	"slices"
)

// Policy selects the gangs of other quotas that may be evicted.
type Policy string

// The policies, as users write them.
const (
	AnyPriority   Policy = "Any"
	LowerPriority Policy = "LowerPriority"
	Never         Policy = "Never"
)

// Right is the reason why a gang may be evicted for another one.
type Right uint8

// The reasons to evict a gang for another one.
const (
	None        Right = iota
	SameQuota         // same quota, lower priority, or equal with EqualPriority.
	ByMin             // it borrows, and the preemptor's quota stays within its min.
	ByFairShare       // it borrows, its quota exceeds its fair share, and the preemptor's quota does not
)

// Reclaim is the search for gangs that may be evicted for one gang, the preemptor. Invariant: the book does not change during the search.
type Reclaim struct {
	book      *Book
	preemptor Request
	policy    Policy
	load      *load
	later     bool  // another quota is served first: a preemptor that waits only for its turn evicts no pod
	below     Share // see BelowMin
	equal     bool  // see EqualPriority

	reduced   *Reclaim // the search without the pods of reducedBy; see withoutOwn
	reducedBy []string
}

// Reclaim returns the search for gangs that may be evicted for the gang of a request.
func (b *Book) Reclaim(a Request, p Policy) *Reclaim {
	r := &Reclaim{book: b, preemptor: a, policy: p}
	r.load = &load{view: b.View(), gangRequest: &r.preemptor}
	for _, w := range a.Need {
		r.load.add(w, w.Count)
	}
	for _, at := range r.load.requests {
		b.settle(b.tree.nodes[at.node].top)
	}
	refusal := r.load.refusal()
	r.later = refusal != nil && refusal.Cause == NotNext
	return r
}

// View returns the book without any eviction.
func (r *Reclaim) View() *View { return r.book.View() }

// Right returns the weakest of the rights to a gang in its quotas; None if one of these is None, or the gang is unknown or has no quota.
func (r *Reclaim) Right(gang string) (least Right) {
	for _, t := range r.rights(gang) {
		if t.right == None {
			return None
		}
		least = max(least, t.right)
	}
	return least
}

// Freed returns the search as if some pods had terminated, whose capacity the preemptor requests again. Fair shares are unchanged.
func (r *Reclaim) Freed(pods ...string) *Reclaim {
	freed := *r
	freed.load = r.load.clone()
	freed.load.view = r.load.view.Clone()
	freed.load.view.Leave(pods...)
	return &freed
}

// RightFor returns the right of members of one quota to a gang's part of victimQuota; None if there is none, or a name is unknown. Rights
// of other members do not count.
func (r *Reclaim) RightFor(quota, gang, victimQuota string) Right {
	leaf, known := r.book.tree.byName[quota]
	g := r.book.gangs[gang]
	if !known || g == nil || gang == r.preemptor.Gang || r.load.broken != nil {
		return None
	}
	g.refresh()
	for _, p := range g.parts {
		if r.book.tree.nodes[p.node].Name == victimQuota && r.mayBeEvicted(p) {
			return r.rightBetween(leaf, p).right
		}
	}
	return None
}

// Any returns whether any gang may be evicted.
func (r *Reclaim) Any() bool { return r.AnySince(0) }

// AnySince returns whether a gang may be evicted because of a change after moment (a result of Book.Now): in the gang's quota or in a quota
// of the preemptor.
func (r *Reclaim) AnySince(moment uint64) bool {
	t, accounts := r.book.tree, r.book.accounts
	may := func(g *gang) bool { return r.Right(g.name) != None }
	for _, leaf := range r.leafQuotas() {
		if accounts[leaf].grown > moment && slices.ContainsFunc(accounts[leaf].parts, func(p *part) bool { return may(p.gang) }) {
			return true
		}
		for own := leaf; t.nodes[own].parent >= 0 && r.policy != Never; own = t.nodes[own].parent {
			within := r.withinMin(own)
			for _, sibling := range t.nodes[t.nodes[own].parent].children {
				old := accounts[sibling].grown <= moment && accounts[own].shrunk <= moment
				if sibling == own || old || !within && !r.mayTakeBack(own, sibling, r.load.view) {
					continue
				}
				lacks := r.below > 0 && within && r.aboveMin(sibling, r.load.view)
				for g, class := range r.book.class.at(sibling) {
					if (class == Borrows || lacks) && may(g) {
						return true
					}
				}
			}
		}
	}
	return false
}

// leafQuotas returns the quotas of the preemptor's members.
func (r *Reclaim) leafQuotas() (nodes []int) {
	for _, at := range r.load.requests {
		if at.node == at.leaf {
			nodes = append(nodes, at.leaf)
		}
	}
	return nodes
}

// Own returns, sorted, the names of all pods of gangs for which Right is SameQuota.
func (r *Reclaim) Own() (pods []string) {
	for name, g := range r.book.gangs {
		if r.Right(name) == SameQuota {
			pods = slices.AppendSeq(pods, maps.Keys(g.pods))
		}
	}
	slices.Sort(pods)
	return pods
}

// More returns whether r may evict some gang of its book that other may not evict.
func (r *Reclaim) More(other *Reclaim) bool {
	for name := range r.book.gangs {
		if r.Right(name) != None && other.Right(name) == None {
			return true
		}
	}
	return false
}

// evictionRight is the right to a gang's part of one quota. With pairs, it needs one pair whose victim quota is over its limit.
type evictionRight struct {
	right Right
	node  int    // the quota of the part
	pairs []pair // for ByFairShare, and for ByMin beyond borrowing gangs
}

// pair is the preemptor's quota and the victim's quota, or quotas above them: both are children of the lowest common quota.
type pair struct{ preemptorQuota, victimQuota int }

// rights returns the rights to a gang, one for each quota in which it uses anything.
func (r *Reclaim) rights(name string) (all []evictionRight) {
	g := r.book.gangs[name]
	if g == nil || name == r.preemptor.Gang || r.load.broken != nil {
		return nil
	}
	g.refresh()
	for _, p := range g.parts {
		if p.pods[Bound]+p.pods[Reserved] == 0 {
			continue
		}
		var best evictionRight
		if r.mayBeEvicted(p) {
			best = r.bestRight(p)
		}
		best.node = p.node
		all = append(all, best)
	}
	return all
}

// mayBeEvicted returns false if no preemptor may evict the pods of a part.
func (r *Reclaim) mayBeEvicted(p *part) bool {
	n := &r.book.tree.nodes[p.node]
	return !p.gang.fixed && !n.NeverEvicted && n.broken == ""
}

// bestRight returns the strongest right of any quota of the preemptor to part p.
func (r *Reclaim) bestRight(p *part) (best evictionRight) {
	for _, at := range r.load.requests {
		if at.node != at.leaf {
			continue
		}
		switch found := r.rightBetween(at.leaf, p); {
		case found.right == None:
		case best.right == None || found.right < best.right || found.right == best.right && len(found.pairs) == 0:
			best = found
		case found.right == best.right && len(best.pairs) > 0:
			best.pairs = append(best.pairs, found.pairs...)
		}
	}
	return best
}

// rightBetween returns the right of members in quota leaf to part p.
func (r *Reclaim) rightBetween(leaf int, p *part) evictionRight {
	if leaf == p.node {
		if p.gang.priority < r.preemptor.Priority || r.equal && p.gang.priority == r.preemptor.Priority {
			return evictionRight{right: SameQuota}
		}
		return evictionRight{}
	}
	if r.policy == Never || r.policy == LowerPriority && p.gang.priority >= r.preemptor.Priority {
		return evictionRight{}
	}
	preemptorQuota, victimQuota := r.book.tree.branches(leaf, p.node)
	if preemptorQuota < 0 {
		return evictionRight{}
	}
	switch borrows, within := r.book.class.at(victimQuota)[p.gang] == Borrows, r.withinMin(preemptorQuota); {
	case !borrows && (!within || r.below == 0 || !r.aboveMin(victimQuota, r.load.view)):
		return evictionRight{}
	case within && r.below > 0:
		return evictionRight{right: ByMin, pairs: []pair{{preemptorQuota, victimQuota}}}
	case within:
		return evictionRight{right: ByMin}
	case r.mayTakeBack(preemptorQuota, victimQuota, r.load.view):
		return evictionRight{right: ByFairShare, pairs: []pair{{preemptorQuota, victimQuota}}}
	}
	return evictionRight{}
}

// BelowMin also allows evictions of gangs that do not borrow as a whole. Invariant: after all evictions each victim's quota lacks less than
// this part of its min; with 1 each keeps its min. It is for a preemptor within the min of its own quota that finds no other victims.
func (r *Reclaim) BelowMin(lacks Share) { r.below, r.reduced = lacks, nil }

// EqualPriority also allows evictions in the preemptor's own quotas of gangs with the preemptor's priority.
func (r *Reclaim) EqualPriority() { r.equal, r.reduced = true, nil }

// Shortfall returns the largest part of its min that a quota lacks without victims, which passed Check; 0 if all keep their min.
func (r *Reclaim) Shortfall(victims map[string][]string) (most Share) {
	search, rest, _ := r.inEvictionOrder(victims)
	v := search.withoutVictims(rest)
	for gang := range rest {
		for _, t := range search.rights(gang) {
			if t.right == ByMin && len(t.pairs) > 0 {
				most = max(most, search.shortfall(t, v))
			}
		}
	}
	return most
}

// withoutVictims returns the view in which all victims have terminated.
func (r *Reclaim) withoutVictims(victims map[string][]string) *View {
	v := r.book.View()
	for _, pods := range victims {
		v.Leave(pods...)
	}
	return v
}

// aboveMin returns whether quota node uses more than its min of a requested resource named in the min; of any if the min names none.
func (r *Reclaim) aboveMin(node int, v *View) bool {
	n := &r.book.tree.nodes[node]
	limited := slices.Contains(n.hasMin, true)
	return slices.ContainsFunc(r.load.requestOf(n.top).wanted(), func(d int) bool {
		return n.hasMin[d] == limited && v.taken(node, d) > n.min[d]
	})
}

// shortfall returns how much the victim's quota, or one above it up to that of the pair, lacks of its min in view v. The resource with the
// largest lack counts, relative to the total. Only what the victims freed counts.
func (r *Reclaim) shortfall(t evictionRight, v *View) (least Share) {
	b := r.book
	least = math.MaxUint64
	for _, p := range t.pairs {
		most := Share(0)
		for i := t.node; i >= p.victimQuota; i = b.tree.nodes[i].parent {
			n := &b.tree.nodes[i]
			for d, guaranteed := range n.min {
				if lacks := min(r.load.view.taken(i, d), guaranteed) - v.taken(i, d); n.hasMin[d] && lacks > 0 {
					most = max(most, 1, Share(mulDiv(uint64(lacks), millionths, uint64(max(b.accounts[n.top].fairShare[d], 1)))))
				}
			}
		}
		least = min(least, most)
	}
	return least
}

// branches returns the two quotas directly below the lowest common parent of i and j: the one towards i, and the one towards j. It returns
// -1, -1 if they have no common parent, are equal, or one is above the other.
func (t *Tree) branches(i, j int) (towardsI, towardsJ int) {
	a, b := t.pathTo(i), t.pathTo(j)
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

// pathTo returns the quotas from the top of the tree down to quota i.
func (t *Tree) pathTo(i int) (path []int) {
	for ; i >= 0; i = t.nodes[i].parent {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// withinMin returns whether quota node, with the preemptor, stays within its min in the resources named there, and requests one of these.
func (r *Reclaim) withinMin(node int) (named bool) {
	n := &r.book.tree.nodes[node]
	for d, wants := range r.load.requestOf(node).all {
		if wants == 0 || !n.hasMin[d] {
			continue
		}
		if named = true; n.min[d]-r.load.view.taken(node, d) < wants {
			return false
		}
	}
	return named
}

// mayTakeBack returns whether own, with the preemptor, stays within its fair share, and other exceeds its own in a requested resource.
func (r *Reclaim) mayTakeBack(own, other int, v *View) (over bool) {
	b := r.book
	if !b.Runtime || !r.staysWithinFairShare(own, v) {
		return false
	}
	t := b.tree
	for d, wants := range r.load.requestOf(own).all {
		over = over || wants > 0 && t.nodes[own].named[d] && t.nodes[other].named[d] && v.taken(other, d) > b.accounts[other].fairShare[d]
	}
	return over
}

// staysWithinFairShare returns whether quota node, with the preemptor, stays within its fair share.
func (r *Reclaim) staysWithinFairShare(node int, v *View) bool {
	n := &r.book.tree.nodes[node]
	for d, wants := range r.load.requestOf(node).all {
		if e := r.book.accounts[node].fairShare[d]; wants > 0 && n.named[d] && e != math.MaxInt64 && e-v.taken(node, d) < wants {
			return false
		}
	}
	return true
}

// Verdict is the quota check of a whole victim set.
type Verdict uint8

const (
	// Exceeds says that the set takes more from some quota than may be taken for the preemptor. A larger set may not be better.
	Exceeds Verdict = iota
	// Short says that every victim may be evicted, but the preemptor needs more of its quotas than the set frees.
	Short
	// Admitted says that every victim may be evicted, and then the preemptor is admitted.
	Admitted
)

// Check returns the verdict on a set of victims: pods by gang. Victims of the preemptor's own quota may be evicted first. Without them,
// that quota may stay within its min, and may then take back what other quotas borrow. A preemptor of several quotas has no such order,
// since evictions in one quota give members of another one no right.
func (r *Reclaim) Check(victims map[string][]string) Verdict {
	if r.later {
		return Exceeds
	}
	switch search, rest, ok := r.inEvictionOrder(victims); {
	case !ok:
		return Exceeds
	case search.Admits(rest) && search.eachByRight(rest):
		return Admitted
	}
	return Short
}

// inEvictionOrder returns the search in which all victims may be evicted, and the victims that remain for it. That is r with all victims,
// or the search after the victims of the own quota, with the rest. ok is false if the victims may not be evicted then either.
func (r *Reclaim) inEvictionOrder(victims map[string][]string) (search *Reclaim, rest map[string][]string, ok bool) {
	if r.MayEvict(victims) {
		return r, victims, true
	}
	var own []string
	rest = map[string][]string{}
	for gang, pods := range victims {
		if r.Right(gang) == SameQuota {
			own = append(own, pods...)
		} else {
			rest[gang] = pods
		}
	}
	if len(own) == 0 || r.hasSeveralQuotas() {
		return r, victims, false
	}
	search = r.withoutOwn(own)
	return search, rest, search.MayEvict(rest)
}

// withoutOwn returns the search on a book without these pods of the own quota. The last one is cached: successive sets mostly differ in the
// victims of other quotas.
func (r *Reclaim) withoutOwn(own []string) *Reclaim {
	slices.Sort(own)
	if r.reduced == nil || !slices.Equal(r.reducedBy, own) {
		r.reduced, r.reducedBy = r.book.Without(own...).Reclaim(r.preemptor, r.policy), own
		r.reduced.below, r.reduced.equal = r.below, r.equal
	}
	return r.reduced
}

// hasSeveralQuotas returns whether the preemptor has members of several quotas.
func (r *Reclaim) hasSeveralQuotas() bool {
	return slices.ContainsFunc(r.preemptor.Need, func(w Want) bool { return w.Quota != r.preemptor.Need[0].Quota })
}

// MayEvict returns whether all these victims may be evicted. If not, no larger set may be evicted either.
func (r *Reclaim) MayEvict(victims map[string][]string) bool {
	if r.later {
		return false
	}
	shares, lacks := map[string][]evictionRight{}, map[string][]evictionRight{}
	v := r.withoutVictims(victims)
	for _, name := range slices.Sorted(maps.Keys(victims)) {
		rights := r.rights(name)
		if len(rights) == 0 || slices.ContainsFunc(rights, func(t evictionRight) bool { return t.right == None }) {
			return false
		}
		for _, t := range rights {
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
	return r.inTurn(shares, victims, nil) && r.inTurn(lacks, victims, victims) // rights by fair share are used first
}

// Admits returns whether the preemptor is admitted after these victims are evicted. It does not check whether they may be evicted.
func (r *Reclaim) Admits(victims map[string][]string) bool {
	_, refusal := r.withoutVictims(victims).Admit(Request{Gang: r.preemptor.Gang, Priority: r.preemptor.Priority, Need: r.preemptor.Need})
	return refusal == nil
}

// eachByRight returns whether the members of each quota are admitted with only the victims that may be evicted for that quota. Otherwise
// members without a right would use capacity of victims of other members.
func (r *Reclaim) eachByRight(victims map[string][]string) bool {
	leafRequests := slices.DeleteFunc(slices.Clone(r.load.requests), func(at *request) bool { return at.node != at.leaf })
	if len(leafRequests) < 2 {
		return true
	}
	excluded := map[string]map[string]bool{} // by quota of the preemptor, the victims that may not be evicted for it
	for _, at := range leafRequests {
		quota, denied := r.book.tree.nodes[at.node].Name, map[string]bool{}
		for gang, pods := range victims {
			for _, pod := range pods {
				if p := r.book.pods[pod]; p != nil && r.RightFor(quota, gang, p.Quota) == None {
					denied[pod] = true
				}
			}
		}
		excluded[quota] = denied
	}
	for _, denied := range excluded {
		if len(denied) == 0 {
			continue
		}
		v := r.book.View()
		for _, pods := range victims {
			v.Leave(slices.DeleteFunc(slices.Clone(pods), func(pod string) bool { return denied[pod] })...)
		}
		rest := &load{view: v, gangRequest: &r.preemptor}
		for _, w := range r.preemptor.Need {
			if !containsAll(excluded[w.Quota], denied) { // some victim serves these members and not the quota at hand
				w.Asks = nil
			}
			rest.add(w, w.Count)
		}
		if refusal := rest.refusal(); refusal != nil && refusal.Cause != NotNext {
			return false
		}
	}
	return true
}

// containsAll returns whether set contains all of subset.
func containsAll(set, subset map[string]bool) bool {
	for name := range subset {
		if !set[name] {
			return false
		}
	}
	return true
}

// inTurn returns whether the gangs can be evicted, after the gangs in first, such that each victim quota is over its limit at its turn. The
// order is searched from the end: a gang that may be last can always be last, since removing fewer gangs before it only helps.
func (r *Reclaim) inTurn(rights map[string][]evictionRight, victims, first map[string][]string) bool {
	v := r.withoutVictims(first)
	for name := range rights {
		v.Leave(victims[name]...)
	}
	rest := slices.Sorted(maps.Keys(rights))
	for len(rest) > 0 {
		before := len(rest)
		rest = slices.DeleteFunc(rest, func(name string) bool {
			v.Return(victims[name]...)
			if !slices.ContainsFunc(rights[name], func(t evictionRight) bool { return !r.overLimit(t, v) }) {
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

// overLimit returns whether the victim quota of some pair still exceeds its limit in view v.
func (r *Reclaim) overLimit(t evictionRight, v *View) bool {
	return slices.ContainsFunc(t.pairs, func(p pair) bool {
		if t.right == ByMin {
			return r.aboveMin(p.victimQuota, v)
		}
		return r.mayTakeBack(p.preemptorQuota, p.victimQuota, v)
	})
}

// Turns are evictions one after another, each allowed in the state after the ones before.
type Turns struct {
	reclaim *Reclaim
	view    *View
	rights  map[string][]evictionRight // by gang
}

// Turns returns a check of evictions one after another, before the first one.
func (r *Reclaim) Turns() *Turns { return &Turns{r, r.load.view.Clone(), map[string][]evictionRight{}} }

// May returns whether a gang may be evicted now. victims are all pods that are evicted together with it, by gang.
func (t *Turns) May(gang string, victims map[string][]string) bool {
	rights, known := t.rights[gang]
	if !known {
		rights = t.reclaim.rights(gang)
		t.rights[gang] = rights
	}
	if len(rights) == 0 || slices.ContainsFunc(rights, func(right evictionRight) bool {
		return right.right == None || len(right.pairs) > 0 && !t.reclaim.overLimit(right, t.view)
	}) {
		return false
	}
	v := t.view
	if t.reclaim.below > 0 {
		v = v.Clone()
		for _, pods := range victims {
			v.Leave(pods...)
		}
	}
	return !slices.ContainsFunc(rights, func(right evictionRight) bool {
		return right.right == ByMin && len(right.pairs) > 0 && t.reclaim.shortfall(right, v) >= t.reclaim.below
	})
}

// Leave counts pods as evicted.
func (t *Turns) Leave(pods ...string) { t.view.Leave(pods...) }

// Shortage is the amount that must be freed below a quota before the preemptor is admitted.
type Shortage struct {
	Quota  string
	Amount List
}

// Shortages returns the amounts that must be freed, from the quotas of the members upwards; ok is false if no eviction helps.
func (r *Reclaim) Shortages() (all []Shortage, ok bool) {
	l, b := r.load, r.book
	if l.broken != nil {
		return nil, false
	}
	refusal := l.refusal()
	if refusal == nil {
		return nil, true
	}
	if refusal.Cause == OverMin || refusal.Cause == Held || r.later {
		return nil, false
	}
	for _, at := range l.requests {
		n := &b.tree.nodes[at.node]
		short := List{}
		for d, wants := range at.all {
			limit := n.max[d]
			if refusal.Cause == OverFree {
				if e := b.accounts[at.node].fairShare[d]; n.named[d] && !n.Detached {
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
