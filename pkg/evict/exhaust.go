package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// mostExhausted is the number of bundles up to which all sets are tried. Tests change it.
var mostExhausted = 12

// exhaust returns the best of known (maybe nil) and, if bundles are few, all their sets. complete says that all sets were tried.
func (d *domain) exhaust(known *candidate) (best *candidate, complete bool) {
	bundles, ok := d.fewBundles()
	if !ok || d.stepsSpent {
		return known, false
	}
	before := d.skipped
	d.skipped = false // the planner may reach its limit
	defer func() { d.skipped = d.skipped || before }()
	var sets []victimSet
	seen := map[string]bool{}
	for mask := 1; mask < 1<<len(bundles); mask++ {
		var picks []Pick
		for i, b := range bundles {
			if mask>>i&1 == 1 {
				picks = append(picks, b.picks...)
			}
		}
		set, _, ok := d.closure(picks)
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
		if known != nil && set.cost.Compare(known.set.cost) > 0 || d.stepsSpent {
			break
		}
		if !d.takes(set.picks) || d.Quota != nil && d.Quota.Check(set.picks) != Admitted {
			continue
		}
		if c := d.asCandidate(set); c != nil && (known == nil || d.compare(c, known) < 0) {
			known = c
		}
	}
	return known, !d.stepsSpent && !d.skipped
}

// fewBundles returns the domain's bundles, or with quotas the bundles of all domains; few is false if there are none or too many.
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

// keyOf returns a map key for picks: equal lists have equal keys.
func keyOf(picks []Pick) string {
	b := make([]byte, 0, 8*len(picks))
	for _, p := range picks {
		b = append(b, byte(p.Node), byte(p.Node>>8), byte(p.Node>>16), byte(p.Victim), byte(p.Victim>>8), byte(p.Victim>>16))
	}
	return string(b)
}
