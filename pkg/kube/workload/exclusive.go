package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hasExclusiveTerms says whether a pod already has required affinity and anti-affinity with this topology key.
func hasExclusiveTerms(pod *v1.Pod, topologyKey string) bool {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil || a.PodAntiAffinity == nil {
		return false
	}
	hasKey := func(t v1.PodAffinityTerm) bool { return t.TopologyKey == topologyKey }
	return slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, hasKey) &&
		slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, hasKey)
}

// addExclusiveTerms adds affinity and anti-affinity to a pod: pods with its value of label share a domain, and pods with another value
// that match requirements are excluded from it.
func addExclusiveTerms(
	pod *v1.Pod, topologyKey, label string, namespaces *metav1.LabelSelector, requirements ...metav1.LabelSelectorRequirement,
) {
	value := pod.Labels[label]
	affinity := v1.PodAffinityTerm{
		TopologyKey: topologyKey, NamespaceSelector: namespaces,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpIn, Values: []string{value}},
		}},
	}
	antiAffinity := v1.PodAffinityTerm{
		TopologyKey: topologyKey, NamespaceSelector: namespaces,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpExists},
			{Key: label, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}},
		}, requirements...)},
	}
	a := pod.Spec.Affinity
	if a == nil {
		a = &v1.Affinity{}
	}
	if a.PodAffinity == nil {
		a.PodAffinity = &v1.PodAffinity{}
	}
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	required := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, affinity)
	required = &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, antiAffinity)
	pod.Spec.Affinity = a
}
