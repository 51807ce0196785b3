package place

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// withStandIns returns the group with stand-ins for members that do not exist as further pending members: members not yet created, and
// missing members of incomplete gangs. A gang that waits for its first leader then needs all its members: otherwise the first ones could be
// placed where the others find no capacity. For a gang with running members the stand-ins are optional. It has none while it needs members
// that exist: a smaller stand-in could take the place of one of them, and the gang would not start.
func withStandIns(group *cache.Group) *cache.Group {
	if len(group.LeaderFirst)+len(group.Future) == 0 {
		return group
	}
	all := *group
	all.Gangs = slices.Clone(group.Gangs)
	all.Pending = slices.Concat(group.Pending, slices.DeleteFunc(slices.Clone(group.Future), func(m gang.Member) bool {
		needs := func(g gang.Gang) bool { return g.Ref == m.Gang && g.Need > 0 }
		return m.Absent && len(group.Pending) > 0 && slices.ContainsFunc(group.Gangs, needs)
	}))
	for i := range all.Gangs {
		g := &all.Gangs[i]
		others := func(m gang.Member) bool { return m.Gang != g.Ref }
		bound := slices.ContainsFunc(group.Bound, func(m gang.Member) bool { return !others(m) })
		if g.Need > 0 && slices.Contains(group.LeaderFirst, g.Ref) && !bound {
			g.Need = len(slices.DeleteFunc(slices.Clone(all.Pending), others))
		}
	}
	return &all
}

// Split returns the assignments of existing members (own) and of members that do not exist (ahead).
func (a *Attempt) Split(places []gang.Assignment) (own, ahead []gang.Assignment) {
	if len(a.Group.Future) == 0 {
		return places, nil
	}
	standIn := make(map[string]bool, len(a.Group.Future))
	for _, m := range a.Group.Future {
		standIn[m.Pod] = true
	}
	for _, place := range places {
		if standIn[place.Pod] {
			ahead = append(ahead, place)
		} else {
			own = append(own, place)
		}
	}
	return own, ahead
}

// FreeOutside returns the names of the nodes that take a member and are no JoinableNodes. It also returns the path of the domain in which
// the running members keep the group. Call it after Plan.
func (a *Attempt) FreeOutside() (names []string, domain string) {
	joinable := map[string]bool{}
	for _, n := range a.JoinableNodes() {
		joinable[n.Node().Name] = true
	}
	for i, n := range a.Nodes {
		if n != nil && a.World.Free[i] > 0 && !joinable[n.Node().Name] {
			names = append(names, n.Node().Name)
		}
	}
	for _, m := range a.Group.Bound {
		if i, ok := a.Net.Tree.NodeIndex(m.Node); ok {
			domain = a.Net.Tree.Path(a.Net.Tree.Ancestor(a.Net.Tree.Node(i), a.All.Must))
		}
	}
	return names, domain
}

// Existing returns the attempt without missing members, for which no pod is evicted; a itself if it has none.
func (a *Attempt) Existing() *Attempt {
	existing := slices.DeleteFunc(slices.Clone(a.Group.Pending), func(m gang.Member) bool { return m.Absent })
	if len(existing) == len(a.Group.Pending) || len(existing) == 0 {
		return a
	}
	return a.For(existing)
}

// JoinableNodes returns the nodes on which members may be placed beside the running ones: the nodes of the domains in which MustGather
// keeps the group; all nodes without running members or MustGather. Call it after Plan.
func (a *Attempt) JoinableNodes() (nodes []fwk.NodeInfo) {
	tree := a.Net.Tree
	inside := make([]bool, len(a.Nodes))
	for _, m := range a.Group.Bound {
		if i, ok := tree.NodeIndex(m.Node); ok {
			lo, hi := tree.Nodes(tree.Ancestor(tree.Node(i), a.All.Must))
			for i := lo; i < hi; i++ {
				inside[i] = true
			}
		}
	}
	for i, n := range a.Nodes {
		if a.ClosedForMaintenance(i) { // until it is open again
			n = a.allNodes[i]
		}
		if n != nil && (inside[i] || len(a.Group.Bound) == 0) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
