package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// domain is the search in one domain: its nodes, in a tree of their own.
type domain struct {
	*search
	id     topology.ID
	lo, hi int
	world  plan.World // of the domain's nodes alone
	steps  []offer.Slots
	bare   []offer.Slots // by index of the domain's node, slots while nothing is evicted; made when asked for
	sum    offer.Slots   // of bare
	listed []Pick        // see all

	stays func(Pick) bool // victims that no set holds now

	surplus, later []Pick // of the sets that took too much from a quota: what may not be evicted, and what may not after the rest
}

// mostExhausted is up to how many bundles all sets of them are tried. Tests change it.
var mostExhausted = 12

func (s *search) domain(id topology.ID) *domain {
	d := &domain{search: s, id: id, world: s.World, steps: s.Request.Multiple.Steps(s.World.Tree.Depth() + 1)}
	d.lo, d.hi = s.World.Tree.Nodes(id)
	if id != topology.Root {
		d.world = part(s.World, id)
	}
	return d
}

// all lists the domain's victims that a closed set may hold.
func (d *domain) all() []Pick {
	if d.listed == nil {
		d.listed = []Pick{}
		for i := d.lo; i < d.hi; i++ {
			for v := range d.victims[i] {
				if p := (Pick{i, v}); !d.fixed[p] {
					d.listed = append(d.listed, p)
				}
			}
		}
	}
	return d.listed
}

// part is the world of one domain: its nodes are those of the whole world, in the same order, and all above them are
// their own.
func part(w plan.World, id topology.ID) plan.World {
	t := w.Tree
	lo, hi := t.Nodes(id)
	nodes := make([]topology.Node, hi-lo)
	for i := range nodes {
		leaf := t.Node(lo + i)
		nodes[i] = topology.Node{Name: t.Name(leaf), Path: make([]string, t.Depth()-1)}
		for up := t.Parent(leaf); up != topology.Root; up = t.Parent(up) {
			nodes[i].Path[t.Layer(up)-1] = t.Name(up)
		}
	}
	return plan.World{
		Tree: topology.Build(t.LayerNames()[1:t.Depth()], nodes), Room: within(w.Room, lo, hi),
		Bound: within(w.Bound, lo, hi), Attract: within(w.Attract, lo, hi),
	}
}

// inDomain returns the cheapest candidate that is found in a domain; nil if there is none.
func (s *search) inDomain(id topology.ID) *candidate {
	d := s.domain(id)
	var best *candidate
	partial := s.partial
	for _, may := range d.starts() {
		if c := d.within(may); c != nil && (best == nil || s.compare(c, best) < 0) {
			best = c
		}
	}
	best, all := d.exhaust(best)
	s.partial = s.partial && (partial || !all)
	return best
}

// starts says which victims the sets may hold that the search starts from. If a quota needs capacity, sets of victims that
// free it are tried as well; if members need pods near them, sets without these.
func (d *domain) starts() (may []func(Pick) bool) {
	may = append(may, func(Pick) bool { return true })
	if d.Quota != nil && d.Quota.Short() {
		may = append(may, d.Quota.Frees)
	}
	if d.Sought != nil && slices.ContainsFunc(d.all(), d.Sought) {
		may = append(may, func(p Pick) bool { return !d.Sought(p) })
	}
	return may
}

// mostRounds bounds how often a set is made smaller because it takes too much from a quota.
const mostRounds = 8

// within returns the best candidate of some victims. If sets take more from a quota than may be taken, the surplus stays,
// and so do, as long as the members fit, all victims that may not be evicted after the others.
func (d *domain) within(may func(Pick) bool) (best *candidate) {
	stay, also := map[Pick]bool{}, map[Pick]bool{}
	for range mostRounds {
		d.surplus, d.later = nil, nil
		best = d.improve(func(p Pick) bool { return stay[p] || also[p] || !may(p) })
		switch {
		case best != nil || d.tired:
			return best
		case len(d.surplus) > 0:
			for _, p := range d.surplus {
				stay[p] = true
			}
			also = map[Pick]bool{}
			for _, p := range d.later {
				also[p] = true
			}
		case len(also) > 0:
			also = map[Pick]bool{}
		default:
			return nil
		}
	}
	return nil
}

