package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evictions returns the lines of a trace about evictions.
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

// TestNoEvictionWhileQueuedBehindAnotherQuota: a gang that waits only until another quota has been served
// evicts no pod meanwhile.
func TestNoEvictionWhileQueuedBehindAnotherQuota(t *testing.T) {
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
		"a pod": {pod("a-0", "", "a", 3, 9)},
		"a gang": {
			{kind: gangPut, gang: &gangSpec{name: "a", min: 3, timeout: 600}},
			pod("a-0", "a", "a", 1, 9), pod("a-1", "a", "a", 1, 9),
			pod("a-2", "a", "a", 1, 9),
		},
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

// TestIncompleteGangReservesNoQuota: a gang with enough members and incomplete sub-groups reserves no idle
// quota.
func TestIncompleteGangReservesNoQuota(t *testing.T) {
	quietLogs(t)
	h := history{
		{kind: quotaPut, quota: &quotaSpec{name: "a", max: &room{cpu: 12}}},
		{kind: quotaPut, quota: &quotaSpec{name: "b", max: &room{cpu: 12}}},
		{kind: nodePut, node: &nodeSpec{name: "n", cpu: 12}},
		{kind: podPut, pod: &podSpec{name: "runs", room: room{cpu: 5}, priority: 5, rank: -1, node: "n", quota: "a"}},
		{kind: gangPut, gang: &gangSpec{name: "w", min: 5, timeout: 600, least: 2, part: 2, api: volcanoAPI}},
	}
	for i := range 5 {
		h = append(h,
			event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("w-", i), gang: "w", room: room{cpu: 1}, priority: 5, rank: i, quota: "b"}})
	}
	h = append(h, event{kind: settledDown},
		event{kind: podPut, pod: &podSpec{name: "p-0", room: room{cpu: 3}, priority: 5, rank: -1, quota: "a"}})
	w, err := playFor(t, append(h, event{kind: longTimeLeft}))
	require.NoError(t, err)
	require.Equal(t, []string{"p-0"}, w.bound("p"))
	require.Empty(t, w.bound("w"))
}

// groupAndPod runs a group of two gangs and a more important pod of quota a. One of the gangs is in quota z, which
// has the smaller share.
func groupAndPod(t *testing.T, quotaOfTheOther string, gpus int, meanwhile ...event) *world {
	pod := func(name, quota string, cpu, gpu, priority int, node string) event {
		return event{
			kind: podPut, pod: &podSpec{name: name, room: room{cpu: cpu, gpu: gpu}, priority: priority, rank: -1, quota: quota, node: node},
		}
	}
	group := []string{"v", "w"}
	h := history{
		{kind: quotaPut, quota: &quotaSpec{name: "a", max: &room{cpu: 8}}},
		{kind: quotaPut, quota: &quotaSpec{name: "c", max: &room{cpu: 24}}},
		{kind: quotaPut, quota: &quotaSpec{name: "d", max: &room{cpu: 24}}},
		{kind: quotaPut, quota: &quotaSpec{name: "z", max: &room{cpu: 6}}},
		{kind: nodePut, node: &nodeSpec{name: "n", cpu: 24, gpu: gpus}},
		pod("runs-0", "a", 5, 0, 5, "n"),
		pod("huge-0", "d", 20, 2, 5, ""), // never fits: it lowers the fair share of the other quotas
		{kind: settledDown},
		{kind: gangPut, gang: &gangSpec{name: "v", min: 1, timeout: 600, group: group}},
		{kind: gangPut, gang: &gangSpec{name: "w", min: 5, timeout: 600, group: group}},
		{kind: memberPut, pod: &podSpec{name: "v-0", gang: "v", room: room{cpu: 1, gpu: 1}, priority: 5, rank: 0, quota: quotaOfTheOther}},
	}
	for i := range 5 {
		h = append(h,
			event{kind: memberPut, pod: &podSpec{name: fmt.Sprint("w-", i), gang: "w", room: room{cpu: 1}, priority: 5, rank: i, quota: "z"}})
	}
	h = append(append(h, meanwhile...), pod("p-0", "a", 3, 0, 9, ""), event{kind: longTimeLeft})
	w, err := playFor(t, h)
	require.NoError(t, err)
	return w
}

// TestUnschedulableGroupReservesNoQuota: a gang group has waited for its turn, and then lacks a GPU. None of
// its gangs reserves idle quota.
func TestUnschedulableGroupReservesNoQuota(t *testing.T) {
	quietLogs(t)
	first := event{kind: podPut, pod: &podSpec{name: "first-0", room: room{cpu: 3}, priority: 1, rank: -1, quota: "c"}}
	for _, quota := range []string{"z", ""} {
		w := groupAndPod(t, quota, 0, first, event{kind: settledDown})
		require.Equal(t, []string{"first-0", "p-0"}, w.bound("first", "p", "v", "w"))
	}
}

// TestQuotaAdmitsAllGangsOfATriedGroup: when one member stands for a gang group, all its gangs may start.
func TestQuotaAdmitsAllGangsOfATriedGroup(t *testing.T) {
	quietLogs(t)
	w := groupAndPod(t, "", 1)
	require.Len(t, w.bound("v", "w", "p"), 7)
	waited := func(e Event) bool {
		return e.Object == "Pod default/p-0" && strings.Contains(e.Message, "quota z is served first")
	}
	require.True(t, slices.ContainsFunc(w.s.result().Events, waited), "%v", w.s.result().Events)
}

// TestGangOfTwoQuotasDoesNotDeadlock: a gang of two quotas is ahead of another gang in the first quota and
// behind it in the second. Both start.
func TestGangOfTwoQuotasDoesNotDeadlock(t *testing.T) {
	quietLogs(t)
	var h history
	for _, name := range []string{"a", "b", "c"} {
		h = append(h, event{kind: quotaPut, quota: &quotaSpec{name: name, max: &room{cpu: 14}}})
	}
	member := func(gang string, i int, quota string, cpu int) event {
		return event{
			kind: memberPut, pod: &podSpec{name: fmt.Sprint(gang, "-", i), gang: gang, room: room{cpu: cpu}, priority: 5, rank: i, quota: quota},
		}
	}
	h = append(h,
		event{kind: nodePut, node: &nodeSpec{name: "n", cpu: 16}},
		event{kind: podPut, pod: &podSpec{name: "b-0", room: room{cpu: 1}, priority: 5, rank: -1, node: "n", quota: "b"}},
		event{kind: podPut, pod: &podSpec{name: "c-0", room: room{cpu: 2}, priority: 5, rank: -1, node: "n", quota: "c"}},
		event{kind: podPut, pod: &podSpec{name: "huge-0", room: room{cpu: 14, gpu: 1}, priority: 5, rank: -1, quota: "a"}}, // never fits
		event{kind: settledDown},
		event{kind: gangPut, gang: &gangSpec{name: "x", min: 2, timeout: 600}}, member("x", 0, "a", 4), member("x", 1, "c", 4),
		event{kind: gangPut, gang: &gangSpec{name: "y", min: 1, timeout: 600}}, member("y", 0, "b", 5),
		event{kind: longTimeLeft},
	)
	w, err := playFor(t, h)
	require.NoError(t, err)
	require.Equal(t, []string{"x-0", "x-1", "y-0"}, w.bound("x", "y"))
}
