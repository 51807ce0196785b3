package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file refuses by arithmetic: more members than the nodes of any domain take kind by kind, or counts that no multiple allows.
// Invariant: it refuses no job that has a plan. It may accept a job without one.

// smallEffort is the limit of a table search of some milliseconds. It is used if the sums alone do not refuse, and for refusals.
func (m *search) smallEffort() effort { return effort{vecs: 1 << 20, takes: 512 + 4*m.Tree.NumNodes()} }

// possible returns false if the sums exclude a plan in every root. Before newSearch fills slots, nodes take any number of members.
func (m *search) possible() bool {
	return slices.ContainsFunc(m.Roots, func(root topology.ID) bool {
		counts := m.validTotals()
		counts.least, counts.most = 1, m.upperBound(root)
		least, most := offer.Slots(0), offer.Slots(0)
		for g := range m.Gangs {
			ofGang, ok := m.gangIn(g, root)
			if !ok {
				return false
			}
			least, most = least+ofGang.least, most+ofGang.most
		}
		counts.least, counts.most = max(counts.least, least), min(counts.most, most)
		return counts.fit()
	})
}

// extent is the set of counts n with least <= n <= most and n modulo step = rest.
type extent struct{ least, most, step, rest offer.Slots }

// fit narrows least and most to valid counts. It returns false if there are none.
func (e *extent) fit() bool {
	up, down := e.rest-e.least%e.step, e.most%e.step-e.rest
	if up < 0 {
		up += e.step
	}
	if down < 0 {
		down += e.step
	}
	if e.most < e.least || up > e.most-e.least {
		return false
	}
	e.least, e.most = e.least+up, e.most-down
	return true
}

// validTotals returns the member counts of the job that the multiples allow.
// With bound members, only the layers of a shared domain count, because deeper positions are unknown.
func (m *search) validTotals() extent {
	if !m.AnyBound() {
		common := offer.Slots(0)
		for g := range m.Gangs {
			common = divisor(common, m.gangMultiple(g, m.Tree.Depth()))
		}
		return extent{step: offer.Common(m.All.Multiple.Common(m.Tree.Depth()), max(common, 1))}
	}
	return complement(m.BoundIn(topology.Root), m.All.Multiple.Common(m.All.Must))
}

// validTarget returns whether the multiples allow a plan of exactly these members. target is member counts by class.
func (m *search) validTarget(target []int) bool {
	total := m.validTotals()
	for g := range m.Gangs {
		n := offer.Slots(0)
		for c, many := range target {
			if m.Classes[c].Gang == g {
				n += offer.Slots(many)
			}
		}
		total.least += n
		if ofGang := m.validCounts(g); n > 0 {
			if ofGang.least, ofGang.most = n, n; !ofGang.fit() {
				return false
			}
		}
	}
	total.most = total.least
	return total.fit()
}

// validCounts returns the member counts of gang g that the multiples of its own sets allow.
func (m *search) validCounts(g int) extent {
	if bound := m.boundInGang(g, topology.Root); bound > 0 {
		return complement(bound, m.gangMultiple(g, m.gatherLayer(g)))
	}
	return extent{step: m.gangMultiple(g, m.Tree.Depth())}
}

// complement returns the counts n for which bound + n is a multiple of step.
func complement(bound, step offer.Slots) extent {
	e := extent{step: step, rest: -bound % step}
	if e.rest < 0 {
		e.rest += step
	}
	return e
}

// gangIn returns the possible new member counts of gang g below root; ok is false if the gang cannot have the members it needs.
func (m *search) gangIn(g int, root topology.ID) (counts extent, ok bool) {
	need := m.Gangs[g].Need
	counts = m.validCounts(g)
	counts.least = max(need, 1)
	if !m.splitGang(g) {
		counts.most = m.mostOf(g, root)
	}
	switch {
	case counts.fit() && need > 0:
		return counts, true
	case need > 0:
		return counts, false
	case counts.most < counts.least:
		return extent{}, true // no member of it
	}
	counts.least = 0
	return counts, true
}

// mostOf returns the most members of a gang that one domain takes, among domains below root in which it may gather.
func (m *search) mostOf(g int, root topology.ID) (most offer.Slots) {
	want := offer.Slots(0)
	for _, c := range m.Classes {
		if c.Gang == g {
			want += offer.Slots(len(c.Ranks))
		}
	}
	layer := max(m.gatherLayer(g), m.Tree.Layer(root))
	for d := range m.Below(root, layer) {
		if m.boundInGang(g, d) != m.boundInGang(g, topology.Root) {
			continue
		}
		n := offer.Slots(0)
		for _, c := range m.Classes {
			if c.Gang == g {
				n += m.aloneCapacity(d, c.Kind, offer.Slots(len(c.Ranks)))
			}
		}
		if most = max(most, n); most == want {
			break
		}
	}
	return most
}

// aloneCapacity returns how many of want members of a kind a domain takes without other kinds; all of them before newSearch fills slots.
func (m *search) aloneCapacity(d topology.ID, kind int, want offer.Slots) offer.Slots {
	if m.slots == nil {
		return want
	}
	return min(want, m.kindSums(kind)[d])
}

// kindSums returns the capacity of each domain for a kind alone, by ID.
func (m *search) kindSums(kind int) []offer.Slots {
	if m.sums == nil {
		m.sums = make([][]offer.Slots, len(m.slots))
	}
	if m.sums[kind] == nil {
		m.sums[kind] = offer.Sum(m.Tree, m.slots[kind])
	}
	return m.sums[kind]
}

// upperBound returns an upper bound of the members that a domain takes.
func (m *search) upperBound(d topology.ID) (n offer.Slots) {
	for kind, many := range m.wantByKind() {
		n += m.aloneCapacity(d, kind, many)
	}
	return n
}

// wantByKind returns the number of members by kind.
func (m *search) wantByKind() []offer.Slots {
	want := make([]offer.Slots, m.kinds())
	for _, c := range m.Classes {
		want[c.Kind] += offer.Slots(len(c.Ranks))
	}
	return want
}
