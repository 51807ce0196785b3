package source

import (
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels and annotations that the LeaderWorkerSet controller gives its pods.
const (
	lwsName      = "leaderworkerset.sigs.k8s.io/name"
	lwsIndex     = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsGroup     = "leaderworkerset.sigs.k8s.io/group-index"
	lwsRevision  = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	lwsSize      = "leaderworkerset.sigs.k8s.io/size"
	lwsExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	lwsGroupKey  = "leaderworkerset.sigs.k8s.io/group-key"
)

var leaderWorkerSets = &Owner{
	Resource: schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
	Kind:     "LeaderWorkerSet",
	Role:     "rbac/sources/leaderworkerset.yaml",
	Read:     readLeaderWorkerSet,
}

// leaderWorkerSet is a group of a LeaderWorkerSet: a leader and its workers. Two revisions of one
// group are two gangs.
var leaderWorkerSet = Source{
	Way:       "labels " + lwsName + ", " + lwsGroup + ", " + lwsRevision,
	Space:     "lws",
	Implied:   true,
	NameOf:    lwsGang,
	Leads:     func(pod *v1.Pod) bool { return pod.Labels[lwsIndex] == "0" },
	Owner:     leaderWorkerSets,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[lwsName] },
	Fill:      fillLeaderWorkerSet,
}

func lwsGang(pod *v1.Pod) string {
	name := pod.Labels[lwsName]
	if name == "" {
		return ""
	}
	index, revision := pod.Labels[lwsGroup], pod.Labels[lwsRevision]
	if index == "" || revision == "" {
		return ""
	}
	return name + "-" + index + "-" + revision
}

func readLeaderWorkerSet(u *unstructured.Unstructured, out *Owned) (err error) {
	if out.Size, err = countIn(u.Object, 1, 1, "spec", "leaderWorkerTemplate", "size"); err != nil {
		return err
	}
	policy, err := text(u.Object, "spec", "startupPolicy")
	if err != nil {
		return err
	}
	if policy == "LeaderReady" {
		out.LeaderFirst = "workers are created only after the leader is ready"
	}
	worker, err := objectIn(u.Object, "spec", "leaderWorkerTemplate", "workerTemplate")
	if err != nil {
		return err
	}
	if worker != nil {
		out.Follower = &v1.PodTemplateSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(worker, out.Follower); err != nil {
			return fmt.Errorf("spec.leaderWorkerTemplate.workerTemplate: %w; legal: a template of pods", err)
		}
		asksForLimits(&out.Follower.Spec)
	}
	return tierWords(u, out.add, "spec", "networkTopology")
}

// FollowerLabels are the labels of a worker: those of the group, which its leader has, and those of the
// template.
func FollowerLabels(leader, template map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{lwsName, lwsGroup, lwsGroupKey, lwsRevision} {
		if value, ok := leader[key]; ok {
			out[key] = value
		}
	}
	maps.Copy(out, template)
	return out
}

// KeepTogether gives a worker the affinity by which exclusive topology keeps the group in one domain,
// and others out of it: the leader has it, and the worker will have a selector for the leader's domain.
func KeepTogether(leader *v1.Pod, worker *v1.PodSpec) {
	key, exclusive := leader.Annotations[lwsExclusive]
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

// asksForLimits has containers ask for what limits them where they ask for nothing, as the API server
// does with pods, and not with templates in other objects.
func asksForLimits(spec *v1.PodSpec) {
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = v1.ResourceList{}
					}
					r.Requests[name] = limit
				}
			}
		}
	}
}

// fillLeaderWorkerSet: the size is the minimum, but where workers are created only after the
// leader has its node. There the leader does not wait for them.
func fillLeaderWorkerSet(d *Declaration, g Gang) {
	d.speakerOwner(g)
	d.speakerPod(g)
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	says := pod.Annotations[lwsSize]
	size, err := strconv.Atoi(says)
	switch {
	case err == nil && size >= 1: // its own: the LeaderWorkerSet may have another one for groups to come
		d.Says[lwsSize] = says // which all members say
		if g.Owner != nil && g.Owner.Size > 0 && g.Owner.Size != size {
			d.note(InvalidAnnotation, fmt.Sprintf("%s: %q on %s/%s is not the size of %s, %d; %d is used, since the group may be of another revision",
				lwsSize, says, pod.Namespace, pod.Name, g.Owner.Key, g.Owner.Size, size))
		}
	case g.Owner != nil && g.Owner.Size > 0:
		d.note(InvalidAnnotation, fmt.Sprintf("%s: %q on %s/%s is not legal; legal: an integer ≥ 1; the size of %s, %d, is used", lwsSize, says, pod.Namespace, pod.Name, g.Owner.Key, g.Owner.Size))
		size = g.Owner.Size
	default:
		d.problem(fmt.Errorf("%s: %q on %s/%s is not legal; legal: an integer ≥ 1", lwsSize, says, pod.Namespace, pod.Name))
		size = 1
	}
	d.Min = size
	why := ""
	if g.Owner != nil {
		why = g.Owner.LeaderFirst
	}
	if _, exclusive := pod.Annotations[lwsExclusive]; exclusive {
		why = "workers are created only after the leader is scheduled"
	}
	if why != "" && size > 1 {
		d.leads(size)
		if g.Owner != nil {
			d.Follower = g.Owner.Follower
		}
		d.note(LeaderFirst, fmt.Sprintf("gang minMember is 1 because %s; the leader goes where all %d pods find room", why, size))
	}
}
