package plugin

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// absentGroup is a group for whose absent members nodes are reserved when nodes are free.
type absentGroup struct {
	cache.Absent
	// seen has the nodes of the last attempt: the generation of each that the members may use, and unusable for the others.
	seen map[string]int64
	at   time.Time // of the last attempt
	told time.Time // when it was last explained why no node is reserved
}

const unusable = -1

// reserveAbsentOfAll calls ReserveAbsent for all profiles, which share the snapshot: a pod of any profile may take a node.
func (p *Plugin) reserveAbsentOfAll(ctx context.Context, nodes []fwk.NodeInfo) {
	if len(p.profiles) == 1 {
		p.ReserveAbsent(ctx, nodes)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.profiles)) {
		p.profiles[name].ReserveAbsent(ctx, nodes)
	}
}

// ReserveAbsent reserves free nodes for members that do not exist, before any other pod gets a node: for missing members of incomplete
// gangs, and for members not yet created for which an earlier process had nodes in memory only. It tries a group again when a node that its
// members may use has changed. nodes are the profile's snapshot; no cycle may run meanwhile, except the one that calls it.
func (p *Plugin) ReserveAbsent(ctx context.Context, nodes []fwk.NodeInfo) {
	for _, added := range p.Cache.TakeAbsent(p.profile.ProfileName(), p.Preemptor.IsGone) {
		if added.Recreated != nil {
			p.reserveRecreated(ctx, added.Recreated, nodes)
			continue
		}
		p.absent = slices.DeleteFunc(p.absent, func(b *absentGroup) bool { return b.Group == added.Group })
		p.absent = append(p.absent, &absentGroup{Absent: added})
	}
	if len(p.absent) == 0 {
		return
	}
	now := p.Cache.Clock.Now()
	p.absent = slices.DeleteFunc(p.absent, func(b *absentGroup) bool {
		group, refusal := p.Cache.GroupOf(b.Group)
		if !refusal.Exists() && !group.RepairUntil.IsZero() {
			b.Until = group.RepairUntil // a member that came or was lost since has moved it
		}
		switch {
		case !now.Before(b.Until) || refusal.Exists() || len(group.Future) == 0:
			return true
		case len(group.Pending) > 0 || !b.changed(nodes) && !p.maintenanceChanged(b.at, now): // existing members are planned in their own cycle
			return false
		}
		return p.reserveFor(ctx, b, group, nodes)
	})
}

// changed returns whether a node is new since the last attempt, or the members may use it and it has changed.
func (b *absentGroup) changed(nodes []fwk.NodeInfo) bool {
	return slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
		generation, known := b.seen[n.Node().Name]
		return !known || generation != unusable && generation != n.GetGeneration()
	})
}

// reserveFor reserves nodes for the absent members of a group, as many as are free. It returns whether the group needs no further attempt.
// Missing members need one when a reserved node changes: a pod of higher priority may have taken it.
func (p *Plugin) reserveFor(ctx context.Context, b *absentGroup, group *cache.Group, nodes []fwk.NodeInfo) (finished bool) {
	a := p.planner.NewAttempt(group, nodes, p.avoid(group))
	found, refusal, err := a.Plan(ctx)
	b.seen, b.at = make(map[string]int64, len(nodes)), p.Cache.Clock.Now()
	for _, n := range nodes {
		b.seen[n.Node().Name] = unusable
	}
	for _, n := range a.JoinableNodes() {
		b.seen[n.Node().Name] = n.GetGeneration()
	}
	if err != nil || refusal != nil {
		klog.FromContext(ctx).V(2).Info("No capacity is reserved for members that do not exist",
			"gang", group.Key, "refusal", refusal, "err", err)
		p.explainAbsent(ctx, b, a, refusal)
		return false
	}
	_, places := a.Split(found.Places)
	p.Cache.Handle(gang.FutureReserved{Group: b.Group, Places: places, Until: b.Until})
	if len(places) < len(group.Future) {
		return false
	}
	for name := range b.seen {
		if !slices.ContainsFunc(places, func(at gang.Assignment) bool { return at.Node == name }) {
			b.seen[name] = unusable
		}
	}
	return group.RepairUntil.IsZero()
}

// reserveRecreated reserves nodes for a group that its controller recreates as a whole: the nodes on which its members ran, and, for those
// whose node is not usable, free nodes in the same domain.
func (p *Plugin) reserveRecreated(ctx context.Context, r *cache.Recreated, nodes []fwk.NodeInfo) {
	var places []gang.Assignment
	for _, pod := range slices.Sorted(maps.Keys(r.Nodes)) {
		places = append(places, gang.Assignment{Pod: pod, Node: r.Nodes[pod]})
	}
	if others := r.Group.OnNodes(r.Nodes); len(others.Pending) > 0 {
		found, refusal, err := p.planner.NewAttempt(others, withSuccessors(nodes, r), p.avoid(others)).Plan(ctx)
		if refusal != nil || err != nil {
			klog.FromContext(ctx).V(2).Info("No capacity is reserved for members whose node is not usable",
				"gang", others.Key, "refusal", refusal, "err", err)
		} else {
			places = append(places, found.Places...)
		}
	}
	p.Cache.ReserveSuccessors(r.Group, places)
}

// withSuccessors returns a copy of nodes with the stand-ins of r. A stand-in is for the successor of a pod, and is added to the node of
// that pod. It is not added as long as that pod is on the node.
func withSuccessors(nodes []fwk.NodeInfo, r *cache.Recreated) []fwk.NodeInfo {
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		for _, standIn := range r.Successors(n.Node().Name) {
			isPredecessor := func(p fwk.PodInfo) bool { return cache.StandsInFor(standIn, p.GetPod()) }
			if info, err := framework.NewPodInfo(standIn); err == nil && !slices.ContainsFunc(n.GetPods(), isPredecessor) {
				nodes[i] = nodes[i].Snapshot()
				nodes[i].AddPodInfo(info)
			}
		}
	}
	return nodes
}

// explainEvery is the shortest time between two explanations of absentGroup, which cost as much as an attempt.
const explainEvery = 10 * time.Second

// explainAbsent records in the gang book why no nodes are free for a group's missing members. refusal is nil if a plugin failed.
func (p *Plugin) explainAbsent(ctx context.Context, b *absentGroup, a *place.Attempt, refusal *place.Refusal) {
	now := p.Cache.Clock.Now()
	if refusal == nil || a.Group.RepairUntil.IsZero() ||
		!b.told.IsZero() && now.Sub(b.told) < explainEvery && !p.Cache.ReservesSuccessors(b.Group) {
		return
	}
	b.told = now
	why, message := causeOf(refusal), status.Refused(refusal, p.shortage(ctx, a, refusal), 0)
	why.Summary, why.Words = message.Sentence, message.Text
	p.Cache.Handle(gang.FutureReserved{Group: b.Group, Refusal: why})
}
