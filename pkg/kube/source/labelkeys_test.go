package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestLabelKeys: what a label key means depends on the layers that there are, also on whether
// there are any.
func TestLabelKeys(t *testing.T) {
	renamed := []convert.Layer{{Name: "Hall", Keys: []string{"hall", spineKey}}, {Name: "Host", Keys: []string{"kubernetes.io/hostname"}}}
	const required, preferred = "spec.topologyConstraint.packConstraint.required", "spec.topologyConstraint.packConstraint.preferred"
	for name, c := range map[string]struct {
		says   string // of a PodGang
		key    string
		layers []convert.Layer
		aware  bool
		want   string
	}{
		"a layer":                      {required, spineKey, topo12, true, "must SpineLayer"},
		"of another name":              {required, spineKey, renamed, true, "must Hall"},
		"its other key":                {required, "hall", renamed, true, "must Hall"},
		"the nodes, without a layer":   {required, "kubernetes.io/hostname", topo12, true, "must NodeTopologyLayer"},
		"the nodes, which are a layer": {required, "kubernetes.io/hostname", renamed, true, "must Host"},
		"a layer that is gone": {
			required, blockKey, renamed, true,
			"problem: " + required + `: "` + blockKey +
				`" is no label key of a layer; supported values: the label keys of ClusterNetworkTopology default: [hall ` + spineKey +
				" kubernetes.io/hostname]",
		},
		"no topology": {
			required, blockKey, nil, true,
			"problem: " + required + `: "` + blockKey + `" needs ClusterNetworkTopology default, which does not exist`,
		},
		"no layers": {
			required, blockKey,
			[]convert.Layer{},
			true,
			"problem: " + required + `: "` + blockKey +
				`" is no label key of a layer; supported values: the label keys of ClusterNetworkTopology default: []`,
		},
		"preferred, no topology":   {preferred, blockKey, nil, true, reasons.InvalidAnnotation},
		"preferred, gone":          {preferred, blockKey, renamed, true, reasons.InvalidAnnotation},
		"topology is switched off": {required, spineKey, topo12, false, reasons.InvalidAnnotation},
		"not even a layer's name": {
			required, "SpineLayer", topo12, true,
			"problem: " + required +
				`: "SpineLayer" is no label key of a layer; supported values: the label keys of ClusterNetworkTopology default: [` + spineKey + " " +
				blockKey + "]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			field := map[string]string{required: "required", preferred: "preferred"}[c.says]
			owner := podGang(t, "topologyConstraint: {packConstraint: {"+field+": "+c.key+"}}, "+groups("a 1", "b 1"))
			p := grovePod("a")
			g := source.Gang{Ref: source.GangOf(p), Owner: owner, Expected: true}
			g.Pods = map[string]*v1.Pod{convert.PodKey(p): p}
			d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: c.aware, Layers: c.layers})
			require.True(t, ok)
			require.Equal(t, c.want, drawn(d))
			require.True(t, d.ReadsLayers, "it is read anew when the topology changes")
		})
	}

	pod := grovePod("a")
	pod.Annotations = map[string]string{scheduling.AnnotationTopologySpec: prefer}
	d := declared(t, podGang(t, "topologyConstraint: {packConstraint: {required: "+spineKey+"}}, "+groups("a 1")), pod)
	require.Equal(t, "must SpineLayer, "+reasons.InvalidAnnotation, drawn(d),
		"the PodGang counts before its pods, and pods that differ are named")
}
