package convert

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Selector returns a pod's network-topology-selector, "" if it has none.
func Selector(pod *v1.Pod) string { return pod.Annotations[scheduling.AnnotationTopologySelector] }

// Gather returns what a gather spec asks of the members of all gangs together, and of
// those of each gang on its own; of one gang that is the same. Layers that the tree
// does not have are left out; whether they may be missing was decided before.
func Gather(g *scheduling.GatherSpec, tree *topology.Tree, gangs int) (all, each plan.Gather) {
	all.Multiple = make(offer.Multiples, tree.Depth()+1)
	each.Multiple = make(offer.Multiples, tree.Depth()+1)
	if g == nil {
		return all, each
	}
	for _, rule := range g.Rules {
		layer, ok := tree.LayerIndex(rule.Layer)
		if !ok {
			continue
		}
		into := &all
		if rule.Scope == scheduling.ScopePodGroup && gangs > 1 {
			into = &each
		}
		if rule.Strategy == scheduling.MustGather {
			into.Must = max(into.Must, layer)
		} else if p := (plan.Preference{Layer: layer}); !slices.Contains(into.Prefer, p) {
			into.Prefer = append(into.Prefer, p)
		}
		into.Multiple[layer] = offer.Common(into.Multiple.At(layer), offer.Slots(rule.PodCountMultiple))
	}
	return all, each
}
