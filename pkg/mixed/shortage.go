package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// mostTooLarge bounds how many of them are looked for.
const mostTooLarge = 3

// tooLarge lists the first sets of those that must gather deeper than all which are too large
// by themselves. Where members depend on one another nobody knows.
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
				Beside: m.boundOfSet(i, topology.Root) > 0,
			})
		}
	}
	return out
}

// needOf is how many members the gangs of a set need.
func (m *search) needOf(set int) (n offer.Slots) {
	for _, g := range m.Sets[set].Gangs {
		n += m.Gangs[g].Need
	}
	return n
}

// bestFor is the first domain that takes most of what the gangs of a set need.
func (m *search) bestFor(set int, want offer.Slots) (best plan.Offer) {
	known := map[*table]offer.Slots{} // clusters have few kinds of domains
	none := true
	for _, root := range m.Roots {
		for d := range m.Below(root, m.Sets[set].Must) {
			if m.boundOfSet(set, d) != m.boundOfSet(set, topology.Root) {
				continue
			}
			t := m.counted(d)
			n, ok := known[t]
			if !ok || t == nil {
				n = min(want, m.takesOfSet(set, d))
				known[t] = n
			}
			if none || n > best.Slots {
				none, best = false, plan.Offer{Slots: n}
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

// counted is the table of a domain; nil if nobody made it.
func (m *search) counted(d topology.ID) *table {
	if m.table == nil {
		return nil
	}
	return m.table[d]
}

// takesOfSet is how many members a domain takes of those that the gangs of a set need, or where
// nobody counted them, no less than that.
func (m *search) takesOfSet(set int, d topology.ID) (most offer.Slots) {
	t := m.counted(d)
	if t == nil {
		want := make([]offer.Slots, m.kinds())
		for _, c := range m.inSet[set] {
			want[m.Classes[c].Kind] += offer.Slots(len(m.Classes[c].Ranks))
		}
		for kind, many := range want {
			most += m.takesAlone(d, kind, many)
		}
		return most
	}
	for _, v := range t.vecs {
		n := offer.Slots(0)
		for _, g := range m.Sets[set].Gangs {
			n += min(m.ofGang(v, g), m.Gangs[g].Need)
		}
		most = max(most, n)
	}
	return most
}

// refuse says how many of the members each domain takes, if it is known: the needs of
// single gangs do not count, so that of a set that finds no room those count who do.
func (m *search) refuse(cut bool) *plan.Refusal {
	m.partly = slices.ContainsFunc(m.Sets, func(s Set) bool { return s.Must > m.All.Must })
	if (m.Trial == nil || m.placed == nil) && (m.table == nil || m.partly) && !m.Split {
		m.count(m.little())
	}
	r := m.Ground.Refuse(m.All.Must, m.most)
	r.Want, r.Dependent, r.AtLeast, r.Cut = m.need(), m.Trial != nil, slices.ContainsFunc(m.Roots, m.tried), cut
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

// addDeeper says of a set that it must gather deeper than all, if it must.
func (m *search) addDeeper(r *plan.Refusal, set int) {
	s := m.Sets[set]
	if s.Must <= m.All.Must {
		return
	}
	layer, size := m.Tree.LayerNames()[s.Must], len(s.Gangs)
	i := slices.IndexFunc(r.Deeper, func(a plan.Deeper) bool { return a.Layer == layer && a.Gangs == size })
	if i < 0 {
		i = len(r.Deeper)
		r.Deeper = append(r.Deeper, plan.Deeper{Layer: layer, Gangs: size})
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
		if m.gangs[g] != nil && !counted {
			a.Split++
		}
	}
}

// tried says whether trials, and no table, say how many members a domain takes.
func (m *search) tried(d topology.ID) bool {
	return m.placed != nil && (m.Trial != nil || m.counted(d) == nil)
}

// most returns how many members a domain takes. After trials it returns how many they have put there; where there is
// neither trial nor table, an upper bound.
func (m *search) most(d topology.ID) (n offer.Slots) {
	if m.tried(d) {
		return m.placed[d]
	}
	if m.table == nil || m.table[d] == nil {
		n = m.mostIn(d)
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
