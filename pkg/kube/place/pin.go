package place

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Pin describes running members in a domain that lacks capacity for the members that must join them.
// Running members bind the rest to their domain, by the constraints of the group, of some gangs, or of a part.
type Pin struct {
	Members        []string // names of the running members
	DomainPath     string   // the domain's path
	DomainLayer    int      // the domain's layer
	Want, Capacity offer.Slots
	// Layer is where one domain within In must have that capacity; "" if the whole of In counts.
	Layer string
}

// RunningIn is the running members of a gang in one domain.
type RunningIn struct {
	DomainPath string
	Members    []string // names, sorted
}

// splitOver returns the domains of the layer that the members must share but run in. The first is the one to keep: with the most running
// members, then with the most capacity. Domains without a name are left out.
func (a *Attempt) splitOver(r *plan.Refusal) (all []RunningIn) {
	tree := a.Net.Tree
	layer, ok := tree.LayerIndex(r.Layer)
	if !ok {
		return nil
	}
	members := map[string][]string{}
	for _, m := range a.Group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok {
			_, name := convert.SplitKey(m.Pod)
			path := tree.Path(tree.Ancestor(tree.Node(i), layer))
			members[path] = append(members[path], name)
		}
	}
	delete(members, "")
	capacity := map[string]offer.Slots{}
	for _, d := range r.Domains {
		capacity[d.Path] = d.Slots
	}
	for path, names := range members {
		slices.SortFunc(names, topology.CompareNames)
		all = append(all, RunningIn{path, names})
	}
	slices.SortFunc(all, func(x, y RunningIn) int {
		return cmp.Or(
			cmp.Compare(len(y.Members), len(x.Members)),
			cmp.Compare(capacity[y.DomainPath], capacity[x.DomainPath]),
			topology.CompareNames(x.DomainPath, y.DomainPath),
		)
	})
	return all
}

// pin returns what a refusal says of running members. If some gangs exceed the domain of their own running members, pin describes these.
func (a *Attempt) pin(r *plan.Refusal) *Pin {
	for _, t := range r.TooLarge {
		if layer, ok := a.Net.Tree.LayerIndex(t.Layer); ok && t.JoinsRunning && !a.optional(r, t.Gangs) {
			return a.pinAt(layer, a.refs(t.Gangs), Pin{Want: t.Want, Capacity: t.Best.Slots})
		}
	}
	if a.All.Must == 0 {
		return nil
	}
	p := a.pinAt(a.All.Must, nil, Pin{Want: r.Want})
	if p == nil {
		return nil
	}
	for _, d := range r.Domains {
		if d.Path == p.DomainPath {
			p.Capacity = d.Slots
		}
	}
	for _, t := range r.TooLarge {
		if !t.JoinsRunning && !a.optional(r, t.Gangs) {
			p.Layer = t.Layer
			p.Want = t.Want
			p.Capacity = t.Best.Slots
			break
		}
	}
	return p
}

// optional returns whether other gangs may start instead of these.
func (a *Attempt) optional(r *plan.Refusal, gangs []int) bool {
	if r.Optional == nil || r.Optional.Of <= r.Optional.Least {
		return false
	}
	c := a.Group.Choice
	return c.Any() && slices.ContainsFunc(gangs, func(g int) bool { return c.Gangs[g].Open })
}

// refs returns the gangs with the given indexes.
func (a *Attempt) refs(gangs []int) (out []gang.Ref) {
	for _, g := range gangs {
		out = append(out, a.Group.Gangs[g].Ref)
	}
	return out
}

// pinAt adds the running members of gangs, of all if nil, and their domain of layer to p. It returns nil without such members or a domain
// name.
func (a *Attempt) pinAt(layer int, gangs []gang.Ref, p Pin) *Pin {
	tree := a.Net.Tree
	p.DomainLayer = layer
	for _, m := range a.Group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok && (gangs == nil || slices.Contains(gangs, m.Gang)) {
			_, name := convert.SplitKey(m.Pod)
			p.Members, p.DomainPath = append(p.Members, name), tree.Path(tree.Ancestor(tree.Node(i), layer))
		}
	}
	if p.DomainPath == "" { // no such member, or the domain has no name
		return nil
	}
	return &p
}

// dependsOnBound returns whether running members restrict where, or how many, pending members start.
// If they terminated too, there might be a plan.
func (a *Attempt) dependsOnBound() bool {
	g := a.Group
	switch {
	case len(g.Bound) == 0:
		return false
	case binds(a.All):
		return true
	}
	both := func(gangs []gang.Ref) bool {
		inGangs := func(m gang.Member) bool { return slices.Contains(gangs, m.Gang) }
		return slices.ContainsFunc(g.Bound, inGangs) && slices.ContainsFunc(g.Pending, inGangs)
	}
	for _, s := range a.Sets {
		if binds(s.Gather) && both(a.refs(s.Gangs)) {
			return true
		}
	}
	// A gang that has begun may have to be completed, where otherwise another gang could start.
	return g.Choice.Any() && slices.ContainsFunc(g.Gangs, func(inGangs gang.Gang) bool { return both([]gang.Ref{inGangs.Ref}) })
}

// binds returns whether the first members restrict the domains of the rest.
func binds(g plan.Gather) bool { return g.Must > 0 || maxMultiple(g) > 1 }
