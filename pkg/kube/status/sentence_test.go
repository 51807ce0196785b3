package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cause"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestSentence: one plain sentence says what is needed, the best there is, and what is lacking.
func TestSentence(t *testing.T) {
	block := &plan.Refusal{
		Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "spine-0/block-1", Slots: 2}, {Path: "spine-1/block-2", Slots: 1}},
	}
	cluster := &plan.Refusal{Want: 4, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}}
	pair := &plan.Refusal{
		Want: 5, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 4}}, Deeper: []plan.DeeperSets{{Layer: "rack", Gangs: 2, Sets: 1}},
		TooLarge: []plan.TooLarge{
			{Gangs: []int{0, 1}, Name: "gangs c, d together", Layer: "rack", Want: 4, Best: plan.Offer{Path: "b", Slots: 3}},
		},
	}
	for _, test := range []struct {
		says string
		of   place.Shortage
	}{
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now (in the whole cluster, 6 nodes lack " +
				"cpu, 3 are cordoned, 2 are used by pods of " +
				"equal or " +
				"higher priority, 1 is used by pods with a label that forbids eviction).",
			place.Shortage{
				Plan: block, Lacks: map[string]int{"Insufficient cpu": 6, "node(s) were unschedulable": 3},
				BlockedNodes: map[eligible.Barrier]int{eligible.PriorityAbove: 2, eligible.Protected: 1},
			},
		},
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now. " +
				"With these members placed, no node there has free capacity for one more. Add nodes, or use fewer or smaller members.",
			place.Shortage{Plan: block},
		},
		{
			"Needs 4 in the cluster; the cluster has capacity for 3 members now (1 node lacks cpu). " +
				"The waiting members are beyond minMember: the gang has started without them.",
			place.Shortage{Plan: cluster, Surplus: true, Lacks: map[string]int{"Insufficient cpu": 1}},
		},
		{ // the number counts only plans that meet the constraint
			"Needs 5 in the cluster; with the constraints that follow, the cluster takes 4 members, even when empty. " +
				"Gangs c, d together need 4 in one rack domain, and b has capacity for 3 members, even when empty. " +
				"Do one of these: write a layer above rack, or none, for these gangs; add nodes to one rack domain; use fewer members.",
			place.Shortage{Plan: cluster, Never: pair},
		},
		{ // relaxing the constraint does not help
			"Needs 5 in the cluster; with the constraints that follow, the cluster takes 4 members, even when empty. " +
				"Gangs c, d together need 4 in one rack domain, and b has capacity for 3 members, even when empty. " +
				"Add nodes, or use fewer or smaller members.",
			place.Shortage{Plan: cluster, Never: pair, TooFewNodes: true},
		},
		{
			"The members must share one BlockLayer domain, but run in s1/b1 (g-0, g-1, g-2 and 1 more), s1/b2 (g-4). " +
				"Delete the members outside of s1/b1 (g-4): recreated members may start only there; more nodes do not help.",
			place.Shortage{Plan: block, SplitOver: []cause.RunningIn{{DomainPath: "s1/b1", Members: []string{"g-0", "g-1", "g-2", "g-3"}}, {DomainPath: "s1/b2", Members: []string{"g-4"}}}},
		},
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now (in the whole cluster, 1 node lacks " +
				"cpu, 3 have free capacity reserved for gang " +
				"default/big).",
			place.Shortage{
				Plan: block, Lacks: map[string]int{"Insufficient cpu": 1}, ReservedNodes: place.NodesReserved{Nodes: 3, Holder: "gang default/big"},
			},
		},
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now (in the whole cluster, 1 node has free " +
				"capacity reserved for pod default/p and 1 " +
				"more).",
			place.Shortage{Plan: block, ReservedNodes: place.NodesReserved{Nodes: 1, Holder: "pod default/p", OtherHolders: 1}},
		},
		{ // the holder of reserved nodes and the used nodes are always named; a long name loses its front
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now (in the whole cluster, 9 nodes lack a, " +
				"8 lack b, 2 have free capacity reserved for …" +
				strings.Repeat("x", 160) +
				" and 7 more, 4 are used by pods that quotas protect).",
			place.Shortage{
				Plan: block, Lacks: map[string]int{"Insufficient a": 9, "Insufficient b": 8, "Insufficient c": 7, "Insufficient d": 6},
				ReservedNodes: place.NodesReserved{Nodes: 2, Holder: "gang default/" + strings.Repeat("x", 253), OtherHolders: 7},
				BlockedNodes:  map[eligible.Barrier]int{eligible.QuotaProtects: 4},
			},
		},
		{
			"Needs 4 in the cluster; the cluster has capacity for 3 members now (1 node is not ready, 1 lacks nvidia.com/gpu).",
			place.Shortage{
				Plan:  cluster,
				Lacks: map[string]int{"Insufficient nvidia.com/gpu": 1, "node(s) had untolerated taint(s) {node.kubernetes.io/not-ready: }": 1},
			},
		},
		{
			"Needs 2 in one BlockLayer domain; no BlockLayer domain has capacity for a single member now (2 nodes reject members: didn't have " +
				"free devices).",
			place.Shortage{
				Plan:  &plan.Refusal{Want: 2, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b"}}},
				Lacks: map[string]int{"node(s) didn't have free devices": 2},
			},
		},
		{ // which class it is stands in front
			"Needs 2 in one BlockLayer domain; no BlockLayer domain has capacity for a single member now (1 node rejects members: class " +
				"gpu.nvidia.com: " +
				"selector #0 on device gpu.example.com/x0/gpu-0: CEL runtime error: no such key: memory).",
			place.Shortage{
				Plan: &plan.Refusal{Want: 2, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b"}}},
				Lacks: map[string]int{
					`running "DynamicResources" filter plugin: class gpu.nvidia.com: selector #0 on device gpu.example.com/x0/gpu-0: ` +
						`CEL runtime error: no such key: memory. consider using CEL optional chaining (.? followed by orValue()) or guarding the check ` +
						`with has() for optional fields`: 1,
				},
			},
		},
		{ // of what is too long the middle is left out
			"Needs 2 in one BlockLayer domain; no BlockLayer domain has capacity for a single member now (1 node rejects members: class " +
				"" + strings.Repeat("a", 98) +
				" ... " + strings.Repeat("b", 51) + ").",
			place.Shortage{
				Plan:  &plan.Refusal{Want: 2, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b"}}},
				Lacks: map[string]int{"class " + strings.Repeat("a", 100) + strings.Repeat("b", 200): 1},
			},
		},
		{ // fewer may have room
			"Needs 3 more in one BlockLayer domain, in multiples of 5 for each BlockLayer domain (running and finished members count, too); no " +
				"domain has capacity for the smallest " +
				"multiple now.",
			place.Shortage{
				Joins: true, Plan: &plan.Refusal{
					Want: 3, Layer: "BlockLayer", Multiple: []plan.Multiple{{Layer: "BlockLayer", Count: 5}}, Domains: []plan.Offer{{Path: "b"}},
				},
			},
		},
		{"Needs 2 in one BlockLayer domain; no node is in any BlockLayer " +
			"domain.", place.Shortage{Plan: &plan.Refusal{Want: 2, Layer: "BlockLayer"}}},
		{
			"Needs 3 more in the cluster, in multiples of 2 for each BlockLayer domain (running and finished members count, too); the cluster " +
				"has capacity for 3 members now.",
			place.Shortage{
				Joins: true,
				Plan: &plan.Refusal{
					Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}, Multiple: []plan.Multiple{{Layer: "BlockLayer", Count: 2}},
				},
			},
		},
		{
			"Needs 3 in the cluster, in multiples of 2 for each BlockLayer domain; 3 is not a multiple of 2: use 2 or 4 members.",
			place.Shortage{
				Plan: &plan.Refusal{
					Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}, Multiple: []plan.Multiple{{Layer: "BlockLayer", Count: 2}},
				},
			},
		},
		{
			"Needs 6 in one SpineLayer domain; the largest, spine-0, has capacity for 5 members, even when empty (6 nodes are cordoned). Add " +
				"nodes, use fewer members, or relax the constraint.",
			place.Shortage{
				Plan: block, Lacks: map[string]int{"node(s) were unschedulable": 6},
				Never: &plan.Refusal{Want: 6, Layer: "SpineLayer", Domains: []plan.Offer{{Path: "spine-0", Slots: 5}}},
			},
		},
		{
			"Needs 6 in one SpineLayer domain; the largest, spine-0, has capacity for at most 5 members, even when empty. Add nodes, use fewer " +
				"members, or relax the constraint.",
			place.Shortage{
				Plan: block, AtMost: true, Never: &plan.Refusal{Want: 6, Layer: "SpineLayer", Domains: []plan.Offer{{Path: "spine-0", Slots: 5}}},
			},
		},
		{
			"Needs 3 in one SpineLayer domain; no node has capacity for one member, even when empty. " +
				"Change what the pods require, or add nodes that meet it.",
			place.Shortage{Plan: block, Never: &plan.Refusal{Want: 3, Layer: "SpineLayer", Domains: []plan.Offer{{Path: "spine-0"}}}},
		},
		{
			"Needs 3 in one BlockLayer domain; best is b with 3 members that would fit now. The running members are in several BlockLayer " +
				"domains. " +
				"Not all ways were tried: the search limit is reached.",
			place.Shortage{
				Plan: &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b", Slots: 3}}, Split: true, Incomplete: true},
			},
		},
		{
			"Needs 3 in one BlockLayer domain; best is spine-0/block-1 with 2 members that would fit now (in the whole cluster, 9 nodes lack a, " +
				"8 lack b, 7 lack c, 6 lack d, 2 more reasons).",
			place.Shortage{Plan: block, Lacks: map[string]int{
				"Insufficient a": 9, "Insufficient b": 8, "Insufficient c": 7, "Insufficient d": 6, "Insufficient e": 5, "Too many pods": 4,
			}},
		},
		{
			"a-1 and a-2 run in spine-2/block-4, which has no room; the gang moves only as a whole: the members that wait must run in the " +
				"same domain. Free up capacity for 1 member in spine-2/block-4, or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a-1", "a-2"}, DomainPath: "spine-2/block-4", Want: 1}},
		},
		{
			"a runs in s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Even without " +
				"other pods the domain is too small. Add nodes there, or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "s", Want: 2, TooSmall: true}},
		},
		{
			"a runs in n0, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Even without " +
				"other pods the domain is too small. Delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "n0", Want: 2, TooSmall: true, IsNode: true}},
		},
		{ // the gang runs without the members that wait, so deleting its pods does not help
			"a runs in s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Even without " +
				"other pods the domain is too small. Add nodes there. The waiting members are beyond minMember: the gang has started without them.",
			place.Shortage{Plan: block, Surplus: true, Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "s", Want: 2, TooSmall: true}},
		},
		{
			"a runs in n0, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Even without " +
				"other pods the domain is too small. The needed gangs or sub-groups are placed. " +
				"Optional gangs or sub-groups that wait: 1; each starts whole or not at all.",
			place.Shortage{
				Plan: &plan.Refusal{Want: 1, Layer: "node", Optional: &plan.OptionalGangs{Of: 1, Started: 1}}, Surplus: true,
				Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "n0", Want: 1, TooSmall: true, IsNode: true},
			},
		},
		{ // a gang that has started lacks a member that it has lost, so not all needed ones are placed
			"Needs 1 in the cluster; the cluster has capacity for 0 members now. " +
				"Optional gangs or sub-groups that wait: 1; each starts whole or not at all.",
			place.Shortage{Plan: &plan.Refusal{
				Want: 1, Layer: topology.RootLayer, Domains: []plan.Offer{{}}, Optional: &plan.OptionalGangs{Of: 1, Started: 1},
			}},
		},
		{
			"Needs 9 in the cluster; the request of members is invalid: koordinator.sh/gpu=-1: must be positive. " +
				"Recreate the pods with a valid request.",
			place.Shortage{
				Plan: &plan.Refusal{Want: 9, Layer: topology.RootLayer, Domains: []plan.Offer{{}}},
				Lacks: map[string]int{
					"Insufficient cpu": 1, "invalid resource device requests: [koordinator.sh/gpu]: koordinator.sh/gpu=-1: must be positive": 1,
				},
			},
		},
		{
			"Needs 9 in the cluster; the request of members is invalid: koordinator.sh/gpu.shared: 3: must be 1. " +
				"Recreate the pods with a valid request.",
			place.Shortage{
				Plan:  &plan.Refusal{Want: 9, Layer: topology.RootLayer, Domains: []plan.Offer{{}}},
				Lacks: map[string]int{"invalid resource unit koordinator.sh/gpu.shared: 3: must be 1": 1},
			},
		},
		{
			"a, b, c and 2 more run in s, which has no room; the gang moves only as a whole: the members that wait must run in the same " +
				"domain. Free up capacity for 4 members in s (1 now), or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a", "b", "c", "d", "e"}, DomainPath: "s", Want: 4, Capacity: 1}},
		},
		{
			"a runs in s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Free up " +
				"capacity for 3 members in one BlockLayer domain of s (2 now), or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "s", Want: 3, Capacity: 2, Layer: "BlockLayer"}},
		},
		{
			"Needs 9 in the cluster; the cluster has capacity for 8 members, even when empty. Add nodes, or use fewer or smaller members.",
			place.Shortage{Plan: cluster, Never: &plan.Refusal{Want: 9, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 8}}}},
		},
		{
			"Needs 4 in the cluster; the cluster has capacity for 3 members now. The members need 4 × large.example.com, and the cluster has 2 " +
				"free. " +
				"Pool c lacks 1 ResourceSlice. No device of an incomplete pool counts as free: " +
				"see whether the DRA driver runs on the nodes of the pool.",
			place.Shortage{
				Plan:  cluster,
				Short: []fit.Shortage{{What: "large.example.com", Need: 4, Free: 2}, {What: "c", Need: 1, Waits: "pool c lacks 1 ResourceSlice"}},
			},
		},
		{ // a node may have both taints, so they are not added up
			"Needs 4 in the cluster; the cluster has capacity for 3 members now (5 nodes are not ready).",
			place.Shortage{Plan: cluster, Lacks: map[string]int{
				"node(s) had untolerated taint(s) {node.kubernetes.io/not-ready: }":   5,
				"node(s) had untolerated taint(s) {node.kubernetes.io/unreachable: }": 3,
			}},
		},
		{
			"Needs 4 in the cluster; with the constraints that follow, the cluster takes at least 3 members now. " +
				"Gang g needs 3 in one BlockLayer domain, and b has capacity for 2 members now. " +
				"At least 2 of 3 gangs must start, each whole. The members' affinity or spread rules among themselves also limit the placement: podAffinity of default/a (topologyKey z). If free capacity does not help, relax these rules, or add nodes to one domain of their topologyKey.",
			place.Shortage{Plan: &plan.Refusal{
				Want: 4, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}, Deeper: []plan.DeeperSets{
					{Layer: "BlockLayer", Gangs: 1, Sets: 2, Every: true},
				},
				TooLarge: []plan.TooLarge{
					{Gangs: []int{0}, Name: "gang g", Layer: "BlockLayer", Want: 3, Best: plan.Offer{Path: "b", Slots: 2}},
				}, Optional: &plan.OptionalGangs{Least: 2, Of: 3}, Dependent: true, LowerBounds: true,
			}, Ties: []string{"podAffinity of default/a (topologyKey z)"}},
		},
		{ // no member was put anywhere
			"Needs 15 in the cluster, in multiples of 3 for each BlockLayer domain. " +
				"The members' affinity or spread rules among themselves also limit the placement: podAffinity of default/a (topologyKey z). If free capacity does not help, relax these rules, or add nodes to one domain of their topologyKey.",
			place.Shortage{Plan: &plan.Refusal{
				Want: 15, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 15}}, Multiple: []plan.Multiple{
					{Layer: "BlockLayer", Count: 3},
				}, Dependent: true,
			}, Ties: []string{"podAffinity of default/a (topologyKey z)"}},
		},
		{
			"a runs in s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Free up " +
				"capacity for 3 members in s (at least 2 now), or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{
				Plan: &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "s", Slots: 2}}, Dependent: true, LowerBounds: true},
				Pin:  &cause.Pin{Members: []string{"a"}, DomainPath: "s", Want: 3, Capacity: 2},
			},
		},
		{ // the one gang that needs nodes is the subject
			"Gang default/vj (sub-group part 0) needs 2 in one BlockLayer domain; best is s0/b0 with 1 member that would fit now. " +
				"The needed gangs or sub-groups are placed. Optional gangs or sub-groups that wait: 1; each starts whole or not at all.",
			place.Shortage{Joins: true, Surplus: true, Plan: &plan.Refusal{
				Want: 2, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 4}}, Deeper: []plan.DeeperSets{
					{Layer: "BlockLayer", Gangs: 1, Sets: 1, Every: true},
				},
				TooLarge: []plan.TooLarge{{
					Gangs: []int{0}, Name: "gang default/vj (sub-group part 0)", Layer: "BlockLayer", Want: 2, Best: plan.Offer{Path: "s0/b0", Slots: 1},
				}}, Optional: &plan.OptionalGangs{Of: 1},
			}},
		},
		{
			"Needs 3 in the cluster; no node has capacity for a member of role worker (2 needed) or gang a (1 needed), even when empty. " +
				"Change what the pods require, or add nodes that meet it.",
			place.Shortage{
				Plan: cluster, Never: &plan.Refusal{Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{}}},
				Roles: []place.Role{{Name: "role worker", Need: 2}, {Name: "gang a", Need: 1}},
			},
		},
		{
			"Needs 3 in the cluster; the cluster has capacity for 1 of 2 needed members of role worker, even when empty. " +
				"Add nodes, or use fewer or smaller members.",
			place.Shortage{
				Plan: cluster, Never: &plan.Refusal{Want: 3, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 2}}},
				Roles: []place.Role{{Name: "role worker", Need: 2, Fits: 1}},
			},
		},
		{ // interdependent only by a claim
			"Needs 2 in the cluster; the cluster has capacity for at least 1 member now. " +
				"Members share ResourceClaim one: only nodes that reach its devices take them.",
			place.Shortage{
				Plan: &plan.Refusal{
					Want: 2, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 1}}, Dependent: true, LowerBounds: true,
				},
				SharedClaims: []string{"one"},
			},
		},
		{
			"Needs 8 in one BlockLayer domain; best is b with 7 members that would fit now (in the whole cluster, 2 nodes are in another " +
				"ComputeDomain, which must be deleted first). " +
				"The members need 8 × gpu, and b has 7 free.",
			place.Shortage{
				Plan:  &plan.Refusal{Want: 8, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b", Slots: 7}}},
				Lacks: map[string]int{"node(s) are in another ComputeDomain": 2}, Short: []fit.Shortage{{What: "gpu", Need: 8, Free: 7}},
			},
		},
		{ // each fits by itself, and not all of them
			"a runs in s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. Free up " +
				"more capacity in s, or delete all pods of the gang if another domain takes all of them.",
			place.Shortage{Plan: block, Pin: &cause.Pin{Members: []string{"a"}, DomainPath: "s", Want: 3, Capacity: 5}},
		},
	} {
		require.Equal(t, test.says, Sentence(test.of))
	}
}

