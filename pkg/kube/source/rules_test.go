package source_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// topo12 are the layers of the documents' example.
var topo12 = []convert.Layer{
	{Name: "SpineLayer", Keys: []string{"network.topology.nvidia.com/spine"}},
	{Name: "BlockLayer", Keys: []string{"network.topology.nvidia.com/block"}},
}

// object reads YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err, text)
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(data, &u.Object), text)
	return u
}

// owned reads an object of a kind that owns gangs.
func owned(t *testing.T, u *unstructured.Unstructured) *source.Owned {
	t.Helper()
	for _, o := range source.Owners {
		if o.Kind == u.GetKind() {
			out, err := o.ReadOwner(u)
			require.NoError(t, err)
			return out
		}
	}
	t.Fatalf("%s is not read", u.GetKind())
	return nil
}

// declared is what is declared of the gang of some pods, which an object may own.
func declared(t *testing.T, owner *source.Owned, pods ...*v1.Pod) *source.Declaration {
	t.Helper()
	g := source.Gang{Ref: source.GangOf(pods[0]), Pods: map[string]*v1.Pod{}, Owner: owner, Expected: true}
	for _, p := range pods {
		require.Equal(t, g.Ref, source.GangOf(p))
		g.Pods[convert.PodKey(p)] = p
	}
	if owner != nil {
		key, ok := source.OwnerOf(g)
		require.True(t, ok)
		require.Equal(t, owner.Key, key)
	}
	d, ok := source.Declare(g, source.Defaults{Policy: gang.OnceSatisfied, NetworkTopologyAware: true, Layers: topo12})
	require.True(t, ok)
	return d
}

// drawn are rules as "must Layer, prefer Layer", and what is wrong with them.
func drawn(d *source.Declaration) string {
	var out []string
	if d.Problem.Exists() {
		out = append(out, "problem: "+d.Problem.Words)
	}
	if d.Gather != nil {
		for _, r := range d.Gather.Rules {
			out = append(out, strings.ToLower(strings.TrimSuffix(string(r.Strategy), "Gather"))+" "+r.Layer)
		}
	}
	for _, n := range d.Notes {
		if n.Reason != reasons.TopologyRule && n.Message != d.Problem.Words { // which is said of the owner, too
			out = append(out, n.Reason)
		}
	}
	return strings.Join(out, ", ")
}

// lwsPod is a pod as the LeaderWorkerSet controller makes it.
func lwsPod(name, group, index, size string, annotations ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-" + group + "-" + index, Labels: map[string]string{
		"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": group,
		"leaderworkerset.sigs.k8s.io/worker-index": index, "leaderworkerset.sigs.k8s.io/template-revision-hash": "r1",
	}, Annotations: map[string]string{"leaderworkerset.sigs.k8s.io/size": size}}}
	maps.Copy(p.Annotations, words(annotations).asMap())
	return p
}

// TestTiers: Volcano's networkTopology, as a field or as annotations, in layers (integrations
// cases S000-01 to 07, 13, VOL-02 to 04).
func TestTiers(t *testing.T) {
	for name, c := range map[string]struct{ field, want string }{
		"S000-01 hard, two tiers": {"{mode: hard, highestTierAllowed: 2}", "prefer BlockLayer, must SpineLayer"},
		"S000-02 soft":            {"{mode: soft, highestTierAllowed: 1}", "prefer BlockLayer"},
		"S000-03 hard, one tier":  {"{mode: hard, highestTierAllowed: 1}", "must BlockLayer"},
		"S000-04 a node":          {"{mode: hard, highestTierAllowed: 0}", "must NodeTopologyLayer, NetworkTopologyTierIsNode"},
		"S000-05 a bad mode": {
			"{mode: strict, highestTierAllowed: 1}",
			`problem: spec.networkTopology.mode: Unsupported value: "strict": supported values: "hard", "soft"`,
		},
		"S000-06 a negative tier": {
			"{mode: hard, highestTierAllowed: -1}",
			"problem: spec.networkTopology.highestTierAllowed: Invalid value: -1: must be greater than or equal to 0",
		},
		"S000-07 no mode":          {"{highestTierAllowed: 2}", "prefer BlockLayer, must SpineLayer"},
		"VOL-04 hard without tier": {"{mode: hard}", "NetworkTopologyTierMissing"},
		"soft without tier":        {"{mode: soft}", "prefer BlockLayer, prefer SpineLayer"},
		"soft, a node":             {"{mode: soft, highestTierAllowed: 0}", "prefer NodeTopologyLayer"},
		"hard, above all":          {"{mode: hard, highestTierAllowed: 3}", "NetworkTopologyTierTooHigh"},
		"soft, above all":          {"{mode: soft, highestTierAllowed: 9}", "prefer BlockLayer, prefer SpineLayer"},
		"VOL-03 a layer's name":    {"{mode: hard, highestTierName: BlockLayer}", "must BlockLayer"},
		"VOL-03 a label key":       {"{mode: hard, highestTierName: network.topology.nvidia.com/block}", "must BlockLayer"},
		"VOL-03 an unknown name": {
			"{mode: hard, highestTierName: nosuch}",
			`problem: spec.networkTopology.highestTierName: unknown topology tier name "nosuch"; ` +
				`supported values: a layer of the ClusterNetworkTopology or its label key: [NodeTopologyLayer BlockLayer SpineLayer]`,
		},
		"VOL-02 both": {
			"{mode: hard, highestTierAllowed: 1, highestTierName: BlockLayer}",
			`problem: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously: ` +
				`spec.networkTopology.highestTierAllowed is "1", spec.networkTopology.highestTierName is "BlockLayer"`,
		},
		"nothing": {"null", ""},
	} {
		t.Run(name, func(t *testing.T) {
			lws := object(t,
				"{kind: LeaderWorkerSet, metadata: {namespace: default, name: a}, "+
					"spec: {leaderWorkerTemplate: {size: 2}, networkTopology: "+c.field+"}}")
			d := declared(t, owned(t, lws), lwsPod("a", "0", "0", "2"), lwsPod("a", "0", "1", "2"))
			require.Equal(t, c.want, drawn(d))
			require.Equal(t, 2, d.Min)
		})
	}
	t.Run("S000-13 annotations", func(t *testing.T) {
		d := declared(t, nil2(t, "volcano.sh/network-topology-mode: hard, volcano.sh/network-topology-highest-tier: \"2\""),
			lwsPod("a", "0", "0", "2"))
		require.Equal(t, "prefer BlockLayer, must SpineLayer", drawn(d))
		require.Equal(t, "LeaderWorkerSet default/a annotation volcano.sh/network-topology-mode", d.ConstraintOrigin)
	})
	t.Run("no topology", func(t *testing.T) {
		g := source.Gang{
			Ref:  source.GangOf(lwsPod("a", "0", "0", "2")),
			Pods: map[string]*v1.Pod{"p": lwsPod("a", "0", "0", "2", "volcano.sh/network-topology-highest-tier", "1")},
		}
		d, _ := source.Declare(g, source.Defaults{NetworkTopologyAware: true})
		require.Equal(t, "problem: volcano.sh/network-topology-highest-tier: tier 1 needs ClusterNetworkTopology default, which does not exist",
			drawn(d))
	})
}

