package status_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// TestPreemptionInWords: the words that people and tools match on.
func TestPreemptionInWords(t *testing.T) {
	for _, c := range []struct {
		came  status.Preemption
		says  string
		after string // what follows a refusal's reason
	}{
		{status.PreemptionNone, "", "no room"},
		{
			status.PreemptionEvicts, "preempt success, alreadyWaitingForBound: 1/4",
			"no room. preemption: preempt success, alreadyWaitingForBound: 0/0",
		},
		{
			status.PreemptionWaits, "not eligible due to terminating pod on the nominated node",
			"no room. preemption: not eligible due to terminating pod on the nominated node",
		},
		{status.PreemptionNever, "not eligible due to preemptionPolicy=Never", "no room. preemption: not eligible due to preemptionPolicy=Never"},
		{
			status.PreemptionOff, "not eligible due to CoschedulingArgs.enablePreemption=false",
			"no room. preemption: not eligible due to CoschedulingArgs.enablePreemption=false",
		},
		{status.PreemptionNoVictims, "no potential victims", "no room. preemption: no potential victims"},
		{
			status.PreemptionSurplus, "not eligible: minMember is reached, further members do not evict",
			"no room. preemption: not eligible: minMember is reached, further members do not evict",
		},
		{
			status.PreemptionLeftOut, "not eligible: nodes that are excluded for now have capacity",
			"no room. preemption: not eligible: nodes that are excluded for now have capacity",
		},
		{
			status.PreemptionEnding, "not eligible yet: a gang is finishing, after that fewer pods need to be evicted",
			"no room. preemption: not eligible yet: a gang is finishing, after that fewer pods need to be evicted",
		},
		{status.PreemptionNoHelp, "preemption is not helpful for scheduling", "no room. preemption: preemption is not helpful for scheduling"},
	} {
		require.Equal(t, c.says, c.came.Says(1, 4))
		require.Equal(t, "preemption: "+c.says+".", c.came.ForPod(1, 4))
		require.Equal(t, c.after, c.came.After("no room"))
	}
}

// TestNoPlanInWords: the message names the domains, then the lacking resources of nodes, then the nodes that were
// left out.
func TestNoPlanInWords(t *testing.T) {
	best := &plan.Refusal{Want: 4}
	domains := best.String()
	for name, c := range map[string]struct {
		refusal place.Refusal
		says    string
	}{
		"nothing is lacking": {place.Refusal{Diagnosis: place.Diagnosis{Nodes: 3}}, ""},
		"what nodes lack": {
			place.Refusal{Diagnosis: place.Diagnosis{Nodes: 3, Lacks: map[string]int{"Insufficient cpu": 2, "node(s) were unschedulable": 1}}},
			", 0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu",
		},
		"left out": {
			place.Refusal{Avoided: map[string]string{"n2": "refused ns/g-1", "n1": "refused ns/g-0"}},
			", left out for this attempt: n1 (refused ns/g-0), n2 (refused ns/g-1)",
		},
		"many left out": {
			place.Refusal{Avoided: map[string]string{"n1": "a", "n2": "b", "n3": "c", "n4": "d", "n5": "e"}},
			", left out for this attempt: n1 (a), n2 (b), n3 (c) and 2 more",
		},
		"both": {
			place.Refusal{Diagnosis: place.Diagnosis{Nodes: 1, Lacks: map[string]int{"x": 1}}, Avoided: map[string]string{"n": "y"}},
			", 0/1 nodes are available: 1 x, left out for this attempt: n (y)",
		},
		"what no node shows": {
			place.Refusal{
				Diagnosis: place.Diagnosis{
					In: "s1", Short: []fit.Shortage{{What: "large.example.com", Need: 4, Free: 2}, {Waits: "waits for claim c to be given back"}},
				},
			},
			", needs 4 × large.example.com, 2 free in the best domain s1, waits for claim c to be given back",
		},
		"what neither shows": {
			place.Refusal{Diagnosis: place.Diagnosis{Nodes: 1, Lacks: map[string]int{"x": 1}, Short: []fit.Shortage{{What: "c", Need: 1}}}},
			", needs 1 × c, 0 free, 0/1 nodes are available: 1 x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.refusal.Plan = best
			require.Equal(t, domains+c.says, status.NoPlan(&c.refusal, status.Limit))
		})
	}
}

