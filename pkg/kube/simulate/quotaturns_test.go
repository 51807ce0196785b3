package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evictions are the lines of a trace that say who evicts whom.
func (w *world) evictions() (all []string) {
	for _, line := range w.trace {
		if _, what, _ := strings.Cut(line, " "); strings.Contains(what, " evicts ") {
			all = append(all, what)
		}
	}
	return all
}

// bound are the pods that the scheduler has bound, by name.
func (w *world) bound(of ...string) (names []string) {
	for _, p := range w.sorted() {
		if name, _, _ := strings.Cut(p.Name, "-"); p.Spec.NodeName != "" && slices.Contains(of, name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestQuotaAndWhoseTurnItIs: who waits only until another quota has been served has nobody leave meanwhile.
func TestQuotaAndWhoseTurnItIs(t *testing.T) {
	quietLogs(t)
	pod := func(name, gang, quota string, cpu, priority int) event {
		kind := podPut
		if gang != "" {
			kind = memberPut
		}
		return event{kind: kind, pod: &podSpec{name: name, gang: gang, room: room{cpu: cpu}, priority: priority, rank: -1, quota: quota}}
	}
	old := pod("old-0", "", "a", 4, 1)
	old.pod.node = "n0"
	for name, comes := range map[string]history{
		"a pod":  {pod("a-0", "", "a", 3, 9)},
		"a gang": {{kind: gangPut, gang: &gangSpec{name: "a", min: 3, timeout: 600}}, pod("a-0", "a", "a", 1, 9), pod("a-1", "a", "a", 1, 9), pod("a-2", "a", "a", 1, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := playFor(t, slices.Concat(history{
				{kind: quotaPut, quota: &quotaSpec{name: "a", min: &room{cpu: 5}, max: &room{cpu: 12}}},
				{kind: quotaPut, quota: &quotaSpec{name: "b", max: &room{cpu: 96}}},
				{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 12}},
				old,
				{kind: settledDown},
				pod("large-0", "", "b", 10, 1),
			}, comes, history{pod("b-0", "", "b", 4, 5), {kind: longTimeLeft}}))
			require.NoError(t, err, "%v", w.trace)
			require.NotNil(t, w.pods["default/old-0"], "%v", w.trace)
			require.Nil(t, w.pods["default/old-0"].DeletionTimestamp, "%v", w.trace)
			require.NotEmpty(t, w.bound("a"))
			require.NotEmpty(t, w.bound("b"))
		})
	}
}

// TestQuotaOfWhoIsNotWhole: a gang whose members are enough, and whose parts are not, keeps nobody from what is idle.
func TestQuotaOfWhoIsNotWhole(t *testing.T) {
	quietLogs(t)
	h := history{
		{kind: quotaPut, quota: &quotaSpec{name: "a", max: &room{cpu: 12}}},
		{kind: quotaPut, quota: &quotaSpec{name: "b", max: &room{cpu: 12}}},
		{kind: nodePut, node: &nodeSpec{name: "n", cpu: 12}},
		{kind: podPut, pod: &podSpec{name: "runs", room: room{cpu: 5}, priority: 5, rank: -1, node: "n", quota: "a"}},
		{kind: gangPut, gang: &gangSpec{name: "w", min: 5, timeout: 600, least: 2, part: 2, api: volcanoAPI}},
	}
	for i := range 5 {
		h = append(h, event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("w-", i), gang: "w", room: room{cpu: 1}, priority: 5, rank: i, quota: "b"}})
	}
	h = append(h, event{kind: settledDown}, event{kind: podPut, pod: &podSpec{name: "p-0", room: room{cpu: 3}, priority: 5, rank: -1, quota: "a"}})
	w, err := playFor(t, append(h, event{kind: longTimeLeft}))
	require.NoError(t, err)
	require.Equal(t, []string{"p-0"}, w.bound("p"))
	require.Empty(t, w.bound("w"))
}
