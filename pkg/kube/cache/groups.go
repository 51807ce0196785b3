package cache

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

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
func (g *Group) add(r *record) {
	if r.declared != nil && r.declared.Never != nil {
		if g.never == nil {
			g.never = map[gang.Ref]bool{}
		}
		g.never[r.Ref] = *r.declared.Never
	}
	members, pods := r.standIns()
	for i, m := range members {
		g.Pods[m.Pod] = pods[i]
	}
	g.Ahead = append(g.Ahead, members...)
	switch {
	case r.declared == nil:
	case r.declared.Total > 0:
		g.Led = append(g.Led, r.Ref)
	case len(members) > 0:
		g.Led, g.Beyond = append(g.Led, r.Ref), append(g.Beyond, r.beyond(len(members)))
	case r.exact():
		g.Led = append(g.Led, r.Ref)
	}
}

// View is what a scheduling cycle of a member reads of its gang, all at one moment.
type View struct {
	Key      gang.Ref // of its group, as its plan and its refusal are filed
	Member   *v1.Pod  // the member of that name; nil if there is none
	Seat     gang.Seat
	Reserved bool   // the group waits with a reservation for its victims to terminate
	Admitted bool   // the pod has no confirmed place, and may enter the scheduler
	Why      string // why it may not
	// Group is nil if the pod may not enter, and if Refusal says why the group cannot be planned.
	Group   *Group
	Refusal gang.Refusal
}

// View returns the view of a pod's gang.
func (c *Cache) View(pod *v1.Pod) View {
	c.mu.RLock()
	defer c.mu.RUnlock()
	self, key := convert.PodKey(pod), c.groupKey(pod)
	v := View{Key: key, Member: c.pods[self], Seat: c.book.Seat(self), Reserved: c.book.Reserved(key)}
	if v.Seat.Confirmed && v.Seat.Node != "" {
		return v
	}
	if v.Admitted, v.Why = c.admit(pod); v.Admitted {
		v.Group, v.Refusal = c.group(key)
	}
	return v
}

// GroupKey names the group of a pod, as its plan and its refusal are filed.
func (c *Cache) GroupKey(pod *v1.Pod) gang.Ref {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.groupKey(pod)
}

// groupKey is GroupKey with c.mu held.
func (c *Cache) groupKey(pod *v1.Pod) gang.Ref {
	if key, ok := c.book.GroupKey(convert.PodKey(pod)); ok {
		return key
	}
	return source.Of(pod)
}

// Group returns the group of a pod, or why it cannot be planned.
func (c *Cache) Group(pod *v1.Pod) (*Group, gang.Refusal) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key, ok := c.book.GroupKey(convert.PodKey(pod))
	if !ok {
		return nil, unknown(source.Of(pod))
	}
	return c.group(key)
}

// GroupOf returns the group of that name, or why it cannot be planned.
func (c *Cache) GroupOf(key gang.Ref) (*Group, gang.Refusal) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.group(key)
}

// group is GroupOf with c.mu held.
func (c *Cache) group(key gang.Ref) (*Group, gang.Refusal) {
	g, ok := c.book.GroupOf(key)
	if !ok {
		return nil, unknown(key)
	}
	out := &Group{Group: *g, Pods: map[string]*v1.Pod{}}
	var records []*record
	for _, member := range g.Gangs {
		r := c.gangs[member.Ref]
		if r == nil {
			return nil, unknown(member.Ref)
		}
		maps.Copy(out.Pods, r.Pods)
		out.add(r)
		records = append(records, r)
	}
	if why := out.gathers(records); why.Is() {
		return nil, why
	}
	net := c.current.Load()
	for _, ref := range out.Whole() {
		out.splitSlices(c.gangs[ref], net)
		if why := out.split(c.gangs[ref]); why.Is() {
			return nil, why
		}
	}
	return out, gang.Refusal{}
}

// gathers notes what the gangs say of how members gather. Rules about each gang by itself are those of all gangs if all
// say the same, else of the gang that says them; what they say of the group must be the same.
func (g *Group) gathers(records []*record) gang.Refusal {
	alike, first := true, (*scheduling.GatherSpec)(nil)
	for _, r := range records {
		switch gather := r.gather(); {
		case first == nil:
			first = gather
		case gather != nil:
			alike = alike && source.SameGather(gather, first)
		}
	}
	var from *record
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

func conflict(x, y *record) string {
	words := fmt.Sprintf("TopologySpecConflict: gangs %s and %s of one GangGroup ", x.Ref, y.Ref)
	if x.declared.ReadsLayers || y.declared.ReadsLayers { // it is in other words
		return words + fmt.Sprintf("gather differently: %s, %s", x.declared.Rule, y.declared.Rule)
	}
	return words + "carry different " + scheduling.AnnotationTopologySpec
}

// takeOwn notes what a gang asks for beside its group, and returns what it says of the group. apart says that what it says
// of each gang is about this one.
func (g *Group) takeOwn(r *record, apart bool) *scheduling.GatherSpec {
	for _, own := range r.branches() {
		if !slices.ContainsFunc(g.Own, func(o convert.Own) bool {
			return slices.Equal(o.Gangs, own.Gangs) && source.SameGather(o.Gather, own.Gather)
		}) {
			g.Own = append(g.Own, own) // each of its gangs says it
		}
	}
	gather := r.gather()
	if gather == nil || !apart && !r.declared.Apart {
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

func unknown(ref gang.Ref) gang.Refusal {
	return gang.Refusal{By: gang.Missing, Words: "gang " + ref.String() + " is not known"}
}
