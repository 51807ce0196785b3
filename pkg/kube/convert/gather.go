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

// Own is a topology constraint on some gangs of a group together, in addition to the group's. The scope of its rules is ignored.
type Own struct {
	Gangs  []gang.Ref
	Gather *scheduling.GatherSpec
}

// Gather returns the rules of g and constraints for a group of gangs: joint for all members together, sets for the members of some
// gangs. A rule of scope PodGroup makes a set for each gang; of a single gang it is joint. Rules on layers that the tree lacks are
// omitted: callers decide before whether layers may be missing.
func Gather(g *scheduling.GatherSpec, constraints []Own, tree *topology.Tree, gangs []gang.Gang) (joint plan.Gather, sets []mixed.Set) {
	collector := gathering{tree: tree, gangs: gangs, joint: plan.Gather{Multiple: make(offer.Multiples, tree.Depth()+1)}}
	if g != nil {
		var gangRules []scheduling.GatherRule
		for _, rule := range g.Rules {
			if rule.Scope == scheduling.ScopePodGroup {
				gangRules = append(gangRules, rule)
			} else {
				collector.add(&collector.joint, rule)
			}
		}
		for i, groupGang := range gangs { // each whole gang once
			if ref := groupGang.Ref.Whole(); len(gangRules) > 0 &&
				!slices.ContainsFunc(gangs[:i], func(x gang.Gang) bool { return x.Ref.Whole() == ref }) {
				collector.addTo([]gang.Ref{ref}, gangRules)
			}
		}
	}
	for _, constraint := range constraints {
		collector.addTo(constraint.Gangs, constraint.Gather.Rules)
	}
	return collector.joint, collector.sets
}

// gathering collects the constraints.
type gathering struct {
	tree  *topology.Tree
	gangs []gang.Gang
	joint plan.Gather
	sets  []mixed.Set
}

// addTo adds rules on the gangs in refs, as far as they are in the group: to joint if these are all gangs, else to their set.
func (g *gathering) addTo(refs []gang.Ref, rules []scheduling.GatherRule) {
	var indexes []int
	for i, groupGang := range g.gangs {
		if slices.Contains(refs, groupGang.Ref) || slices.Contains(refs, groupGang.Ref.Whole()) {
			indexes = append(indexes, i)
		}
	}
	target := &g.joint
	if len(indexes) < len(g.gangs) {
		i := slices.IndexFunc(g.sets, func(s mixed.Set) bool { return slices.Equal(s.Gangs, indexes) })
		if len(indexes) == 0 {
			return
		}
		if i < 0 {
			i = len(g.sets)
			g.sets = append(g.sets, mixed.Set{Gangs: indexes, Gather: plan.Gather{Multiple: make(offer.Multiples, g.tree.Depth()+1)}})
		}
		target = &g.sets[i].Gather
	}
	for _, rule := range rules {
		g.add(target, rule)
	}
}

// add adds a rule to target, unless the tree lacks its layer.
func (g *gathering) add(target *plan.Gather, rule scheduling.GatherRule) {
	layer, ok := g.tree.LayerIndex(rule.Layer)
	if !ok {
		return
	}
	if rule.Strategy == scheduling.MustGather {
		target.Must = max(target.Must, layer)
	} else if p := (plan.Preference{Layer: layer}); !slices.Contains(target.Prefer, p) {
		target.Prefer = append(target.Prefer, p)
	}
	target.Multiple[layer] = offer.Common(target.Multiple.At(layer), offer.Slots(rule.PodCountMultiple))
}
