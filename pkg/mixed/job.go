// Package mixed chooses where the members of a job go that differ: in what they need, or in which gangs they gather with.
//
// The rules and their order are those of package plan, on whose Ground a search here stands too. What each number of members
// of each class costs a domain is a table, where plan has a curve: tables of children are merged up the tree. Where there
// are too many combinations, or members depend on one another across nodes, members are put one by one, in counted steps.
//
//	Choose ──► gangs that may be left out: sets of gangs, one job each (choice.go)
//	       ──► sums that no plan can satisfy (sums.go)
//	       ──► tables (search.go, table.go), else trials (trial.go, targets.go)
//	       ──► a refusal (shortage.go)
//
// It knows slots, layers, classes and gangs, and nothing of pods, clocks or locks. Equal input gives equal output.
package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Set is gangs of a job that gather with one another, beside what all of its gangs do: one gang by
// itself, or those of a branch in a tree of gangs. Sets may share gangs.
type Set struct {
	Gangs []int // indexes into Job.Gangs
	plan.Gather
}

// asks says whether a set asks for anything that all gangs of a job together do not.
func (s Set) asks(all plan.Gather, layers int) bool {
	return len(s.Gangs) > 0 && (s.Must > all.Must || s.Multiple.Common(layers) > 1 ||
		slices.ContainsFunc(s.Prefer, func(p plan.Preference) bool { return p.Layer > max(s.Must, all.Must) }))
}

// Job is a request whose members differ: in what they need (launcher and workers), or
// in whom they gather with (the gangs of a group, each in its own rack). Members that
// differ in nothing are a class.
type Job struct {
	Classes []Class // by the lowest rank in them
	Gangs   []Gang
	All     plan.Gather // how the members of all gangs gather
	Sets    []Set       // and those of some
	// Choice says which gangs may be left out, by the index of the gang; nil is none. Only
	// Choose asks.
	Choice *choice.Choice
}

// Class is members that need the same and belong to one gang.
type Class struct {
	Gang int // index into Job.Gangs
	Kind int // members of one kind need the same; kinds are 0, 1, …
	// Ranks says where the members stand among all that wait, rising. No two members
	// have the same rank.
	Ranks []int
}

// Gang is one gang of a job.
type Gang struct {
	Need  offer.Slots   // so many members at the least make a plan
	Bound []offer.Slots // by node index, how many run already; nil if none does
}

// runs says whether any member of the gang is bound.
func (g Gang) runs() bool {
	return slices.ContainsFunc(g.Bound, func(n offer.Slots) bool { return n > 0 })
}

// World is what a job is placed on.
type World struct {
	// plan.World's Free is how many members each node takes whichever they are: it says
	// which domains are large. Its Bound is not read.
	plan.World
	// Take says how many members of a kind a node takes beside a load, by kind, of
	// others that are not there yet.
	Take func(node int, load []offer.Slots, kind int) offer.Slots
	// Penalties is plan.World's Penalty by kind; nil if no member is charged. The world's own is not read.
	Penalties [][]int64
	// Trial is for members that depend on one another across nodes; nil if none do.
	Trial Trial
	// Work is shared by searches that follow one another; nil if there is only one.
	Work *Work
}

// Trial is a world in which members can be put one after the other to see who fits
// then. What Take says of a node is true of a trial in which nobody was put.
type Trial interface {
	Fits(kind, node int) bool
	// Put puts a member there; Undo takes the last one back.
	Put(kind, node int)
	Undo()
}

// Plan says where the members of a job go.
type Plan struct {
	Domain topology.ID // the deepest domain that holds all members
	// Puts has an entry for each member that is placed.
	Puts []Put
	// InOrder says that the Filters let members pass in the order of Puts, and perhaps
	// in no other. Else nodes stand in the order in which ranks are to fill them.
	InOrder bool
	// NotAll says that not all ways were tried, and that of those that were not, one may
	// place more, lie deeper or touch fewer domains of the PreferGather layers (rules 3 to 5).
	NotAll bool
}

// Put places one member of a class.
type Put struct{ Class, Node int }

// members is the number of members that want a place.
func (j Job) members() (n offer.Slots) {
	for _, c := range j.Classes {
		n += offer.Slots(len(c.Ranks))
	}
	return n
}

// kinds is the number of kinds.
func (j Job) kinds() (n int) {
	for _, c := range j.Classes {
		n = max(n, c.Kind+1)
	}
	return n
}

// need is how many members make a plan at the least.
func (j Job) need() (n offer.Slots) {
	for _, g := range j.Gangs {
		n += g.Need
	}
	return max(n, 1)
}
