package simulate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALargeGangIsNotOvertakenForEver: small jobs come and go on four nodes, one of them every minute, so
// that at most one node is free at a time. A gang of equal priority needs all four. After starvationTimeout
// (ten minutes) nodes are held for the gang as they become free, and four minutes later it has all; before
// that it has none.
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
	h = append(h,
		event{
			kind: gangPut, gang: &gangSpec{name: "large", min: 4, timeout: 600, rules: []ruleSpec{{layer: blockLayer, must: true, multiple: 1}}},
		})
	for i := range 4 {
		h = append(h,
			event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("large-", i), gang: "large", room: room{cpu: 1}, priority: 5, rank: i}})
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

// TestOptionalGangHoldsNoCapacity: a gang that its tree can do without waits without limit, and no capacity
// is held for it that a small gang could use.
func TestOptionalGangHoldsNoCapacity(t *testing.T) {
	quietLogs(t)
	for least, want := range map[int]bool{1: true, 2: false} {
		h := history{{kind: topologySet, layers: []string{blockLayer}}}
		for i := range 3 {
			h = append(h, event{kind: nodePut, node: &nodeSpec{name: fmt.Sprint("n", i), spine: "s", block: "b", cpu: 1}})
		}
		if least == 2 { // four nodes would be enough for both, and one of them is taken
			h = append(h, event{kind: nodePut, node: &nodeSpec{name: "n3", spine: "s", block: "b", cpu: 1}})
			h = append(h, event{kind: podPut, pod: &podSpec{name: "there", room: room{cpu: 1}, priority: 5, rank: -1}})
		}
		for _, name := range []string{"a", "b"} {
			h = append(h,
				event{kind: gangPut, gang: &gangSpec{name: name, min: 2, timeout: 600, group: []string{"a", "b"}, least: least, api: nativeAPI}})
			for i := range 2 {
				h = append(h,
					event{kind: memberPut, pod: &podSpec{name: fmt.Sprint(name, "-", i), gang: name, room: room{cpu: 1}, priority: 5, rank: i}})
			}
		}
		h = append(h, event{kind: timePassed, n: 650},
			event{kind: podPut, pod: &podSpec{name: "small", room: room{cpu: 1}, priority: 5, rank: -1}}, event{kind: timePassed, n: 10})
		w, err := playFor(t, h)
		require.NoError(t, err)
		require.Equal(t, want, w.pods["default/small"].Spec.NodeName != "", "%d are needed", least)
	}
}
