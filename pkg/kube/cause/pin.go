// Package cause says why a group has no plan where more free capacity does not help: where its running members are, and how many separate
// domains its members need.
//
//	pin.go         running members in a domain that is too small, or in several domains
//	separation.go  members that each need a separate domain
//
// It computes values from values, without locks, clocks or snapshots of its own. It must not know what nodes lack, or the words for users
// beyond the remedy of a Separation. Invariant: it changes neither the group nor the nodes.
package cause

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Search is what a plan was searched for: a group and its topology constraints, in a tree.
type Search struct {
	Group *group.Group
	Tree  *topology.Tree
	Nodes []fwk.NodeInfo // by node index; nil if missing or excluded
	All   plan.Gather
	Sets  []mixed.Set
}

// Pin describes running members in a domain that lacks capacity for the pending members that must join them there.
// The constraint may be of the group, of some of its gangs, or of a part of a gang.
type Pin struct {
	Members        []string // names of the running members
	DomainPath     string
	Domain         topology.ID
	DomainLayer    int
	Want, Capacity offer.Slots // members that must join, and how many of them the domain takes
	// TooSmall says that the domain takes too few of these members even if only the group's running members are there.
	TooSmall bool
	IsNode   bool // the domain is a node, so no node can be added to it
	// Layer says that one domain of this layer, inside DomainPath, must take the members; "" if they may use all of DomainPath.
	Layer string
}

// RunningIn is the running members of a gang in one domain.
type RunningIn struct {
	DomainPath string
	Members    []string // names, sorted
}

// SplitOver returns the domains in which members run although all members must share one domain. The first one is the one to keep: it has
// the most running members, or among equals the most capacity. Domains without a name are left out.
func (s Search) SplitOver(r *plan.Refusal) (all []RunningIn) {
	tree := s.Tree
	layer, ok := tree.LayerIndex(r.Layer)
	if !ok {
		return nil
	}
	members := map[string][]string{}
	for _, m := range s.Group.Bound {
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

// Pin returns the running members whose domain lacks capacity for the pending ones; nil if that is not the cause of the refusal.
func (s Search) Pin(r *plan.Refusal) *Pin {
	for _, t := range r.TooLarge {
		if layer, ok := s.Tree.LayerIndex(t.Layer); ok && t.JoinsRunning && !s.optional(r, t.Gangs) {
			return s.pinAt(layer, s.refs(t.Gangs), Pin{Want: t.Want, Capacity: t.Best.Slots})
		}
	}
	if s.All.Must == 0 {
		return nil
	}
	p := s.pinAt(s.All.Must, nil, Pin{Want: r.Want})
	if p == nil {
		return nil
	}
	for _, d := range r.Domains {
		if d.Path == p.DomainPath {
			p.Capacity = d.Slots
		}
	}
	for _, t := range r.TooLarge {
		if !t.JoinsRunning && !s.optional(r, t.Gangs) {
			p.Layer = t.Layer
			p.Want = t.Want
			p.Capacity = t.Best.Slots
			break
		}
	}
	return p
}

// optional returns whether the group could start with other gangs instead of these, which are indexes of s.Group.Gangs.
func (s Search) optional(r *plan.Refusal, gangs []int) bool {
	if r.Optional == nil || r.Optional.Of <= r.Optional.Least {
		return false
	}
	c := s.Group.Choice
	return c.Any() && slices.ContainsFunc(gangs, func(g int) bool { return c.Gangs[g].Open })
}

// refs returns the gangs with the given indexes.
func (s Search) refs(gangs []int) (out []gang.Ref) {
	for _, g := range gangs {
		out = append(out, s.Group.Gangs[g].Ref)
	}
	return out
}

// pinAt returns p with the running members of gangs (nil is all) and their domain of the layer; nil if none runs or it has no name.
func (s Search) pinAt(layer int, gangs []gang.Ref, p Pin) *Pin {
	tree := s.Tree
	p.DomainLayer = layer
	for _, m := range s.Group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok && (gangs == nil || slices.Contains(gangs, m.Gang)) {
			_, name := convert.SplitKey(m.Pod)
			p.Domain = tree.Ancestor(tree.Node(i), layer)
			p.IsNode = p.Domain == tree.Node(i)
			p.Members, p.DomainPath = append(p.Members, name), tree.Path(p.Domain)
		}
	}
	if p.DomainPath == "" { // no such member, or the domain has no name
		return nil
	}
	return &p
}

// DependsOnBound returns whether running members of the group restrict where or how many pending members may start.
// Then there might be a plan if the running members terminated, too.
func (s Search) DependsOnBound() bool {
	g := s.Group
	switch {
	case len(g.Bound) == 0:
		return false
	case binds(s.All):
		return true
	}
	both := func(gangs []gang.Ref) bool {
		inGangs := func(m gang.Member) bool { return slices.Contains(gangs, m.Gang) }
		return slices.ContainsFunc(g.Bound, inGangs) && slices.ContainsFunc(g.Pending, inGangs)
	}
	for _, set := range s.Sets {
		if binds(set.Gather) && both(s.refs(set.Gangs)) {
			return true
		}
	}
	// A gang that has begun may have to be completed, where otherwise another gang could start.
	return g.Choice.Any() && slices.ContainsFunc(g.Gangs, func(inGangs gang.Gang) bool { return both([]gang.Ref{inGangs.Ref}) })
}

// binds returns whether members already placed restrict the domains of the others.
func binds(g plan.Gather) bool { return g.Must > 0 || g.MaxMultiple() > 1 }