// improve makes starting sets without the victims that stay, has them pass the quota check, puts back what need not be
// evicted, and returns the best.
func (d *domain) improve(stays func(Pick) bool) (best *candidate) {
	d.stays = stays
	seen := map[string]bool{}
	take := func(picks []Pick) {
		set, ok := d.closeWithin(picks)
		key := keyOf(set.picks)
		if !ok || seen[key] || !d.takes(set.picks) {
			return
		}
		seen[key] = true
		if c := d.complete(set); c != nil && (best == nil || d.compare(c, best) < 0) {
			best = c
		}
	}
	if !d.tariff(stays, nil, false, take) && d.Placement == nil {
		return nil
	}
	if d.hasBundles() {
		d.tariff(stays, nil, true, take)
		if picks, ok := d.greedy(stays); ok {
			take(picks)
		}
		singles := func(p Pick) bool {
			return stays(p) || d.victim(p).Gang > 0 && d.gangs[d.victim(p).Gang-1].Spare == 0
		}
		d.tariff(singles, nil, false, take)
	}
	if best != nil && best.set.cost.Violations > 0 {
		violating := best.set
		exceeded := d.exceeded(violating)
		d.tariff(stays, exceeded, d.hasBundles(), take)
		d.tariff(d.withinBudgets(violating, exceeded, stays), nil, d.hasBundles(), take)
	}
	if best == nil || d.Placement != nil && len(d.all()) <= fewVictims {
		take(d.everything(stays))
	}
	return best
}

// fewVictims is up to how many victims of a domain a set of all of them is one to start from, for members that are not alike.
const fewVictims = 64

// hasBundles says whether some victim of the domain is in a gang.
func (d *domain) hasBundles() bool {
	return slices.ContainsFunc(d.all(), func(p Pick) bool { return d.victim(p).Gang > 0 })
}

// everything is all victims of the domain that may be evicted together.
func (d *domain) everything(stays func(Pick) bool) []Pick {
	return slices.DeleteFunc(slices.Clone(d.all()), stays)
}

// mostAgain bounds how often a tariff is asked again without members that their gangs cannot spare.
const mostAgain = 4

// tariff passes on the cheapest set at the prices of nodes. If a gang that may not be evicted whole loses more members in
// it than it can spare, those stay, and the tariff is asked again. It returns false if the members do not fit.
func (d *domain) tariff(stays func(Pick) bool, charged map[Budget]bool, bundled bool, take func([]Pick)) bool {
	kept := map[Pick]bool{}
	for range mostAgain {
		e, picks := d.byTariff(func(p Pick) bool { return kept[p] || stays(p) }, charged, bundled)
		if e == nil {
			return len(kept) > 0
		}
		take(picks)
		_, forbidden, ok := d.close(picks)
		if ok {
			return true
		}
		for _, p := range without(picks, d.sparing(picks, forbidden)) {
			kept[p] = true
		}
	}
	return true
}

// closeWithin closes a set. Of a gang that may not be evicted whole the set keeps as many members as the gang can spare,
// the cheapest.
func (d *domain) closeWithin(picks []Pick) (victimSet, bool) {
	for range len(d.gangs) + 1 {
		set, forbidden, ok := d.close(picks)
		if ok {
			return set, true
		}
		d.partial = true
		picks = d.sparing(picks, forbidden)
	}
	return victimSet{}, false
}

