package convert

import (
	"fmt"

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
