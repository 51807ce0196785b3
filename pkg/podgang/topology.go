package podgang

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
)

// LabelHostname is the node label with a unique value for each node.
const LabelHostname = "kubernetes.io/hostname"

// TopologyConstraint is a topology constraint in the terms of its API: one of Pack, Tiers and Spec is set.
type TopologyConstraint struct {
	Where string // the field or annotation, for messages
	Pack  *Pack  // label keys
	Tiers *Tiers // tiers
	Spec  string // the value of network-topology-spec
}

// Pack names label keys of nodes; equal values are one domain; "" for none.
type Pack struct{ Required, Preferred string }

// Tiers is Volcano's networkTopology: the pods must or should be in one domain of a tier or of a lower one.
type Tiers struct {
	Mode            string // hard, soft, or "", which is hard
	HighestTier     *int32 // nil if unset
	HighestTierName string // "" if unset
}

// soft returns whether the constraint is a preference. Otherwise the pods must be within the tier.
func (t *Tiers) soft() bool { return t.Mode == "soft" }

// Topology is the layers of the ClusterNetworkTopology.
type Topology struct {
	// Layers are the layers above the nodes, from the top down; nil without a topology.
	Layers []Layer
	// NodeTier is the tier of a single node: 0, or 1 if the first tier is the host.
	NodeTier int32
	// NotLegal is why the layers of the topology cannot be read; nil if they can, or there is none. Only constraints that need layers fail.
	NotLegal error
	// TierNames are further names of tiers, such as tierName of HyperNodes.
	TierNames map[string]int32
}

// Layer is one layer, and the label keys of its domains.
type Layer struct {
	Name string
	Keys []string
}

// TopologyFrom reads the layers of a ClusterNetworkTopology. Nil, for a cluster without one, returns the zero Topology.
func TopologyFrom(cnt *unstructured.Unstructured) (Topology, error) {
	if cnt == nil {
		return Topology{}, nil
	}
	var object koordinator.ClusterNetworkTopology
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cnt.Object, &object); err != nil {
		return Topology{}, fmt.Errorf("ClusterNetworkTopology %s: %w", cnt.GetName(), err)
	}
	chain, err := koordinator.OrderLayers(object.Spec)
	if err != nil {
		return Topology{}, fmt.Errorf("ClusterNetworkTopology %s: %w", cnt.GetName(), err)
	}
	out := Topology{Layers: []Layer{}}
	for _, l := range chain[:len(chain)-1] { // the last is the nodes
		out.Layers = append(out.Layers, Layer{l.Name, l.LabelKeys})
	}
	return out, nil
}

// LayerOf returns the layer of a label key; ok is false if no layer has it. The host name is a key of the node layer in any case.
func (t Topology) LayerOf(key string) (layer string, ok bool) {
	for _, l := range t.Layers {
		if slices.Contains(l.Keys, key) {
			return l.Name, true
		}
	}
	return scheduling.NodeTopologyLayer, key == LabelHostname
}

// hasLayer returns whether a layer of that name exists.
func (t Topology) hasLayer(layer string) bool {
	return layer == scheduling.NodeTopologyLayer || layer == scheduling.ClusterTopologyLayer ||
		slices.ContainsFunc(t.Layers, func(l Layer) bool { return l.Name == layer })
}

// layersBottomUp returns the names of the layers from the nodes up: the index is the tier, counted from the nodes.
func (t Topology) layersBottomUp() []string {
	names := []string{scheduling.NodeTopologyLayer}
	for _, l := range slices.Backward(t.Layers) {
		names = append(names, l.Name)
	}
	return names
}

// Rules returns a constraint as network-topology-spec; nil for none. A constraint that cannot be satisfied is an *Error. A constraint
// without effect gives nil and a note.
func (t Topology) Rules(c *TopologyConstraint) (*scheduling.GatherSpec, []Note, error) {
	return t.RulesBy(c, t.LayerOf)
}

// RulesBy is Rules with a different mapping from label keys to layers.
func (t Topology) RulesBy(c *TopologyConstraint, layerOf func(key string) (string, bool)) (*scheduling.GatherSpec, []Note, error) {
	switch {
	case c == nil:
		return nil, nil, nil
	case c.Pack != nil:
		return t.rulesOfPack(c, layerOf)
	case t.NotLegal != nil:
		return nil, nil, t.topologyError(c)
	case c.Spec != "":
		return t.rulesOfSpec(c)
	case c.Tiers != nil:
		return t.rulesOfTiers(c)
	}
	return nil, nil, nil
}

// topologyError returns the error for a constraint that needs layers while the topology cannot be read.
func (t Topology) topologyError(c *TopologyConstraint) error {
	return &Error{reasons.InvalidTopology, fmt.Sprintf("%s: %v; nothing is written for the gang", c.Where, t.NotLegal)}
}

