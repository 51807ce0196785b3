package convert

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Selector returns a pod's network-topology-selector, "" if it has none.
func Selector(pod *v1.Pod) string { return pod.Annotations[scheduling.AnnotationTopologySelector] }

// Request returns what a gang with this gather spec asks for. Layers that the tree
// does not have are left out; whether they may be missing was decided before.
func Request(g *scheduling.GatherSpec, tree *topology.Tree, want, need int) plan.Request {
	r := plan.Request{
		Want: offer.Slots(want), Min: offer.Slots(max(1, need)),
		Multiple: make(offer.Multiples, tree.Depth()+1),
	}
	if g == nil {
		return r
	}
	prefer := make([]bool, tree.Depth()+1)
	for _, rule := range g.Rules {
		layer, ok := tree.LayerIndex(rule.Layer)
		if !ok {
			continue
		}
		if rule.Strategy == scheduling.MustGather {
			r.Must = max(r.Must, layer)
		} else {
			prefer[layer] = true
		}
		r.Multiple[layer] = offer.Slots(rule.PodCountMultiple)
	}
	for layer, yes := range prefer {
		if yes {
			r.Prefer = append(r.Prefer, layer)
		}
	}
	return r
}
