// Package group builds a gang group for planners: its gangs and pods, their topology constraints, and parts of gangs that the gang book
// does not distinguish.
//
//	record ──► pods that do not exist yet, and stand-ins for them (standin.go, resources.go)
//	       ──► sub-groups and tasks of a gang, as gangs (parts.go); its whole slices and its last one (slices.go)
//	       ──► the constraints of the group and of each gang (group.go)
//
// It only computes values from values, without locks, clocks or informers. Invariant: it only reads the records, which the cache owns.
package group

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Record has the objects of one gang.
type Record struct {
	source.Gang
	Finished map[string]*v1.Pod // members that succeeded or failed
	// Declared is the latest declaration of the gang's objects; nil if there is none.
	Declared *source.Declaration
	// Lost has stand-ins for members that were bound and were deleted, the latest last. It may have more than are missing.
	Lost []*v1.Pod
}

// branches returns the constraints on several gangs together that the gang's owner declares; nil if there are none.
func (r *Record) branches() []convert.Own {
	if r.Declared == nil {
		return nil
	}
	return r.Declared.Branches
}

// Gather returns the topology constraint of the gang's members; nil if there is none.
func (r *Record) Gather() *scheduling.GatherSpec {
	if r.Declared == nil {
		return nil
	}
	return r.Declared.Gather
}

// Group is a gang group with the objects that a planner needs.
type Group struct {
	gang.Group
	Pods        map[string]*v1.Pod     // pending and bound members, by key
	Gather      *scheduling.GatherSpec // the topology constraint of the whole group; nil without one
	Constraints []convert.Own          // further constraints of some of its gangs
	Future      []gang.Member          // members not yet created, which are planned with the others; Pods has their stand-ins
	// LeaderFirst are the gangs whose first member must be placed where all members find capacity.
	LeaderFirst []gang.Ref
	// MissingRequests are messages about minResources that request more than the existing pods.
	MissingRequests []string
	// neverPreempts has, for gangs whose objects declare it, whether no pod may be evicted for their members.
	neverPreempts map[gang.Ref]bool
	// Alone says that the group is one pod without a gang.
	Alone bool
	// Moves says that the gang declares, or the configuration, that it moves to another domain if it cannot be repaired in its own.
	Moves bool
	// Evictable says that all gangs declare that their members are evicted first for the repair of another gang.
	Evictable bool
}

// aloneSource is the source in the group key of a pod without a gang. No integration has this name.
const aloneSource = "Pod"

