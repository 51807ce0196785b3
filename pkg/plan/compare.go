package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Compare puts the plan first that comes first by rules 3 to 9, of two plans for one
// request that hold on worlds which differ only in Free: other pods have left. How large
// domains are (rule 8) is then as Room has it, which w must say.
func Compare(w World, r Request, a, b *Plan) int {
	w.Free = w.Room
	g := newGround(w, r.Multiple.Steps(w.Tree.Depth()+1), r.Must)
	if o := cmp.Or(
		-cmp.Compare(a.Count(), b.Count()),                           // 3
		-cmp.Compare(w.Tree.Layer(a.Domain), w.Tree.Layer(b.Domain)), // 4
	); o != 0 {
		return o
	}
	membersOfA, membersOfB := members(w.Tree, a.Places), members(w.Tree, b.Places)
	for _, l := range slices.Compact(slices.Sorted(slices.Values(r.Prefer))) { // 5
		if o := cmp.Compare(g.touchedBy(membersOfA, l), g.touchedBy(membersOfB, l)); o != 0 {
			return o
		}
	}
	if a.Domain != b.Domain {
		return g.compareDomains(a.Domain, b.Domain) // 6, 7, 9
	}
	return g.compareFills(a.Domain, membersOfA, membersOfB) // 8
}

// CompareJob is Compare for members that differ, but for rule 8.
func CompareJob(w JobWorld, j Job, a, b *JobPlan) int {
	w.Free = w.Room
	m := newOutline(w, j)
	if o := cmp.Or(
		-cmp.Compare(len(a.Puts), len(b.Puts)),
		-cmp.Compare(w.Tree.Layer(a.Domain), w.Tree.Layer(b.Domain)),
	); o != 0 {
		return o
	}
	for _, c := range m.columns {
		if o := cmp.Compare(m.touchedBy(a, c), m.touchedBy(b, c)); o != 0 {
			return o
		}
	}
	return m.compareDomains(a.Domain, b.Domain)
}

// members counts by ID who goes where.
func members(t *topology.Tree, places []Place) []offer.Slots {
	nodes := make([]offer.Slots, t.NumNodes())
	for _, at := range places {
		nodes[at.Node] += at.Count
	}
	return offer.Sum(t, nodes)
}

// touchedBy counts the domains of a layer that have members, by ID, and had none.
func (g *ground) touchedBy(members []offer.Slots, layer int) (n int) {
	for d, many := range members {
		if d := topology.ID(d); many > 0 && g.tree.Layer(d) == layer && g.boundIn(d) == 0 {
			n++
		}
	}
	return n
}

// touchedBy is what a plan costs by a column.
func (m *mixed) touchedBy(p *JobPlan, c column) int {
	type touched struct {
		domain topology.ID
		gang   int
	}
	all := map[touched]bool{}
	for _, put := range p.Puts {
		d, gang := m.tree.Ancestor(m.tree.Node(put.Node), c.layer), m.Classes[put.Class].Gang
		switch {
		case c.each && m.boundOf(gang, d) == 0:
			all[touched{d, gang}] = true
		case !c.each && m.boundIn(d) == 0:
			all[touched{d, 0}] = true
		}
	}
	return len(all)
}

// compareFills is rule 8 for two ways to spread as many members over d, by ID: first
// comes the one that fill would come to first.
func (g *ground) compareFills(d topology.ID, a, b []offer.Slots) int {
	if g.tree.IsNode(d) {
		return 0
	}
	kids := g.largestFirst(d)
	left := a[d]
	for i, k := range kids {
		lastOfA, oneOfA := holder(kids[i:], a, left)
		lastOfB, oneOfB := holder(kids[i:], b, left)
		if oneOfA && oneOfB {
			if o := cmp.Or(cmp.Compare(g.size[lastOfA], g.size[lastOfB]), cmp.Compare(lastOfA, lastOfB)); o != 0 {
				return o
			}
			break
		}
		if oneOfA != oneOfB {
			if oneOfA {
				return -1
			}
			return 1
		}
		if o := -cmp.Compare(a[k], b[k]); o != 0 {
			return o
		}
		left -= a[k]
	}
	for _, k := range kids {
		if a[k] > 0 {
			if o := g.compareFills(k, a, b); o != 0 {
				return o
			}
		}
	}
	return 0
}

// holder returns the domain that holds all of the members, if one of them does.
func holder(domains []topology.ID, members []offer.Slots, all offer.Slots) (topology.ID, bool) {
	i := slices.IndexFunc(domains, func(d topology.ID) bool { return members[d] == all })
	if i < 0 {
		return topology.Root, false
	}
	return domains[i], true
}
