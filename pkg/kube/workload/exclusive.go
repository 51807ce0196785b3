package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hasExclusiveTerms says whether a pod has affinity and anti-affinity for a domain already.
func hasExclusiveTerms(pod *v1.Pod, topologyKey string) bool {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil || a.PodAntiAffinity == nil {
		return false
	}
	hasKey := func(t v1.PodAffinityTerm) bool { return t.TopologyKey == topologyKey }
	return slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, hasKey) &&
		slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, hasKey)
}

// addExclusiveTerms gives the pods with a label's value a domain of their own: together, and without pods of another value that match
// requirements.
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
