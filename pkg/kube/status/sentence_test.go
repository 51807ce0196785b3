package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestSentence: one plain sentence says what is needed, the best there is, and what is lacking.
func TestSentence(t *testing.T) {
	block := &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "spine-0/block-1", Slots: 2}, {Path: "spine-1/block-2", Slots: 1}}}
	cluster := &plan.Refusal{Want: 4, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}}
	for _, test := range []struct {
		says string
		of   Shortage
	}{
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 (6 nodes lack cpu, 3 are cordoned, 3 hold pods that may not be evicted).",
			Shortage{Plan: block, Lacks: map[string]int{"Insufficient cpu": 6, "node(s) were unschedulable": 3}, Stay: 3},
		},
		{"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2.", Shortage{Plan: block}},
		{
			"Needs 4 in the cluster; there is room for 3 (1 node is not ready, 1 lacks nvidia.com/gpu).",
			Shortage{Plan: cluster, Lacks: map[string]int{"Insufficient nvidia.com/gpu": 1, "node(s) had untolerated taint(s) {node.kubernetes.io/not-ready: }": 1}},
		},
		{
			"Needs 2 in one BlockLayer domain; none has room for a single member (2 nodes say: didn't have free devices).",
			Shortage{Plan: &plan.Refusal{Want: 2, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b"}}}, Lacks: map[string]int{"node(s) didn't have free devices": 2}},
		},
		{"Needs 2 in one BlockLayer domain; no node is in one.", Shortage{Plan: &plan.Refusal{Want: 2, Layer: "BlockLayer"}}},
		{
			"Needs 3 in multiples of 2 a BlockLayer in the cluster; there is room for 3.",
			Shortage{Plan: &plan.Refusal{Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}, Multiple: []plan.Multiple{{Layer: "BlockLayer", Count: 2}}}},
		},
		{
			"Needs 3 in multiples of 2 a BlockLayer in the cluster; there is room for 3; 3 is no multiple of 2.",
			Shortage{Fresh: true, Plan: &plan.Refusal{Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}, Multiple: []plan.Multiple{{Layer: "BlockLayer", Count: 2}}}},
		},
		{
			"Needs 6 in one SpineLayer domain; the largest, spine-0, could take 5 with every pod gone (6 nodes are cordoned).",
			Shortage{Plan: block, Lacks: map[string]int{"node(s) were unschedulable": 6}, Never: &plan.Refusal{Want: 6, Layer: "SpineLayer", Domains: []plan.Offer{{Path: "spine-0", Slots: 5}}}},
		},
		{
			"Needs 3 in one SpineLayer domain; no node could take a single member, even with every pod gone.",
			Shortage{Plan: block, Never: &plan.Refusal{Want: 3, Layer: "SpineLayer", Domains: []plan.Offer{{Path: "spine-0"}}}},
		},
		{
			"Needs 3 in one BlockLayer domain; best is b with 3; the members that run are in several domains of BlockLayer; not all ways were tried.",
			Shortage{Plan: &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b", Slots: 3}}, Split: true, Cut: true}},
		},
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 (9 nodes lack a, 8 lack b, 7 lack c, 6 lack d, 2 more reasons).",
			Shortage{Plan: block, Lacks: map[string]int{
				"Insufficient a": 9, "Insufficient b": 8, "Insufficient c": 7, "Insufficient d": 6, "Insufficient e": 5, "Too many pods": 4,
			}},
		},
		{
			"a-1 and a-2 run in spine-2/block-4, which has no room for 1 more; the gang moves only as a whole.",
			Shortage{Plan: &plan.Refusal{Want: 1, Layer: "BlockLayer"}, Pinned: []string{"a-1", "a-2"}, In: "spine-2/block-4"},
		},
		{
			"a, b, c and 2 more run in s, which has no room for 4 more; the gang moves only as a whole.",
			Shortage{Plan: &plan.Refusal{Want: 4, Layer: "SpineLayer"}, Pinned: []string{"a", "b", "c", "d", "e"}, In: "s"},
		},
	} {
		require.Equal(t, test.says, test.of.Sentence())
	}
	long := &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: strings.Repeat("x", 5000), Slots: 2}}}
	says := ShortageOf(&place.Refusal{Plan: long, Diagnosis: place.Diagnosis{Lacks: map[string]int{strings.Repeat("y", 5000): 1}}}).Sentence()
	require.LessOrEqual(t, len(says), Limit)
}
