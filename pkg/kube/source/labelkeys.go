package source

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Fields that name a label key of nodes, for members on nodes with equal values, used as if they were keys of annotations.
// Fields of parts apply to the members of each gang, the other fields to a group.
const (
	// Fields of Grove's PodGang.
	FieldPackRequired      = "spec.topologyConstraint.packConstraint.required"
	FieldPackPreferred     = "spec.topologyConstraint.packConstraint.preferred"
	FieldPackPartRequired  = "spec.podgroups[].topologyConstraint.packConstraint.required"
	FieldPackPartPreferred = "spec.podgroups[].topologyConstraint.packConstraint.preferred"
	// Fields of its topologyConstraintGroupConfigs, each for some podgroups.
	fieldPackRequired  = "topologyConstraint.packConstraint.required"
	fieldPackPreferred = "topologyConstraint.packConstraint.preferred"
	// Fields of Kubernetes' own PodGroup, and of its parent CompositePodGroup.
	FieldTopologyKey       = "spec.schedulingConstraints.topology[0].key"
	FieldParentTopologyKey = "spec.parentCompositePodGroupName.schedulingConstraints.topology[0].key"
)

// labelKey is a constraint that names a layer by a label key.
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

// labelKeys is a format in which each field names a label key.
type labelKeys []labelKey

// format returns the format with these fields as its keys.
func (l labelKeys) format() format {
	out := format{read: l.read, perGang: true}
	for _, k := range l {
		out.keys = append(out.keys, k.field)
	}
	return out
}

// read returns the constraint with one rule for each field in values, on the layer of its label key. An unknown layer is an error
// if it is required, and a note if it is preferred.
func (l labelKeys) read(values lookup, layers []convert.Layer) (out parseResult) {
	gather := &scheduling.GatherSpec{}
	for _, k := range l {
		label, ok := values(k.field)
		if !ok {
			continue
		}
		layer, err := layerOf(label, layers)
		switch {
		case err != nil && k.strategy == scheduling.MustGather:
			return parseResult{err: fmt.Errorf("%s: %w", k.field, err)}
		case err != nil:
			out.notes = append(out.notes, Note{reasons.InvalidAnnotation, fmt.Sprintf("%s has no effect: %s", k.field, err)})
			continue
		}
		rule := gatherRule(layer, k.strategy)
		rule.Scope = k.scope
		same := func(r scheduling.GatherRule) bool { return r.Layer == rule.Layer && r.Scope == rule.Scope }
		if !slices.ContainsFunc(gather.Rules, same) {
			gather.Rules = append(gather.Rules, rule) // a required layer need not be preferred
		}
	}
	if len(gather.Rules) > 0 {
		out.gather = gather
	}
	return out
}

// layerOf returns the name of the layer with this label key, or an error. kubernetes.io/hostname is always the layer of nodes.
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
	return "", fmt.Errorf("%q is no label key of a layer; supported values: the label keys of ClusterNetworkTopology %s: %v",
		label, scheduling.TopologyName, legal)
}
