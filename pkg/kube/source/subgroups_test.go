package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestSubGroupPolicy: what Volcano's subGroupPolicy says, and what it must not.
func TestSubGroupPolicy(t *testing.T) {
	const blocks = "networkTopology: {mode: hard, highestTierAllowed: 1}"
	d := volcano(t,
		"minMember: 4, networkTopology: {mode: hard, highestTierAllowed: 2}, "+
			"subGroupPolicy: [{name: part, subGroupSize: 2, minSubGroups: 2, "+blocks+"}]")
	require.Equal(t, "prefer BlockLayer, must SpineLayer, part: must BlockLayer, TopologyRule, TopologyRule", drawnEach(d))
	require.True(t, d.ReadsLayers)
	require.Equal(t, "part: must BlockLayer, TopologyRule", drawnEach(volcano(t, "minMember: 4, subGroupPolicy: [{name: part, "+blocks+"}]")))
	require.Empty(t, drawnEach(volcano(t, "minMember: 4, subGroupPolicy: [{name: part, subGroupSize: 2}]")))
	require.Equal(t, "a: must BlockLayer, b: prefer BlockLayer, b: must SpineLayer, TopologyRule", drawnEach(volcano(t,
		"subGroupPolicy: [{name: a, "+blocks+"}, {name: b, networkTopology: {mode: hard, highestTierAllowed: 2}}, {name: c}]")))

	for says, problem := range map[string]string{
		"[{name: part}, {name: part}]":   `spec.subGroupPolicy[1].name: "part" is listed twice; write another name`,
		"[{subGroupSize: 2}]":            `spec.subGroupPolicy[0].name is missing; write a name`,
		"[{name: a, subGroupSize: 0}]":   "spec.subGroupPolicy[0].subGroupSize: 0 is invalid; supported values: an integer ≥ 1",
		"[{name: a, minSubGroups: -1}]":  "spec.subGroupPolicy[0].minSubGroups: -1 is invalid; supported values: an integer ≥ 0",
		"[{name: a, subGroupSize: two}]": `spec.subGroupPolicy[0].subGroupSize: "two" is invalid; supported values: an integer ≥ 1`,
		"[{name: a, labelSelector: {matchExpressions: [{key: k, operator: Is}]}}]": `spec.subGroupPolicy[0].labelSelector: "Is" is not a ` +
			`valid label selector operator`,
		"[{name: a, networkTopology: hard}]": "spec.subGroupPolicy[0].networkTopology: \"hard\" is invalid",
		"[{name: a, networkTopology: {mode: hard, highestTierName: nosuch}}]": `spec.subGroupPolicy[0] "a": ` +
			`spec.networkTopology.highestTierName: unknown topology tier name "nosuch"`,
		"[{name: a, networkTopology: {mode: hard, highestTierAllowed: -1}}]": `must be greater than or equal to 0`,
		"[a]":         `spec.subGroupPolicy[0]: "a" is invalid; supported values: an object`,
		"a":           `spec.subGroupPolicy: "a" is invalid; supported values: a list`,
		"[{name: 7}]": "spec.subGroupPolicy[0].name: 7 is invalid; supported values: a text; write \"7\" with quotes",
		"[{name: a, minSubGroups: 4294967298}]": "spec.subGroupPolicy[0].minSubGroups: 4294967298 is invalid; supported values: an integer " +
			"from 0 to 2147483647",
		"[{name: a, matchLabelKeys: k}]":      `spec.subGroupPolicy[0].matchLabelKeys: "k" is invalid; supported values: a list of texts`,
		"[{name: a, matchLabelKeys: [k, 1]}]": "spec.subGroupPolicy[0].matchLabelKeys[1]: 1 is invalid; supported values: a text; write \"1\" with quotes",
		"[{name: a, labelSelector: 7}]":       "spec.subGroupPolicy[0].labelSelector: 7 is invalid; supported values: an object",
		"[{name: a, labelSelector: {matchLabels: 7}}]": "spec.subGroupPolicy[0].labelSelector.matchLabels: 7 is invalid; supported values: an " +
			"object",
	} {
		d := volcano(t, "minMember: 4, subGroupPolicy: "+says)
		require.True(t, d.Problem.Exists(), says)
		require.Contains(t, d.Problem.Words, problem)
	}
}

// drawnEach is drawn, with the rules of sub-groups.
func drawnEach(d *source.Declaration) string {
	out := ""
	add := func(words string) {
		if out != "" {
			out += ", "
		}
		out += words
	}
	rules := func(of string, g *scheduling.GatherSpec) {
		if g == nil {
			return
		}
		for _, r := range g.Rules {
			add(of + map[bool]string{true: "must ", false: "prefer "}[r.Strategy == scheduling.MustGather] + r.Layer)
		}
	}
	rules("", d.Gather)
	for _, s := range d.SubGroups {
		rules(s.Name+": ", s.Gather)
	}
	for _, n := range d.Notes {
		add(n.Reason)
	}
	return out
}

// TestSubGroupOf: the first policy that selects a pod which has all keys.
func TestSubGroupOf(t *testing.T) {
	d := volcano(t,
		"subGroupPolicy: [{name: a, labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [p, q]}, {name: b, matchLabelKeys: [p]}, {name: "+
			"c, labelSelector: {matchLabels: {app: z}}}]")
	for _, c := range []struct {
		labels map[string]string
		name   string
		policy int
	}{
		{map[string]string{"app": "x", "p": "0", "q": "1"}, "a\x1f0\x1f1", 0},
		{map[string]string{"app": "x", "p": "0"}, "b\x1f0", 1},
		{map[string]string{"app": "z"}, "c", 2},
		{map[string]string{"app": "z", "p": ""}, "b\x1f", 1},
		{map[string]string{"app": "y"}, "", -1},
		{nil, "", -1},
	} {
		name, policy := d.SubGroupOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}})
		require.Equal(t, c.name, name, c.labels)
		require.Equal(t, c.policy, policy, c.labels)
	}
}