// sparing leaves out members of a gang's group until none of its gangs loses more members than it can spare.
func (d *domain) sparing(picks []Pick, number int) (out []Pick) {
	kept := map[int]int{}
	picks = slices.Clone(picks)
	slices.SortStableFunc(picks, func(x, y Pick) int { return d.victim(x).Compare(*d.victim(y)) })
	for _, p := range picks {
		g := d.victim(p).Gang
		if g > 0 && d.groupOf[g] == d.groupOf[number] {
			if kept[g]++; kept[g] > d.gangs[g-1].Spare {
				continue
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, comparePicks)
	return out
}

// exceeded lists the budgets that allow some evictions, but not all of a set.
func (d *domain) exceeded(set victimSet) map[Budget]bool {
	out := map[Budget]bool{}
	for b, n := range d.counts(set.picks, set.whole) {
		if n > b.Allowed {
			out[b] = true
		}
	}
	return out
}

// withinBudgets has the victims stay that count towards exceeded budgets, but for as many of a set, the cheapest, as these
// allow.
func (d *domain) withinBudgets(set victimSet, exceeded map[Budget]bool, stays func(Pick) bool) func(Pick) bool {
	picks := slices.Clone(set.picks)
	slices.SortStableFunc(picks, func(x, y Pick) int { return d.victim(x).Compare(*d.victim(y)) })
	count, may := leaving{}, map[Pick]bool{}
	for _, p := range picks {
		if !slices.ContainsFunc(d.victim(p).Budgets, func(b Budget) bool { return exceeded[b] && count[b] >= b.Allowed }) {
			may[p] = true
			count.add(d.victim(p).Budgets)
		}
	}
	return func(p Pick) bool {
		counts := slices.ContainsFunc(d.victim(p).Budgets, func(b Budget) bool { return exceeded[b] })
		return stays(p) || counts && !may[p]
	}
}

// nodes asks what each node of the domain takes without some of its victims. Those that stay are no victims; each one of a
// charged budget violates it; with bundled, a victim costs as much as its bundle. left maps victims of the result to
// those of the node; nil if they are the same.
func (d *domain) nodes(stays func(Pick) bool, charged map[Budget]bool, bundled bool) (nodes []Node, left [][]int) {
	nodes, left = make([]Node, d.hi-d.lo), make([][]int, d.hi-d.lo)
	m := &nodeMaker{piece: pieceOfMaker}
	stay := func(p Pick) bool { return d.fixed[p] || stays != nil && stays(p) }
	for i := range nodes {
		n := d.Nodes[d.lo+i]
		some := n.Victims
		plain := !bundled && len(charged) == 0 && !slices.ContainsFunc(indexes(len(n.Victims)), func(v int) bool { return stay(Pick{d.lo + i, v}) })
		for v := range n.Victims {
			if !plain && !stay(Pick{d.lo + i, v}) {
				left[i] = append(left[i], v)
			}
		}
		if !plain {
			some = make([]Victim, len(left[i]))
			for k, v := range left[i] {
				some[k] = d.charge(Pick{d.lo + i, v}, charged, bundled)
			}
		}
		slots := n.Slots
		if !plain {
			slots = func(gone []int) offer.Slots { return n.Slots(picked(left[i], gone)) }
		}
		nodes[i] = m.node(some, d.Request.Want, slots)
		nodes[i].Room = d.world.Room[i]
	}
	d.spend(d.hi - d.lo)
	return nodes, left
}

// picked maps indexes into left to those of a node's victims.
func picked(left, gone []int) []int {
	if left == nil {
		return gone
	}
	out := make([]int, len(gone))
	for k, v := range gone {
		out[k] = left[v]
	}
	return out
}

// charge is a victim at another price.
func (d *domain) charge(p Pick, charged map[Budget]bool, bundled bool) Victim {
	v := *d.victim(p)
	if len(charged) > 0 && len(v.Budgets) > 0 {
		v.Budgets = slices.Clone(v.Budgets)
		for k, b := range v.Budgets {
			if charged[b] {
				v.Budgets[k].Allowed = 0
			}
		}
	}
	if bundled && v.Gang > 0 && d.gangs[v.Gang-1].Spare == 0 {
		if set, ok := d.bundleOf(p); ok {
			v.bundle = &set.cost
		}
	}
	return v
}

// byTariff returns the cheapest set of victims at the prices of nodes, and the eviction that it would be; nil if the
// members do not fit whatever is evicted.
func (d *domain) byTariff(stays func(Pick) bool, charged map[Budget]bool, bundled bool) (*Eviction, []Pick) {
	if d.tired {
		return nil, nil
	}
	nodes, left := d.nodes(stays, charged, bundled)
	e := Choose(d.world, d.Request, nodes)
	if e == nil {
		return nil, nil
	}
	picks := make([]Pick, len(e.Victims))
	for k, p := range e.Victims {
		picks[k] = Pick{d.lo + p.Node, picked(left[p.Node], []int{p.Victim})[0]}
	}
	slices.SortFunc(picks, comparePicks)
	return e, picks
}

// takes says whether the domain has slots for the members when the picks are evicted. It is only asked of like members.
func (d *domain) takes(picks []Pick) bool {
	if d.Placement != nil {
		return true
	}
	d.countBare()
	gone := byNode(picks)
	d.spend(1 + len(gone)/8)
	if d.steps[0] > 1 || slices.Max(d.steps) > 1 {
		free := slices.Clone(d.bare)
		for i, out := range gone {
			if i >= d.lo && i < d.hi {
				free[i-d.lo] = d.Nodes[i].Slots(out)
			}
		}
		return offer.Roll(d.world.Tree, free, d.steps)[topology.Root] >= d.need
	}
	sum := d.sum
	for i, out := range gone {
		if i >= d.lo && i < d.hi {
			sum += d.Nodes[i].Slots(out) - d.bare[i-d.lo]
		}
	}
	return sum >= d.need
}

// countBare asks each node what it takes as it is.
func (d *domain) countBare() {
	if d.bare != nil {
		return
	}
	d.bare = make([]offer.Slots, d.hi-d.lo)
	for i := range d.bare {
		d.bare[i] = d.Nodes[d.lo+i].Slots(nil)
		d.sum += d.bare[i]
	}
}

// finish makes a candidate of a set that makes room, with the plan that follows; nil if there is none.
func (d *domain) finish(set victimSet) *candidate {
	if d.Placement != nil {
		p := &placement{domain: d}
		if !p.fits(set) {
			return nil
		}
		return &candidate{set: set, placed: p.placed}
	}
	w := d.World
	w.Free = make([]offer.Slots, len(d.Nodes))
	gone := byNode(set.picks)
	d.countBare()
	for i := d.lo; i < d.hi; i++ { // elsewhere the members would not gather, or need no victim
		if w.Free[i] = d.bare[i-d.lo]; gone[i] != nil {
			w.Free[i] = d.Nodes[i].Slots(gone[i])
		}
	}
	d.spend(d.hi - d.lo)
	p, _ := plan.Choose(w, d.Request)
	if p == nil {
		return nil
	}
	return &candidate{set: set, plan: p}
}

// exhaust tries all sets of the domain's bundles where these are few, and returns the best one, or the one that is known
// if none comes before it. all says whether no set was left out.
func (d *domain) exhaust(known *candidate) (best *candidate, all bool) {
	bundles, ok := d.fewBundles()
	if !ok || d.tired {
		return known, false
	}
	var sets []victimSet
	seen := map[string]bool{}
	for mask := 1; mask < 1<<len(bundles); mask++ {
		var picks []Pick
		for i, b := range bundles {
			if mask>>i&1 == 1 {
				picks = append(picks, b.picks...)
			}
		}
		set, _, ok := d.close(picks)
		if !ok || known != nil && set.cost.Compare(known.set.cost) > 0 {
			continue
		}
		if key := keyOf(set.picks); !seen[key] {
			seen[key] = true
			sets = append(sets, set)
		}
	}
	d.spend(1 << len(bundles) / 8)
	slices.SortStableFunc(sets, func(x, y victimSet) int { return x.cost.Compare(y.cost) })
	for _, set := range sets {
		if known != nil && set.cost.Compare(known.set.cost) > 0 || d.tired {
			break
		}
		if !d.takes(set.picks) || d.Quota != nil && d.Quota.Check(set.picks) != Admitted {
			continue
		}
		if c := d.finish(set); c != nil && (known == nil || d.compare(c, known) < 0) {
			known = c
		}
	}
	return known, !d.tired
}

// fewBundles lists the bundles that may help, if they are few. If a quota has a say, victims outside of the domain may
// help, too.
func (d *domain) fewBundles() (out []victimSet, few bool) {
	seen := map[string]bool{}
	all := d.all()
	if d.Quota != nil {
		all = d.search.domain(topology.Root).all()
	}
	for _, p := range all {
		set, ok := d.bundleOf(p)
		if !ok {
			continue
		}
		if key := keyOf(set.picks); !seen[key] {
			seen[key] = true
			if out = append(out, set); len(out) > mostExhausted {
				return nil, false
			}
		}
	}
	return out, len(out) > 0
}

// keyOf is equal for equal sets.
func keyOf(picks []Pick) string {
	b := make([]byte, 0, 8*len(picks))
	for _, p := range picks {
		b = append(b, byte(p.Node), byte(p.Node>>8), byte(p.Node>>16), byte(p.Victim), byte(p.Victim>>8), byte(p.Victim>>16))
	}
	return string(b)
}

// complete has a set that makes room pass both checks and puts back what need not be evicted; nil if the set cannot pass.
func (d *domain) complete(set victimSet) *candidate {
	admits := func(set victimSet) bool { return d.Quota == nil || d.Quota.Check(set.picks) == Admitted }
	if d.Placement == nil {
		if set, ok := d.admit(set); ok {
			return d.finish(d.putBack(set, func(set victimSet) bool { return d.takes(set.picks) && admits(set) }))
		}
		return nil
	}
	p := &placement{domain: d}
	if !p.fits(set) {
		return nil
	}
	set, ok := d.admit(p.near(set))
	if !ok || !p.holds(set) && !p.fits(set) { // what a quota needs may be what members must be near
		return nil
	}
	// First the plan stays as it is, which is asked quickly; then others are tried for what is left.
	set = d.putBack(set, func(set victimSet) bool { return p.holds(set) && admits(set) })
	set = d.putBack(set, func(set victimSet) bool { return admits(set) && (p.holds(set) || p.fits(set)) })
	return &candidate{set: set, placed: p.placed}
}

// placement is the last plan for members that are not alike, and the set that it was made for.
type placement struct {
	*domain
	placed Placed
	gone   []Pick
}

// fits plans anew. A plan costs as many steps as there are nodes; where members depend on one another each of them is tried on
// each node.
func (p *placement) fits(set victimSet) bool {
	if p.tired {
		return false
	}
	each := 8
	if p.Sought != nil {
		each = 8 * (p.hi - p.lo)
	}
	p.spend(p.hi - p.lo + each*int(p.Request.Want))
	placed, sure := p.Placement.Fits(set.picks)
	if placed == nil {
		p.partial = p.partial || !sure
		return false
	}
	p.placed, p.gone = placed, set.picks
	return true
}

// holds says whether the last plan holds for a smaller set.
func (p *placement) holds(set victimSet) bool {
	changed := nodesOf(without(p.gone, set.picks))
	p.spend(1 + len(changed))
	if p.Sought != nil {
		p.spend(8 * int(p.Request.Want))
	}
	return p.placed.Holds(set.picks, changed)
}

// near returns the part of a set that is on nodes of the plan, if the plan holds for that: mostly the rest is on nodes that the members do not need.
func (p *placement) near(set victimSet) victimSet {
	picks := slices.DeleteFunc(slices.Clone(set.picks), func(at Pick) bool { return !p.placed.Uses(at.Node) })
	if fewer, ok := p.closeWithin(picks); ok && len(fewer.picks) < len(set.picks) && p.holds(fewer) {
		return fewer
	}
	return set
}

// nodesOf lists the nodes of some picks, rising, each once.
func nodesOf(picks []Pick) (nodes []int) {
	for _, p := range picks {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// without lists the picks that are not among others; both are sorted.
func without(picks, others []Pick) (out []Pick) {
	for _, p := range picks {
		if _, found := slices.BinarySearchFunc(others, p, comparePicks); !found {
			out = append(out, p)
		}
	}
	return out
}

// putBack returns what is left of a set when all units are put back that need not be evicted, the dearest first: half of
// them at once as long as that goes, then one by one. Of a gang that must be evicted but can spare what is in the way,
// the rest stays. With any one unit of the result put back, the set does not pass.
func (d *domain) putBack(set victimSet, passes func(victimSet) bool) victimSet {
	room := d.spareSlots(set)
	try := func(stay []Pick) bool {
		if !room.may(stay) {
			return false
		}
		d.spend(1 + len(set.picks)/4)
		fewer, _, ok := d.close(without(set.picks, stay))
		if !ok || len(fewer.picks) >= len(set.picks) && len(fewer.whole) >= len(set.whole) || !passes(fewer) {
			return false
		}
		set, room = fewer, d.spareSlots(fewer)
		return true
	}
	for again := true; again; {
		again = false
		units := d.units(set)
		for size := len(units); size > 0; size /= 2 {
			for i := 0; i < len(units); {
				upTo := min(i+size, len(units))
				if try(picksOf(units[i:upTo])) {
					units, again = slices.Delete(units, i, upTo), len(units) > 1
					continue
				}
				if size == 1 {
					if fewer, ok := d.shrink(set, units[i], passes); ok {
						set, room, again = fewer, d.spareSlots(fewer), true
					}
				}
				i = upTo
			}
		}
	}
	return set
}

// spareSlots says how many slots beyond those that are needed a set frees in the domain, to see quickly what cannot stay.
type spareSlots struct {
	*domain
	gone  map[int][]int // by node index
	spare offer.Slots
}

// spareSlots returns nil where slots alone do not say whether the members fit.
func (d *domain) spareSlots(set victimSet) *spareSlots {
	if d.Placement != nil || slices.Max(d.steps) > 1 {
		return nil
	}
	d.countBare()
	r := &spareSlots{domain: d, gone: byNode(set.picks), spare: d.sum - d.need}
	for i, gone := range r.gone {
		if i >= d.lo && i < d.hi {
			r.spare += d.Nodes[i].Slots(gone) - d.bare[i-d.lo]
		}
	}
	return r
}

// may returns false if the members do not fit when the picks stay.
func (r *spareSlots) may(stay []Pick) bool {
	if r == nil {
		return true
	}
	lost := offer.Slots(0)
	for i, stays := range byNode(stay) {
		if i < r.lo || i >= r.hi {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(r.gone[i]), func(v int) bool { return slices.Contains(stays, v) })
		lost += r.Nodes[i].Slots(r.gone[i]) - r.Nodes[i].Slots(left)
	}
	return lost <= r.spare
}

// picksOf lists the victims of some units, sorted, each once.
func picksOf(units []unit) (picks []Pick) {
	for _, u := range units {
		picks = append(picks, u.picks...)
	}
	slices.SortFunc(picks, comparePicks)
	return slices.Compact(picks)
}

// shrink puts back a unit but for members that their gangs can spare, if those that are in the way are no more than that.
func (d *domain) shrink(set victimSet, u unit, passes func(victimSet) bool) (victimSet, bool) {
	if !slices.ContainsFunc(u.gangs, func(g int) bool { return d.gangs[g-1].Spare > 0 }) {
		return set, false
	}
	rest := slices.Clone(u.picks)
	others := without(set.picks, u.picks)
	raw := func(rest []Pick) victimSet { // not closed: only the checks are asked
		picks := slices.Concat(others, rest)
		slices.SortFunc(picks, comparePicks)
		return victimSet{picks: picks}
	}
	slices.SortFunc(rest, func(x, y Pick) int { return d.victim(y).Compare(*d.victim(x)) })
	for i := 0; i < len(rest); {
		if fewer := slices.Delete(slices.Clone(rest), i, i+1); passes(raw(fewer)) {
			rest = fewer
		} else {
			i++
		}
	}
	fewer, _, ok := d.close(raw(rest).picks)
	if !ok || len(fewer.picks) >= len(set.picks) || !passes(fewer) {
		return set, false
	}
	return fewer, true
}
