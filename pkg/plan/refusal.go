package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Some says of a refusal that not all gangs were needed.
type Some struct {
	Least, Of int // so many gangs, of those that may start
	Started   int // and so many run already, of those that are counted
}

// String says how many gangs were needed.
func (s *Some) String() string {
	switch {
	case s.Least == 0 && s.Of == 1:
		return "one gang waits, and starts whole or not at all"
	case s.Least == 0:
		return fmt.Sprintf("%d gangs wait, and each starts whole or not at all", s.Of)
	case s.Started == 0:
		return fmt.Sprintf("at least %d of %d gangs must start, each whole", s.Least, s.Of)
	}
	return fmt.Sprintf("at least %d more of %d gangs must start, each whole", s.Least, s.Of)
}

// TooLarge is a set of gangs that no domain of its layer takes, even if nobody else went there.
type TooLarge struct {
	Gangs  []int  // indexes into Job.Gangs
	Who    string // what people call them; "" until somebody who knows has said so
	Layer  string
	Want   offer.Slots
	Best   Offer // the most that a domain takes of what the gangs need; Path is "" if it has no name
	Beside bool  // some of them run, and the others must join them
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
	// Dependent says that members depend on one another across nodes.
	Dependent bool
	// AtLeast says that the domains may take more members than they offer: the search put so many there, one after the other.
	AtLeast bool
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

// Refuse says what each domain of the Must layer offers.
func (g *Ground) Refuse(must int, offers func(topology.ID) offer.Slots) *Refusal {
	r := &Refusal{Layer: g.tree.LayerNames()[must], Split: g.Split}
	for _, d := range g.Roots {
		if g.tree.Named(d) {
			r.Domains = append(r.Domains, Offer{Path: g.tree.Path(d), Slots: offers(d)})
		}
	}
	slices.SortStableFunc(r.Domains, func(a, b Offer) int { return cmp.Compare(b.Slots, a.Slots) })
	return r
}

// AddMultiples adds those of some layers that forbid any count.
func (r *Refusal) AddMultiples(t *topology.Tree, multiple offer.Multiples) {
	for l := range multiple {
		if m := multiple.At(l); m > 1 {
			r.Multiple = append(r.Multiple, Multiple{Layer: t.LayerNames()[l], Count: m})
		}
	}
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
	if r.AtLeast && len(r.Domains) > 0 && r.Domains[0].Slots > 0 {
		b.WriteString("; the counts are lower bounds")
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
