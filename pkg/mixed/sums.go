package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file refuses by arithmetic what no search need look for: more members than the
// nodes of any domain take one kind at a time, and counts that no multiple allows (16 are
// no sum of threes). It may let pass what no plan can do, and refuses nothing that one can.

// little bounds what is counted where the sums alone do not refuse, or after they have: to
// some milliseconds, and few questions about each node.
func (m *search) little() effort { return effort{vecs: 1 << 20, asks: 512 + 4*m.Tree.NumNodes()} }

// possible asks the sums of every domain in which all members may gather. Before anybody
// was asked what nodes take, they are taken to take everybody.
func (m *search) possible() bool {
	return slices.ContainsFunc(m.Roots, func(root topology.ID) bool {
		n := m.legalTotals()
		n.least, n.most = 1, m.mostIn(root)
		least, most := offer.Slots(0), offer.Slots(0)
		for g := range m.Gangs {
			of, ok := m.gangIn(g, root)
			if !ok {
				return false
			}
			least, most = least+of.least, most+of.most
		}
		n.least, n.most = max(n.least, least), min(n.most, most)
		return n.fit()
	})
}

// extent is some counts: those from least to most that leave so much when they are divided
// by step.
type extent struct{ least, most, step, rest offer.Slots }

// fit makes least and most such counts; false if there are none.
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

// legalTotals says what the multiples make of the number of all members. If some are bound
// they count, and only in the layers in which they are together with the others is it known
// who is where.
func (m *search) legalTotals() extent {
	if !m.AnyBound() {
		each := offer.Slots(0)
		for g := range m.Gangs {
			each = divisor(each, m.multipleOf(g, m.Tree.Depth()))
		}
		return extent{step: offer.Common(m.All.Multiple.Common(m.Tree.Depth()), max(each, 1))}
	}
	return beside(m.BoundIn(topology.Root), m.All.Multiple.Common(m.All.Must))
}

// countsAre says whether the multiples allow so many members of each class, wherever they go.
func (m *search) countsAre(target []int) bool {
	total := m.legalTotals()
	for g := range m.Gangs {
		n := offer.Slots(0)
		for c, many := range target {
			if m.Classes[c].Gang == g {
				n += offer.Slots(many)
			}
		}
		total.least += n
		if of := m.legalOf(g); n > 0 {
			if of.least, of.most = n, n; !of.fit() {
				return false
			}
		}
	}
	total.most = total.least
	return total.fit()
}

// legalOf is legalTotals for one gang.
func (m *search) legalOf(g int) extent {
	if bound := m.boundOf(g, topology.Root); bound > 0 {
		return beside(bound, m.multipleOf(g, m.gathersAt(g)))
	}
	return extent{step: m.multipleOf(g, m.Tree.Depth())}
}

// beside is the counts that make up a multiple of step together with those that are bound.
func beside(bound, step offer.Slots) extent {
	e := extent{step: step, rest: -bound % step}
	if e.rest < 0 {
		e.rest += step
	}
	return e
}

// gangIn says how many members of a gang there may be below a root; ok is false if they are
// fewer than it needs.
func (m *search) gangIn(g int, root topology.ID) (of extent, ok bool) {
	need := m.Gangs[g].Need
	of = m.legalOf(g)
	of.least = max(need, 1)
	if !m.splitGang(g) {
		of.most = m.mostOf(g, root)
	}
	switch {
	case of.fit() && need > 0:
		return of, true
	case need > 0:
		return of, false
	case of.most < of.least:
		return extent{}, true // nobody of it
	}
	of.least = 0
	return of, true
}

// mostOf is how many members of a gang the domain takes that takes most of them, of those
// below a root in which it may gather.
func (m *search) mostOf(g int, root topology.ID) (most offer.Slots) {
	want := offer.Slots(0)
	for _, c := range m.Classes {
		if c.Gang == g {
			want += offer.Slots(len(c.Ranks))
		}
	}
	layer := max(m.gathersAt(g), m.Tree.Layer(root))
	for d := range m.Below(root, layer) {
		if m.boundOf(g, d) != m.boundOf(g, topology.Root) {
			continue
		}
		n := offer.Slots(0)
		for _, c := range m.Classes {
			if c.Gang == g {
				n += m.takesAlone(d, c.Kind, offer.Slots(len(c.Ranks)))
			}
		}
		if most = max(most, n); most == want {
			break
		}
	}
	return most
}

// takesAlone is how many of so many members of a kind a domain takes if there are no others.
func (m *search) takesAlone(d topology.ID, kind int, want offer.Slots) offer.Slots {
	if m.slots == nil {
		return want
	}
	return min(want, m.sumOf(kind)[d])
}

// sumOf is what domains take of a kind alone, by ID.
func (m *search) sumOf(kind int) []offer.Slots {
	if m.sums == nil {
		m.sums = make([][]offer.Slots, len(m.slots))
	}
	if m.sums[kind] == nil {
		m.sums[kind] = offer.Sum(m.Tree, m.slots[kind])
	}
	return m.sums[kind]
}

// mostIn is no less than a domain takes of all members, whichever they are.
func (m *search) mostIn(d topology.ID) (n offer.Slots) {
	for kind, many := range m.wantOf() {
		n += m.takesAlone(d, kind, many)
	}
	return n
}

// wantOf is how many members there are, by kind.
func (m *search) wantOf() []offer.Slots {
	want := make([]offer.Slots, m.kinds())
	for _, c := range m.Classes {
		want[c.Kind] += offer.Slots(len(c.Ranks))
	}
	return want
}
