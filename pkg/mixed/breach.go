package mixed

import (
	"fmt"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Breach is the first constraint that assignments break.
type Breach struct {
	Rule BrokenRule
	// Gangs are the indexes of the affected gangs; nil for all gangs together.
	Gangs []int
	// Layer is the layer of the constraint; "" for TooFew.
	Layer string
	// Domain is the domain around all members, or the domain with a wrong count.
	Domain topology.ID
	// Count is the number of members. Want is the number needed, or the divisor required.
	Count, Want offer.Slots
}

// BrokenRule is a constraint on assignments.
type BrokenRule int

// The constraints in the order of the check, except that TooFewGangs comes second.
const (
	TooFew      BrokenRule = iota + 1 // fewer members than the gang needs
	NotGathered                       // members in several domains of a MustGather layer
	NoMultiple                        // a count in a domain that podCountMultiple forbids
	TooFewGangs                       // too few gangs to run without the rest
)

// String returns a description without the gang's name.
func (b *Breach) String() string {
	switch b.Rule {
	case TooFew:
		return fmt.Sprintf("%d members have places, %d need one", b.Count, b.Want)
	case TooFewGangs:
		return fmt.Sprintf("%d of %d gangs have places, and may not run without others", b.Count, b.Want)
	case NotGathered:
		return "the places are not in one domain of " + b.Layer
	default:
		return fmt.Sprintf("%d members in a domain of %s are no multiple of %d", b.Count, b.Layer, b.Want)
	}
}

// Holds returns the first constraint that a plan breaks; nil if it breaks none. places is the number of new members by gang and node index.
// Running members count on their nodes. An optional gang may have no new member. Domains without new members are not checked.
func (j Job) Holds(t *topology.Tree, places [][]offer.Slots) *Breach {
	for g, gang := range j.Gangs {
		n, optional := total(places[g]), j.Choice.Any() && j.Choice.Gangs[g].Open
		if n < gang.Need && !(optional && n == 0) {
			return &Breach{Rule: TooFew, Gangs: []int{g}, Domain: topology.Root, Count: n, Want: gang.Need}
		}
	}
	if n, gangs, ok := j.enoughGangs(places); !ok {
		return &Breach{Rule: TooFewGangs, Domain: topology.Root, Count: n, Want: gangs}
	}
	bound, counts := make([]offer.Slots, t.NumNodes()), make([]offer.Slots, t.NumNodes())
	for g, gang := range j.Gangs {
		add(bound, gang.Bound)
		add(counts, places[g])
	}
	if b := broken(j.All, t, bound, counts); b != nil {
		return b
	}
	for _, set := range j.Sets {
		bound, counts := make([]offer.Slots, t.NumNodes()), make([]offer.Slots, t.NumNodes())
		for _, g := range set.Gangs {
			add(bound, j.Gangs[g].Bound)
			add(counts, places[g])
		}
		if b := broken(set.Gather, t, bound, counts); b != nil {
			b.Gangs = set.Gangs
			return b
		}
	}
	return nil
}

// broken returns the breach of g (MustGather or podCountMultiple) by new members beside bound ones, or nil. Counts are by node index.
func broken(g plan.Gather, t *topology.Tree, bound, places []offer.Slots) *Breach {
	if total(places) == 0 {
		return nil
	}
	domain, _ := t.Enclosing(func(yield func(int) bool) {
		for _, counts := range [][]offer.Slots{bound, places} {
			for i, n := range counts {
				if n > 0 && !yield(i) {
					return
				}
			}
		}
	})
	if t.Layer(domain) < g.Must {
		return &Breach{Rule: NotGathered, Layer: t.LayerNames()[g.Must], Domain: domain, Count: total(places)}
	}
	if g.Multiple.Common(t.Depth()) == 1 {
		return nil
	}
	inDomain, boundInDomain := offer.Sum(t, places), offer.Sum(t, bound)
	for d, n := range inDomain {
		d := topology.ID(d)
		if m := g.Multiple.At(t.Layer(d)); n > 0 && (n+boundInDomain[d])%m != 0 {
			return &Breach{Rule: NoMultiple, Layer: t.LayerNames()[t.Layer(d)], Domain: d, Count: n + boundInDomain[d], Want: m}
		}
	}
	return nil
}

// enoughGangs returns in ok whether the gangs that take part may run without the other gangs. The mandatory gangs take part, and the gangs
// with a member in places. n is the number of gangs that take part. gangs is the number of all gangs. Without Choice, ok is true, and both
// numbers are 0.
func (j Job) enoughGangs(places [][]offer.Slots) (n, gangs offer.Slots, ok bool) {
	if !j.Choice.Any() {
		return 0, 0, true
	}
	set := j.Choice.Mandatory()
	for g := range set {
		if set[g] = set[g] || total(places[g]) > 0; set[g] {
			n++
		}
	}
	return n, offer.Slots(len(set)), j.Choice.Holds(set)
}

func total(counts []offer.Slots) (n offer.Slots) {
	for _, c := range counts {
		n += c
	}
	return n
}

func add(to, counts []offer.Slots) {
	for i, n := range counts {
		to[i] += n
	}
}
