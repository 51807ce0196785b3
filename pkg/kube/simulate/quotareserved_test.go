package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere returns a quota that uses its max on one node, and a gang of the quota that fits on another node. Half of
// the quota's pods have the lowest priority. They are evicted for their quota alone, and terminate in half a minute.
func elsewhere() history {
	h := history{
		{kind: quotaPut, quota: &quotaSpec{name: "q", max: &room{cpu: 8}}},
		{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 12}},
		{kind: nodePut, node: &nodeSpec{name: "n1", cpu: 4, gpu: 4}},
	}
	for i := range 4 {
		for priority, name := range []string{1: "low", 2: "more"} {
			if name != "" {
				h = append(h,
					event{
						kind: podPut,
						pod:  &podSpec{name: fmt.Sprint(name, "-", i), room: room{cpu: 1}, priority: priority, rank: -1, node: "n0", grace: 30, quota: "q"},
					})
			}
		}
	}
	h = append(h, event{kind: settledDown}, event{kind: gangPut, gang: &gangSpec{name: "g", min: 4, timeout: 600}})
	for i := range 4 {
		h = append(h,
			event{
				kind: memberPut, pod: &podSpec{name: fmt.Sprint("g-", i), gang: "g", room: room{cpu: 1, gpu: 1}, priority: 5, rank: i, quota: "q"},
			})
	}
	return append(h, event{kind: timePassed, n: 5})
}

// elsewhere returns how many members are bound, and how many low and other pods remain.
func (w *world) elsewhere() (bound, low, more int) {
	for _, p := range w.pods {
		switch name, _, _ := strings.Cut(p.Name, "-"); {
		case name == "low":
			low++
		case name == "more" && p.DeletionTimestamp == nil:
			more++
		case name == "g" && p.Spec.NodeName != "":
			bound++
		}
	}
	return bound, low, more
}

// TestGangStartsWhenQuotaVictimsAreGone: a gang has free nodes and waits for victims of its quota. It is
// bound when they are gone, or when the quota grows. No further pod is evicted, unless another pod has taken
// what the victims release.
func TestGangStartsWhenQuotaVictimsAreGone(t *testing.T) {
	quietLogs(t)
	byHand := &podSpec{name: "hand", room: room{cpu: 1}, priority: 9, rank: -1, node: "n0", quota: "q"}
	pass := func(seconds int) event { return event{kind: timePassed, n: seconds} }
	is := func(kind string, most int) event {
		return event{kind: kind, quota: &quotaSpec{name: "q", max: &room{cpu: most}}}
	}
	for name, test := range map[string]struct {
		then             history
		bound, low, more int
	}{
		"victims leave":       {nil, 0, 4, 4},
		"they have left":      {history{pass(40)}, 4, 0, 4},
		"more may be had":     {history{is(quotaMore, 12), {kind: turnsGiven, n: 8}}, 4, 4, 4},
		"there is no quota":   {history{is(quotaDeleted, 8), {kind: turnsGiven, n: 8}}, 4, 4, 4},
		"a quota comes":       {history{{kind: quotaPut, quota: &quotaSpec{name: "other"}}, pass(5)}, 0, 4, 4},
		"and they leave":      {history{{kind: quotaPut, quota: &quotaSpec{name: "other"}}, pass(40)}, 4, 0, 4},
		"less may be had":     {history{is(quotaLess, 5), pass(40), pass(90)}, 4, 0, 1},
		"another pod uses it": {history{{kind: podPut, pod: byHand}, pass(40), pass(90)}, 4, 0, 3},
		"a process ends":      {history{{kind: restarted}, pass(5)}, 0, 4, 4},
		"the next one waits":  {history{{kind: restarted}, pass(40)}, 4, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := playFor(t, append(elsewhere(), test.then...))
			require.NoError(t, err, "%v", w.trace)
			bound, low, more := w.elsewhere()
			require.Equal(t, []int{test.bound, test.low, test.more}, []int{bound, low, more}, "%v", w.trace)
		})
	}
}

