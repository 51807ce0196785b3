package plan

import (
	"cmp"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Rule is one by which a plan comes before another, in a word.
type Rule string

// The rules, in the order in which they are asked.
const (
	ByMembers     Rule = "members"     // most members placed
	ByDepth       Rule = "depth"       // deepest domain that holds them all, those already bound included
	ByPreferences Rule = "preferences" // least charged by the preferences, from the top down
	ByAttraction  Rule = "attraction"  // most attracting pods in the domain, then in its parents
	ByBinpack     Rule = "binpack"     // least room in the domain, then in its parents
	ByFill        Rule = "fill"        // inside the domain, layer by layer, largest first, and last the smallest that suffices
	ByNames       Rule = "names"
)

// rules is the order of the plans that hold. Nobody else knows it: Choose goes through it
// with domains (narrow) and fills the one that is left (fill), and plans are compared by it
// (Judge).
var rules = []rule{
	{name: ByMembers, plans: func(_ *ground, a, b *draft) int { return cmp.Compare(b.members, a.members) }},
	{name: ByDepth, domains: func(g *ground, a, b topology.ID) int { return cmp.Compare(g.tree.Layer(b), g.tree.Layer(a)) }},
	{name: ByPreferences, plans: func(_ *ground, a, b *draft) int { return a.compareCharged(b) }},
	{
		name:    ByAttraction,
		domains: func(g *ground, a, b topology.ID) int { return -g.compareUpwards(g.attract, a, b) },
		never:   func(g *ground) bool { return g.attract == nil },
	},
	{name: ByBinpack, domains: func(g *ground, a, b topology.ID) int { return g.compareUpwards(g.room, a, b) }},
	{name: ByFill, plans: func(g *ground, a, b *draft) int { return g.compareSpread(a, b) }},
	{name: ByNames, domains: func(_ *ground, a, b topology.ID) int { return cmp.Compare(a, b) }},
}

// rule compares two plans that are equal by the rules before it: by the domains that they
// are in, or by more.
type rule struct {
	name    Rule
	domains func(g *ground, a, b topology.ID) int
	plans   func(g *ground, a, b *draft) int
	never   func(g *ground) bool // decides; nil if it may
}

// domainRules are those that look at domains only, and may decide between two of one layer.
func (g *ground) domainRules() (out []func(g *ground, a, b topology.ID) int) {
	for _, r := range rules {
		if r.domains != nil && r.name != ByDepth && (r.never == nil || !r.never(g)) {
			out = append(out, r.domains)
		}
	}
	return out
}

// draft is what the rules read of a plan.
type draft struct {
	domain  topology.ID
	members int
	charged []func() int64       // by preference
	spread  func() []offer.Slots // by ID, who goes where; nil if that is not compared
}

func (d *draft) compareCharged(other *draft) int {
	for i := range d.charged {
		if o := cmp.Compare(d.charged[i](), other.charged[i]()); o != 0 {
			return o
		}
	}
	return 0
}

func (g *ground) compareSpread(a, b *draft) int {
	if a.domain != b.domain || a.spread == nil {
		return 0
	}
	return g.compareFills(a.domain, a.spread(), b.spread())
}

// decide compares two plans by the rules up to a last one, and says which decides: none if
// they are equal.
func (g *ground) decide(a, b *draft, last Rule) (decides Rule, order int) {
	for _, r := range rules {
		switch {
		case r.domains != nil:
			order = r.domains(g, a.domain, b.domain)
		case r.plans != nil:
			order = r.plans(g, a, b)
		}
		if order != 0 {
			return r.name, order
		}
		if r.name == last {
			break
		}
	}
	return "", 0
}

// compareDomains compares two domains of one layer by the rules that look at nothing else.
func (g *ground) compareDomains(a, b topology.ID) int {
	for _, compare := range g.byDomain {
		if o := compare(g, a, b); o != 0 {
			return o
		}
	}
	return 0
}

// narrow goes through the rules with the domains that take n, and returns the first. What n
// is was decided before, and how it is spread comes after.
func narrow[N any](g *ground, c chooser[N], domains []topology.ID, n N) topology.ID {
	for _, r := range rules {
		switch {
		case len(domains) == 1:
			return domains[0]
		case r.domains != nil:
			domains = least(domains, func(a, b topology.ID) int { return r.domains(g, a, b) })
		case r.name == ByPreferences:
			domains = c.fewest(domains, n)
		}
	}
	return domains[0]
}

// least leaves those that come first, in place.
func least(domains []topology.ID, compare func(a, b topology.ID) int) []topology.ID {
	out := domains[:1]
	for _, d := range domains[1:] {
		switch o := compare(d, out[0]); {
		case o < 0:
			out = append(out[:0], d)
		case o == 0:
			out = append(out, d)
		}
	}
	return out
}
