package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// starts returns one filter of victims for each group of starting sets: all victims; victims that free quota capacity, if a quota lacks it;
// and victims that no member must be near.
func (d *domain) starts() (allowed []func(Pick) bool) {
	allowed = append(allowed, func(Pick) bool { return true })
	if d.Quota != nil && d.Quota.Short() {
		allowed = append(allowed, d.Quota.Frees)
	}
	if d.SeeksVictim != nil && slices.ContainsFunc(d.all(), d.SeeksVictim) {
		allowed = append(allowed, func(p Pick) bool { return !d.SeeksVictim(p) })
	}
	return allowed
}

// bestOfStarts returns the best candidate made from several starting sets without the excluded victims; nil if there is none.
func (d *domain) bestOfStarts(excluded func(Pick) bool) (best *candidate) {
	d.excluded = excluded
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
	if !d.tariff(excluded, nil, false, take) && d.Placement == nil {
		return nil
	}
	if d.hasBundles() {
		d.tariff(excluded, nil, true, take)
		if picks, ok := d.greedy(excluded); ok {
			take(picks)
		}
		singles := func(p Pick) bool {
			return excluded(p) || d.victim(p).Gang > 0 && d.gangs[d.victim(p).Gang-1].Spare == 0
		}
		d.tariff(singles, nil, false, take)
	}
	if best != nil && best.set.cost.Violations > 0 {
		violating := best.set
		exceeded := d.exceeded(violating)
		d.tariff(excluded, exceeded, d.hasBundles(), take)
		d.tariff(d.withinBudgets(violating, exceeded, excluded), nil, d.hasBundles(), take)
	}
	if best == nil || d.Placement != nil && len(d.all()) <= fewVictims {
		take(d.everything(excluded))
	}
	return best
}

// fewVictims is the number of victims up to which all of them together are a starting set, for heterogeneous members.
const fewVictims = 64

// hasBundles returns whether some victim of the domain is in a gang.
func (d *domain) hasBundles() bool {
	return slices.ContainsFunc(d.all(), func(p Pick) bool { return d.victim(p).Gang > 0 })
}

// everything returns all victims of the domain except excluded victims.
func (d *domain) everything(excluded func(Pick) bool) []Pick {
	return slices.DeleteFunc(slices.Clone(d.all()), excluded)
}

// mostAgain limits the retries of tariff after a set that would evict members their gangs cannot spare.
const mostAgain = 4

// tariff calls take with the cheapest set at the prices of nodes. If a gang that may not be evicted whole loses more than its spare
// members, it retries without the surplus members. It returns false if the members do not fit.
func (d *domain) tariff(excluded func(Pick) bool, charged map[Budget]bool, bundled bool, take func([]Pick)) bool {
	kept := map[Pick]bool{}
	for range mostAgain {
		e, picks := d.byTariff(func(p Pick) bool { return kept[p] || excluded(p) }, charged, bundled)
		if e == nil {
			return len(kept) > 0
		}
		take(picks)
		_, forbidden, ok := d.closure(picks)
		if ok {
			return true
		}
		for _, p := range without(picks, d.sparing(picks, forbidden)) {
			kept[p] = true
		}
	}
	return true
}

// closeWithin returns the closed set of picks. Of a gang that may not be evicted whole, only the cheapest spare members are victims.
func (d *domain) closeWithin(picks []Pick) (victimSet, bool) {
	for range len(d.gangs) + 1 {
		set, forbidden, ok := d.closure(picks)
		if ok {
			return set, true
		}
		d.skipped = true
		picks = d.sparing(picks, forbidden)
	}
	return victimSet{}, false
}

// sparing returns the picks without those members, in the group of gang number, that their gangs cannot spare. The cheapest are evicted.
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

// exceeded returns the budgets that allow some evictions, but fewer than the set needs.
func (d *domain) exceeded(set victimSet) map[Budget]bool {
	out := map[Budget]bool{}
	for b, n := range d.counts(set.picks, set.whole) {
		if n > b.Allowed {
			out[b] = true
		}
	}
	return out
}