// TestRefusedHasRoom: however much there is to say, the sentence stands first, what came of it last, and no
// message is longer than the limit.
func TestRefusedHasRoom(t *testing.T) {
	speaker := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-0"}}
	of := gang.Ref{Namespace: "ns", Name: "g"}
	many := &plan.Refusal{Want: 9, Layer: "BlockLayer"}
	for i := range 60 {
		many.Domains = append(many.Domains, plan.Offer{Path: fmt.Sprintf("spine-%d/block-with-a-rather-long-name-%d", i/10, i), Slots: 8})
	}
	long := &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: strings.Repeat("x", 5000), Slots: 2}}}
	few := &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b", Slots: 2}}}
	for name, r := range map[string]*place.Refusal{
		"few":        {Plan: few},
		"many":       {Plan: many, Diagnosis: place.Diagnosis{Nodes: 900, Lacks: map[string]int{"Insufficient cpu": 900}}},
		"long names": {Plan: long},
		"long reasons": {
			Plan: few, Diagnosis: place.Diagnosis{Lacks: map[string]int{strings.Repeat("y", 5000): 1, strings.Repeat("z", 5000): 1}},
		},
		"left out": {Plan: many, Avoided: map[string]string{"n1": strings.Repeat("a", 400), "n2": "b"}},
	} {
		said := Refused(r, place.Shortage{Plan: r.Plan, Lacks: r.Diagnosis.Lacks}, MessageOverhead(speaker, of))
		require.True(t, strings.HasPrefix(said.Sentence, "Needs "), name)
		for _, message := range []string{
			said.String(), said.ForRepresentative(PreemptionNoVictims, 0, 4), Sibling(of, speaker, said, PreemptionNoVictims.Says(0, 4), 0),
			Sibling(of, speaker, Explained{Sentence: said.Sentence, Text: PreemptionNoVictims.After(said.Text)}, "", 0),
		} {
			require.LessOrEqual(t, len(message), Limit, name)
			require.True(t, strings.HasPrefix(message, said.Sentence[:50]), name)
			require.Contains(t, message, "no candidate topology nodes can accommodate job, desiredOfferSlot: ", name)
		}
		require.True(t, strings.HasSuffix(said.ForRepresentative(PreemptionNoVictims, 0, 4), "preemption: no potential victims."), name)
		if name == "many" { // as many domains as have room, and nothing cut
			require.Contains(t, said.Text, "BlockLayer/spine-0/block-with-a-rather-long-name-5: 8;")
			require.Contains(t, said.Text, "; and 5")
			require.Contains(t, Sibling(of, speaker, said, "", 0), `"`+said.Text+`"`)
		}
	}
}

// TestFewOfManyTooLarge: however many gangs are too large by themselves, five are named.
func TestFewOfManyTooLarge(t *testing.T) {
	r := &plan.Refusal{Want: 4, Layer: topology.RootLayer, Domains: []plan.Offer{{Slots: 3}}}
	for i := range 9 {
		r.TooLarge = append(r.TooLarge, plan.TooLarge{Gangs: []int{i}, Name: fmt.Sprint("g-", i), Layer: "BlockLayer", Want: 2})
	}
	require.Equal(t, maxDomains, strings.Count(Sentence(place.Shortage{Plan: r}), "G-"))
}
