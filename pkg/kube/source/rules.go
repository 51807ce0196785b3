package source

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// How members gather is said in several languages, and by several speakers: the object that
// declares the gang, the object that owns it, a member. One rule counts: of the first speaker
// that says one, in the language that comes first.
//
//	speakers   the gang's object, its owner, its members
//	languages  network-topology-spec; networkTopology of a spec; a spec's label keys;
//	           volcano.sh/network-topology-*
//	           and, if nobody says anything in these: kueue.x-k8s.io/podset-*-topology

// speaker is somebody who says something of a gang.
type speaker struct {
	who   string // for messages
	says  words
	owner bool // it is the object that owns the gang
	pod   bool // it is a member
}

// words is what somebody says under a key.
type words func(key string) (value string, ok bool)

// language is one way to say how members gather.
type language struct {
	keys []string // one of them is said, or the language is not spoken
	read func(says words, layers []convert.Layer) reading
	// apart says that what it asks of each gang may be another thing for others of the group.
	apart bool
}

// reading is what somebody has said, as a rule.
type reading struct {
	gather *scheduling.GatherSpec // nil is no rule
	notes  []Note
	err    error
}

// Fields of a spec, as if they were keys of annotations: whoever reads the object says them so.
const (
	FieldTopologyMode     = "spec.networkTopology.mode"
	FieldTopologyTier     = "spec.networkTopology.highestTierAllowed"
	FieldTopologyTierName = "spec.networkTopology.highestTierName"
)

// Keys of other APIs that say how members gather.
const (
	AnnotationVolcanoMode    = workloads.VolcanoMode
	AnnotationVolcanoTier    = workloads.VolcanoTier
	AnnotationKueueRequired  = "kueue.x-k8s.io/podset-required-topology"
	AnnotationKueuePreferred = "kueue.x-k8s.io/podset-preferred-topology"
	AnnotationKueueSlice     = "kueue.x-k8s.io/podset-slice-required-topology"
	AnnotationKueueSliceSize = "kueue.x-k8s.io/podset-slice-size"
)

var (
	// languages are those in which a speaker is asked, in this order.
	languages = []language{
		{keys: []string{scheduling.AnnotationTopologySpec}, read: readOurs},
		tiers(FieldTopologyMode, FieldTopologyTier, FieldTopologyTierName),
		nativeKeys.language(), podGangKeys.language(),
		tiers(AnnotationVolcanoMode, AnnotationVolcanoTier, ""),
	}
	// lastly are those that count where nobody says anything in the others.
	lastly = []language{{keys: []string{AnnotationKueueRequired, AnnotationKueuePreferred, AnnotationKueueSlice}, read: readKueue, apart: true}}

	// ruleKeys are all keys on pods under which a rule may be said.
	ruleKeys = []string{
		scheduling.AnnotationTopologySpec, AnnotationVolcanoMode, AnnotationVolcanoTier, AnnotationKueueRequired, AnnotationKueuePreferred,
		AnnotationKueueSlice,
	}
)

// spoken is the key under which a speaker says something in a language; "" if it does not.
func (l *language) spoken(says words) string {
	for _, key := range l.keys {
		if _, ok := says(key); key != "" && ok {
			return key
		}
	}
	return ""
}

// rule is one that somebody has said.
type rule struct {
	speaker  speaker
	language *language
	key      string
}

// rules lists what is said of how members gather; the first counts.
func rules(speakers []speaker) (all []rule) {
	for _, some := range [][]language{languages, lastly} {
		for _, s := range speakers {
			for i := range some {
				if key := some[i].spoken(s.says); key != "" {
					all = append(all, rule{s, &some[i], key})
				}
			}
		}
	}
	return all
}

func readOurs(says words, _ []convert.Layer) (out reading) {
	value, _ := says(scheduling.AnnotationTopologySpec)
	out.gather, out.err = scheduling.ParseGatherSpec(value)
	return out
}

// gatherRule is a rule as network-topology-spec writes it without its optional fields.
func gatherRule(layer string, strategy scheduling.GatherStrategy) scheduling.GatherRule {
	return scheduling.GatherRule{Layer: layer, Strategy: strategy, PodCountMultiple: 1, Scope: scheduling.ScopeGangGroup}
}

// Reasons of notes about tiers.
const (
	TierMissing = "NetworkTopologyTierMissing"
	TierTooHigh = "NetworkTopologyTierTooHigh"
	TierIsNode  = "NetworkTopologyTierIsNode"
)

