package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// TestTableOfEvictions: why gangs evict where they do, with five domains at the most.
func TestTableOfEvictions(t *testing.T) {
	many := &status.Explanation{Won: "s0", Rule: evict.ByPods, Considered: []status.ConsideredDomain{
		{Domain: "s0", Possible: true, EvictionCost: &status.EvictionCost{Pods: 1, HighestPriority: 7, Sum: 7}},
		{Domain: "s1", Possible: true, EvictionCost: &status.EvictionCost{Violations: 2, Pods: 12, HighestPriority: 7, Sum: 30}},
		{Domain: "s2", Untried: true},
	}}
	for i := range 5 {
		many.Considered = append(many.Considered, status.ConsideredDomain{Domain: fmt.Sprint("t", i)})
	}
	require.Equal(t, `3 gangs: 3 scheduled; no pods.

GANG  STATE      BOUND  DOMAIN
d/a   Scheduled  2/2
d/b   Scheduled  2/2
d/c   Scheduled  2/2

EVICTION FOR  DOMAIN       BUDGETS  PODS  HIGHEST  SUM
d/a           s0           0        1     7        7
d/a           s1           2        12    7        30
d/a           s2           -        -     -        -    search limit reached
d/a           t0           -        -     -        -    impossible
d/a           t1           -        -     -        -    impossible
d/a           and 3 more
    s0 won: fewest pods
d/c           the cluster
    the cluster won: search limit reached
`, simulateTable(&simulate.Result{Summary: simulate.Summary{Gangs: 3, States: map[simulate.State]int{simulate.Scheduled: 3}}, Gangs: []simulate.Gang{
		{Namespace: "d", Name: "a", State: simulate.Scheduled, Bound: 2, Min: 2, Eviction: many},
		{Namespace: "d", Name: "b", State: simulate.Scheduled, Bound: 2, Min: 2},
		{Namespace: "d", Name: "c", State: simulate.Scheduled, Bound: 2, Min: 2, Eviction: &status.Explanation{Rule: evict.NotAll}},
	}}, false))
}

// A start on another day than the simulated time is shown with its date.
func TestSimulateTableShowsTheDateOfAStart(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for hours, want := range map[int]string{1: " promised 13:00Z\n", 30 * 24: " promised 2026-01-31 12:00Z\n"} {
		start := &simulate.Start{Kind: simulate.Promised, Time: now.Add(time.Duration(hours) * time.Hour)}
		r := &simulate.Result{Time: now, Gangs: []simulate.Gang{{Namespace: "ns", Name: "a", State: "Unschedulable", Start: start}}}
		require.Contains(t, simulateTable(r, false), want)
	}
}
