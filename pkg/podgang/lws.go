package podgang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

const annotationQueue = "scheduling.volcano.sh/queue-name" // Volcano's

// leaderWorkerSet is the spec of a LeaderWorkerSet.
type leaderWorkerSet struct{ workloads.LeaderWorkerSetSpec }

// lwsGroup is one group of one revision: a gang.
type lwsGroup struct {
	index    int
	revision string
}

// name returns the name of the gang of a group.
func (g lwsGroup) name(lws string) string { return fmt.Sprintf("%s-%d-%s", lws, g.index, g.revision) }

// FromLeaderWorkerSet returns a gang for each group that has pods, and one of the given revision for each other index below replicas. A
// group is an index and a revision. revision is that of the leaders' StatefulSet (lwsv1.RevisionKey), "" if unknown. pods are the
// LeaderWorkerSet's leaders and workers.
func FromLeaderWorkerSet(lws *unstructured.Unstructured, revision string, pods []metav1.Object) ([]*PodGangInfo, error) {
	var set leaderWorkerSet
	if err := read(lws, &set.LeaderWorkerSetSpec); err != nil {
		return nil, err
	}
	if err := checkGangLimit(lws, "spec.replicas", limitGangs(workloads.OrOne(set.Replicas))); err != nil {
		return nil, err
	}
	groups := map[lwsGroup][]metav1.Object{}
	liveGroups := map[int]bool{}
	for _, pod := range pods {
		g, ok := lwsGroupOf(pod)
		if !ok || pod.GetLabels()[lwsv1.SetNameLabelKey] != lws.GetName() {
			continue
		}
		groups[g] = append(groups[g], pod)
		liveGroups[g.index] = liveGroups[g.index] || !isTerminating(pod)
	}
	for i := range int(workloads.OrOne(set.Replicas)) {
		if g := (lwsGroup{i, revision}); revision != "" && !liveGroups[i] && groups[g] == nil {
			groups[g] = nil
		}
	}
	var out []*PodGangInfo
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b lwsGroup) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.revision, b.revision))
	}) {
		out = append(out, set.gang(lws, g, groups[g]))
	}
	return out, nil
}

// lwsGroupOf returns the group of a pod; ok is false if labels are missing. Before LeaderWorkerSet's webhook has labelled a leader, the
// index is taken from its name.
func lwsGroupOf(pod metav1.Object) (g lwsGroup, ok bool) {
	labels := pod.GetLabels()
	index, leader := labels[lwsv1.GroupIndexLabelKey], labels[lwsv1.WorkerIndexLabelKey] == "0"
	if suffix, hasPrefix := strings.CutPrefix(pod.GetName(), labels[lwsv1.SetNameLabelKey]+"-"); index == "" && leader && hasPrefix {
		index = suffix
	}
	n, err := strconv.Atoi(index)
	return lwsGroup{n, labels[lwsv1.RevisionKey]}, err == nil && n >= 0 && labels[lwsv1.SetNameLabelKey] != "" &&
		labels[lwsv1.RevisionKey] != ""
}