// tiers is the language of Volcano's networkTopology: mode hard is within one domain of the tier
// or of a lower one, mode soft as low as can be. Tier 0 is a node, tier 1 the layer above the
// nodes, and so on.
func tiers(mode, tier, tierName string) language {
	t := tierKeys{mode, tier, tierName}
	return language{keys: slices.DeleteFunc([]string{mode, tier, tierName}, func(key string) bool { return key == "" }), read: t.read}
}

type tierKeys struct{ mode, tier, tierName string }

func (k tierKeys) read(says words, layers []convert.Layer) (out reading) {
	mode, _ := says(k.mode)
	if mode != "" && mode != "hard" && mode != "soft" {
		return reading{err: fmt.Errorf(`%s: Unsupported value: %q: supported values: "hard", "soft"`, k.mode, mode)}
	}
	bottomUp := []string{scheduling.NodeTopologyLayer}
	for _, l := range slices.Backward(layers) {
		bottomUp = append(bottomUp, l.Name)
	}
	tier, said, err := k.tierOf(says, layers, bottomUp)
	switch hard := mode != "soft"; {
	case err != nil:
		return reading{err: err}
	case layers == nil && hard && tier > 0:
		return reading{err: fmt.Errorf("%s: tier %d needs ClusterNetworkTopology %s, which does not exist", k.tier, tier, scheduling.TopologyName)}
	case !said && hard:
		return reading{notes: []Note{{TierMissing, fmt.Sprintf("%s is hard and no tier is given: that is no constraint; give %s", k.mode, k.tier)}}}
	case !said:
		return reading{gather: gatherUpTo(bottomUp[1:], "")}
	case tier == 0 && hard:
		out.notes = []Note{{TierIsNode, k.tier + " is 0: all pods of a group must run on the same node"}}
		out.gather = gatherUpTo(nil, scheduling.NodeTopologyLayer)
	case tier == 0:
		out.gather = gatherUpTo(bottomUp[:1], "")
	case tier >= len(bottomUp) && hard:
		out.notes = []Note{{TierTooHigh, fmt.Sprintf("%s is %d, and the topology has %d tiers above the nodes: that is no constraint", k.tier, tier, len(layers))}}
	case hard:
		out.gather = gatherUpTo(bottomUp[1:tier], bottomUp[tier])
	default:
		out.gather = gatherUpTo(bottomUp[1:min(tier+1, len(bottomUp))], "")
	}
	return out
}

// gatherUpTo prefers some layers, and needs one if it is named.
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

// tierOf is the tier that is meant, by number or by name.
func (k tierKeys) tierOf(says words, layers []convert.Layer, bottomUp []string) (tier int, said bool, err error) {
	number, numbered := says(k.tier)
	name, named := "", false
	if k.tierName != "" {
		name, named = says(k.tierName)
	}
	switch {
	case numbered && named:
		return 0, false, fmt.Errorf("must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: %s is %q, %s is %q", k.tier, number, k.tierName, name)
	case named:
		i := slices.IndexFunc(layers, func(l convert.Layer) bool { return l.Name == name || slices.Contains(l.Keys, name) })
		switch {
		case i >= 0:
			return len(layers) - i, true, nil
		case name == scheduling.NodeTopologyLayer:
			return 0, true, nil
		}
		return 0, false, fmt.Errorf("%s: unknown topology tier name %q; supported values: a layer of the ClusterNetworkTopology or its label key: %v", k.tierName, name, bottomUp)
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

// readKueue reads the annotations of Kueue's topology-aware scheduling, whose levels are label keys of nodes. They are about a
// pod set each, of which a JobSet has one for each ReplicatedJob. A slice is as many pods in one domain: a multiple of its size.
func readKueue(says words, layers []convert.Layer) (out reading) {
	if out = kueueKeys.read(says, layers); out.err != nil {
		return out
	}
	label, sliced := says(AnnotationKueueSlice)
	if !sliced {
		return out
	}
	layer, err := layerOf(label, layers)
	if err != nil {
		return reading{err: fmt.Errorf("%s: %w", AnnotationKueueSlice, err)}
	}
	value, _ := says(AnnotationKueueSliceSize)
	size, err := strconv.Atoi(value)
	if err != nil || size < 1 {
		return reading{err: fmt.Errorf("%s: %q is invalid with %s; supported values: an integer ≥ 1", AnnotationKueueSliceSize, value, AnnotationKueueSlice)}
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
