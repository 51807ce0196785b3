package place_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// shortage is what a gang's refusal comes to.
func (w *world) shortage(gangName string, evicts bool) place.Shortage {
	w.t.Helper()
	a := w.attempt(gangName)
	_, refusal, err := a.Plan(w.t.Context())
	require.NoError(w.t, err)
	require.NotNil(w.t, refusal)
	return a.Shortage(w.t.Context(), refusal, evicts)
}

// lacking returns how many nodes lack what, and how many are used by pods that may not be evicted.
func lacking(s place.Shortage) string {
	blocked := 0
	for _, nodes := range s.BlockedNodes {
		blocked += nodes
	}
	words := []string{fmt.Sprint(blocked, " stay")}
	for _, what := range slices.Sorted(maps.Keys(s.Lacks)) {
		words = append(words, fmt.Sprint(s.Lacks[what], " ", what))
	}
	return strings.Join(words, ", ")
}

// TestStay: nodes used by pods that may not be evicted are reported apart from nodes that lack something, if the gang preempts.
func TestStay(t *testing.T) {
	for name, test := range map[string]struct {
		lines  string
		spares bool // the gang evicts no pod
		want   string
	}{
		"all of them may leave": {
			lines: "pod x cpu=4 on=n1 priority=1\npod y cpu=4 on=n2 priority=1", want: "0 stay, 2 Insufficient cpu",
		},
		"one matters more": {lines: "pod x cpu=4 on=n1 priority=9\npod y cpu=4 on=n2 priority=1", want: "1 stay, 1 Insufficient cpu"},
		"one matters as much": {
			lines: "pod x cpu=4 on=n1 priority=5\npod y cpu=4 on=n2 priority=1", want: "1 stay, 1 Insufficient cpu",
		},
		"both stay": {lines: "pod x cpu=4 on=n1 priority=9\npod y cpu=4 on=n2 priority=9", want: "2 stay"},
		"no pod may be evicted": {
			lines: "pod x cpu=4 on=n1 priority=9\npod y cpu=4 on=n2 priority=9", spares: true, want: "0 stay, 2 Insufficient cpu",
		},
		"enough victims beside a pod that stays": {
			lines: "pod x cpu=1 on=n1 priority=9\npod z cpu=3 on=n1 priority=1\npod y cpu=4 on=n2 priority=9", want: "1 stay, 1 Insufficient cpu",
		},
		"too few victims beside a pod that stays": {
			lines: "pod x cpu=2 on=n1 priority=9\npod z cpu=2 on=n1 priority=1\npod y cpu=4 on=n2 priority=1", want: "1 stay, 1 Insufficient cpu",
		},
		"a node that has room has no stay": {lines: "pod x cpu=1 on=n1 priority=9\npod y cpu=4 on=n2 priority=9", want: "1 stay"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "node s/b/n1 4\nnode s/b/n2 4\ngang a min=2\npods a 2 cpu=3 priority=5\n"+test.lines)
			require.Equal(t, test.want, lacking(w.shortage("a", !test.spares)))
		})
	}
}

// TestStayIsKept: a result is computed again when the node changes, and is not reused for
// members that may evict different pods.
func TestStayIsKept(t *testing.T) {
	w := newWorld(t, `
		node s/b/n1 4
		node s/b/n2 4
		gang a min=2
		pods a 2 cpu=3 priority=5
		gang high min=2
		pods high 2 cpu=3 priority=20
		pod x cpu=4 on=n1 priority=9
		pod y cpu=4 on=n2 priority=1
		pod z cpu=4 priority=1`)
	for range 2 {
		require.Equal(t, "1 stay, 1 Insufficient cpu", lacking(w.shortage("a", true)))
		require.Equal(t, "0 stay, 2 Insufficient cpu", lacking(w.shortage("high", true)))
	}
	w.leave("x")
	w.bind("z", "n1")
	require.Equal(t, "0 stay, 2 Insufficient cpu", lacking(w.shortage("a", true)))
}

// TestStayBeside: a result found beside other pods is forgotten when these are gone.
func TestStayBeside(t *testing.T) {
	w := newWorld(t, `
		node s/b/n1 4
		node s/b/n2 4
		gang a min=2
		pods a 2 cpu=3 priority=5
		pod x cpu=1 on=n1 priority=9
		pod z cpu=3 on=n1 priority=1
		pod y cpu=4 on=n2 priority=1
	`)
	require.Equal(t, "0 stay, 2 Insufficient cpu", lacking(w.shortage("a", true)))
	w.pod("comes", -1, []string{"cpu=1", "priority=9", "nominated=n1"})
	w.wait(func() bool { return len(w.cache.NominatedNodes()) == 1 })
	require.Equal(t, "1 stay, 1 Insufficient cpu", lacking(w.shortage("a", true)))
	delete(w.nominated, "n1")
	require.Equal(t, "0 stay, 2 Insufficient cpu", lacking(w.shortage("a", true)))
}

// TestOdd: only members that start together must complete multiples by themselves.
func TestOdd(t *testing.T) {
	r := &plan.Refusal{Want: 6}
	r.Multiple = []plan.Multiple{{Layer: "BlockLayer", Count: 4}, {Layer: "SpineLayer", Count: 3}}
	require.Equal(t, r.Multiple[:1], place.Shortage{}.UnreachableMultiples(r))
	require.Empty(t, place.Shortage{Joins: true}.UnreachableMultiples(r), "running members make up the rest")
}
