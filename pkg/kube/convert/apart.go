package convert

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Repulsion is a reason why two equal pods cannot be in one domain, such as on one node.
type Repulsion struct {
	Key   string // the node label of the domains
	Field string // the field of the pod in words
}

// ApartOf returns why two pods equal to pod cannot be in one domain: host ports, and required anti-affinity that selects the pod.
func ApartOf(pod *v1.Pod) (repulsions []Repulsion) {
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			n := port.HostPort
			if pod.Spec.HostNetwork {
				n = port.ContainerPort
			}
			if n > 0 {
				repulsions = append(repulsions, Repulsion{v1.LabelHostname, fmt.Sprintf("a node takes one member with host port %d", n)})
			}
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return repulsions
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) || len(term.Namespaces) > 0 || term.NamespaceSelector != nil {
			continue
		}
		repulsions = append(repulsions,
			Repulsion{term.TopologyKey, fmt.Sprintf("the members' podAntiAffinity allows one member for each value of %s", term.TopologyKey)})
	}
	return repulsions
}

// TiesOf returns the required affinity and spread rules of a pod that select another member, in words.
func TiesOf(pod *v1.Pod, members []*v1.Pod) (ties []string) {
	add := func(field string, selector *metav1.LabelSelector, details string) {
		selects, err := metav1.LabelSelectorAsSelector(selector)
		isTied := func(m *v1.Pod) bool { return m.UID != pod.UID && selects.Matches(labels.Set(m.Labels)) }
		if err == nil && slices.ContainsFunc(members, isTied) {
			ties = append(ties, fmt.Sprintf("%s of %s (%s)", field, PodKey(pod), details))
		}
	}
	addTerms := func(field string, terms []v1.PodAffinityTerm) {
		for _, t := range terms {
			if len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, pod.Namespace) {
				add(field, t.LabelSelector, "topologyKey "+t.TopologyKey)
			}
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		addTerms("podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		addTerms("podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		details := fmt.Sprintf("topologyKey %s, maxSkew %d", c.TopologyKey, c.MaxSkew)
		if c.MinDomains != nil {
			details += fmt.Sprintf(", minDomains %d", *c.MinDomains)
		}
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			add("topologySpreadConstraints", c.LabelSelector, details)
		}
	}
	return ties
}

// SharedClaims returns the names of the ResourceClaims that several of the pods have, sorted.
func SharedClaims(pods []*v1.Pod) (shared []string) {
	seen := map[string]bool{}
	for _, pod := range pods {
		for _, claim := range pod.Spec.ResourceClaims {
			if name := claim.ResourceClaimName; name != nil && seen[*name] && !slices.Contains(shared, *name) {
				shared = append(shared, *name)
			} else if name != nil {
				seen[*name] = true
			}
		}
	}
	slices.Sort(shared)
	return shared
}
