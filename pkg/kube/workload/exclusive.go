package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimed says whether a pod has affinity and anti-affinity for a domain already.
func claimed(pod *v1.Pod, topologyKey string) bool {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil || a.PodAntiAffinity == nil {
		return false
	}
	names := func(t v1.PodAffinityTerm) bool { return t.TopologyKey == topologyKey }
	return slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, names) &&
		slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, names)
}

// among gives the pods with a label's value a domain of their own: together, and without pods of another value that match
// besides.
func among(pod *v1.Pod, topologyKey, label string, namespaces *metav1.LabelSelector, besides ...metav1.LabelSelectorRequirement) {
	value := pod.Labels[label]
	together := v1.PodAffinityTerm{
		TopologyKey: topologyKey, NamespaceSelector: namespaces,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpIn, Values: []string{value}},
		}},
	}
	apart := v1.PodAffinityTerm{
		TopologyKey: topologyKey, NamespaceSelector: namespaces,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpExists},
			{Key: label, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}},
		}, besides...)},
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
	*required = append(*required, together)
	required = &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, apart)
	pod.Spec.Affinity = a
}