// TestLostQuotaEvictionIsRetried: the requests to evict victims for a quota are lost. They are sent again,
// though no pod needs the nodes.
func TestLostQuotaEvictionIsRetried(t *testing.T) {
	quietLogs(t)
	lost := event{kind: requestsFail, fail: &failSpec{What: evictions, How: timedOut, Times: 2, Share: 3}}
	h := elsewhere()
	h = slices.Insert(h, slices.IndexFunc(h, func(e event) bool { return e.kind == gangPut }), lost)
	w, err := playFor(t, append(h, event{kind: timePassed, n: 20}))
	require.NoError(t, err, "%v", w.trace)
	bound, low, more := w.elsewhere()
	require.Equal(t, []int{0, 4, 4}, []int{bound, low, more}, "%v", w.trace)
	for _, e := range w.s.result().Events {
		require.NotEqual(t, "ReservationGivenUp", e.Reason, "%v", e)
	}
	for _, p := range w.pods {
		if strings.HasPrefix(p.Name, "low-") {
			require.NotNil(t, p.DeletionTimestamp, "%v", w.trace)
		}
	}
}

// TestNominatedPodKeepsItsQuota: a pod that waits for the victims of another quota keeps what it needs of its
// own. If pods that were bound by hand have taken that when the eviction is retried, no pod is evicted until
// the quota has enough again.
func TestNominatedPodKeepsItsQuota(t *testing.T) {
	quietLogs(t)
	asImportant := func(e event) event {
		e.pod.priority = 9 // as the pod that waits, which may not evict it
		return e
	}
	runs := func(name, node, quota string, cpu int) event {
		return event{kind: podPut, pod: &podSpec{name: name, room: room{cpu: cpu}, priority: 5, rank: -1, node: node, quota: quota}}
	}
	member := func(i int) event {
		return event{
			kind: memberPut, pod: &podSpec{name: fmt.Sprint("borrows-", i), gang: "borrows", room: room{cpu: 2}, priority: 5, rank: i, quota: "a"},
		}
	}
	for name, borrows := range map[string]history{
		"a pod leaves":  {runs("borrows-0", "n1", "a", 4)},
		"a gang, whole": {{kind: gangPut, gang: &gangSpec{name: "borrows", min: 2, timeout: 60}}, member(0), member(1), {kind: settledDown}},
	} {
		t.Run(name, func(t *testing.T) {
			h := slices.Concat(history{
				{kind: quotaPut, quota: &quotaSpec{name: "a"}},
				{kind: quotaPut, quota: &quotaSpec{name: "b", min: &room{cpu: 4}}},
				{kind: nodePut, node: &nodeSpec{name: "n1", cpu: 4}},
			}, borrows, history{
				{kind: nodePut, node: &nodeSpec{name: "n2", cpu: 2}},
				{kind: nodePut, node: &nodeSpec{name: "n3", cpu: 2}},
				{kind: requestsFail, fail: &failSpec{What: evictions, How: timedOut, Times: 3, Share: 3}},
				{kind: podPut, pod: &podSpec{name: "big", room: room{cpu: 4}, priority: 9, rank: -1, quota: "b"}},
				{kind: turnsGiven, n: 1},
				asImportant(runs("x", "n2", "b", 2)),
				asImportant(runs("y", "n3", "b", 2)),
				{kind: timePassed, n: 60},
			})
			w, err := playFor(t, h)
			require.NoError(t, err, "%v", w.trace)
			require.Contains(t, strings.Join(w.trace, "\n"), "lost: evictions of borrows")
			require.Empty(t, w.bound("big"), "%v", w.trace)
			require.NotEmpty(t, w.bound("borrows"), "%v", w.trace)
			w, err = playFor(t, append(h, event{kind: podDeleted, name: "x"}, event{kind: podDeleted, name: "y"}, event{kind: timePassed, n: 60}))
			require.NoError(t, err, "%v", w.trace)
			require.Equal(t, []string{"big"}, w.bound("big"), "%v", w.trace)
		})
	}
}
