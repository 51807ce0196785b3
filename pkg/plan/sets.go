package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Set is gangs of a job that gather with one another, beside what all of its gangs do: one gang by
// itself, or those of a branch in a tree of gangs. Sets may share gangs.
type Set struct {
	Gangs []int // indexes into Job.Gangs
	Gather
}

// EachGang is the sets of gangs that all gather in one way, each by itself.
func EachGang(gangs int, how Gather) (sets []Set) {
	for g := range gangs {
		sets = append(sets, Set{Gangs: []int{g}, Gather: how})
	}
	return sets
}

// asks says whether a set asks for anything that all gangs of a job together do not.
func (s Set) asks(all Gather, layers int) bool {
	return len(s.Gangs) > 0 && (s.Must > all.Must || common(s.Multiple, layers) > 1 ||
		slices.ContainsFunc(s.Prefer, func(p Preference) bool { return p.Layer > max(s.Must, all.Must) }))
}

// addSets notes the sets that ask for anything, and who of them is bound.
func (m *mixed) addSets() {
	m.Sets = slices.DeleteFunc(slices.Clone(m.Sets), func(s Set) bool { return !s.asks(m.All, m.Tree.Depth()) })
	m.setsOf, m.inSet, m.setBound = make([][]int, len(m.Gangs)), make([][]int, len(m.Sets)), make([][]offer.Slots, len(m.Sets))
	for i, set := range m.Sets {
		for _, g := range set.Gangs {
			m.setsOf[g] = append(m.setsOf[g], i)
			m.setBound[i] = plus(m.setBound[i], m.gangs[g])
		}
		for c, class := range m.Classes {
			if slices.Contains(set.Gangs, class.Gang) {
				m.inSet[i] = append(m.inSet[i], c)
			}
		}
	}
}

// plus adds counts of which either may be nil; it changes neither.
func plus(a, b []offer.Slots) []offer.Slots {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	out := slices.Clone(a)
	add(out, b)
	return out
}

// ofSet is how many of so many members are in a set.
func (m *mixed) ofSet(v vec, set int) (n offer.Slots) {
	for _, c := range m.inSet[set] {
		n += m.tables.count(v, c)
	}
	return n
}

// boundOfSet is how many members of a set run in a domain already.
func (m *mixed) boundOfSet(set int, d topology.ID) offer.Slots {
	if m.setBound[set] == nil {
		return 0
	}
	return m.setBound[set][d]
}

// splitSet says whether bound members of a set are in several domains of the layer in which
// it must gather.
func (m *mixed) splitSet(set int) bool {
	if m.setBound[set] == nil {
		return false
	}
	homes := domainsAt(m.tree, m.Sets[set].Must)
	return len(slices.DeleteFunc(homes, func(d topology.ID) bool { return m.setBound[set][d] == 0 })) > 1
}

// splitGang says whether a gang is in a set that is split.
func (m *mixed) splitGang(gang int) bool { return slices.ContainsFunc(m.setsOf[gang], m.splitSet) }

// apart are the sets, a bit for each, whose members may not be in several domains below one of a
// layer: they gather deeper.
func (m *mixed) apart(layer int) (sets uint64) {
	for i := range m.Sets {
		if m.Sets[i].Must > layer {
			sets |= 1 << i
		}
	}
	return sets
}

// gathersAt is the layer in one domain of which all members of a gang are.
func (m *mixed) gathersAt(gang int) int {
	layer := m.All.Must
	for _, i := range m.setsOf[gang] {
		layer = max(layer, m.Sets[i].Must)
	}
	return layer
}

// multipleOf is of what the members of a gang in any domain of the layers down to one are a
// multiple, for all that is known: where others share its sets it is not.
func (m *mixed) multipleOf(gang, layer int) offer.Slots {
	step := offer.Slots(1)
	for _, i := range m.setsOf[gang] {
		if set := m.Sets[i]; len(set.Gangs) == 1 {
			step = offer.Common(step, common(set.Multiple, layer))
		}
	}
	return step
}

// divisor is the greatest common one.
func divisor(a, b offer.Slots) offer.Slots {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
