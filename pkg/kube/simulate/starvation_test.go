package simulate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALargeGangIsNotOvertakenForEver: four nodes on which small jobs come and go, one of
// them every minute, so that never more than one node is free at a time; and a gang that
// needs all four. Nobody is more important than the others. After starvationTimeout (ten
// minutes) nodes are kept for the gang as they become free, and four minutes later it
// has them all; before that, it has none.
func TestALargeGangIsNotOvertakenForEver(t *testing.T) {
	quietLogs(t)
	h := history{{kind: topologySet, layers: []string{blockLayer}}}
	for i := range 4 {
		h = append(h, event{kind: nodePut, node: &nodeSpec{name: fmt.Sprint("n", i), spine: "s", block: "b", cpu: 1}})
	}
	small := 0
	one := func() event {
		small++
		return event{kind: podPut, pod: &podSpec{name: fmt.Sprint("small-", small), room: room{cpu: 1}, priority: 5, rank: -1}}
	}
	for range 6 { // two of them wait
		h = append(h, one())
	}
	h = append(h, event{kind: timePassed, n: 2})
	h = append(h, event{kind: gangPut, gang: &gangSpec{name: "large", min: 4, timeout: 600, rules: []ruleSpec{{layer: blockLayer, must: true, multiple: 1}}}})
	for i := range 4 {
		h = append(h, event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("large-", i), gang: "large", room: room{cpu: 1}, priority: 5, rank: i}})
	}
	minute := func(i int) []event {
		return []event{{kind: podFinished, name: fmt.Sprint("small-", i+1)}, {kind: timePassed, n: 30}, one(), {kind: timePassed, n: 30}}
	}
	for i := range 8 {
		h = append(h, minute(i)...)
	}
	bound := func(h history) (members, others int) {
		w, err := playFor(t, h)
		require.NoError(t, err)
		for _, p := range w.pods {
			switch {
			case p.Spec.NodeName == "" || p.Status.Phase == "Succeeded":
			case w.members[p.Name] == "large":
				members++
			default:
				others++
			}
		}
		return members, others
	}
	members, others := bound(h)
	require.Zero(t, members)
	require.Equal(t, 4, others, "small ones take what becomes free")

	for i := 8; i < 20; i++ {
		h = append(h, minute(i)...)
	}
	members, others = bound(h)
	require.Equal(t, 4, members)
	require.Zero(t, others)
}
