package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The controller of a LeaderWorkerSet recreates a whole group when its leader was deleted. For a time no member runs, so the gang is not
// incomplete. Nodes are reserved for the successors of its members when the leader terminates: the nodes of the members that are usable,
// and free ones in the same domain for the others.

// Recreated is a group that its controller recreates as a whole.
type Recreated struct {
	Group *Group            // its pending members are stand-ins for the successors of all members
	Nodes map[string]string // by stand-in, the node of its predecessor; a node that is not ready or cordoned is left out
}

// Successors returns the stand-ins that get a node, by name.
func (r *Recreated) Successors(node string) (standIns []*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		if r.Nodes[name] == node {
			standIns = append(standIns, r.Group.Pods[name])
		}
	}
	return standIns
}

// StandsInFor returns whether a stand-in is for the successor of a pod.
func StandsInFor(standIn, pod *v1.Pod) bool { return standIn.UID == group.SuccessorUID(pod) }

// noteRecreated requests nodes for the successors of a started gang whose leader terminates or is gone, if its controller recreates all
// members. Call it before the book knows of the leader's end. It does nothing for a leader that a scheduler evicts. c.mu is locked.
func (c *Cache) noteRecreated(r *record, leader *v1.Pod) {
	if c.Repair <= 0 || !c.open.Load() || leader.Spec.NodeName == "" || r.recreated == leader.UID || !source.IsLeader(leader) ||
		!r.Owner.Recreates(leader) || hasEnded(leader) || c.isPreempted(leader) || !c.servesGang(r) || !c.book.Numbers(r.Ref).Started {
		return
	}
	running, refusal := c.group(r.Ref)
	if refusal.Exists() || len(running.Gangs) > 1 { // a gang group with other gangs runs on
		return
	}
	for _, name := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) { // the book does not count terminating members
		pod := r.Pods[name]
		if convert.Terminating(pod) && !r.earlier[pod.UID] && c.lost[convert.PodKey(group.Lost(pod, ""))] == nil && !running.Binds(name) {
			m, _ := convert.Member(pod, r.Ref)
			running.Bound = append(running.Bound, m)
		}
	}
	restarted := running.Restarted(c.Priority)
	if restarted == nil {
		return
	}
	r.recreated = leader.UID
	recreated := &Recreated{restarted, map[string]string{}}
	for i, m := range running.Bound { // Restarted keeps the order
		if c.isReady(m.Node) && !c.nodes[m.Node].Spec.Unschedulable {
			recreated.Nodes[restarted.Pending[i].Pod] = m.Node
		}
	}
	c.absent = append(c.absent, Absent{Group: r.Ref, Scheduler: leader.Spec.SchedulerName, Recreated: recreated})
}

// hasEnded returns whether the containers of a pod have terminated, unless the pod is being deleted.
func hasEnded(pod *v1.Pod) bool { return convert.Finished(pod) && !convert.Terminating(pod) }

// isPreempted returns whether a scheduler evicts a member: its condition says so, or this process evicts members of its gang. A controller
// may delete the leader before the scheduler does, once another member is evicted. c.mu is locked.
func (c *Cache) isPreempted(member *v1.Pod) bool {
	_, disruption := podutil.GetPodCondition(&member.Status, v1.DisruptionTarget)
	marked := disruption != nil && disruption.Status == v1.ConditionTrue && disruption.Reason == v1.PodReasonPreemptionByScheduler
	return marked || member.DeletionTimestamp == nil && c.isEvicted(member) || c.book.Evicts(source.GangOf(member))
}

// endRecreated ends the reservations for successors that match, in groups of LeaderWorkerSets, and the requests for such. c.mu is locked.
func (c *Cache) endRecreated(matches func(standIn *v1.Pod) bool) (effects []gang.Effect) {
	c.absent = slices.DeleteFunc(c.absent, func(b Absent) bool {
		return b.Recreated != nil && slices.ContainsFunc(slices.Collect(maps.Values(b.Recreated.Group.Pods)), matches)
	})
	for _, name := range slices.Sorted(maps.Keys(c.successors)) {
		if s := c.successors[name]; c.book.IsPlaceholder(name) && matches(s.standIn) {
			effects = append(effects, c.book.Apply(gang.FutureReserved{Group: s.group, Successors: true}, c.Clock.Now())...)
		}
	}
	return effects
}

// endRecreatedBy ends the reservations for groups that a LeaderWorkerSet, which has changed or was deleted, does not recreate. c.mu is
// locked.
func (c *Cache) endRecreatedBy(key source.OwnerKey) []gang.Effect {
	return c.endRecreated(func(standIn *v1.Pod) bool {
		set, ok := source.LeaderWorkerSetOf(standIn)
		return ok && set == key && !c.lineage.Objects[key].Recreates(standIn)
	})
}

// endEarlierRevision ends the reservation for a group if a leader of another revision has come in its place. c.mu is locked.
func (c *Cache) endEarlierRevision(leader *v1.Pod) []gang.Effect {
	return c.endRecreated(func(standIn *v1.Pod) bool {
		return source.SameLeaderWorkerSetGroup(leader, standIn) && source.GangOf(leader) != source.GangOf(standIn)
	})
}