// nil2 is a LeaderWorkerSet of size 2 with annotations.
func nil2(t *testing.T, annotations string) *source.Owned {
	return owned(t,
		object(t,
			"{kind: LeaderWorkerSet, metadata: {namespace: default, name: a, annotations: {"+annotations+"}}, spec: {leaderWorkerTemplate: "+
				"{size: 2}}}"))
}

// TestPrecedenceOfConstraints: of several that are said.
func TestPrecedenceOfConstraints(t *testing.T) {
	ours := func(layer string) string {
		return `{"gatherStrategy":[{"layer":"` + layer + `","strategy":"MustGather"}]}`
	}
	quoted := func(layer string) string { return scheduling.AnnotationTopologySpec + ": '" + ours(layer) + "'" }
	const volcano = "volcano.sh/network-topology-highest-tier"
	for name, c := range map[string]struct {
		owner     string   // annotations of the LeaderWorkerSet
		pod       []string // annotations of a pod
		want, who string
	}{
		"no rules": {"", nil, "", ""},
		"the owner": {
			quoted("SpineLayer"), nil, "must SpineLayer",
			"LeaderWorkerSet default/a annotation " + scheduling.AnnotationTopologySpec,
		},
		"a pod": {
			"",
			[]string{scheduling.AnnotationTopologySpec, ours("BlockLayer")},
			"must BlockLayer",
			"pod default/a-0-0 annotation " + scheduling.AnnotationTopologySpec,
		},
		"the owner before pods": {
			volcano + `: "2"`,
			[]string{volcano, "1"},
			"prefer BlockLayer, must SpineLayer",
			"LeaderWorkerSet default/a annotation " + volcano,
		},
		"ours before others": {
			volcano + `: "1", ` + quoted("SpineLayer"), nil, "must SpineLayer, InvalidAnnotation",
			"LeaderWorkerSet default/a annotation " + scheduling.AnnotationTopologySpec,
		},
		"both say the same": {
			volcano + `: "1", ` + quoted("BlockLayer"), nil, "must BlockLayer",
			"LeaderWorkerSet default/a annotation " + scheduling.AnnotationTopologySpec,
		},
		"Kueue's, required": {
			"",
			[]string{source.AnnotationKueueRequired, "network.topology.nvidia.com/spine"},
			"must SpineLayer",
			"pod default/a-0-0 annotation " + source.AnnotationKueueRequired,
		},
		"Kueue's, preferred": {
			"",
			[]string{source.AnnotationKueuePreferred, "kubernetes.io/hostname"},
			"prefer NodeTopologyLayer",
			"pod default/a-0-0 annotation " + source.AnnotationKueuePreferred,
		},
		"Kueue's come last": {
			"",
			[]string{source.AnnotationKueueRequired, "network.topology.nvidia.com/spine", volcano, "1"},
			"must BlockLayer, InvalidAnnotation", "pod default/a-0-0 annotation " + volcano,
		},
		"Kueue's unknown level": {
			"",
			[]string{source.AnnotationKueueRequired, "rack"},
			`problem: ` + source.AnnotationKueueRequired +
				`: "rack" is no label key of a layer; supported values: the label keys of ClusterNetworkTopology default: ` +
				`[network.topology.nvidia.com/spine network.topology.nvidia.com/block]`, "pod default/a-0-0 annotation " +
				source.AnnotationKueueRequired,
		},
		"Kueue's unknown wish": {
			"",
			[]string{source.AnnotationKueuePreferred, "rack"},
			"InvalidAnnotation",
			"pod default/a-0-0 annotation " + source.AnnotationKueuePreferred,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := declared(t, nil2(t, c.owner), lwsPod("a", "0", "0", "2", c.pod...), lwsPod("a", "0", "1", "2"))
			require.Equal(t, c.want, drawn(d))
			require.Equal(t, c.who, d.ConstraintOrigin)
		})
	}
}
