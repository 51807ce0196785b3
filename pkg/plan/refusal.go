package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// OptionalGangs says how many of a job's gangs had to start, if not all.
type OptionalGangs struct {
	Least, Of int // needed gangs, and gangs that may start
	Started   int // gangs that already run
}

// String returns the part of the refusal message about optional gangs.
func (s *OptionalGangs) String() string {
	switch {
	case s.Least == 0 && s.Of == 1:
		return "the minimum is reached, and one further gang or sub-group waits: it starts whole or not at all"
	case s.Least == 0:
		return fmt.Sprintf("the minimum is reached, and %d further gangs or sub-groups wait: each starts whole or not at all", s.Of)
	case s.Started == 0:
		return fmt.Sprintf("at least %d of %d gangs must start, each whole", s.Least, s.Of)
	}
	return fmt.Sprintf("besides the gangs that run, at least %d of %d gangs must start, each whole", s.Least, s.Of)
}

// TooLarge is a set of gangs that no domain of its layer takes now, even without the job's other members. Running pods count.
type TooLarge struct {
	Gangs        []int  // indexes into Job.Gangs
	Name         string // name for messages; "" until the caller sets it
	Layer        string
	Want         offer.Slots
	Best         Offer // the most that a domain takes of the need; Path is "" for an unnamed domain
	JoinsRunning bool  // some of them run, and the rest must join them
}

// String returns the part of a message about the set.
func (t TooLarge) String() string {
	name := t.Name
	switch {
	case name != "":
	case len(t.Gangs) == 1:
		name = "one of the gangs"
	default:
		name = fmt.Sprintf("%d of the gangs together", len(t.Gangs))
	}
	more, best := "", "the best has capacity for"
	if t.JoinsRunning {
		more, best = " more", "beside its running members there is capacity for"
	}
	if t.Best.Path != "" {
		best = "the best, " + t.Best.Path + ", has capacity for"
	}
	needs := "needs"
	if len(t.Gangs) > 1 {
		needs = "need"
	}
	return fmt.Sprintf("%s %s %d%s in one domain of %s, %s %d", name, needs, t.Want, more, t.Layer, best, t.Best.Slots)
}

// Refusal says why no plan exists: the need of the gang, and the most members that each allowed domain takes, best first.
type Refusal struct {
	Want     offer.Slots // members needed
	Layer    string
	Domains  []Offer
	Multiple []Multiple // the requested multiples, from the top down
	Split    bool       // bound members are in several domains of the Must layer
	// DeeperSets are the sets of gangs that must gather deeper than the job.
	Deeper []DeeperSets
	// TooLarge are the first of these sets that are too large by themselves.
	TooLarge []TooLarge
	// Dependent says that members are interdependent across nodes.
	Dependent bool
	// LowerBounds says that the offers are lower bounds, from placing members one by one.
	LowerBounds bool
	// Incomplete says that the search was incomplete.
	Incomplete bool
	// Optional says how many gangs were needed; nil if all.
	Optional *OptionalGangs
}

// DeeperSets is sets of equally many gangs that must gather in one layer.
type DeeperSets struct {
	Layer string
	Gangs int  // in each set
	Sets  int  // number of sets
	Every bool // every gang is in one of the sets
	Split int  // gangs with running members, in sets that span several domains of the layer
}

// Offer is the number of members that one domain takes.
type Offer struct {
	Path  string
	Slots offer.Slots
}

// Multiple is a layer's podCountMultiple.
type Multiple struct {
	Layer string
	Count offer.Slots
}

// A message names at most maxListed domains in maxListedBytes, and counts the rest. The whole message fits into one KiB.
const (
	maxListed      = 10
	maxListedBytes = 768
)

// Refuse returns a refusal with the offer of each named domain of the Must layer, the largest offer first.
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

// AddMultiples adds the layers with a multiple above 1.
func (r *Refusal) AddMultiples(t *topology.Tree, multiple offer.Multiples) {
	for l := range multiple {
		if m := multiple.At(l); m > 1 {
			r.Multiple = append(r.Multiple, Multiple{Layer: t.LayerNames()[l], Count: m})
		}
	}
}

// String returns the message that users and tools match on, within one KiB.
func (r *Refusal) String() string { return r.Within(1024) }

// Within returns String in at most most bytes, by omitting domains and sets. The best domain is always named, even if that is longer.
func (r *Refusal) Within(most int) string {
	head := fmt.Sprintf("no candidate topology nodes can accommodate job, desiredOfferSlot: %d, ", r.Want)
	tail := r.details(most)
	return head + r.domains(min(most-len(tail), maxListedBytes)-len(head)) + tail
}

// details returns the message after the domains. After half of the bytes, further sets that are too large are omitted.
func (r *Refusal) details(most int) string {
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
		fmt.Fprintf(&b, "; %s in one domain of %s", a.Description(), a.Layer)
	}
	for i, t := range r.TooLarge {
		if part := "; " + t.String(); i == 0 || b.Len()+len(part) <= most/2 {
			b.WriteString(part)
		}
	}
	if s := r.Optional; s != nil {
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
	if r.LowerBounds && len(r.Domains) > 0 && r.Domains[0].Slots > 0 {
		b.WriteString("; the counts are lower bounds")
	}
	if r.Incomplete {
		b.WriteString("; not all ways were tried")
	}
	return b.String()
}

// Description returns a description of the gangs without names.
func (a DeeperSets) Description() string {
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

// domains returns the part of the message about the offers of domains, best first, in at most most bytes.
func (r *Refusal) domains(most int) string {
	if len(r.Domains) == 0 {
		return "topology has no named domain of " + r.Layer
	}
	var b strings.Builder
	for i, d := range r.Domains {
		part := fmt.Sprintf("topology topologyNode %s/%s: %d", r.Layer, d.Path, d.Slots)
		if i > 0 {
			part = ";" + part
		}
		if i == maxListed || i > 0 && b.Len()+len(part) > most {
			fmt.Fprintf(&b, "; and %d more", len(r.Domains)-i)
			break
		}
		b.WriteString(part)
	}
	return b.String()
}
