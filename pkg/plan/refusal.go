package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Refusal says why no plan exists: what the gang needs and the most that each
// domain it may use can give, best first.
type Refusal struct {
	Want     offer.Slots
	Layer    string
	Domains  []Offer
	Multiple []Multiple // the multiples that were asked for, from the top down
	Split    bool       // bound members are in several domains of the Must layer
	// Deeper are the sets of gangs that must gather deeper than all together.
	Deeper []Deeper
	// TooLarge are the first of them that are too large by themselves.
	TooLarge []TooLarge
	// Dependent says that members depend on one another across nodes: the offers are for
	// each domain as it is now, before the first of them is there.
	Dependent bool
	// Cut says that not all ways were tried.
	Cut bool
	// Some says of how many gangs some were needed; nil if all were.
	Some *Some
}

// Deeper is sets of as many gangs each that must gather in one layer.
type Deeper struct {
	Layer string
	Gangs int  // in each set
	Sets  int  // how many of them there are
	Every bool // every gang is in one of them
	Split int  // so many gangs have members that run, of sets whose members are in several domains of the layer

	split map[int]bool // those gangs
}

// Offer is what one domain can give.
type Offer struct {
	Path  string
	Slots offer.Slots
}

// Multiple is a layer's podCountMultiple.
type Multiple struct {
	Layer string
	Count offer.Slots
}

// A message names at most this many domains, and no more than have room in this many
// bytes; the rest is counted. What follows the domains has room in a KiB with them.
const (
	listed      = 10
	listedBytes = 768
)

func (s *Search) refuse() *Refusal {
	r := s.ground.refuse(s.Must, func(d topology.ID) offer.Slots { return s.size[d] })
	r.Want = max(s.Min, 1)
	r.multiples(s.tree, s.Multiple)
	return r
}

// refuse says what each domain of the Must layer offers.
func (g *ground) refuse(must int, offers func(topology.ID) offer.Slots) *Refusal {
	r := &Refusal{Layer: g.tree.LayerNames()[must], Split: g.split}
	for _, d := range g.roots {
		if g.tree.Named(d) {
			r.Domains = append(r.Domains, Offer{Path: g.tree.Path(d), Slots: offers(d)})
		}
	}
	slices.SortStableFunc(r.Domains, func(a, b Offer) int { return cmp.Compare(b.Slots, a.Slots) })
	return r
}

func (r *Refusal) multiples(t *topology.Tree, multiple offer.Multiples) {
	for l := range multiple {
		if m := multiple.At(l); m > 1 {
			r.Multiple = append(r.Multiple, Multiple{Layer: t.LayerNames()[l], Count: m})
		}
	}
}

// refuse says how many of the members each domain takes, if it is known: the needs of
// single gangs do not count, so that of a set that finds no room those count who do.
func (m *mixed) refuse(cut bool) *Refusal {
	m.partly = slices.ContainsFunc(m.Sets, func(s Set) bool { return s.Must > m.All.Must })
	if (m.table == nil || m.partly) && !m.split {
		m.count(m.little())
	}
	r := m.ground.refuse(m.All.Must, m.most)
	r.Want, r.Dependent, r.Cut = m.need(), m.Trial != nil, cut
	r.multiples(m.tree, m.All.Multiple)
	for i, set := range m.Sets {
		if !slices.ContainsFunc(m.Sets[:i], func(s Set) bool { return slices.Equal(s.Multiple, set.Multiple) }) {
			r.multiples(m.tree, set.Multiple)
		}
		m.addDeeper(r, i)
	}
	r.TooLarge = m.tooLarge()
	return r
}

