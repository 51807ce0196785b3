// Package group is one gang group as planners see it: the gangs and their pods, how these gather, and what the book does not tell apart.
//
//	record ──► pods that are still to be made, and stand-ins for them (standin.go, resources.go)
//	       ──► sub-groups and tasks of a gang, as gangs (parts.go); its whole slices and its last one (slices.go)
//	       ──► how all gather, and each gang by itself (group.go)
//
// Values in, values out: it knows no lock, clock or informer. Records belong to the cache, and are only read here.
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

// Record is what the cluster says of one gang.
type Record struct {
	source.Gang
	Finished map[string]*v1.Pod // members that have succeeded or failed
	// Declared is what the gang's objects said last; nil if nothing declares it.
	Declared *source.Declaration
}

// branches are gangs that gather with one another, as the gang's owner says.
func (r *Record) branches() []convert.Own {
	if r.Declared == nil {
		return nil
	}
	return r.Declared.Branches
}

// Gather is how the gang's members gather; nil if that is not said.
func (r *Record) Gather() *scheduling.GatherSpec {
	if r.Declared == nil {
		return nil
	}
	return r.Declared.Gather
}

// Group is a gang group with the objects that a planner needs.
type Group struct {
	gang.Group
	Pods   map[string]*v1.Pod // members, pending and bound
	Gather *scheduling.GatherSpec
	Own    []convert.Own // how some of its gangs gather, beside that
	Ahead  []gang.Member // who is still to be made, and planned with the others; Pods has who stands in
	// Led are the gangs whose first member must go where all of them find room.
	Led []gang.Ref
	// Beyond says of gangs how much capacity minResources asks for beyond the pods that exist, for messages.
	Beyond []string
	// never says of gangs whether their objects say that no pod is evicted for their members.
	never map[gang.Ref]bool
	// Alone says that the group is one pod without a gang.
	Alone bool
}

// aloneSource is the source of the name of a group that is one pod without a gang: no API declares it.
const aloneSource = "Pod"

// AloneKey names the group of a pod without a gang.
func AloneKey(pod *v1.Pod) gang.Ref {
	return gang.Ref{Source: aloneSource, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// Alone returns a pod without a gang as a group of one member, for an eviction: with the node that is reserved for it, unless that is "".
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

// NeverPreempts says whether no pod may be evicted for a member: its gang's object says so, or if that says nothing, the member.
func (g *Group) NeverPreempts(m gang.Member) bool {
	if never, says := g.never[m.Gang.Whole()]; says {
		return never
	}
	return convert.NeverPreempts(g.Pods[m.Pod])
}

// Sets is Group.Sets of the book's group.
func (g *Group) Sets(most int, like func(*Group) string) (all []*Group) {
	with := func(of *gang.Group) *Group {
		some := *g
		some.Group = *of
		return &some
	}
	for _, of := range g.Group.Sets(most, func(of *gang.Group) string { return like(with(of)) }) {
		all = append(all, with(of))
	}
	return all
}

// RoleOf names the role of a member, for messages; "" if it has none.
func (g *Group) RoleOf(m gang.Member) string { return source.PartOf(g.Pods[m.Pod]) }

// add adds those members of a gang that are still to be made.
func (g *Group) add(r *Record) {
	if r.Declared != nil && r.Declared.Never != nil {
		if g.never == nil {
			g.never = map[gang.Ref]bool{}
		}
		g.never[r.Ref] = *r.Declared.Never
	}
	members, pods := r.StandIns()
	for i, m := range members {
		g.Pods[m.Pod] = pods[i]
	}
	g.Ahead = append(g.Ahead, members...)
	switch {
	case r.Declared == nil:
	case r.Declared.Total > 0:
		g.Led = append(g.Led, r.Ref)
	case len(members) > 0:
		g.Led, g.Beyond = append(g.Led, r.Ref), append(g.Beyond, r.beyond(len(members)))
	case r.exact():
		g.Led = append(g.Led, r.Ref)
	}
}

// New returns a group of which the records of all gangs are known, or why it cannot be planned. tree is nil if it is not known.
func New(g gang.Group, records []*Record, tree *topology.Tree) (*Group, gang.Refusal) {
	out := &Group{Group: g, Pods: map[string]*v1.Pod{}}
	for _, r := range records {
		maps.Copy(out.Pods, r.Pods)
		out.add(r)
	}
	if why := out.gathers(records); why.Is() {
		return nil, why
	}
	for _, r := range records {
		out.splitSlices(r, tree)
		if why := out.split(r); why.Is() {
			return nil, why
		}
	}
	return out, gang.Refusal{}
}

// gathers notes what the gangs say of how members gather. Rules about each gang by itself are those of all gangs if all
// say the same, else of the gang that says them; what they say of the group must be the same.
func (g *Group) gathers(records []*Record) gang.Refusal {
	alike, first := true, (*scheduling.GatherSpec)(nil)
	for _, r := range records {
		switch gather := r.Gather(); {
		case first == nil:
			first = gather
		case gather != nil:
			alike = alike && source.SameGather(gather, first)
		}
	}
	var from *Record
	for _, r := range records {
		gather := g.takeOwn(r, !alike)
		if gather == nil {
			continue
		}
		if g.Gather != nil && !source.SameGather(gather, g.Gather) {
			return gang.Refusal{By: gang.Conflict, Words: conflict(from, r)}
		}
		g.Gather, from = gather, r
	}
	return gang.Refusal{}
}

func conflict(x, y *Record) string {
	words := fmt.Sprintf("TopologySpecConflict: gangs %s and %s of one GangGroup ", x.Ref, y.Ref)
	if x.Declared.ReadsLayers || y.Declared.ReadsLayers { // it is in other words
		return words + fmt.Sprintf("gather differently: %s, %s", x.Declared.Rule, y.Declared.Rule)
	}
	return words + "carry different " + scheduling.AnnotationTopologySpec
}

// takeOwn notes what a gang asks for beside its group, and returns what it says of the group. apart says that what it says
// of each gang is about this one.
func (g *Group) takeOwn(r *Record, apart bool) *scheduling.GatherSpec {
	for _, own := range r.branches() {
		if !slices.ContainsFunc(g.Own, func(o convert.Own) bool {
			return slices.Equal(o.Gangs, own.Gangs) && source.SameGather(o.Gather, own.Gather)
		}) {
			g.Own = append(g.Own, own) // each of its gangs says it
		}
	}
	gather := r.Gather()
	if gather == nil || !apart && !r.Declared.Apart {
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
		g.Own = append(g.Own, convert.Own{Gangs: []gang.Ref{r.Ref}, Gather: own})
	}
	if len(shared.Rules) == 0 {
		return nil
	}
	return shared
}
