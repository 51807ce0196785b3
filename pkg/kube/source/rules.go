package source

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// A topology constraint has several formats and several origins: the object that declares the gang, the gang's owner, a member.
// One constraint takes effect: of the first origin that has one, in its first format.
//
//	origins  the gang's object, its owner, its members
//	formats  network-topology-spec; networkTopology of a spec; a spec's label keys;
//	         volcano.sh/network-topology-*
//	         if no origin has one of these: kueue.x-k8s.io/podset-*-topology

// origin is an object or pod that declares something of a gang.
type origin struct {
	name   string // for messages
	lookup lookup
	owner  bool // the object that owns the gang
	pod    bool // a member
}

// lookup returns the value of an origin under a key.
type lookup func(key string) (value string, ok bool)

// format is one way to write a topology constraint.
type format struct {
	keys []string // an origin with one of them uses the format
	read func(values lookup, layers []convert.Layer) parseResult
	// perGang true: the gangs of a group may have different constraints in this format.
	perGang bool
}

// parseResult is a topology constraint that was read.
type parseResult struct {
	gather *scheduling.GatherSpec // nil is no constraint
	notes  []Note
	err    error
}

// Fields of a spec, used as if they were keys of annotations.
const (
	FieldTopologyMode     = "spec.networkTopology.mode"
	FieldTopologyTier     = "spec.networkTopology.highestTierAllowed"
	FieldTopologyTierName = "spec.networkTopology.highestTierName"
)

// Keys of other APIs with topology constraints.
const (
	AnnotationVolcanoMode    = workloads.VolcanoMode
	AnnotationVolcanoTier    = workloads.VolcanoTier
	AnnotationKueueRequired  = "kueue.x-k8s.io/podset-required-topology"
	AnnotationKueuePreferred = "kueue.x-k8s.io/podset-preferred-topology"
	AnnotationKueueSlice     = "kueue.x-k8s.io/podset-slice-required-topology"
	AnnotationKueueSliceSize = "kueue.x-k8s.io/podset-slice-size"
)

var (
	// formats are sorted by precedence.
	formats = []format{
		{keys: []string{scheduling.AnnotationTopologySpec}, read: readTopologySpec},
		tiers(FieldTopologyMode, FieldTopologyTier, FieldTopologyTierName),
		nativeKeys.format(), podGangKeys.format(),
		tiers(AnnotationVolcanoMode, AnnotationVolcanoTier, ""),
	}
	// fallbackFormats count only if no origin uses one of formats.
	fallbackFormats = []format{{
		keys: []string{AnnotationKueueRequired, AnnotationKueuePreferred, AnnotationKueueSlice}, read: readKueue,
		perGang: true,
	}}

	// constraintKeys are all keys of pods whose values may be a topology constraint.
	constraintKeys = []string{
		scheduling.AnnotationTopologySpec, AnnotationVolcanoMode, AnnotationVolcanoTier, AnnotationKueueRequired, AnnotationKueuePreferred,
		AnnotationKueueSlice,
	}
)

// usedKey returns the first key of the format that has a value; "" for none.
func (l *format) usedKey(values lookup) string {
	for _, key := range l.keys {
		if _, ok := values(key); key != "" && ok {
			return key
		}
	}
	return ""
}

// constraint is a topology constraint of an origin.
type constraint struct {
	origin origin
	format *format
	key    string
}

// constraints lists the topology constraints of all origins; the first takes effect.
func constraints(origins []origin) (all []constraint) {
	for _, formats := range [][]format{formats, fallbackFormats} {
		for _, s := range origins {
			for i := range formats {
				if key := formats[i].usedKey(s.lookup); key != "" {
					all = append(all, constraint{s, &formats[i], key})
				}
			}
		}
	}
	return all
}

// readTopologySpec parses the annotation network-topology-spec.
func readTopologySpec(values lookup, _ []convert.Layer) (out parseResult) {
	value, _ := values(scheduling.AnnotationTopologySpec)
	out.gather, out.err = scheduling.ParseGatherSpec(value)
	return out
}

// gatherRule returns a rule as network-topology-spec writes it without its optional fields.
func gatherRule(layer string, strategy scheduling.GatherStrategy) scheduling.GatherRule {
	return scheduling.GatherRule{Layer: layer, Strategy: strategy, PodCountMultiple: 1, Scope: scheduling.ScopeGangGroup}
}

// tiers returns the format of Volcano's networkTopology. Mode hard needs one domain of the tier or of a lower one; mode soft
// prefers the lowest. Tier 0 is a node, tier 1 the layer above the nodes, and so on.
func tiers(mode, tier, tierName string) format {
	t := tierKeys{mode, tier, tierName}
	return format{keys: slices.DeleteFunc([]string{mode, tier, tierName}, func(key string) bool { return key == "" }), read: t.read}
}

// tierKeys are the keys of the three fields of a networkTopology; tierName is "" if the format has no such field.
type tierKeys struct{ mode, tier, tierName string }

