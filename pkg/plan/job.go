package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Set is gangs of a job that gather with one another, beside what all of its gangs do: one gang by
// itself, or those of a branch in a tree of gangs. Sets may share gangs.
type Set struct {
	Gangs []int // indexes into Job.Gangs
	Gather
}

// asks says whether a set asks for anything that all gangs of a job together do not.
func (s Set) asks(all Gather, layers int) bool {
	return len(s.Gangs) > 0 && (s.Must > all.Must || common(s.Multiple, layers) > 1 ||
		slices.ContainsFunc(s.Prefer, func(p Preference) bool { return p.Layer > max(s.Must, all.Must) }))
}

// Job is a request whose members differ: in what they need (launcher and workers), or
// in whom they gather with (the gangs of a group, each in its own rack). Members that
// differ in nothing are a class.
type Job struct {
	Classes []Class // by the lowest rank in them
	Gangs   []Gang
	All     Gather // how the members of all gangs gather
	Sets    []Set  // and those of some
	// Choice says which gangs may be left out, by the index of the gang; nil is none. Only
	// ChooseJob asks.
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

// Gather is what a gather spec asks for in one scope.
type Gather struct {
	Must     int          // the deepest MustGather layer; 0 is the whole cluster
	Prefer   []Preference // in any order
	Multiple offer.Multiples
}

// JobWorld is what a job is placed on.
type JobWorld struct {
	// World's Free is how many members each node takes whichever they are: it says
	// which domains are large. Its Bound is not read.
	World
	// Take says how many members of a kind a node takes beside a load, by kind, of
	// others that are not there yet.
	Take func(node int, load []offer.Slots, kind int) offer.Slots
	// Penalties is World.Penalty by kind; nil if no member is charged. World's own is not read.
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

// JobPlan says where the members of a job go.
type JobPlan struct {
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

// common is the common multiple of all layers down to one.
func common(multiple offer.Multiples, layer int) offer.Slots {
	step := offer.Slots(1)
	for l := range layer + 1 {
		step = offer.Common(step, multiple.At(l))
	}
	return step
}
