package place

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Members that run bind those who must gather with them to their domain: a whole group by its own rules,
// some of its gangs, or the parts of one, by theirs.

// Pin is members that run in a domain that has no room for those who must join them.
type Pin struct {
	Who        []string // their names
	In         string   // the domain's path
	At         int      // and its layer
	Want, Room offer.Slots
	// Layer is where one domain within In must have that room; "" if In may have it anywhere.
	Layer string
}

// pin is what a refusal says of members that run. Where some gangs are too many for the domain of
// theirs that run, it is these: the domain that binds is the smallest.
func (a *Attempt) pin(r *plan.Refusal) *Pin {
	for _, t := range r.TooLarge {
		if layer, ok := a.Net.Tree.LayerIndex(t.Layer); ok && t.Beside && !a.optional(r, t.Gangs) {
			return a.pinAt(layer, a.refs(t.Gangs), Pin{Want: t.Want, Room: t.Best.Slots})
		}
	}
	if a.All.Must == 0 {
		return nil
	}
	is := a.pinAt(a.All.Must, nil, Pin{Want: r.Want})
	if is == nil {
		return nil
	}
	for _, d := range r.Domains {
		if d.Path == is.In {
			is.Room = d.Slots
		}
	}
	for _, t := range r.TooLarge {
		if !t.Beside && !a.optional(r, t.Gangs) {
			is.Layer, is.Want, is.Room = t.Layer, t.Want, t.Best.Slots
			break
		}
	}
	return is
}

// optional says whether others may start instead of these gangs.
func (a *Attempt) optional(r *plan.Refusal, gangs []int) bool {
	if r.Some == nil || r.Some.Of <= r.Some.Least {
		return false
	}
	c := a.Group.Choice
	return c.Any() && slices.ContainsFunc(gangs, func(g int) bool { return c.Gangs[g].Open })
}

// refs are gangs by their indexes.
func (a *Attempt) refs(gangs []int) (out []gang.Ref) {
	for _, g := range gangs {
		out = append(out, a.Group.Gangs[g].Ref)
	}
	return out
}

// pinAt adds who runs of some gangs, nil means of all, and in which domain of a layer; nil if nobody does, or
// the domain has no name.
func (a *Attempt) pinAt(layer int, of []gang.Ref, is Pin) *Pin {
	tree := a.Net.Tree
	is.At = layer
	for _, m := range a.Group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok && (of == nil || slices.Contains(of, m.Gang)) {
			_, name := convert.SplitKey(m.Pod)
			is.Who, is.In = append(is.Who, name), tree.Path(tree.Ancestor(tree.Node(i), layer))
		}
	}
	if is.In == "" { // nobody does, or it has no name
		return nil
	}
	return &is
}

// tied says whether it depends on members that run where, or how many, of the others may go: if they
// left, there might be a plan where now there is none, whatever else left.
func (a *Attempt) tied() bool {
	g := a.Group
	switch {
	case len(g.Bound) == 0:
		return false
	case binds(a.All):
		return true
	}
	both := func(gangs []gang.Ref) bool {
		of := func(m gang.Member) bool { return slices.Contains(gangs, m.Gang) }
		return slices.ContainsFunc(g.Bound, of) && slices.ContainsFunc(g.Pending, of)
	}
	for _, s := range a.Sets {
		if binds(s.Gather) && both(a.refs(s.Gangs)) {
			return true
		}
	}
	// A gang that has begun may have to be made whole where others could start instead of it.
	return g.Choice.Any() && slices.ContainsFunc(g.Gangs, func(of gang.Gang) bool { return both([]gang.Ref{of.Ref}) })
}

// binds says whether it makes a difference to a way of gathering where the first members are.
func binds(g plan.Gather) bool { return g.Must > 0 || maxMultiple(g) > 1 }
