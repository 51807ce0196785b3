package plan

import (
	"fmt"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TooLarge is a set of gangs that no domain of its layer takes, even if nobody else went there.
type TooLarge struct {
	Gangs  []int  // indexes into Job.Gangs
	Who    string // what people call them; "" until somebody who knows has said so
	Layer  string
	Want   offer.Slots
	Best   Offer // the most that a domain takes of what the gangs need; Path is "" if it has no name
	Beside bool  // some of them run, and the others must join them
}

// mostTooLarge bounds how many of them are looked for.
const mostTooLarge = 3

// tooLarge lists the first sets of those that must gather deeper than all which are too large
// by themselves. Where members depend on one another nobody knows.
func (m *mixed) tooLarge() (out []TooLarge) {
	if m.Trial != nil || m.split {
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
			out = append(out, TooLarge{
				Gangs: set.Gangs, Layer: m.tree.LayerNames()[set.Must], Want: want, Best: best,
				Beside: m.boundOfSet(i, topology.Root) > 0,
			})
		}
	}
	return out
}

// needOf is how many members the gangs of a set need.
func (m *mixed) needOf(set int) (n offer.Slots) {
	for _, g := range m.Sets[set].Gangs {
		n += m.Gangs[g].Need
	}
	return n
}

// bestFor is the first domain that takes most of what the gangs of a set need.
func (m *mixed) bestFor(set int, want offer.Slots) (best Offer) {
	known := map[*table]offer.Slots{} // clusters have few kinds of domains
	none := true
	for _, root := range m.roots {
		for d := range m.below(root, m.Sets[set].Must) {
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
				none, best = false, Offer{Slots: n}
				if m.tree.Named(d) {
					best.Path = m.tree.Path(d)
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
func (m *mixed) counted(d topology.ID) *table {
	if m.table == nil {
		return nil
	}
	return m.table[d]
}

// takesOfSet is how many members a domain takes of those that the gangs of a set need, or where
// nobody counted them, no less than that.
func (m *mixed) takesOfSet(set int, d topology.ID) (most offer.Slots) {
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

// String is said after what each domain takes of all.
func (t TooLarge) String() string {
	who := t.Who
	switch {
	case who != "":
	case len(t.Gangs) == 1:
		who = "one of the gangs"
	default:
		who = fmt.Sprintf("%d of the gangs together", len(t.Gangs))
	}
	more, best := "", "the best takes"
	if t.Beside {
		more, best = " more", "beside its members it takes"
	}
	if t.Best.Path != "" {
		best = "best is " + t.Best.Path + " with"
	}
	needs := "needs"
	if len(t.Gangs) > 1 {
		needs = "need"
	}
	return fmt.Sprintf("%s %s %d%s in one domain of %s, %s %d", who, needs, t.Want, more, t.Layer, best, t.Best.Slots)
}