// rulesOfSpec parses network-topology-spec. Unknown layers are permitted, since they may be added later.
func (t Topology) rulesOfSpec(c *TopologyConstraint) (out *scheduling.GatherSpec, notes []Note, err error) {
	out, err = scheduling.ParseGatherSpec(c.Spec)
	if err != nil {
		return nil, nil, &Error{reasons.InvalidGang, err.Error()}
	}
	for _, r := range out.Rules {
		if !t.hasLayer(r.Layer) {
			notes = append(notes, Note{
				Reason:  reasons.TierUnknown,
				Message: fmt.Sprintf("%s: layer %q is not in ClusterNetworkTopology %s", c.Where, r.Layer, scheduling.TopologyName),
			})
		}
	}
	return out, notes, nil
}

// rulesOfPack returns rules for the layers of the label keys. A preferred layer that equals the required one is omitted.
func (t Topology) rulesOfPack(c *TopologyConstraint, layerOf func(key string) (string, bool)) (*scheduling.GatherSpec, []Note, error) {
	required := ""
	if key := c.Pack.Required; key != "" {
		layer, ok := layerOf(key)
		if !ok && t.NotLegal != nil {
			return nil, nil, t.topologyError(c)
		}
		if !ok {
			return nil, nil, &Error{
				reasons.TopologyKeyNotMapped, fmt.Sprintf("%s.required: %q is no label key of a layer; nothing is written for the gang", c.Where, key),
			}
		}
		required = layer
	}
	key := c.Pack.Preferred
	if key == "" {
		return gatherSpec(nil, required), nil, nil
	}
	layer, ok := layerOf(key)
	switch {
	case !ok:
		return gatherSpec(nil, required), []Note{{
			Reason: reasons.TopologyKeyNotMapped, Info: true,
			Message: fmt.Sprintf("%s.preferred has no effect: %q is no label key of a layer", c.Where, key),
		}}, nil
	case layer == required:
		return gatherSpec(nil, required), nil, nil
	}
	return gatherSpec([]string{layer}, required), nil, nil
}

// rulesOfTiers returns rules for tiers. Mode hard requires one domain of the tier's layer, and prefers the layers below it; soft prefers
// all.
//
//	tier       0              1                2                      above all
//	hard       must be node   must L1          prefer L1, must L2     none, and a note
//	soft       prefer node    prefer L1        prefer L1, L2          prefer all
func (t Topology) rulesOfTiers(c *TopologyConstraint) (*scheduling.GatherSpec, []Note, error) {
	if mode := c.Tiers.Mode; mode != "" && !slices.Contains(modes, mode) {
		return nil, nil, &Error{reasons.InvalidGang, invalidMode(c.Where+".mode", mode)}
	}
	tier, hasTier, err := t.tierOf(c)
	if err != nil {
		return nil, nil, err
	}
	names := t.layersBottomUp()
	top := int32(len(names) - 1)
	switch soft := c.Tiers.soft(); {
	case !hasTier && !soft:
		return nil, []Note{{
			Reason: reasons.TierMissing, Message: c.Where + ": mode hard has no effect until highestTierAllowed is set",
		}}, nil
	case !soft && tier > 0 && t.Layers == nil:
		return nil, nil, &Error{reasons.TierUnknown, fmt.Sprintf("%s: tier %d needs ClusterNetworkTopology %s, which does not exist", c.Where,
			tier, scheduling.TopologyName)}
	case !hasTier:
		return gatherSpec(names[1:], ""), nil, nil
	case tier == 0 && soft:
		return gatherSpec(names[:1], ""), nil, nil
	case tier == 0:
		return gatherSpec(nil, names[0]), []Note{{Reason: reasons.TierIsNode, Message: c.Where + ": " + OneNode}}, nil
	case soft:
		return gatherSpec(names[1:min(tier, top)+1], ""), nil, nil
	case tier > top:
		return nil, []Note{{
			Reason: reasons.TierTooHigh, Message: fmt.Sprintf(
				"%s: highestTierAllowed %d has no effect: the topology has %d tiers above the nodes; write a lower tier",
				c.Where, tier+t.NodeTier, top),
		}}, nil
	}
	return gatherSpec(names[1:tier], names[tier]), nil, nil
}

// OneNode is the message about tier 0.
const OneNode = "highestTierAllowed is 0: all pods of a group must run on the same node. A higher tier allows several nodes"

