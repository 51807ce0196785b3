package source

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Fields that name a label key of nodes whose value must be the same, as if they were keys of
// annotations. Those of parts are about the members of each gang, the others about a group's.
const (
	// Grove's PodGang.
	FieldPackRequired      = "spec.topologyConstraint.packConstraint.required"
	FieldPackPreferred     = "spec.topologyConstraint.packConstraint.preferred"
	FieldPackPartRequired  = "spec.podgroups[].topologyConstraint.packConstraint.required"
	FieldPackPartPreferred = "spec.podgroups[].topologyConstraint.packConstraint.preferred"
	// An entry of it that names some podgroups.
	fieldPackRequired  = "topologyConstraint.packConstraint.required"
	fieldPackPreferred = "topologyConstraint.packConstraint.preferred"
	// Kubernetes' own PodGroup, and what the CompositePodGroup says that is its parent.
	FieldTopologyKey       = "spec.schedulingConstraints.topology[0].key"
	FieldParentTopologyKey = "spec.parentCompositePodGroupName.schedulingConstraints.topology[0].key"
)

// labelKey is a rule that names a layer by a label key.
type labelKey struct {
	field    string
	strategy scheduling.GatherStrategy
	scope    scheduling.GatherScope
}

var (
	podGangKeys = labelKeys{
		{FieldPackRequired, scheduling.MustGather, scheduling.ScopeGangGroup},
		{FieldPackPreferred, scheduling.PreferGather, scheduling.ScopeGangGroup},
		{FieldPackPartRequired, scheduling.MustGather, scheduling.ScopePodGroup},
		{FieldPackPartPreferred, scheduling.PreferGather, scheduling.ScopePodGroup},
	}
	// packKeys are the fields of an entry of spec.topologyConstraintGroupConfigs.
	packKeys = labelKeys{
		{fieldPackRequired, scheduling.MustGather, scheduling.ScopePodGroup},
		{fieldPackPreferred, scheduling.PreferGather, scheduling.ScopePodGroup},
	}
	kueueKeys = labelKeys{
		{AnnotationKueueRequired, scheduling.MustGather, scheduling.ScopePodGroup},
		{AnnotationKueuePreferred, scheduling.PreferGather, scheduling.ScopePodGroup},
	}
	nativeKeys = labelKeys{
		{FieldTopologyKey, scheduling.MustGather, scheduling.ScopePodGroup},
		{FieldParentTopologyKey, scheduling.MustGather, scheduling.ScopeGangGroup},
	}
)

// labelKeys is a language in which each field names a label key.
type labelKeys []labelKey

func (l labelKeys) language() language {
	out := language{read: l.read, apart: true}
	for _, k := range l {
		out.keys = append(out.keys, k.field)
	}
	return out
}

// read takes the layers whose label keys are named. A preference that nobody can have is no
// constraint, and a note.
func (l labelKeys) read(says words, layers []convert.Layer) (out reading) {
	gather := &scheduling.GatherSpec{}
	for _, k := range l {
		label, ok := says(k.field)
		if !ok {
			continue
		}
		layer, err := layerOf(label, layers)
		switch {
		case err != nil && k.strategy == scheduling.MustGather:
			return reading{err: fmt.Errorf("%s: %w", k.field, err)}
		case err != nil:
			out.notes = append(out.notes, Note{InvalidAnnotation, fmt.Sprintf("%s: %s; it has no effect", k.field, err)})
			continue
		}
		rule := gatherRule(layer, k.strategy)
		rule.Scope = k.scope
		same := func(r scheduling.GatherRule) bool { return r.Layer == rule.Layer && r.Scope == rule.Scope }
		if !slices.ContainsFunc(gather.Rules, same) { // who must be there need not prefer it
			gather.Rules = append(gather.Rules, rule)
		}
	}
	if len(gather.Rules) > 0 {
		out.gather = gather
	}
	return out
}

// layerOf is the layer that a label key names the domains of. Each node is a domain of its host
// name, whether or not a layer says so.
func layerOf(label string, layers []convert.Layer) (string, error) {
	var legal []string
	for _, l := range layers {
		if slices.Contains(l.Keys, label) {
			return l.Name, nil
		}
		legal = append(legal, l.Keys...)
	}
	switch {
	case label == "kubernetes.io/hostname":
		return scheduling.NodeTopologyLayer, nil
	case layers == nil:
		return "", fmt.Errorf("%q needs ClusterNetworkTopology %s, which does not exist", label, scheduling.TopologyName)
	}
	return "", fmt.Errorf("%q is no label key of a layer; supported values: a label key of ClusterNetworkTopology %s: %v", label, scheduling.TopologyName, legal)
}