func TestKeptInWords(t *testing.T) {
	require.Equal(t, ". The gang is starving: free capacity in s1/b1 is reserved for it (2 of 4 members)", status.Kept(2, 4, "s1/b1"))
	require.Equal(t, ". The gang is starving: free capacity is reserved for it (2 of 4 members)", status.Kept(2, 4, ""))
}

// TestSiblingInWords: the sentence stands first, and whatever is left out to keep it short, the ends stay.
func TestSiblingInWords(t *testing.T) {
	speaker := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-0"}}
	of := gang.Ref{Namespace: "ns", Name: "g"}
	require.Equal(t,
		`Gang ns/g is unschedulable: no room. Details: GangGroup "ns/g" gets rejected due to member Pod "ns/g-0" is unschedulable with reason `+
			`"no room", alreadyWaitForBound: 2.`,
		status.Sibling(of, speaker, status.Explained{Text: "no room"}, "", 2))
	require.Equal(t,
		`Needs 3. Details: GangGroup "ns/g" gets rejected due to member Pod "ns/g-0" is unschedulable with reason "no room", `+
			`alreadyWaitForBound: 0.`,
		status.Sibling(of, speaker, status.Explained{Sentence: "Needs 3.", Text: "no room"}, "", 0))
	for _, n := range []int{1, 800, 900, 1024, 5000} {
		says := status.Sibling(of, speaker, status.Explained{Text: strings.Repeat("x", n) + " at the end"}, "no potential victims", 0)
		require.LessOrEqual(t, len(says), status.Limit, n)
		require.True(t, strings.HasPrefix(says, "Gang ns/g is unschedulable: x"), n)
		require.Contains(t, says, ` Details: GangGroup "ns/g" gets`, n)
		require.True(t,
			strings.HasSuffix(says,
				` at the end", alreadyWaitForBound: 0. preemption: preemption already attempted by ns/g-0 with message no potential victims.`),
			n)
		require.Equal(t, n >= 800, strings.Contains(says, "x ... x"), n)
	}
}

// TestTableShowsNoTextForTools: a table shows the sentence, and in plain words why no pod is evicted.
func TestTableShowsNoTextForTools(t *testing.T) {
	representative := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-0"}}
	of := gang.Ref{Namespace: "ns", Name: "g"}
	needs := status.Explained{Sentence: "Needs 3.", Text: "no room"}
	for preemption, want := range map[status.Preemption]string{
		status.PreemptionNone:      "Needs 3.",
		status.PreemptionEvicts:    "Needs 3.",
		status.PreemptionNever:     "Needs 3. With preemptionPolicy Never the gang evicts no pod.",
		status.PreemptionNoVictims: "Needs 3. No running pod may be evicted for the gang.",
		status.PreemptionUntried:   "Needs 3. No eviction found that frees enough capacity (search limit reached).",
		status.PreemptionRepelled: "Needs 3. No eviction found that frees enough capacity (not every set of victims was tried). " +
			"Delete the pods whose anti-affinity excludes nodes, or wait until they end.",
	} {
		ofGang := status.Explained{Sentence: needs.Sentence, Text: preemption.After(needs.Text)}
		require.Equal(t, want, status.Plain("0/12 nodes are available: "+needs.ForRepresentative(preemption, 0, 3)))
		require.Equal(t, want, status.Plain(ofGang.String()))
		require.Equal(t, want, status.Plain(status.Sibling(of, representative, ofGang, "", 0)))
		require.Equal(t, want, status.Plain(status.Sibling(of, representative, needs, preemption.Says(0, 3), 0)))
	}
	for _, message := range []string{
		"", "2 of 3 members exist", "0/1 nodes are available: 1 Insufficient cpu. preemption: no potential victims.",
	} {
		require.Equal(t, message, status.Plain(message))
	}
}