// tierOf returns the tier of a constraint, given by number or by name and counted from the nodes (0). hasTier is false if none is given.
func (t Topology) tierOf(c *TopologyConstraint) (tier int32, hasTier bool, err error) {
	number, name := c.Tiers.HighestTier, c.Tiers.HighestTierName
	switch {
	case number != nil && name != "":
		return 0, false, &Error{reasons.InvalidGang, BothTiers}
	case number != nil && *number < 0:
		return 0, false, &Error{reasons.InvalidGang, fmt.Sprintf("%s.highestTierAllowed: Invalid value: %d: %s", c.Where, *number, notNegative)}
	case number != nil:
		return max(0, *number-t.NodeTier), true, nil
	case name == "":
		return 0, false, nil
	}
	names := t.layersBottomUp()
	if i := slices.Index(names, name); i >= 0 {
		return int32(i), true, nil
	}
	if layer, ok := t.LayerOf(name); ok {
		return int32(slices.Index(names, layer)), true, nil
	}
	if tier, ok := t.TierNames[name]; ok {
		return max(0, tier-t.NodeTier), true, nil
	}
	return 0, false, &Error{
		reasons.TierUnknown,
		fmt.Sprintf(
			"%s.highestTierName: unknown topology tier name %q; supported values: a layer of the ClusterNetworkTopology or its label key: %v",
			c.Where, name, names),
	}
}

// gatherSpec returns a spec that prefers some layers and requires one, unless that is ""; nil without any layer.
func gatherSpec(preferred []string, required string) *scheduling.GatherSpec {
	out := &scheduling.GatherSpec{}
	add := func(layer string, s scheduling.GatherStrategy) {
		out.Rules = append(out.Rules, scheduling.GatherRule{Layer: layer, Strategy: s, PodCountMultiple: 1, Scope: scheduling.ScopeGangGroup})
	}
	for _, layer := range preferred {
		add(layer, scheduling.PreferGather)
	}
	if required != "" {
		add(required, scheduling.MustGather)
	}
	if len(out.Rules) == 0 {
		return nil
	}
	return out
}

// SpecJSON returns spec as the JSON of network-topology-spec, without default values; "" for no rules.
func SpecJSON(spec *scheduling.GatherSpec) string {
	if spec == nil || len(spec.Rules) == 0 {
		return ""
	}
	type rule struct {
		Layer            string `json:"layer"`
		Strategy         string `json:"strategy"`
		PodCountMultiple int    `json:"podCountMultiple,omitempty"`
		Scope            string `json:"scope,omitempty"`
	}
	var out struct {
		Rules []rule `json:"gatherStrategy"`
	}
	for _, r := range spec.Rules {
		entry := rule{Layer: r.Layer, Strategy: string(r.Strategy)}
		if r.PodCountMultiple > 1 {
			entry.PodCountMultiple = r.PodCountMultiple
		}
		if r.Scope == scheduling.ScopePodGroup {
			entry.Scope = string(r.Scope)
		}
		out.Rules = append(out.Rules, entry)
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings and numbers can be marshalled
	}
	return string(data)
}

// Key returns the label key of the deepest required layer, "" for none. It is for schedulers that read label keys. Notes list what such a
// scheduler cannot satisfy.
func (t Topology) Key(c *TopologyConstraint) (key string, notes []Note, err error) {
	if c == nil {
		return "", nil, nil
	}
	if c.Pack != nil {
		if c.Pack.Preferred != "" {
			notes = append(notes, lossNote(c, "preferred has no effect: the scheduler's API knows only required"))
		}
		return c.Pack.Required, notes, nil
	}
	rules, notes, err := t.Rules(c)
	if rules == nil || err != nil {
		return "", notes, err
	}
	required := t.deepestLayer(rules)
	if required == "" {
		return "", append(notes, lossNote(c, "a preference has no effect: the scheduler's API knows only required constraints")), nil
	}
	if c.Spec != "" && len(rules.Rules) > 1 {
		notes = append(notes, lossNote(c, "only MustGather "+required+" is translated"))
	}
	if key = t.keyOf(required); key == "" {
		return "", nil, &Error{reasons.TierUnknown, fmt.Sprintf("%s: layer %q has no label key", c.Where, required)}
	}
	return key, notes, nil
}

// lossNote returns a note about a part of a constraint that has no effect.
func lossNote(c *TopologyConstraint, loss string) Note {
	return Note{Reason: reasons.NotTranslated, Message: c.Where + ": " + loss}
}

// deepestLayer returns the lowest required layer; "" for none.
func (t Topology) deepestLayer(spec *scheduling.GatherSpec) string {
	for _, name := range append(t.layersBottomUp(), unknownLayers(t, spec)...) {
		for _, r := range spec.Rules {
			if r.Strategy == scheduling.MustGather && r.Layer == name {
				return name
			}
		}
	}
	return ""
}

