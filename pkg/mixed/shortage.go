package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// mostTooLarge bounds the number of sets in a refusal.
const mostTooLarge = 3

// tooLarge returns up to mostTooLarge sets that gather deeper than the job and fit in no domain of their layer. It returns nil for
// interdependent members, whose capacity is unknown, and for a split job.
func (m *search) tooLarge() (out []plan.TooLarge) {
	if m.Trial != nil || m.Split {
		return nil
	}
	for i, set := range m.Sets {
		if len(out) == mostTooLarge {
			return out
		}
		want := m.needOf(i)
		if set.Must <= m.All.Must || m.splitSet(i) || want == 0 {
			continue
		}
		if best := m.bestFor(i, want); best.Slots < want {
			out = append(out, plan.TooLarge{
				Gangs: set.Gangs, Layer: m.Tree.LayerNames()[set.Must], Want: want, Best: best,
				JoinsRunning: m.boundInSet(i, topology.Root) > 0,
			})
		}
	}
	return out
}

// needOf returns how many members the gangs of a set need.
func (m *search) needOf(set int) (n offer.Slots) {
	for _, g := range m.Sets[set].Gangs {
		n += m.Gangs[g].Need
	}
	return n
}

// bestFor returns the first domain of the set's Must layer that takes the most needed members of the set, counted up to want.
func (m *search) bestFor(set int, want offer.Slots) (best plan.Offer) {
	known := map[*table]offer.Slots{} // clusters have few kinds of domains
	first := true
	for _, root := range m.Roots {
		for d := range m.Below(root, m.Sets[set].Must) {
			if m.boundInSet(set, d) != m.boundInSet(set, topology.Root) {
				continue
			}
			t := m.existingTable(d)
			n, ok := known[t]
			if !ok || t == nil {
				n = min(want, m.setCapacity(set, d))
				known[t] = n
			}
			if first || n > best.Slots {
				first, best = false, plan.Offer{Slots: n}
				if m.Tree.Named(d) {
					best.Path = m.Tree.Path(d)
				}
			}
			if n == want {
				return best
			}
		}
	}
	return best
}

// existingTable returns the table of a domain; nil if it was not computed.
func (m *search) existingTable(d topology.ID) *table {
	if m.table == nil {
		return nil
	}
	return m.table[d]
}

// setCapacity returns how many needed members of a set a domain takes. Without a table it is an upper bound.
func (m *search) setCapacity(set int, d topology.ID) (most offer.Slots) {
	t := m.existingTable(d)
	if t == nil {
		want := make([]offer.Slots, m.kinds())
		for _, c := range m.classesOfSet[set] {
			want[m.Classes[c].Kind] += offer.Slots(len(m.Classes[c].Ranks))
		}
		for kind, many := range want {
			most += m.aloneCapacity(d, kind, many)
		}
		return most
	}
	for _, v := range t.vecs {
		n := offer.Slots(0)
		for _, g := range m.Sets[set].Gangs {
			n += min(m.countInGang(v, g), m.Gangs[g].Need)
		}
		most = max(most, n)
	}
	return most
}

// refuse returns the refusal with the capacity of each domain, if known. Needs of single gangs are ignored: incomplete sets count.
func (m *search) refuse(cut bool) *plan.Refusal {
	m.partialSets = slices.ContainsFunc(m.Sets, func(s Set) bool { return s.Must > m.All.Must })
	if (m.Trial == nil || m.placed == nil) && (m.table == nil || m.partialSets) && !m.Split {
		m.count(m.smallEffort())
	}
	r := m.Ground.Refuse(m.All.Must, m.mostMembers)
	r.Want = m.need()
	r.Dependent = m.Trial != nil
	r.LowerBounds = slices.ContainsFunc(m.Roots, m.fromTrials)
	r.Incomplete = cut
	r.AddMultiples(m.Tree, m.All.Multiple)
	for i, set := range m.Sets {
		if !slices.ContainsFunc(m.Sets[:i], func(s Set) bool { return slices.Equal(s.Multiple, set.Multiple) }) {
			r.AddMultiples(m.Tree, set.Multiple)
		}
		m.addDeeper(r, i)
	}
	r.TooLarge = m.tooLarge()
	return r
}

// addDeeper records the layer of a set that gathers deeper than the job.
func (m *search) addDeeper(r *plan.Refusal, set int) {
	s := m.Sets[set]
	if s.Must <= m.All.Must {
		return
	}
	layer, size := m.Tree.LayerNames()[s.Must], len(s.Gangs)
	i := slices.IndexFunc(r.Deeper, func(a plan.DeeperSets) bool { return a.Layer == layer && a.Gangs == size })
	if i < 0 {
		i = len(r.Deeper)
		r.Deeper = append(r.Deeper, plan.DeeperSets{Layer: layer, Gangs: size})
	}
	a := &r.Deeper[i]
	a.Sets++
	a.Every = a.Sets*size == len(m.Gangs)
	if !m.splitSet(set) {
		return
	}
	for _, g := range s.Gangs {
		counted := slices.ContainsFunc(m.setsOf[g], func(i int) bool {
			return i < set && m.Sets[i].Must == s.Must && len(m.Sets[i].Gangs) == size && m.splitSet(i)
		})
		if m.boundOfGang[g] != nil && !counted {
			a.Split++
		}
	}
}

// fromTrials returns whether the capacity of a domain comes from trials instead of a table.
func (m *search) fromTrials(d topology.ID) bool {
	return m.placed != nil && (m.Trial != nil || m.existingTable(d) == nil)
}

// mostMembers returns how many members a domain takes: after trials the most they placed; without trial or table an upper bound.
func (m *search) mostMembers(d topology.ID) (n offer.Slots) {
	if m.fromTrials(d) {
		return m.placed[d]
	}
	if m.table == nil || m.table[d] == nil {
		n = m.upperBound(d)
		if !m.AnyBound() {
			n -= n % m.All.Multiple.Common(m.Tree.Depth())
		}
		return n
	}
	for _, v := range m.table[d].vecs {
		n = max(n, m.total(v))
	}
	return n
}
