package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuotaCountsTerminatingPodsAsFree: terminating pods count as free quota for every preemptor, so no
// further pod is evicted if they suffice. The quota of a victim is reserved for its preemptor.
func TestQuotaCountsTerminatingPodsAsFree(t *testing.T) {
	quietLogs(t)
	pass := func(seconds int) event { return event{kind: timePassed, n: seconds} }
	byHand := history{}
	for i := range 4 {
		byHand = append(byHand, event{kind: podDeleted, name: fmt.Sprint("low-", i)})
	}
	h := elsewhere()
	at := slices.IndexFunc(h, func(e event) bool { return e.kind == gangPut })
	runs, comes := h[:at], h[at:]
	other := history{
		{kind: nodePut, node: &nodeSpec{name: "n2", cpu: 4, gpu: 4}}, {kind: gangPut, gang: &gangSpec{name: "h", min: 4, timeout: 600}},
	}
	for i := range 4 {
		other = append(other,
			event{
				kind: memberPut, pod: &podSpec{name: fmt.Sprint("h-", i), gang: "h", room: room{cpu: 1, gpu: 1}, priority: 5, rank: i, quota: "q"},
			})
	}
	lost := history{{kind: nodePut, node: &nodeSpec{name: "n2", cpu: 4, gpu: 4}}, {kind: nodeDeleted, name: "n1"}, pass(5)}
	one := event{kind: podPut, pod: &podSpec{name: "p-0", room: room{cpu: 1, gpu: 1}, priority: 5, rank: -1, quota: "q"}}
	byPod := event{kind: podPut, pod: &podSpec{name: "p-0", room: room{cpu: 4, gpu: 4}, priority: 5, rank: -1, quota: "q"}}
	low := event{kind: podPut, pod: &podSpec{name: "x-0", room: room{cpu: 1}, priority: 1, rank: -1, node: "n1", quota: "q"}}
	more := event{kind: quotaMore, quota: &quotaSpec{name: "q", max: &room{cpu: 9}}}
	for name, test := range map[string]struct {
		h       history
		evicted []string
		then    []string // the pods that are bound in the end
	}{
		"for a gang that is planned anew": {
			slices.Concat(runs, comes, lost), []string{"g evicts low-0 low-1 low-2 low-3"}, []string{"g-0", "g-1", "g-2", "g-3"},
		},
		"for another gang": {
			slices.Concat(runs, comes, other, history{pass(5)}),
			[]string{"g evicts low-0 low-1 low-2 low-3", "h evicts more-0 more-1 more-2 more-3"},
			[]string{"g-0", "g-1", "g-2", "g-3", "h-0", "h-1", "h-2", "h-3"},
		},
		"by themselves, and a gang comes": {slices.Concat(runs, byHand, comes), nil, []string{"g-0", "g-1", "g-2", "g-3"}},
		"and a pod":                       {slices.Concat(runs, byHand, history{one, pass(5)}), nil, []string{"p-0"}},
		"beside less important pods": {
			slices.Concat(runs[:at-1], history{low, more}, runs[at-1:], byHand, history{one, pass(5)}), nil, []string{"p-0"},
		},
		"and one that needs all of it": {slices.Concat(runs, byHand, history{byPod, pass(5)}), nil, []string{"p-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := playFor(t, test.h)
			require.NoError(t, err, "%v", w.trace)
			require.Equal(t, test.evicted, w.evictions(), "%v", w.trace)
			require.Empty(t, w.bound("g", "h", "p"), "a terminating pod uses its quota until it is gone")
			w, err = playFor(t, append(slices.Clone(test.h), pass(60)))
			require.NoError(t, err, "%v", w.trace)
			require.Equal(t, test.evicted, w.evictions(), "%v", w.trace)
			require.Equal(t, test.then, w.bound("g", "h", "p"), "%v", w.trace)
			if name == "beside less important pods" {
				require.Equal(t, []string{"x-0"}, w.bound("x"))
			}
		})
	}
}

// TestQuotaIgnoresVictimThatNeverTerminates: the quota of a victim that does not terminate in time is not
// waited for.
func TestQuotaIgnoresVictimThatNeverTerminates(t *testing.T) {
	quietLogs(t)
	h := elsewhere()
	for i, e := range h {
		if e.pod != nil && strings.HasPrefix(e.pod.name, "low-") {
			is := *e.pod
			is.stuck, is.grace = true, 10
			h[i].pod = &is
		}
	}
	at := slices.IndexFunc(h, func(e event) bool { return e.kind == gangPut })
	h = slices.Insert(h, at, event{kind: podDeleted, name: "low-0"}, event{kind: podDeleted, name: "low-1"},
		event{kind: podDeleted, name: "low-2"}, event{kind: podDeleted, name: "low-3"})
	w, err := playFor(t, append(h, event{kind: longTimeLeft}))
	require.NoError(t, err, "%v", w.trace)
	require.Equal(t, []string{"g evicts more-0 more-1 more-2 more-3"}, w.evictions(), "%v", w.trace)
	require.Equal(t, []string{"g-0", "g-1", "g-2", "g-3"}, w.bound("g"), "%v", w.trace)
}
