package mixed

import (
	"fmt"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Breach is what some places break: the first rule, and where.
type Breach struct {
	Rule BrokenRule
	// Gangs are the indexes of the gangs that it is about; nil where it is about all together.
	Gangs []int
	// Layer is the layer of the rule; "" for TooFew.
	Layer string
	// Domain is where the rule is broken: what holds all members, or the domain with a
	// wrong count.
	Domain topology.ID
	// Count is how many members there are; Want is how many are needed, or of what they
	// must be a multiple.
	Count, Want offer.Slots
}

// BrokenRule is a rule that places must obey.
type BrokenRule int

// The rules, in the order in which they are asked, but for the last, which comes second.
const (
	TooFew      BrokenRule = iota + 1 // fewer members than the gang needs
	Apart                             // members in several domains of a MustGather layer
	NoMultiple                        // a count in a domain that podCountMultiple forbids
	TooFewGangs                       // some gangs, and not enough to run without the others
)

// String says it in words, without the gang's name.
func (b *Breach) String() string {
	switch b.Rule {
	case TooFew:
		return fmt.Sprintf("%d members have places, %d need one", b.Count, b.Want)
	case TooFewGangs:
		return fmt.Sprintf("%d of %d gangs have places, and may not run without others", b.Count, b.Want)
	case Apart:
		return "the places are not in one domain of " + b.Layer
	default:
		return fmt.Sprintf("%d members in a domain of %s are no multiple of %d", b.Count, b.Layer, b.Want)
	}
}

// Holds says what is broken where so many members of each gang go to each node, by gang and
// node index; nil if nothing is. As for a plan, those that are bound count where they are,
// and a gang or a domain in which nobody is new is not asked for anything but what the gang
// needs.
func (j Job) Holds(t *topology.Tree, places [][]offer.Slots) *Breach {
	for g, gang := range j.Gangs {
		n, out := total(places[g]), j.Choice.Any() && j.Choice.Gangs[g].Open
		if n < gang.Need && !(out && n == 0) {
			return &Breach{Rule: TooFew, Gangs: []int{g}, Domain: topology.Root, Count: n, Want: gang.Need}
		}
	}
	if n, of, ok := j.enoughGangs(places); !ok {
		return &Breach{Rule: TooFewGangs, Domain: topology.Root, Count: n, Want: of}
	}
	bound, counts := make([]offer.Slots, t.NumNodes()), make([]offer.Slots, t.NumNodes())
	for g, gang := range j.Gangs {
		add(bound, gang.Bound)
		add(counts, places[g])
	}
	if b := holds(j.All, t, bound, counts); b != nil {
		return b
	}
	for _, set := range j.Sets {
		bound, counts := make([]offer.Slots, t.NumNodes()), make([]offer.Slots, t.NumNodes())
		for _, g := range set.Gangs {
			add(bound, j.Gangs[g].Bound)
			add(counts, places[g])
		}
		if b := holds(set.Gather, t, bound, counts); b != nil {
			b.Gangs = set.Gangs
			return b
		}
	}
	return nil
}

// holds returns what members who are new break of rules 1 and 2, beside those bound.
func holds(g plan.Gather, t *topology.Tree, bound, places []offer.Slots) *Breach {
	if total(places) == 0 {
		return nil
	}
	domain, _ := t.Enclosing(func(yield func(int) bool) {
		for _, who := range [][]offer.Slots{bound, places} {
			for i, n := range who {
				if n > 0 && !yield(i) {
					return
				}
			}
		}
	})
	if t.Layer(domain) < g.Must {
		return &Breach{Rule: Apart, Layer: t.LayerNames()[g.Must], Domain: domain, Count: total(places)}
	}
	if g.Multiple.Common(t.Depth()) == 1 {
		return nil
	}
	here, beside := offer.Sum(t, places), offer.Sum(t, bound)
	for d, n := range here {
		d := topology.ID(d)
		if m := g.Multiple.At(t.Layer(d)); n > 0 && (n+beside[d])%m != 0 {
			return &Breach{Rule: NoMultiple, Layer: t.LayerNames()[t.Layer(d)], Domain: d, Count: n + beside[d], Want: m}
		}
	}
	return nil
}

// enoughGangs says whether the gangs who have places, or run, may do so without the others; how
// many they are, and of how many.
func (j Job) enoughGangs(places [][]offer.Slots) (n, of offer.Slots, ok bool) {
	if !j.Choice.Any() {
		return 0, 0, true
	}
	set := j.Choice.Nobody()
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
