package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// leaderWorkerSet adds the StatefulSet of a LeaderWorkerSet's leaders, <set>-<group>, and for each leader the StatefulSet of its workers,
// <set>-<group>-<worker> from 1. With LeaderReady or exclusive-topology, workers are created when their leader runs.
func (m *maker) leaderWorkerSet(u *unstructured.Unstructured) field.ErrorList {
	s := leaderWorkerSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s.LeaderWorkerSet); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	s.setDefaults()
	if errs := s.check(); len(errs) > 0 {
		return errs
	}
	if s.subdomains() == lwsv1.SubdomainShared {
		m.add(headlessService(s.Name, &s, workloads.LeaderWorkerSetKind, map[string]string{lwsv1.SetNameLabelKey: s.Name}))
	}
	set := s.leaders()
	set.UID = m.api.UID("StatefulSet", set.Name)
	leaders, claims, errs := statefulSetPods(set, field.NewPath("spec", "leaderWorkerTemplate"))
	if len(errs) > 0 {
		return errs
	}
	m.add(set)
	m.add(claims...)
	for group, leader := range leaders {
		s.prepareLeader(leader, group)
		leader.UID = m.api.UID("Pod", leader.Name)
		m.add(leader)
		if errs := m.workers(&s, leader); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// workers adds the workers of one leader, and their StatefulSet and Service.
func (m *maker) workers(s *leaderWorkerSet, leader *v1.Pod) field.ErrorList {
	podKind := v1.SchemeGroupVersion.WithKind("Pod")
	if s.subdomains() == lwsv1.SubdomainUniquePerReplica {
		m.add(headlessService(leader.Name, leader, podKind,
			map[string]string{lwsv1.SetNameLabelKey: s.Name, lwsv1.GroupIndexLabelKey: leader.Labels[lwsv1.GroupIndexLabelKey]}))
	}
	if s.size() == 1 {
		return nil
	}
	set := s.workers(leader)
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(leader, podKind)}
	set.UID = m.api.UID("StatefulSet", set.Name)
	pods, claims, errs := statefulSetPods(set, field.NewPath("spec", "leaderWorkerTemplate"))
	if len(errs) > 0 {
		return errs
	}
	m.add(set)
	m.add(claims...)
	for i, pod := range pods {
		s.prepareWorker(pod, leader, i+1)
		object := Object{Object: pod, Near: s.Annotations[lwsv1.ExclusiveKeyAnnotationKey]}
		if s.Spec.StartupPolicy == lwsv1.LeaderReadyStartupPolicy || object.Near != "" {
			object.After = []string{leader.Name}
		}
		m.out.Objects = append(m.out.Objects, object)
	}
	return nil
}

// leaderWorkerSet is a LeaderWorkerSet, with methods that return its parts.
type leaderWorkerSet struct{ workloads.LeaderWorkerSet }

// setDefaults sets the defaults of LeaderWorkerSet's CRD.
func (s *leaderWorkerSet) setDefaults() {
	if s.Spec.Replicas == nil {
		s.Spec.Replicas = ptr.To[int32](1)
	}
	t := &s.Spec.LeaderWorkerTemplate
	if t.Size == nil {
		t.Size = ptr.To[int32](1)
	}
	s.Spec.StartupPolicy = cmp.Or(s.Spec.StartupPolicy, lwsv1.LeaderCreatedStartupPolicy)
	if p := t.SubGroupPolicy; p != nil && p.Type == nil {
		p.Type = ptr.To(lwsv1.SubGroupPolicyTypeLeaderWorker)
	}
}

// check returns errors for the fields on which the pods depend.
func (s *leaderWorkerSet) check() (errs field.ErrorList) {
	spec, t := field.NewPath("spec"), &s.Spec.LeaderWorkerTemplate
	errs = append(errs, checkCount(int64(*s.Spec.Replicas), spec.Child("replicas"))...)
	templatePath := spec.Child("leaderWorkerTemplate")
	switch size := int64(*t.Size); {
	case size < 1:
		errs = append(errs, field.Invalid(templatePath.Child("size"), size, "must be greater than or equal to 1"))
	case size*int64(*s.Spec.Replicas) > MaxPods:
		errs = append(errs,
			field.Invalid(templatePath.Child("size"), size, "replicas × size must be less than or equal to 100000 in a simulation"))
	}
	if p := s.Spec.StartupPolicy; p != lwsv1.LeaderCreatedStartupPolicy && p != lwsv1.LeaderReadyStartupPolicy {
		errs = append(errs, field.NotSupported(spec.Child("startupPolicy"), p,
			[]lwsv1.StartupPolicyType{lwsv1.LeaderCreatedStartupPolicy, lwsv1.LeaderReadyStartupPolicy}))
	}
	if p := s.subdomains(); p != lwsv1.SubdomainShared && p != lwsv1.SubdomainUniquePerReplica {
		errs = append(errs, field.NotSupported(spec.Child("networkConfig", "subdomainPolicy"), p,
			[]lwsv1.SubdomainPolicy{lwsv1.SubdomainShared, lwsv1.SubdomainUniquePerReplica}))
	}
	errs = append(errs, checkTemplate(&t.WorkerTemplate, templatePath.Child("workerTemplate"), v1.RestartPolicyAlways)...)
	if t.LeaderTemplate != nil {
		errs = append(errs, checkTemplate(t.LeaderTemplate, templatePath.Child("leaderTemplate"), v1.RestartPolicyAlways)...)
	}
	if len(errs) == 0 {
		errs = s.checkSubGroups(templatePath.Child("subGroupPolicy"))
	}
	return errs
}

