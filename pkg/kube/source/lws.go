package source

import (
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

var leaderWorkerSets = &Owner{
	Resource: workloads.LeaderWorkerSetKind.GroupVersion().WithResource("leaderworkersets"),
	Kind:     workloads.LeaderWorkerSetKind.Kind,
	Role:     "rbac/sources/leaderworkerset.yaml",
	Read:     readLeaderWorkerSet,
}

// leaderWorkerSet reads the groups of a LeaderWorkerSet: a leader and its workers. Two revisions of one group are two gangs.
var leaderWorkerSet = Source{
	Way:       "labels " + lws.SetNameLabelKey + ", " + lws.GroupIndexLabelKey + ", " + lws.RevisionKey,
	Space:     "lws",
	Implied:   true,
	NameOf:    lwsGang,
	IsLeader:  func(pod *v1.Pod) bool { return pod.Labels[lws.WorkerIndexLabelKey] == "0" },
	Owner:     leaderWorkerSets,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[lws.SetNameLabelKey] },
	Fill:      fillLeaderWorkerSet,
}

// lwsGang returns the gang of a LeaderWorkerSet's pod: set, group and revision; "" for other pods.
func lwsGang(pod *v1.Pod) string {
	name := pod.Labels[lws.SetNameLabelKey]
	if name == "" {
		return ""
	}
	index, revision := pod.Labels[lws.GroupIndexLabelKey], pod.Labels[lws.RevisionKey]
	if index == "" || revision == "" {
		return ""
	}
	return name + "-" + index + "-" + revision
}

// readLeaderWorkerSet reads the size of a group, the worker's template, and why the leader must start first.
func readLeaderWorkerSet(u *unstructured.Unstructured, out *Owned) error {
	var spec workloads.LeaderWorkerSetSpec
	if err := workloads.Read(u, "spec", &spec); err != nil {
		return err
	}
	template := &spec.LeaderWorkerTemplate
	out.Size = int(workloads.OrOne(template.Size))
	out.LeaderFirst = spec.LeaderFirst(false)
	if u.GetDeletionTimestamp() == nil {
		out.Groups = int(workloads.OrOne(spec.Replicas))
	}
	if len(template.WorkerTemplate.Spec.Containers) > 0 {
		out.Follower = &template.WorkerTemplate
		workloads.RequestLimits(&out.Follower.Spec)
	}
	addTierFields(spec.NetworkTopology, out.setValue)
	return nil
}

// LeaderWorkerSetOf returns the LeaderWorkerSet of a pod; false for other pods.
func LeaderWorkerSetOf(pod *v1.Pod) (OwnerKey, bool) {
	name := pod.Labels[lws.SetNameLabelKey]
	return OwnerKey{leaderWorkerSets.Kind, pod.Namespace, name}, name != ""
}

// Recreates returns whether the controller of a LeaderWorkerSet, which may be nil, recreates the whole group of a pod after the group's
// leader was deleted. It does not if the group's index is not below spec.replicas.
func (o *Owned) Recreates(pod *v1.Pod) bool {
	index, err := strconv.Atoi(pod.Labels[lws.GroupIndexLabelKey])
	return o != nil && err == nil && index < o.Groups
}

// SameLeaderWorkerSetGroup returns whether two pods are of the same group of one LeaderWorkerSet, perhaps of two revisions.
func SameLeaderWorkerSetGroup(pod, other *v1.Pod) bool {
	set, ok := LeaderWorkerSetOf(pod)
	otherSet, _ := LeaderWorkerSetOf(other)
	return ok && set == otherSet && pod.Labels[lws.GroupIndexLabelKey] == other.Labels[lws.GroupIndexLabelKey]
}

// FollowerLabels returns the labels of a future worker: the leader's labels that name the group, and the worker template's labels.
func FollowerLabels(leader, template map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{lws.SetNameLabelKey, lws.GroupIndexLabelKey, lws.GroupUniqueHashLabelKey, lws.RevisionKey} {
		if value, ok := leader[key]; ok {
			out[key] = value
		}
	}
	maps.Copy(out, template)
	return out
}

// KeepTogether copies the leader's pod affinity and anti-affinity for the key of exclusive topology to worker. They keep the group
// in one domain, and other groups out of it. Without exclusive topology, worker is unchanged.
func KeepTogether(leader *v1.Pod, worker *v1.PodSpec) {
	key, exclusive := leader.Annotations[lws.ExclusiveKeyAnnotationKey]
	if a := leader.Spec.Affinity; exclusive && a != nil {
		if worker.Affinity == nil {
			worker.Affinity = &v1.Affinity{}
		}
		ofDomain := func(terms []v1.PodAffinityTerm) (out []v1.PodAffinityTerm) {
			for _, t := range terms {
				if t.TopologyKey == key {
					out = append(out, t)
				}
			}
			return out
		}
		if a.PodAffinity != nil {
			if worker.Affinity.PodAffinity == nil {
				worker.Affinity.PodAffinity = &v1.PodAffinity{}
			}
			to := &worker.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*to = append(*to, ofDomain(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
		}
		if a.PodAntiAffinity != nil {
			if worker.Affinity.PodAntiAffinity == nil {
				worker.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
			}
			to := &worker.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*to = append(*to, ofDomain(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
		}
	}
}

// fillLeaderWorkerSet sets d.Min to the size of the group, or to 1 if workers are created only after the leader has a node (leads).
func fillLeaderWorkerSet(d *Declaration, g Gang) {
	d.addOwner(g)
	d.addPod(g)
	pod := firstPod(g.allPods(), func(*v1.Pod) bool { return true })
	written := pod.Annotations[lws.SizeAnnotationKey]
	size, err := strconv.Atoi(written)
	switch {
	case err == nil && size >= 1: // the pod's own size: the LeaderWorkerSet may have another one for future groups
		d.Values[lws.SizeAnnotationKey] = written // all members have it
		if g.Owner != nil && g.Owner.Size > 0 && g.Owner.Size != size {
			d.note(reasons.InvalidAnnotation,
				fmt.Sprintf("%s: %q on %s/%s is not the size of %s, %d; %d is used, because the group may be of another revision",
					lws.SizeAnnotationKey, written, pod.Namespace, pod.Name, g.Owner.Key, g.Owner.Size, size))
		}
	case g.Owner != nil && g.Owner.Size > 0:
		d.note(reasons.InvalidAnnotation, fmt.Sprintf("%s: %q on %s/%s is invalid; write an integer ≥ 1; the size of %s, %d, is used",
			lws.SizeAnnotationKey, written, pod.Namespace, pod.Name, g.Owner.Key, g.Owner.Size))
		size = g.Owner.Size
	default:
		d.setProblem(fmt.Errorf("%s: %q on %s/%s is invalid; write an integer ≥ 1", lws.SizeAnnotationKey,
			written, pod.Namespace, pod.Name))
		size = 1
	}
	d.Min = size
	why := ""
	if g.Owner != nil {
		why = g.Owner.LeaderFirst
	}
	if _, exclusive := pod.Annotations[lws.ExclusiveKeyAnnotationKey]; exclusive {
		why = workloads.LeaderScheduled
	}
	if why != "" && size > 1 {
		d.leads(size)
		if g.Owner != nil {
			d.Follower = g.Owner.Follower
		}
		d.note(reasons.LeaderFirst, fmt.Sprintf("gang minMember is 1 because %s; the leader is placed where all %d pods fit", why, size))
	}
}
