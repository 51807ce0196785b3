// Package mixed chooses nodes for a job with heterogeneous or interdependent members.
//
// It follows the rules of package plan and searches on the same Ground. A table replaces the curve of package plan: it lists
// the cost of each number of members per class. Tables of child domains are merged up the tree. If there are too many
// combinations, or members are interdependent, a trial places members one by one within a step limit.
//
//	Choose ──► gangs that may be omitted: one job for each set of gangs (choice.go)
//	       ──► sums that no plan can satisfy (sums.go)
//	       ──► tables (search.go, table.go), else trials (trial.go, targets.go)
//	       ──► a refusal (shortage.go)
//
// It knows slots, layers, classes and gangs, but no pods, clocks or locks. Invariant: equal input gives equal output.
package mixed

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Set is gangs of a job that gather together, beside the constraint of the whole job: one gang or a branch. Sets may share gangs.
type Set struct {
	Gangs []int // indexes into Job.Gangs
	plan.Gather
}

// addsConstraint returns whether the set constrains its gangs beyond the constraint all of the whole job. deepest is the node layer.
func (s Set) addsConstraint(all plan.Gather, deepest int) bool {
	return len(s.Gangs) > 0 && (s.Must > all.Must || s.Multiple.Common(deepest) > 1 ||
		slices.ContainsFunc(s.Prefer, func(p plan.Preference) bool { return p.Layer > max(s.Must, all.Must) }))
}

// Job is a request for heterogeneous members, which differ in requirements or topology constraints. Equal members form a class.
type Job struct {
	Classes []Class // sorted by their lowest rank
	Gangs   []Gang
	All     plan.Gather // constraint of all gangs together
	Sets    []Set       // constraints of some gangs
	// Choice says which gangs may be omitted, by gang index; nil for none. Only Choose reads it.
	Choice *choice.Choice
}

// Class is members of one gang with equal requirements.
type Class struct {
	Gang int // index into Job.Gangs
	Kind int // members of one kind have equal requirements; kinds are 0, 1, …
	// Ranks are the ranks of the members among all pending members, ascending. Ranks are unique.
	Ranks []int
}

// Gang is one gang of a job.
type Gang struct {
	Need  offer.Slots   // a plan has at least this many members
	Bound []offer.Slots // running members by node index; nil if there are none
}

// runs returns whether any member of the gang is bound.
func (g Gang) runs() bool {
	return slices.ContainsFunc(g.Bound, func(n offer.Slots) bool { return n > 0 })
}

// World is the cluster that a job is placed on.
type World struct {
	// World.Free is how many members of any kind each node takes: it decides the order of domains. World.Bound is not read.
	plan.World
	// Take returns how many members of a kind a node takes beside load, which counts its new members by kind.
	Take func(node int, load []offer.Slots, kind int) offer.Slots
	// Penalties is plan.World's Penalty by kind; nil if there are none. World.Penalty is not read.
	Penalties [][]int64
	// Trial tests interdependent members; nil if members are independent.
	Trial Trial
	// Work is shared by consecutive searches; nil if there is one search.
	Work *Work
}

// Trial tests members that are placed one after another. On an empty trial, Fits agrees with Take.
type Trial interface {
	// Fits returns whether a member of the kind fits on the node beside the placed members.
	Fits(kind, node int) bool
	// Put places a member; Undo removes the last one.
	Put(kind, node int)
	Undo()
}

// Plan is the node assignments of a job.
type Plan struct {
	Domain topology.ID // the deepest domain around all members
	// Puts has an entry for each placed member.
	Puts []Put
	// InOrder says that the Filters accept members in the order of Puts, perhaps in no other. Otherwise Puts is sorted by
	// the nodes in the order in which ranks fill them.
	InOrder bool
	// NotAll says that the search was incomplete. A better plan by ByMembers, ByDepth or ByPreferences may exist.
	NotAll bool
}

// Put places one member of a class.
type Put struct{ Class, Node int }

// members returns the number of pending members.
func (j Job) members() (n offer.Slots) {
	for _, c := range j.Classes {
		n += offer.Slots(len(c.Ranks))
	}
	return n
}

// kinds returns the number of kinds.
func (j Job) kinds() (n int) {
	for _, c := range j.Classes {
		n = max(n, c.Kind+1)
	}
	return n
}

// need returns how many members a plan must have: the sum of Need of all gangs, at least 1.
func (j Job) need() (n offer.Slots) {
	for _, g := range j.Gangs {
		n += g.Need
	}
	return max(n, 1)
}
