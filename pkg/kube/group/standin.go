package group

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// If a controller creates the leader of a gang before the other members, all of them are planned together (Declaration.Total). A stand-in
// is a pod like the future member, as far as that is known. Its name is the leader's name, standInMark (which pod names cannot contain),
// and a number.

const standInMark = "~"

// StandIns returns stand-ins for the members of a gang that do not exist, as members and as pods; nil if no such members are known. These
// are the members that are not yet created, or the missing ones of an incomplete gang.
func (r *Record) StandIns(missing int) (members []gang.Member, pods []*v1.Pod) {
	if r.Declared == nil || len(r.Pods) == 0 {
		return nil, nil
	}
	if missing > 0 || r.Declared.Total+len(r.Declared.Resources) == 0 {
		for _, pod := range r.Lost[max(0, len(r.Lost)-missing):] {
			m := r.standInMember(pod)
			m.Absent = true
			pods, members = append(pods, pod), append(members, m)
		}
		return members, pods
	}
	leader := r.Pods[slices.MinFunc(slices.Collect(maps.Keys(r.Pods)), topology.CompareNames)]
	exist := len(r.Pods) + len(r.Finished)
	total := r.Declared.Total
	number := strconv.Itoa
	if total == 0 {
		rest, others := r.rest(leader), r.requests(leader)
		exist, total = rest.covered(others)
		number = func(share int) string { return rest.number(share, others) }
	}
	for i := exist + 1; i <= total; i++ {
		pod := r.StandIn(leader, number(i))
		pods, members = append(pods, pod), append(members, r.standInMember(pod))
	}
	return members, pods
}

func (r *Record) standInMember(pod *v1.Pod) gang.Member {
	return gang.Member{
		Gang: r.Ref, Pod: convert.PodKey(pod), UID: string(pod.UID), Rank: gang.NoRank, Priority: convert.Priority(pod),
	}
}

// lostMark follows standInMark in the names of stand-ins for lost members.
const lostMark = "lost"

// Lost returns a stand-in for a member that was lost, or with a number for one of several members like the given pod. It has no volumes and
// claims of its own, since its controller may create others.
func Lost(member *v1.Pod, number string) *v1.Pod {
	return standInFor(member, standInMark+lostMark+number)
}

// Successor returns a stand-in for the pod that the controller of a running pod creates after the eviction of that pod.
func Successor(running *v1.Pod) *v1.Pod { return standInFor(running, nextMark) }

// SuccessorUID returns the UID of Successor's stand-in.
func SuccessorUID(running *v1.Pod) types.UID { return running.UID + nextMark }

// nextMark is the mark of stand-ins for successors.
const nextMark = standInMark + "next"

// standInFor returns a pod like the given one, without a node. mark follows its name and its UID.
func standInFor(member *v1.Pod, mark string) *v1.Pod {
	pod := *member
	pod.Name, pod.UID = member.Name+mark, member.UID+types.UID(mark)
	pod.DeletionTimestamp, pod.Status = nil, v1.PodStatus{}
	pod.Annotations = maps.Clone(member.Annotations)
	delete(pod.Annotations, convert.DeviceAllocated)
	pod.Spec = *member.Spec.DeepCopy()
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "", nil
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
	convert.WithoutClaims(&pod.Spec, func(ref v1.PodResourceClaim) bool { return ref.ResourceClaimTemplateName == nil })
	return &pod
}

// StandIn returns the stand-in with a number: a pod with the leader's priority and the requests of a future member. It has no volumes and
// claims that may be the leader's own, but claims from a template.
func (r *Record) StandIn(leader *v1.Pod, number string) *v1.Pod {
	pod := *leader
	pod.Name, pod.UID = leader.Name+standInMark+number, leader.UID+types.UID(standInMark+number)
	pod.DeletionTimestamp, pod.Status = nil, v1.PodStatus{}
	if r.Declared.Total == 0 {
		pod.Spec = *pod.Spec.DeepCopy()
		r.rest(leader).request(&pod.Spec, number)
	}
	own := func(v v1.Volume) bool { return v.Ephemeral != nil || v.PersistentVolumeClaim != nil }
	if f := r.Declared.Follower; f != nil {
		pod.Spec = *f.Spec.DeepCopy()
		pod.Spec.Priority, pod.Spec.PriorityClassName = leader.Spec.Priority, leader.Spec.PriorityClassName
		pod.Spec.PreemptionPolicy = leader.Spec.PreemptionPolicy
		pod.Labels = source.FollowerLabels(leader.Labels, f.Labels)
		source.KeepTogether(leader, &pod.Spec)
		own = func(v v1.Volume) bool { return v.Ephemeral != nil }
	}
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), own)
	convert.WithoutClaims(&pod.Spec, func(ref v1.PodResourceClaim) bool { return ref.ResourceClaimTemplateName == nil })
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "", nil
	return &pod
}

// Leader splits the key of a stand-in into the key of its leader and its number. ok is false if the key is of another pod.
func Leader(key string) (leader, number string, ok bool) { return strings.Cut(key, standInMark) }
