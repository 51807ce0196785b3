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

// Pin describes running members in a domain that lacks capacity for the pending members that must join them there.
// The constraint may be of the group, of some of its gangs, or of a part of a gang.
type Pin struct {
	Members        []string // names of the running members
	DomainPath     string
	DomainLayer    int
	Want, Capacity offer.Slots // members that must join, and how many of them the domain takes
	// Layer says that one domain of this layer, inside DomainPath, must take the members; "" if they may use all of DomainPath.
	Layer string
}

// RunningIn is the running members of a gang in one domain.
type RunningIn struct {
	DomainPath string
	Members    []string // names, sorted
}

// splitOver returns the domains in which members run although all members must share one domain. The first one is the one to keep: it has
// the most running members, or among equals the most capacity. Domains without a name are left out.
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

// pin returns the running members whose domain lacks capacity for the pending ones; nil if that is not the cause of the refusal.
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

// optional returns whether the group could start with other gangs instead of these, which are indexes of a.Group.Gangs.
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

// pinAt returns p with the running members of gangs (nil is all) and their domain of the layer; nil if none runs or it has no name.
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

// dependsOnBound returns whether running members of the group restrict where or how many pending members may start.
// Then there might be a plan if the running members terminated, too.
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

// binds returns whether members already placed restrict the domains of the others.
func binds(g plan.Gather) bool { return g.Must > 0 || maxMultiple(g) > 1 }
