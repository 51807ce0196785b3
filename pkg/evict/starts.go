package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

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

// bestOfStarts makes starting sets without the victims that stay, has them pass the quota check, puts back what need not be
// evicted, and returns the best.
func (d *domain) bestOfStarts(stays func(Pick) bool) (best *candidate) {
	d.stays = stays
	seen := map[string]bool{}
	take := func(picks []Pick) {
		set, ok := d.closeWithin(picks)
		key := keyOf(set.picks)
		if !ok || seen[key] || !d.takes(set.picks) {
			return
		}
		seen[key] = true
		if c := d.passBothChecks(set); c != nil && (best == nil || d.compare(c, best) < 0) {
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
		d.skipped = true
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
	again := d.asked != nil && !bundled && len(charged) == 0
	stay := func(p Pick) bool { return d.unevictable[p] || stays != nil && stays(p) }
	for i := range nodes {
		n := d.Nodes[d.lo+i]
		some := n.Victims
		plain := !bundled && len(charged) == 0 && !slices.ContainsFunc(indexes(len(n.Victims)), func(v int) bool { return stay(Pick{d.lo + i, v}) })
		if plain && again {
			nodes[i] = d.asked[d.lo+i]
			continue
		}
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
		nodes[i].Room = d.World.Room[d.lo+i]
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
	d.arrange()
	nodes, left := d.nodes(stays, charged, bundled)
	arranged := make([]Node, len(nodes))
	for k, i := range d.at {
		arranged[k] = nodes[i-d.lo]
	}
	e := Choose(d.local, d.Request, arranged)
	if e == nil {
		return nil, nil
	}
	picks := make([]Pick, len(e.Victims))
	for k, p := range e.Victims {
		i := d.at[p.Node]
		picks[k] = Pick{i, picked(left[i-d.lo], []int{p.Victim})[0]}
	}
	slices.SortFunc(picks, comparePicks)
	return e, picks
}