// checkSubGroups returns an error for an invalid subGroupPolicy.
func (s *leaderWorkerSet) checkSubGroups(path *field.Path) field.ErrorList {
	p := s.Spec.LeaderWorkerTemplate.SubGroupPolicy
	if p == nil {
		return nil
	}
	types := []lwsv1.SubGroupPolicyType{lwsv1.SubGroupPolicyTypeLeaderWorker, lwsv1.SubGroupPolicyTypeLeaderExcluded}
	if !slices.Contains(types, *p.Type) {
		return field.ErrorList{field.NotSupported(path.Child("subGroupPolicyType"), *p.Type, types)}
	}
	if p.SubGroupSize == nil {
		return field.ErrorList{field.Required(path.Child("subGroupSize"), "")}
	}
	size := s.size()
	sub := int(*p.SubGroupSize)
	problem := ""
	switch {
	case sub < 1:
		problem = "must be greater than or equal to 1"
	case sub > size:
		problem = fmt.Sprintf("must not be larger than size, which is %d", size)
	case *p.Type == lwsv1.SubGroupPolicyTypeLeaderExcluded && (size-1)%sub != 0:
		problem = fmt.Sprintf("must divide size - 1, which is %d, with LeaderExcluded", size-1)
	case size%sub != 0 && (size-1)%sub != 0:
		problem = fmt.Sprintf("must divide size or size - 1; size is %d", size)
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("subGroupSize"), sub, problem)}
}

// leaders returns the StatefulSet of the leaders.
func (s *leaderWorkerSet) leaders() *appsv1.StatefulSet {
	t := &s.Spec.LeaderWorkerTemplate
	pod := t.WorkerTemplate.DeepCopy()
	if t.LeaderTemplate != nil {
		pod = t.LeaderTemplate.DeepCopy()
	}
	annotations := s.annotations()
	if p := t.SubGroupPolicy; p != nil {
		annotations[lwsv1.SubGroupPolicyTypeAnnotationKey] = string(*p.Type)
	}
	if s.subdomains() == lwsv1.SubdomainUniquePerReplica {
		annotations[lwsv1.SubdomainPolicyAnnotationKey] = string(lwsv1.SubdomainUniquePerReplica)
	}
	selector := map[string]string{lwsv1.SetNameLabelKey: s.Name, lwsv1.WorkerIndexLabelKey: "0"}
	pod.Labels = mergeMaps(mergeMaps(selector, map[string]string{lwsv1.RevisionKey: s.revision()}), pod.Labels)
	pod.Annotations = mergeMaps(annotations, pod.Annotations)
	set := s.statefulSet(s.Name, s.Name, *s.Spec.Replicas, selector, pod)
	set.Labels = map[string]string{lwsv1.SetNameLabelKey: s.Name, lwsv1.RevisionKey: s.revision()}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, workloads.LeaderWorkerSetKind)}
	return set
}

// workers returns the StatefulSet of a leader's workers.
func (s *leaderWorkerSet) workers(leader *v1.Pod) *appsv1.StatefulSet {
	selector := map[string]string{
		lwsv1.SetNameLabelKey: s.Name, lwsv1.GroupIndexLabelKey: leader.Labels[lwsv1.GroupIndexLabelKey],
		lwsv1.GroupUniqueHashLabelKey: leader.Labels[lwsv1.GroupUniqueHashLabelKey],
	}
	labels := mergeMaps(selector, map[string]string{lwsv1.RevisionKey: s.revision()})
	pod := s.Spec.LeaderWorkerTemplate.WorkerTemplate.DeepCopy()
	pod.Labels = mergeMaps(labels, pod.Labels)
	pod.Annotations = mergeMaps(mergeMaps(s.annotations(), map[string]string{lwsv1.LeaderPodNameAnnotationKey: leader.Name}), pod.Annotations)
	service := s.Name
	if s.subdomains() == lwsv1.SubdomainUniquePerReplica {
		service = leader.Name
	}
	set := s.statefulSet(leader.Name, service, int32(s.size()-1), selector, pod)
	set.Labels = labels
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
	return set
}

