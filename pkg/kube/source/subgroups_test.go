package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestSubGroupPolicy: what Volcano's subGroupPolicy says, and what it must not.
func TestSubGroupPolicy(t *testing.T) {
	const blocks = "networkTopology: {mode: hard, highestTierAllowed: 1}"
	d := volcano(t, "minMember: 4, networkTopology: {mode: hard, highestTierAllowed: 2}, subGroupPolicy: [{name: part, subGroupSize: 2, minSubGroups: 2, "+blocks+"}]")
	require.Equal(t, "prefer BlockLayer, must SpineLayer, must BlockLayer each, TopologyRule, TopologyRule", drawnEach(d))
	require.True(t, d.ReadsLayers)
	require.Equal(t, "must BlockLayer each, TopologyRule", drawnEach(volcano(t, "minMember: 4, subGroupPolicy: [{name: part, "+blocks+"}]")))
	require.Empty(t, drawnEach(volcano(t, "minMember: 4, subGroupPolicy: [{name: part, subGroupSize: 2}]")))
	require.Equal(t, "must BlockLayer each, TopologyRule", drawnEach(volcano(t, "subGroupPolicy: [{name: a, "+blocks+"}, {name: b, "+blocks+"}]")))

	for says, problem := range map[string]string{
		"[{name: part}, {name: part}]":   `spec.subGroupPolicy[1]: name: "part" is there twice`,
		"[{subGroupSize: 2}]":            `spec.subGroupPolicy[0]: name: "" is not legal; legal: a name`,
		"[{name: a, subGroupSize: 0}]":   "spec.subGroupPolicy[0]: subGroupSize: 0 is not legal; legal: an integer ≥ 1",
		"[{name: a, minSubGroups: -1}]":  "spec.subGroupPolicy[0]: minSubGroups: -1 is not legal; legal: an integer ≥ 0",
		"[{name: a, subGroupSize: two}]": "spec.subGroupPolicy[0]: ",
		"[{name: a, labelSelector: {matchExpressions: [{key: k, operator: Is}]}}]": `spec.subGroupPolicy[0]: labelSelector: "Is" is not a valid label selector operator`,
		"[{name: a, networkTopology: hard}]":                                       "spec.subGroupPolicy[0]: networkTopology: hard is not legal",
		"[{name: a, networkTopology: {mode: hard, highestTierName: nosuch}}]":      `spec.subGroupPolicy[0] "a": spec.networkTopology.highestTierName: unknown topology tier name "nosuch"`,
		"[{name: a, networkTopology: {mode: hard, highestTierAllowed: -1}}]":       `must be greater than or equal to 0`,
		"[{name: a, " + blocks + "}, {name: b}]":                                   `spec.subGroupPolicy[1] "b": networkTopology is another one than that of "a"; legal: one for all policies of a PodGroup`,
		"[a]":                                                                      "spec.subGroupPolicy[0]: a is not legal; legal: an object",
		"a":                                                                        "spec.subGroupPolicy",
	} {
		d := volcano(t, "minMember: 4, subGroupPolicy: "+says)
		require.True(t, d.Problem.Is(), says)
		require.Contains(t, d.Problem.Words, problem)
	}
}

// drawnEach is drawn, with rules that are about each sub-group told from the others.
func drawnEach(d *source.Declaration) string {
	out := ""
	add := func(words string) {
		if out != "" {
			out += ", "
		}
		out += words
	}
	if d.Gather != nil {
		for _, r := range d.Gather.Rules {
			words := map[bool]string{true: "must ", false: "prefer "}[r.Strategy == "MustGather"] + r.Layer
			if r.Scope == "PodGroup" {
				words += " each"
			}
			add(words)
		}
	}
	for _, n := range d.Notes {
		add(n.Reason)
	}
	return out
}

// TestSubGroupOf: the first policy that selects a pod which has all keys.
func TestSubGroupOf(t *testing.T) {
	d := volcano(t, "subGroupPolicy: [{name: a, labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [p, q]}, {name: b, matchLabelKeys: [p]}, {name: c, labelSelector: {matchLabels: {app: z}}}]")
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