// addDeeper says of a set that it must gather deeper than all, if it must.
func (m *mixed) addDeeper(r *Refusal, set int) {
	s := m.Sets[set]
	if s.Must <= m.All.Must {
		return
	}
	layer, size := m.tree.LayerNames()[s.Must], len(s.Gangs)
	i := slices.IndexFunc(r.Deeper, func(a Deeper) bool { return a.Layer == layer && a.Gangs == size })
	if i < 0 {
		i = len(r.Deeper)
		r.Deeper = append(r.Deeper, Deeper{Layer: layer, Gangs: size})
	}
	a := &r.Deeper[i]
	a.Sets++
	a.Every = a.Sets*size == len(m.Gangs)
	if !m.splitSet(set) {
		return
	}
	for _, g := range s.Gangs {
		if m.gangs[g] != nil && !a.split[g] {
			if a.split == nil {
				a.split = map[int]bool{}
			}
			a.split[g] = true
			a.Split++
		}
	}
}

// most is how many members a domain takes, or where nobody counted them, no more than
// that.
func (m *mixed) most(d topology.ID) (n offer.Slots) {
	if m.table == nil || m.table[d] == nil {
		n = m.mostIn(d)
		if m.bound == nil {
			n -= n % common(m.All.Multiple, m.Tree.Depth())
		}
		return n
	}
	for _, v := range m.table[d].vecs {
		n = max(n, m.total(v))
	}
	return n
}

// String is the message that people and tools match on, in a KiB.
func (r *Refusal) String() string { return r.Within(1024) }

// Within is String in at most so many bytes, as far as that goes: the best domain is always named.
func (r *Refusal) Within(most int) string {
	head := fmt.Sprintf("no candidate topology nodes can accommodate job, desiredOfferSlot: %d, ", r.Want)
	tail := r.besides(most)
	return head + r.domains(min(most-len(tail), listedBytes)-len(head)) + tail
}

// besides is what more is said than what each domain offers. Of the sets that are too large only those
// are named that have room in so many bytes with all before them, but for the first.
func (r *Refusal) besides(most int) string {
	var b strings.Builder
	for i, m := range r.Multiple {
		if i == 0 {
			b.WriteString("; podCountMultiple constraints: ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%d", m.Layer, m.Count)
	}
	for _, a := range r.Deeper {
		fmt.Fprintf(&b, "; %s in one domain of %s", a.Who(), a.Layer)
	}
	for i, t := range r.TooLarge {
		if one := "; " + t.String(); i == 0 || b.Len()+len(one) <= most/2 {
			b.WriteString(one)
		}
	}
	if s := r.Some; s != nil {
		fmt.Fprintf(&b, "; %s", s)
	}
	if r.Split {
		fmt.Fprintf(&b, "; the members already bound are in several domains of %s", r.Layer)
	}
	for _, a := range r.Deeper {
		if a.Split > 0 {
			fmt.Fprintf(&b, "; the members already bound of %d of the gangs are in several domains of %s", a.Split, a.Layer)
		}
	}
	if r.Dependent {
		b.WriteString("; the members depend on one another (affinity, spread), and do not all fit in any order")
	}
	if r.Cut {
		b.WriteString("; not all ways were tried")
	}
	return b.String()
}

// Who are the gangs, as far as they can be told without names.
func (a Deeper) Who() string {
	switch {
	case a.Gangs == 1 && a.Every:
		return "each gang"
	case a.Gangs == 1 && a.Sets == 1:
		return "one of the gangs"
	case a.Gangs == 1:
		return fmt.Sprintf("%d of the gangs, each", a.Sets)
	case a.Sets == 1:
		return fmt.Sprintf("%d of the gangs together", a.Gangs)
	}
	return fmt.Sprintf("%d sets of %d gangs, each set", a.Sets, a.Gangs)
}

// domains lists what domains offer, best first, in so many bytes.
func (r *Refusal) domains(most int) string {
	if len(r.Domains) == 0 {
		return "topology has no named domain of " + r.Layer
	}
	var b strings.Builder
	for i, d := range r.Domains {
		one := fmt.Sprintf("topology topologyNode %s/%s: %d", r.Layer, d.Path, d.Slots)
		if i > 0 {
			one = ";" + one
		}
		if i == listed || i > 0 && b.Len()+len(one) > most {
			fmt.Fprintf(&b, "; and %d more", len(r.Domains)-i)
			break
		}
		b.WriteString(one)
	}
	return b.String()
}