// statefulSet returns a StatefulSet with the API server's defaults and the claim templates of the LeaderWorkerSet.
func (s *leaderWorkerSet) statefulSet(
	name, service string, replicas int32, selector map[string]string, pod *v1.PodTemplateSpec,
) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: service, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: *pod,
			VolumeClaimTemplates: s.Spec.LeaderWorkerTemplate.VolumeClaimTemplates,
		},
	}
	set = set.DeepCopy() // defaults in the claim templates are no part of the revision
	legacyscheme.Scheme.Default(set)
	return set
}

// annotations returns the annotations of all pods.
func (s *leaderWorkerSet) annotations() map[string]string {
	annotations := map[string]string{lwsv1.SizeAnnotationKey: strconv.Itoa(s.size())}
	if key := s.Annotations[lwsv1.ExclusiveKeyAnnotationKey]; key != "" {
		annotations[lwsv1.ExclusiveKeyAnnotationKey] = key
	}
	if p := s.Spec.LeaderWorkerTemplate.SubGroupPolicy; p != nil {
		annotations[lwsv1.SubGroupSizeAnnotationKey] = strconv.Itoa(int(*p.SubGroupSize))
		if key := s.Annotations[lwsv1.SubGroupExclusiveKeyAnnotationKey]; key != "" {
			annotations[lwsv1.SubGroupExclusiveKeyAnnotationKey] = key
		}
	}
	return annotations
}

// prepareLeader sets the leader's labels, subdomain and affinity, as the webhook does.
func (s *leaderWorkerSet) prepareLeader(pod *v1.Pod, group int) {
	pod.Labels[lwsv1.GroupIndexLabelKey] = strconv.Itoa(group)
	pod.Labels[lwsv1.GroupUniqueHashLabelKey] = sha1Hash(pod.Namespace + "/" + pod.Name)
	if s.subdomains() == lwsv1.SubdomainUniquePerReplica {
		pod.Spec.Subdomain = pod.Name
	}
	s.exclude(pod, lwsv1.ExclusiveKeyAnnotationKey, lwsv1.GroupUniqueHashLabelKey)
	if p := s.Spec.LeaderWorkerTemplate.SubGroupPolicy; p != nil && *p.Type != lwsv1.SubGroupPolicyTypeLeaderExcluded {
		s.subGroup(pod, pod.Name, 0)
	}
}

// prepareWorker sets the worker's labels and affinity, as the webhook does. If the sub-group size divides the number of workers, the
// leader is one more pod of the first sub-group.
func (s *leaderWorkerSet) prepareWorker(pod, leader *v1.Pod, worker int) {
	pod.Labels[lwsv1.WorkerIndexLabelKey] = strconv.Itoa(worker)
	p := s.Spec.LeaderWorkerTemplate.SubGroupPolicy
	if p == nil {
		return
	}
	sub := worker / int(*p.SubGroupSize)
	if (s.size()-1)%int(*p.SubGroupSize) == 0 {
		sub = (worker - 1) / int(*p.SubGroupSize)
	}
	s.subGroup(pod, leader.Name, sub)
}

// subGroup sets a pod's labels for the sub-group with this index, and its affinity.
func (s *leaderWorkerSet) subGroup(pod *v1.Pod, leader string, index int) {
	pod.Labels[lwsv1.SubGroupIndexLabelKey] = strconv.Itoa(index)
	pod.Labels[lwsv1.SubGroupUniqueHashLabelKey] = sha1Hash(leader + "/" + strconv.Itoa(index))
	s.exclude(pod, lwsv1.SubGroupExclusiveKeyAnnotationKey, lwsv1.SubGroupUniqueHashLabelKey)
}

// exclude calls addExclusiveTerms for the topology key in the pod's annotation, unless it has none or has the terms already.
func (s *leaderWorkerSet) exclude(pod *v1.Pod, annotation, label string) {
	if key := pod.Annotations[annotation]; key != "" && !hasExclusiveTerms(pod, key) {
		addExclusiveTerms(pod, key, label, nil)
	}
}

func (s *leaderWorkerSet) size() int { return int(*s.Spec.LeaderWorkerTemplate.Size) }

func (s *leaderWorkerSet) subdomains() lwsv1.SubdomainPolicy {
	if c := s.Spec.NetworkConfig; c != nil {
		return ptr.Deref(c.SubdomainPolicy, lwsv1.SubdomainShared)
	}
	return lwsv1.SubdomainShared
}

// revision returns a hash that changes with the pod templates, as the controller's revision does.
func (s *leaderWorkerSet) revision() string {
	h := fnv.New32()
	_ = json.NewEncoder(h).Encode([]any{s.Spec.LeaderWorkerTemplate, s.Spec.NetworkConfig}) // values read from JSON can be marshalled
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