// read returns the constraint that the mode and the tier in values stand for, or an error. No mode is
// hard. A hard mode without effect, or for tier 0, also becomes a note.
func (k tierKeys) read(values lookup, layers []convert.Layer) (out parseResult) {
	mode, _ := values(k.mode)
	if mode != "" && mode != "hard" && mode != "soft" {
		return parseResult{err: fmt.Errorf(`%s: Unsupported value: %q: supported values: "hard", "soft"`, k.mode, mode)}
	}
	bottomUp := []string{scheduling.NodeTopologyLayer}
	for _, l := range slices.Backward(layers) {
		bottomUp = append(bottomUp, l.Name)
	}
	tier, given, err := k.tierOf(values, layers, bottomUp)
	switch hard := mode != "soft"; {
	case err != nil:
		return parseResult{err: err}
	case layers == nil && hard && tier > 0:
		return parseResult{err: fmt.Errorf("%s: tier %d needs ClusterNetworkTopology %s, which does not exist", k.tier, tier,
			scheduling.TopologyName)}
	case !given && hard:
		return parseResult{notes: []Note{{
			reasons.TierMissing,
			fmt.Sprintf("%s hard has no effect until %s is set", k.mode, k.tier),
		}}}
	case !given:
		return parseResult{gather: gatherUpTo(bottomUp[1:], "")}
	case tier == 0 && hard:
		const words = " is 0: all pods of a group must run on the same node; write a higher tier to allow several nodes"
		out.notes = []Note{{reasons.TierIsNode, k.tier + words}}
		out.gather = gatherUpTo(nil, scheduling.NodeTopologyLayer)
	case tier == 0:
		out.gather = gatherUpTo(bottomUp[:1], "")
	case tier >= len(bottomUp) && hard:
		out.notes = []Note{{
			reasons.TierTooHigh,
			fmt.Sprintf("%s is %d and has no effect: the topology has %d tiers above the nodes; write a lower tier", k.tier, tier, len(layers)),
		}}
	case hard:
		out.gather = gatherUpTo(bottomUp[1:tier], bottomUp[tier])
	default:
		out.gather = gatherUpTo(bottomUp[1:min(tier+1, len(bottomUp))], "")
	}
	return out
}

// gatherUpTo returns a spec that prefers the layers prefer, and requires layer must unless must is ""; nil without any layer.
func gatherUpTo(prefer []string, must string) *scheduling.GatherSpec {
	g := &scheduling.GatherSpec{}
	for _, layer := range prefer {
		g.Rules = append(g.Rules, gatherRule(layer, scheduling.PreferGather))
	}
	if must != "" {
		g.Rules = append(g.Rules, gatherRule(must, scheduling.MustGather))
	}
	if len(g.Rules) == 0 {
		return nil
	}
	return g
}

// tierOf returns the number of the tier that values give by number or by name; given is false if they give none.
func (k tierKeys) tierOf(values lookup, layers []convert.Layer, bottomUp []string) (tier int, given bool, err error) {
	number, numbered := values(k.tier)
	name, named := "", false
	if k.tierName != "" {
		name, named = values(k.tierName)
	}
	switch {
	case numbered && named:
		return 0, false,
			fmt.Errorf("must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: %s is %q, %s is %q",
				k.tier, number, k.tierName, name)
	case named:
		i := slices.IndexFunc(layers, func(l convert.Layer) bool { return l.Name == name || slices.Contains(l.Keys, name) })
		switch {
		case i >= 0:
			return len(layers) - i, true, nil
		case name == scheduling.NodeTopologyLayer:
			return 0, true, nil
		}
		return 0, false,
			fmt.Errorf("%s: unknown topology tier name %q; supported values: a layer of the ClusterNetworkTopology or its label key: %v",
				k.tierName, name, bottomUp)
	case !numbered:
		return 0, false, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, false, fmt.Errorf("%s: Invalid value: %q: must be an integer", k.tier, number)
	}
	if n < 0 {
		return 0, false, fmt.Errorf("%s: Invalid value: %d: must be greater than or equal to 0", k.tier, n)
	}
	return n, true, nil
}

// readKueue reads the annotations of Kueue's topology-aware scheduling, which name label keys of nodes for one pod set, such as a
// ReplicatedJob. A slice size becomes PodCountMultiple: each domain gets a multiple of that many pods.
func readKueue(values lookup, layers []convert.Layer) (out parseResult) {
	if out = kueueKeys.read(values, layers); out.err != nil {
		return out
	}
	label, sliced := values(AnnotationKueueSlice)
	if !sliced {
		return out
	}
	layer, err := layerOf(label, layers)
	if err != nil {
		return parseResult{err: fmt.Errorf("%s: %w", AnnotationKueueSlice, err)}
	}
	value, _ := values(AnnotationKueueSliceSize)
	size, err := strconv.Atoi(value)
	if err != nil || size < 1 {
		return parseResult{err: fmt.Errorf("%s: %q is invalid with %s; write an integer ≥ 1", AnnotationKueueSliceSize, value,
			AnnotationKueueSlice)}
	}
	if out.gather == nil {
		out.gather = &scheduling.GatherSpec{}
	}
	i := slices.IndexFunc(out.gather.Rules, func(r scheduling.GatherRule) bool { return r.Layer == layer })
	if i < 0 {
		i = len(out.gather.Rules)
		rule := gatherRule(layer, scheduling.PreferGather)
		rule.Scope = scheduling.ScopePodGroup
		out.gather.Rules = append(out.gather.Rules, rule)
	}
	out.gather.Rules[i].PodCountMultiple = size
	return out
}
