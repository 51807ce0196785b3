package convert

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Selector returns the value by which pods attract one another: network-topology-selector, else the pod's PodGang together with
// the gangs that scale it; "" for none.
func Selector(pod *v1.Pod) string {
	if selector := pod.Annotations[scheduling.AnnotationTopologySelector]; selector != "" {
		return selector
	}
	if base := cmp.Or(pod.Labels[workloads.LabelBasePodGang], pod.Labels[workloads.LabelPodGang]); base != "" {
		return workloads.LabelPodGang + "=" + Key(pod.Namespace, base)
	}
	return ""
}

// Own is a topology constraint on some gangs of a group together, beside the group's. The scope of its rules is ignored.
type Own struct {
	Gangs  []gang.Ref
	Gather *scheduling.GatherSpec
}

// Gather returns the constraints of a spec and of parts of the group: on the members of all gangs together, and on sets of
// members. Rules of scope PodGroup hold for each gang by itself; for a single gang that is the same. Layers that the tree lacks
// are left out; callers have decided before whether layers may be missing.
func Gather(g *scheduling.GatherSpec, own []Own, tree *topology.Tree, gangs []gang.Gang) (all plan.Gather, sets []mixed.Set) {
	in := gathering{tree: tree, gangs: gangs, all: plan.Gather{Multiple: make(offer.Multiples, tree.Depth()+1)}}
	if g != nil {
		var each []scheduling.GatherRule
		for _, rule := range g.Rules {
			if rule.Scope == scheduling.ScopePodGroup {
				each = append(each, rule)
			} else {
				in.add(&in.all, rule)
			}
		}
		for i, of := range gangs { // each whole gang once
			if ref := of.Ref.Whole(); len(each) > 0 && !slices.ContainsFunc(gangs[:i], func(x gang.Gang) bool { return x.Ref.Whole() == ref }) {
				in.addTo([]gang.Ref{ref}, each)
			}
		}
	}
	for _, o := range own {
		in.addTo(o.Gangs, o.Gather.Rules)
	}
	return in.all, in.sets
}

// gathering collects the constraints.
type gathering struct {
	tree  *topology.Tree
	gangs []gang.Gang
	all   plan.Gather
	sets  []mixed.Set
}

// addTo adds rules on some gangs, or their parts, as far as they are in the group.
func (g *gathering) addTo(refs []gang.Ref, rules []scheduling.GatherRule) {
	var who []int
	for i, of := range g.gangs {
		if slices.Contains(refs, of.Ref) || slices.Contains(refs, of.Ref.Whole()) {
			who = append(who, i)
		}
	}
	into := &g.all
	if len(who) < len(g.gangs) {
		i := slices.IndexFunc(g.sets, func(s mixed.Set) bool { return slices.Equal(s.Gangs, who) })
		if len(who) == 0 {
			return
		}
		if i < 0 {
			i = len(g.sets)
			g.sets = append(g.sets, mixed.Set{Gangs: who, Gather: plan.Gather{Multiple: make(offer.Multiples, g.tree.Depth()+1)}})
		}
		into = &g.sets[i].Gather
	}
	for _, rule := range rules {
		g.add(into, rule)
	}
}

func (g *gathering) add(into *plan.Gather, rule scheduling.GatherRule) {
	layer, ok := g.tree.LayerIndex(rule.Layer)
	if !ok {
		return
	}
	if rule.Strategy == scheduling.MustGather {
		into.Must = max(into.Must, layer)
	} else if p := (plan.Preference{Layer: layer}); !slices.Contains(into.Prefer, p) {
		into.Prefer = append(into.Prefer, p)
	}
	into.Multiple[layer] = offer.Common(into.Multiple.At(layer), offer.Slots(rule.PodCountMultiple))
}