// withinBudgets returns a filter: excluded, plus victims of exceeded budgets except the set's cheapest ones within these budgets.
func (d *domain) withinBudgets(set victimSet, exceeded map[Budget]bool, excluded func(Pick) bool) func(Pick) bool {
	picks := slices.Clone(set.picks)
	slices.SortStableFunc(picks, func(x, y Pick) int { return d.victim(x).Compare(*d.victim(y)) })
	count, allowed := budgetCounts{}, map[Pick]bool{}
	for _, p := range picks {
		if !slices.ContainsFunc(d.victim(p).Budgets, func(b Budget) bool { return exceeded[b] && count[b] >= b.Allowed }) {
			allowed[p] = true
			count.add(d.victim(p).Budgets)
		}
	}
	return func(p Pick) bool {
		affected := slices.ContainsFunc(d.victim(p).Budgets, func(b Budget) bool { return exceeded[b] })
		return excluded(p) || affected && !allowed[p]
	}
}

// nodes returns the domain's nodes with the best sets of victims that are not excluded. A victim of a charged budget violates it. With
// bundled, a victim costs as much as its bundle. indexOf[i] maps victims of nodes[i] to indexes on the domain's node; nil if equal.
func (d *domain) nodes(excluded func(Pick) bool, charged map[Budget]bool, bundled bool) (nodes []Node, indexOf [][]int) {
	nodes, indexOf = make([]Node, d.hi-d.lo), make([][]int, d.hi-d.lo)
	m := &nodeMaker{piece: pieceOfMaker}
	reusable := d.nodeOptions != nil && !bundled && len(charged) == 0
	isExcluded := func(p Pick) bool { return d.unevictable[p] || excluded != nil && excluded(p) }
	for i := range nodes {
		n := d.Nodes[d.lo+i]
		victims := n.Victims
		excludedHere := func(v int) bool { return isExcluded(Pick{d.lo + i, v}) }
		plain := !bundled && len(charged) == 0 && !slices.ContainsFunc(indexes(len(n.Victims)), excludedHere)
		if plain && reusable {
			nodes[i] = d.nodeOptions[d.lo+i]
			continue
		}
		for v := range n.Victims {
			if !plain && !isExcluded(Pick{d.lo + i, v}) {
				indexOf[i] = append(indexOf[i], v)
			}
		}
		if !plain {
			victims = make([]Victim, len(indexOf[i]))
			for k, v := range indexOf[i] {
				victims[k] = d.charge(Pick{d.lo + i, v}, charged, bundled)
			}
		}
		slots := n.Slots
		if !plain {
			slots = func(gone []int) offer.Slots { return n.Slots(picked(indexOf[i], gone)) }
		}
		nodes[i] = m.node(victims, d.Request.Want, slots)
		nodes[i].Capacity = d.World.Capacity[d.lo+i]
	}
	d.spend(d.hi - d.lo)
	return nodes, indexOf
}

// picked returns indexOf[v] for each victim index v in gone; gone itself if indexOf is nil. indexOf comes from nodes.
func picked(indexOf, gone []int) []int {
	if indexOf == nil {
		return gone
	}
	out := make([]int, len(gone))
	for k, v := range gone {
		out[k] = indexOf[v]
	}
	return out
}

// charge returns victim p as nodes prices it: charged budgets allow no eviction, and with bundled it costs as much as its bundle.
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

// byTariff returns the cheapest eviction at the prices of nodes, and its victims; nil if the members do not fit or no steps are left.
func (d *domain) byTariff(excluded func(Pick) bool, charged map[Budget]bool, bundled bool) (*Eviction, []Pick) {
	if d.stepsSpent {
		return nil, nil
	}
	d.arrange()
	nodes, indexOf := d.nodes(excluded, charged, bundled)
	arranged := make([]Node, len(nodes))
	for k, i := range d.index {
		arranged[k] = nodes[i-d.lo]
	}
	e := Choose(d.local, d.Request, arranged)
	if e == nil {
		return nil, nil
	}
	picks := make([]Pick, len(e.Victims))
	for k, p := range e.Victims {
		i := d.index[p.Node]
		picks[k] = Pick{i, picked(indexOf[i-d.lo], []int{p.Victim})[0]}
	}
	slices.SortFunc(picks, comparePicks)
	return e, picks
}