// AloneKey returns the group key of a pod without a gang.
func AloneKey(pod *v1.Pod) gang.Ref {
	return gang.Ref{Source: aloneSource, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// Alone returns a group whose only member is a pod without a gang. node is its reserved node, or "".
func Alone(pod *v1.Pod, node string) *Group {
	key, ref := convert.PodKey(pod), AloneKey(pod)
	g := &Group{Pods: map[string]*v1.Pod{key: pod}, Alone: true}
	g.Key, g.Gangs = ref, []gang.Gang{{Spec: gang.Spec{Ref: ref, Min: 1}, Need: 1}}
	g.Pending = []gang.Member{{Gang: ref, Pod: key, UID: string(pod.UID), Rank: gang.NoRank, Priority: convert.Priority(pod)}}
	if node != "" {
		g.Places, g.Waiting = map[string]string{key: node}, true
	}
	return g
}

// Restarted returns the group as if the controllers of its members had recreated all of them: its pending members are stand-ins for all
// members, and none runs. priority returns the priority of a pod. It returns nil for a group that may start with some of its gangs only.
func (g *Group) Restarted(priority func(*v1.Pod) int32) *Group {
	if g.Choice.Any() {
		return nil
	}
	out := &Group{Pods: map[string]*v1.Pod{}, Gather: g.Gather, Constraints: g.Constraints, neverPreempts: g.neverPreempts}
	out.Key, out.Gangs = g.Key, slices.Clone(g.Gangs)
	for i := range out.Gangs {
		one := &out.Gangs[i]
		one.Started, one.Missing, one.Need = one.Finished, 0, max(0, one.Min-one.Finished)
	}
	for _, m := range slices.Concat(g.Bound, g.Pending, g.Future) {
		pod := Successor(g.Pods[m.Pod])
		pod.Spec.Priority = new(priority(g.Pods[m.Pod]))
		m.Pod, m.UID, m.Node = convert.PodKey(pod), string(pod.UID), ""
		out.Pods[m.Pod], out.Pending = pod, append(out.Pending, m)
	}
	return out
}

// Binds returns whether the member with that key is bound.
func (g *Group) Binds(member string) bool {
	return slices.ContainsFunc(g.Bound, func(m gang.Member) bool { return m.Pod == member })
}

// OnNodes returns the group as if its pending members in nodes were bound to these nodes. The keys of nodes are keys of members.
func (g *Group) OnNodes(nodes map[string]string) *Group {
	out := *g
	out.Gangs, out.Pending = slices.Clone(g.Gangs), nil
	for _, m := range g.Pending {
		if m.Node = nodes[m.Pod]; m.Node == "" {
			out.Pending = append(out.Pending, m)
			continue
		}
		out.Bound = append(out.Bound, m)
		for i := range out.Gangs {
			if one := &out.Gangs[i]; one.Ref == m.Gang {
				one.Started, one.Need = one.Started+1, max(0, one.Need-1)
			}
		}
	}
	return &out
}

// NeverPreempts returns whether no pod may be evicted for a member, as its gang's object declares, or otherwise the pod's preemptionPolicy.
func (g *Group) NeverPreempts(m gang.Member) bool {
	if neverPreempts, says := g.neverPreempts[m.Gang.Whole()]; says {
		return neverPreempts
	}
	return convert.NeverPreempts(g.Pods[m.Pod])
}

// Sets is gang.Group.Sets with groups of this package.
func (g *Group) Sets(limit int, classOf func(*Group) string) (all []*Group) {
	restrict := func(bookGroup *gang.Group) *Group {
		restricted := *g
		restricted.Group = *bookGroup
		return &restricted
	}
	for _, bookGroup := range g.Group.Sets(limit, func(bookGroup *gang.Group) string { return classOf(restrict(bookGroup)) }) {
		all = append(all, restrict(bookGroup))
	}
	return all
}

// RoleOf returns the role of a member for messages, such as its task; "" if it has none.
func (g *Group) RoleOf(m gang.Member) string { return source.PartOf(g.Pods[m.Pod]) }

// add adds a gang's record to the group: whether it never preempts, stand-ins for its future members, and whether it is in LeaderFirst.
// missing is the number of its missing members.
func (g *Group) add(r *Record, missing int) {
	if r.Declared != nil && r.Declared.NeverPreempts != nil {
		if g.neverPreempts == nil {
			g.neverPreempts = map[gang.Ref]bool{}
		}
		g.neverPreempts[r.Ref] = *r.Declared.NeverPreempts
	}
	members, pods := r.StandIns(missing)
	for i, m := range members {
		g.Pods[m.Pod] = pods[i]
	}
	g.Future = append(g.Future, members...)
	switch {
	case r.Declared == nil:
	case missing > 0:
	case r.Declared.Total > 0:
		g.LeaderFirst = append(g.LeaderFirst, r.Ref)
	case len(members) > 0:
		g.LeaderFirst, g.MissingRequests = append(g.LeaderFirst, r.Ref), append(g.MissingRequests, r.beyond(len(members)))
	case r.exact():
		g.LeaderFirst = append(g.LeaderFirst, r.Ref)
	}
}

// New returns the group g of the gang book with the records of its gangs, or why it cannot be planned. tree may be nil.
func New(g gang.Group, records []*Record, tree *topology.Tree) (*Group, gang.Obstacle) {
	out := &Group{Group: g, Pods: map[string]*v1.Pod{}}
	out.Moves = !slices.ContainsFunc(records, func(r *Record) bool { return r.Declared == nil || !r.Declared.Moves })
	out.Evictable = !slices.ContainsFunc(records, func(r *Record) bool { return r.Declared == nil || !r.Declared.Evictable })
	for i, r := range records {
		maps.Copy(out.Pods, r.Pods)
		out.add(r, g.Gangs[i].Missing)
	}
	if why := out.addConstraints(records); why.Exists() {
		return nil, why
	}
	for _, r := range records {
		out.splitSlices(r, tree)
		if why := out.split(r); why.Exists() {
			return nil, why
		}
	}
	return out, gang.Obstacle{}
}

// addConstraints sets Gather and Constraints from the gangs' records. It returns an obstacle if gangs declare different constraints on the
// group. Constraints on single gangs apply to all gangs if all declared constraints are equal. Else, and for a gang with PerGang, they
// apply to the gang that declares them. Gangs without constraints do not count.
func (g *Group) addConstraints(records []*Record) gang.Obstacle {
	agree, first := true, (*scheduling.GatherSpec)(nil)
	for _, r := range records {
		switch gather := r.Gather(); {
		case first == nil:
			first = gather
		case gather != nil:
			agree = agree && source.SameGather(gather, first)
		}
	}
	var from *Record
	for _, r := range records {
		gather := g.takeConstraints(r, !agree)
		if gather == nil {
			continue
		}
		if g.Gather != nil && !source.SameGather(gather, g.Gather) {
			return gang.Obstacle{By: gang.Conflict, Words: conflict(from, r)}
		}
		g.Gather, from = gather, r
	}
	return gang.Obstacle{}
}

func conflict(x, y *Record) string {
	words := fmt.Sprintf("TopologySpecConflict: gangs %s and %s of one GangGroup ", x.Ref, y.Ref)
	if x.Declared.ReadsLayers || y.Declared.ReadsLayers { // its constraint has another syntax
		return words + fmt.Sprintf("gather differently: %s, %s", x.Declared.ConstraintOrigin, y.Declared.ConstraintOrigin)
	}
	return words + "carry different " + scheduling.AnnotationTopologySpec
}

// takeConstraints adds the constraints of a gang that do not apply to the whole group, and returns its constraint on the group; nil without
// one. perGang says that its constraints on single gangs apply to this gang only.
func (g *Group) takeConstraints(r *Record, perGang bool) *scheduling.GatherSpec {
	for _, own := range r.branches() {
		if !slices.ContainsFunc(g.Constraints, func(o convert.Own) bool {
			return slices.Equal(o.Gangs, own.Gangs) && source.SameGather(o.Gather, own.Gather)
		}) {
			g.Constraints = append(g.Constraints, own) // each of its gangs declares it
		}
	}
	gather := r.Gather()
	if gather == nil || !perGang && !r.Declared.PerGang {
		return gather
	}
	shared, own := &scheduling.GatherSpec{}, &scheduling.GatherSpec{}
	for _, rule := range gather.Rules {
		if rule.Scope == scheduling.ScopePodGroup {
			own.Rules = append(own.Rules, rule)
		} else {
			shared.Rules = append(shared.Rules, rule)
		}
	}
	if len(own.Rules) > 0 {
		g.Constraints = append(g.Constraints, convert.Own{Gangs: []gang.Ref{r.Ref}, Gather: own})
	}
	if len(shared.Rules) == 0 {
		return nil
	}
	return shared
}
