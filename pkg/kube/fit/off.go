package fit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Off is the domains, by node label, in which a pod may not be because of others who are still to come there, on whatever node:
// it keeps them off, or they keep it off.
type Off map[string]sets.Set[string]

// Add notes where a pod may not be because of another one that has a place on a node. On that node itself the Filters
// tell. It is no method of a Counter: the other one is not in the snapshot.
func (o *Off) Add(pod, other fwk.PodInfo, node *v1.Node, namespaces corelisters.NamespaceLister) {
	add := func(of, meant fwk.PodInfo) {
		for _, t := range of.GetRequiredAntiAffinityTerms() {
			value, named := node.Labels[t.TopologyKey]
			if !named || t.TopologyKey == v1.LabelHostname || !t.Matches(meant.GetPod(), labelsOf(meant.GetPod().Namespace, namespaces)) {
				continue
			}
			if *o == nil {
				*o = Off{}
			}
			if (*o)[t.TopologyKey] == nil {
				(*o)[t.TopologyKey] = sets.New[string]()
			}
			(*o)[t.TopologyKey].Insert(value)
		}
	}
	add(pod, other)
	add(other, pod)
}

// labelsOf are the labels of a namespace; none if it is not known.
func labelsOf(namespace string, all corelisters.NamespaceLister) labels.Set {
	if ns, err := all.Get(namespace); err == nil {
		return ns.Labels
	}
	return nil
}

// Closes says whether a node is in one of these domains.
func (o Off) Closes(node *v1.Node) bool {
	for key, values := range o {
		if value, named := node.Labels[key]; named && values.Has(value) {
			return true
		}
	}
	return false
}

// Clone implements fwk.StateData. It is not changed any more once it is in a cycle's state.
func (o Off) Clone() fwk.StateData { return o }