// gang returns the gang of group g. pods are the existing pods of the group.
func (s *leaderWorkerSet) gang(lws *unstructured.Unstructured, g lwsGroup, pods []metav1.Object) *PodGangInfo {
	name := g.name(lws.GetName())
	out := newInfo(lws, LeaderWorkerSet, name)
	template := &s.LeaderWorkerTemplate
	out.SchedulerName, out.Queue = template.WorkerTemplate.Spec.SchedulerName, lws.GetAnnotations()[annotationQueue]
	out.PriorityClassName = template.WorkerTemplate.Spec.PriorityClassName
	out.Labels = map[string]string{
		lwsv1.SetNameLabelKey: lws.GetName(), lwsv1.GroupIndexLabelKey: strconv.Itoa(g.index), lwsv1.RevisionKey: g.revision,
	}
	size := s.size(pods)
	group := PodGroupInfo{
		Name: name, MinReplicas: size, Total: size, Selector: maps.Clone(out.Labels), MinResources: s.resources(size),
		LeaderFirst: s.leaderFirst(lws),
	}
	for _, pod := range pods {
		if !isTerminating(pod) {
			group.PodReferences = append(group.PodReferences, types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		}
		if pod.GetLabels()[lwsv1.WorkerIndexLabelKey] == "0" && (!isTerminating(pod) || group.Incarnation == "") {
			group.Incarnation = string(pod.GetUID())
		}
	}
	if group.LeaderFirst != "" && size > 1 {
		group.MinReplicas = 1
		out.Notes = append(out.Notes, Note{Reason: reasons.LeaderFirst, Info: true, Message: "gang minMember is 1 because " + group.LeaderFirst})
	}
	out.PodGroups = []PodGroupInfo{group}
	constraints := s.topology(lws)
	if len(constraints) > 0 {
		out.TopologyConstraint = constraints[0]
	}
	if len(constraints) > 1 && !equalConstraints(constraints[0], constraints[1]) {
		out.note(reasons.TwoTopologyRules, "%s has no effect: %s is used", constraints[1].Where, constraints[0].Where)
	}
	if l := template.LeaderTemplate; l != nil && l.Spec.SchedulerName != out.SchedulerName {
		out.note(reasons.NotTranslated, "leader and workers have other schedulers, %q and %q: write one schedulerName for both",
			l.Spec.SchedulerName, out.SchedulerName)
	}
	return out
}

// size returns the number of pods of a group. The annotation of its pods takes precedence, since the group may have an older revision.
func (s *leaderWorkerSet) size(pods []metav1.Object) int32 {
	for _, pod := range pods {
		if n, err := strconv.ParseInt(pod.GetAnnotations()[lwsv1.SizeAnnotationKey], 10, 32); err == nil && n > 0 {
			return int32(n)
		}
	}
	return max(1, workloads.OrOne(s.LeaderWorkerTemplate.Size))
}

// leaderFirst returns why the leader must not wait for its workers; "" if it may.
func (s *leaderWorkerSet) leaderFirst(lws *unstructured.Unstructured) string {
	_, exclusive := lws.GetAnnotations()[lwsv1.ExclusiveKeyAnnotationKey]
	_, subGroup := lws.GetAnnotations()[lwsv1.SubGroupExclusiveKeyAnnotationKey]
	return s.LeaderFirst(exclusive || subGroup)
}

// resources returns the sum of the requests of one leader and size-1 workers; nil if they request nothing.
func (s *leaderWorkerSet) resources(size int32) corev1.ResourceList {
	worker := &s.LeaderWorkerTemplate.WorkerTemplate
	leader := worker
	if l := s.LeaderWorkerTemplate.LeaderTemplate; l != nil {
		leader = l
	}
	out := requests(&leader.Spec)
	for name, quantity := range requests(&worker.Spec) {
		total := quantity.DeepCopy()
		total.Mul(int64(size) - 1)
		total.Add(out[name])
		out[name] = total
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// requests returns the requests of one pod with this spec.
func requests(spec *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	workloads.RequestLimits(&pod.Spec)
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// topology returns the topology constraints of a group by precedence: the field, the LeaderWorkerSet's annotations, its pods' annotations.
func (s *leaderWorkerSet) topology(lws *unstructured.Unstructured) (out []*TopologyConstraint) {
	if n := s.NetworkTopology; n != nil {
		out = append(out, tierConstraint(n, "spec.networkTopology"))
	}
	out = append(out, annotationConstraints("", lws.GetAnnotations())...)
	return append(out, annotationConstraints("pods' ", s.LeaderWorkerTemplate.WorkerTemplate.Annotations)...)
}

// equalConstraints returns whether two constraints mean the same. The default mode equals "hard".
func equalConstraints(a, b *TopologyConstraint) bool {
	if a.Tiers == nil || b.Tiers == nil {
		return a.Spec == b.Spec && a.Tiers == b.Tiers
	}
	return cmp.Or(a.Tiers.Mode, "hard") == cmp.Or(b.Tiers.Mode, "hard") && a.Tiers.HighestTierName == b.Tiers.HighestTierName &&
		(a.Tiers.HighestTier == nil) == (b.Tiers.HighestTier == nil) &&
		(a.Tiers.HighestTier == nil || *a.Tiers.HighestTier == *b.Tiers.HighestTier)
}
