package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Refusal says why no plan exists: what the gang needs and the most that each
// domain it may use can give, best first.
type Refusal struct {
	Want     offer.Slots
	Layer    string
	Domains  []Offer
	Multiple []Multiple // the multiples that were asked for, from the top down
	Split    bool       // bound members are in several domains of the Must layer
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
// bytes; the rest is counted. What follows the domains must fit in a KiB with them.
const (
	listed      = 10
	listedBytes = 768
)

func (s *Search) refuse() *Refusal {
	layers := s.Tree.LayerNames()
	r := &Refusal{Want: max(s.Min, 1), Layer: layers[s.Must], Split: s.split}
	for _, d := range s.roots {
		if s.Tree.Named(d) {
			r.Domains = append(r.Domains, Offer{Path: s.Tree.Path(d), Slots: s.offer[d]})
		}
	}
	slices.SortStableFunc(r.Domains, func(a, b Offer) int { return cmp.Compare(b.Slots, a.Slots) })
	for l, m := range s.Multiple {
		if m > 1 {
			r.Multiple = append(r.Multiple, Multiple{Layer: layers[l], Count: m})
		}
	}
	return r
}

// String is the message that people and tools match on.
func (r *Refusal) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no candidate topology nodes can accommodate job, desiredOfferSlot: %d, ", r.Want)
	r.writeDomains(&b)
	for i, m := range r.Multiple {
		if i == 0 {
			b.WriteString("; podCountMultiple constraints: ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%d", m.Layer, m.Count)
	}
	if r.Split {
		fmt.Fprintf(&b, "; the members already bound are in several domains of %s", r.Layer)
	}
	return b.String()
}

func (r *Refusal) writeDomains(b *strings.Builder) {
	if len(r.Domains) == 0 {
		fmt.Fprintf(b, "topology has no named domain of %s", r.Layer)
	}
	for i, d := range r.Domains {
		one := fmt.Sprintf("topology topologyNode %s/%s: %d", r.Layer, d.Path, d.Slots)
		if i > 0 {
			one = ";" + one
		}
		if i == listed || i > 0 && b.Len()+len(one) > listedBytes {
			fmt.Fprintf(b, "; and %d more", len(r.Domains)-i)
			return
		}
		b.WriteString(one)
	}
}
