package scheduling

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// GatherSpec is the topology constraint of a gang: a list of rules. As JSON:
//
//	{"gatherStrategy":[
//	  {"layer":"SpineLayer","strategy":"MustGather"},
//	  {"layer":"BlockLayer","strategy":"PreferGather","podCountMultiple":8,"scope":"PodGroup"}]}
type GatherSpec struct {
	Rules []GatherRule `json:"gatherStrategy"`
}

// GatherRule is a rule about the domains of one layer.
type GatherRule struct {
	Layer    string         `json:"layer"`
	Strategy GatherStrategy `json:"strategy"`
	// PodCountMultiple is at least 1. The number of members in each domain of the layer is a multiple of it.
	PodCountMultiple int         `json:"podCountMultiple"`
	Scope            GatherScope `json:"scope"`
}

// GatherStrategy says whether a rule is required or preferred.
type GatherStrategy string

const (
	// MustGather puts all members in one domain of the layer, or the gang does not start.
	MustGather GatherStrategy = "MustGather"
	// PreferGather uses as few domains of the layer as possible.
	PreferGather GatherStrategy = "PreferGather"
)

// GatherScope says to which members a rule applies together.
type GatherScope string

const (
	// ScopeGangGroup applies a rule to the members of all gangs of the GangGroup together. It is the default.
	ScopeGangGroup GatherScope = "GangGroup"
	// ScopePodGroup applies a rule to the members of each gang alone.
	ScopePodGroup GatherScope = "PodGroup"
)

// ParseGatherSpec parses the value of AnnotationTopologySpec and sets the defaults. It does not check whether the layers exist: see
// CheckLayers.
func ParseGatherSpec(value string) (*GatherSpec, error) {
	var raw []json.RawMessage
	if err := strictjson.Object(AnnotationTopologySpec, []byte(value),
		strictjson.Field{Name: "gatherStrategy", Into: &raw, Legal: "a list of rules"},
	); err != nil {
		return nil, err
	}
	spec := &GatherSpec{Rules: make([]GatherRule, len(raw))}
	var errs []error
	for i, data := range raw {
		path := fmt.Sprintf("%s: gatherStrategy[%d]", AnnotationTopologySpec, i)
		rule, err := parseRule(path, data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.ContainsFunc(spec.Rules[:i], func(r GatherRule) bool { return r.Layer == rule.Layer && r.Scope == rule.Scope }) {
			errs = append(errs, strictjson.Illegal(path+".layer", fmt.Sprintf("%q a second time with scope %s", rule.Layer, rule.Scope),
				"one rule for each layer and scope"))
		}
		spec.Rules[i] = rule
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return spec, nil
}

// parseRule parses one rule, with defaults. path names it in errors.
func parseRule(path string, data []byte) (GatherRule, error) {
	r := GatherRule{PodCountMultiple: 1, Scope: ScopeGangGroup}
	err := strictjson.Object(path, data,
		strictjson.Field{
			Name: "layer", Into: &r.Layer, Required: true, Legal: "a layer of the ClusterNetworkTopology",
			Check: func() bool { return r.Layer != "" },
		},
		strictjson.Field{
			Name: "strategy", Into: &r.Strategy, Required: true, Legal: "MustGather, PreferGather",
			Check: func() bool { return r.Strategy == MustGather || r.Strategy == PreferGather },
		},
		strictjson.Field{
			Name: "podCountMultiple", Into: &r.PodCountMultiple, Legal: "an integer ≥ 1",
			Check: func() bool { return r.PodCountMultiple >= 1 },
		},
		strictjson.Field{
			Name: "scope", Into: &r.Scope, Legal: "GangGroup, PodGroup",
			Check: func() bool { return r.Scope == ScopeGangGroup || r.Scope == ScopePodGroup },
		},
	)
	return r, err
}

// CheckLayers returns an error if a rule names a layer that is neither the root nor in layers. These are the layers of the
// ClusterNetworkTopology topologyName, from the top down.
func (s *GatherSpec) CheckLayers(layers []string, topologyName string) error {
	for _, r := range s.Rules {
		if r.Layer != ClusterTopologyLayer && !slices.Contains(layers, r.Layer) {
			return fmt.Errorf("layer %q is not in ClusterNetworkTopology %s (has: %s)%s", r.Layer, topologyName, strings.Join(layers, ", "),
				strictjson.DidYouMean(r.Layer, layers))
		}
	}
	return nil
}
