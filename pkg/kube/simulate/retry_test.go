package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemberRetriesNodeThatRejectedIt: two bindings are lost, of a pod and of a gang member. The pod has
// higher priority and evicts a pod on the member's node, which then rejects the member for a while. When the
// node has capacity again the member is bound.
func TestMemberRetriesNodeThatRejectedIt(t *testing.T) {
	quietLogs(t)
	h := history{
		{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 8}},
		{kind: podPut, pod: &podSpec{name: "p-2", room: room{cpu: 2}, priority: 5, rank: -1, node: "n0"}},
		{kind: podPut, pod: &podSpec{name: "p-3", room: room{cpu: 3}, priority: 5, rank: -1}},
		{kind: settledDown},
		{kind: podPut, pod: &podSpec{name: "big-1", room: room{cpu: 2}, priority: 9, rank: -1}},
		{kind: gangPut, gang: &gangSpec{name: "g14", min: 3, timeout: 60}},
		{kind: requestsFail, fail: &failSpec{What: bindings, How: timedOut, Times: 1, Share: 1, Salt: 34}}, // of big-1 and g14-2
	}
	for i := range 3 {
		h = append(h, event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("g14-", i), gang: "g14", room: room{cpu: 1}, priority: 5, rank: i}})
	}
	w, err := playFor(t, append(h, event{kind: settledDown}))
	require.NoError(t, err, "%v", w.trace)
	require.Equal(t, 2, w.counts[bindingsLost], w.trace)
	for i := range 3 {
		require.Equal(t, "n0", w.pods[fmt.Sprint("default/g14-", i)].Spec.NodeName, w.trace)
	}
}

// TestGangEvictsAgainWhenPodTakesReservedNode: while a victim of a gang terminates, a pod of higher priority
// takes another reserved node of the gang, and the gang evicts once more. The result is the same if that pod
// was made earlier and its binding was lost.
func TestGangEvictsAgainWhenPodTakesReservedNode(t *testing.T) {
	quietLogs(t)
	comes := event{kind: podPut, pod: &podSpec{name: "p", room: room{cpu: 3}, priority: 9, rank: -1}}
	lost := event{kind: requestsFail, fail: &failSpec{What: bindings, How: tooMany, Times: 2, Share: 3}}
	gangComes := []event{{kind: gangPut, gang: &gangSpec{name: "g", min: 3, timeout: 60}}}
	for i := range 3 {
		gangComes = append(gangComes,
			event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("g-", i), gang: "g", room: room{cpu: 3}, priority: 5, rank: -1}})
	}
	play := func(then ...[]event) string {
		h := history{
			{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 4}},
			{kind: nodePut, node: &nodeSpec{name: "n1", cpu: 5}},
			{kind: nodePut, node: &nodeSpec{name: "n2", cpu: 5}},
			{kind: podPut, pod: &podSpec{name: "low-0", room: room{cpu: 2}, priority: 1, rank: -1, node: "n0", grace: 14}},
			{kind: podPut, pod: &podSpec{name: "low-2", room: room{cpu: 3}, priority: 1, rank: -1, node: "n2", grace: 39}},
			{kind: nodePut, node: &nodeSpec{name: "n3", cpu: 5}},
		}
		w, err := playFor(t, slices.Concat(append([]([]event){h}, then...)...))
		require.NoError(t, err, "%v", w.trace)
		require.Len(t, w.gone, 2, w.trace)
		var where []string
		for _, p := range w.sorted() {
			where = append(where, p.Name+"="+p.Spec.NodeName)
		}
		return strings.Join(where, " ")
	}
	later := play(gangComes, []event{{kind: timePassed, n: 2}, comes, {kind: longTimeLeft}})
	again := play([]event{comes}, gangComes[:3], []event{lost}, gangComes[3:], []event{{kind: timePassed, n: 18}, {kind: longTimeLeft}})
	require.Equal(t, later, again)
}
