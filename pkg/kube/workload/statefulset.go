package workload

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// userStatefulSet adds the pods of a StatefulSet that the user wrote. With OrderedReady, the default, each pod is created when all
// earlier pods run. So a gang of these pods never starts.
func (m *maker) userStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	pods, claims, errs := statefulSetPods(s, field.NewPath("spec"))
	m.add(claims...)
	var names []string
	for _, pod := range pods {
		object := Object{Object: pod}
		if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			object.After = slices.Clip(names)
		}
		m.out.Objects = append(m.out.Objects, object)
		names = append(names, pod.Name)
	}
	return errs
}

// statefulSetPods returns a StatefulSet's pods, <set>-<ordinal>, and the claims that they name.
func statefulSetPods(s *appsv1.StatefulSet, path *field.Path) (pods []*v1.Pod, claims []runtime.Object, errs field.ErrorList) {
	replicas, start := ptr.Deref(s.Spec.Replicas, 1), int32(0)
	errs = append(errs, checkCount(int64(replicas), path.Child("replicas"))...)
	if o := s.Spec.Ordinals; o != nil {
		start = o.Start
		if start < 0 {
			errs = append(errs, field.Invalid(path.Child("ordinals", "start"), start, "must be greater than or equal to 0"))
		}
	}
	switch policy := s.Spec.PodManagementPolicy; policy {
	case "", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.NotSupported(path.Child("podManagementPolicy"), policy,
			[]appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}))
	}
	errs = append(errs, checkSelector(s.Spec.Selector, &s.Spec.Template, path)...)
	errs = append(errs, checkTemplate(&s.Spec.Template, path.Child("template"), v1.RestartPolicyAlways)...)
	if len(errs) > 0 {
		return nil, nil, errs
	}
	revision := s.Name + "-" + templateHash(&s.Spec.Template)
	for ordinal := int64(start); ordinal < int64(start)+int64(replicas); ordinal++ {
		pod := podOf(&s.Spec.Template, s, statefulSetKind)
		number := strconv.FormatInt(ordinal, 10)
		pod.Name = s.Name + "-" + number
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
		pod.Labels[appsv1.PodIndexLabel] = number
		pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, s.Spec.ServiceName
		claims = append(claims, claimsOf(s, pod, number)...)
		pods = append(pods, pod)
	}
	if problem := checkLastPod(pods); problem != "" {
		return nil, nil, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), s.Name, problem)}
	}
	return pods, claims, nil
}

// checkLastPod returns why an API server would reject the last pod: its labels contain the StatefulSet's name. "" if it would not.
func checkLastPod(pods []*v1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	lastPod := pods[len(pods)-1]
	for _, key := range []string{appsv1.StatefulSetPodNameLabel, appsv1.StatefulSetRevisionLabel} {
		if problems := validation.IsValidLabelValue(lastPod.Labels[key]); len(problems) > 0 {
			return "the last pod would not be made: its label " + key + " would be " + lastPod.Labels[key] + ": " + strings.Join(problems, "; ")
		}
	}
	return ""
}

// claimsOf returns the claims of one pod, <claim>-<set>-<ordinal>, and adds volumes with their names to the pod.
func claimsOf(s *appsv1.StatefulSet, pod *v1.Pod, ordinal string) (claims []runtime.Object) {
	for _, t := range s.Spec.VolumeClaimTemplates {
		claim := t.DeepCopy()
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		claim.Namespace, claim.Name = s.Namespace, t.Name+"-"+s.Name+"-"+ordinal
		claim.Labels = mergeMaps(s.Spec.Selector.MatchLabels, claim.Labels)
		claims = append(claims, claim)
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == t.Name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: t.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	return claims
}