// unknownLayers returns the layers in spec that the topology does not have. Their depth is unknown.
func unknownLayers(t Topology, spec *scheduling.GatherSpec) (out []string) {
	for _, r := range spec.Rules {
		if !t.hasLayer(r.Layer) {
			out = append(out, r.Layer)
		}
	}
	return out
}

// keyOf returns the first label key of a layer; "" if it has none.
func (t Topology) keyOf(layer string) string {
	for _, l := range t.Layers {
		if l.Name == layer && len(l.Keys) > 0 {
			return l.Keys[0]
		}
	}
	if layer == scheduling.NodeTopologyLayer {
		return LabelHostname
	}
	return ""
}

// PackOf returns the label keys of the deepest required layer, and of the deepest preferred layer that has a key; "" for none. It is for
// schedulers that read PodGangs. The error says that the required layer has no key.
func (t Topology) PackOf(c *TopologyConstraint) (required, preferred string, notes []Note, err error) {
	if c == nil {
		return "", "", nil, nil
	}
	if c.Pack != nil {
		return c.Pack.Required, c.Pack.Preferred, nil, nil
	}
	rules, notes, err := t.Rules(c)
	if rules == nil || err != nil {
		return "", "", notes, err
	}
	for _, name := range t.layersBottomUp() {
		for _, r := range rules.Rules {
			if r.Layer == name && r.Strategy == scheduling.PreferGather && preferred == "" {
				preferred = t.keyOf(name)
			}
		}
	}
	if layer := t.deepestLayer(rules); layer != "" {
		if required = t.keyOf(layer); required == "" {
			return "", "", nil, &Error{reasons.TierUnknown, fmt.Sprintf("%s: layer %q has no label key", c.Where, layer)}
		}
	}
	return required, preferred, notes, nil
}

// TiersOf returns a constraint as tiers; nil for none. It is for schedulers that read tiers. If tiers are discovered by labels, a label key
// is the name of a tier.
func (t Topology) TiersOf(c *TopologyConstraint) (*Tiers, []Note, error) {
	switch {
	case c == nil:
		return nil, nil, nil
	case c.Tiers != nil:
		return t.givenTiers(c)
	case c.Pack != nil:
		return tiersOfPack(c, t.NodeTier)
	}
	rules, notes, err := t.Rules(c)
	if rules == nil || err != nil {
		return nil, notes, err
	}
	layer := t.deepestLayer(rules)
	if layer == "" {
		return &Tiers{Mode: "soft"}, notes, nil
	}
	i := slices.Index(t.layersBottomUp(), layer)
	if i < 0 {
		return nil, nil, &Error{
			reasons.TierUnknown, fmt.Sprintf("%s: layer %q is not in ClusterNetworkTopology %s", c.Where, layer, scheduling.TopologyName),
		}
	}
	tier := int32(i) + t.NodeTier
	return &Tiers{Mode: "hard", HighestTier: &tier}, notes, nil
}

// givenTiers validates a constraint that is given as tiers and returns it unchanged, since the scheduler that reads it has its own tiers.
func (t Topology) givenTiers(c *TopologyConstraint) (*Tiers, []Note, error) {
	switch tiers := c.Tiers; {
	case tiers.Mode != "" && !slices.Contains(modes, tiers.Mode):
		return nil, nil, &Error{reasons.InvalidGang, invalidMode(c.Where+".mode", tiers.Mode)}
	case tiers.HighestTier != nil && tiers.HighestTierName != "":
		return nil, nil, &Error{reasons.InvalidGang, BothTiers}
	case tiers.HighestTier != nil && *tiers.HighestTier < 0:
		return nil, nil, &Error{
			reasons.InvalidGang, fmt.Sprintf("%s.highestTierAllowed: Invalid value: %d: %s", c.Where, *tiers.HighestTier, notNegative),
		}
	case tiers.HighestTier == nil && tiers.HighestTierName == "" && !tiers.soft():
		_, notes, err := t.rulesOfTiers(c)
		return nil, notes, err
	}
	out := *c.Tiers
	if out.Mode == "" {
		out.Mode = "hard"
	}
	return &out, nil, nil
}

// tiersOfPack returns label keys as tiers: a required key is the name of the tier.
func tiersOfPack(c *TopologyConstraint, nodeTier int32) (*Tiers, []Note, error) {
	switch required := c.Pack.Required; {
	case required == LabelHostname:
		return &Tiers{Mode: "hard", HighestTier: &nodeTier}, nil, nil
	case required != "":
		return &Tiers{Mode: "hard", HighestTierName: required}, nil, nil
	case c.Pack.Preferred != "":
		return &Tiers{Mode: "soft"}, nil, nil
	}
	return nil, nil, nil
}
