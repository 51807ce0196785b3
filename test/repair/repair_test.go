package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/test/history"
)

// small is one virtual hour of 16 nodes in two spines, with a fault every five minutes. Single pods come every minute, so that they compete
// for the nodes that are free.
func small() history.Trace {
	o := defaults
	o.Nodes, o.Spine, o.Days, o.Load = 16, 8, 1.0/24, 0.5
	t := history.NewTrace(o, 1)
	t.Breaks = nil
	for i := range 10 {
		t.Breaks = append(t.Breaks, history.Fault{
			At: time.Duration(i+1) * 5 * time.Minute, Node: i * 5 % o.Nodes, Down: 12 * time.Minute, Dead: i%2 == 1, Delay: 3 * time.Minute,
		})
	}
	for i := range 60 {
		t.Jobs = append(t.Jobs, history.Job{
			Name: fmt.Sprintf("single-%d", i), At: time.Duration(i) * time.Minute, Lasts: 5 * time.Minute, Nodes: 1, GPUs: 8,
		})
	}
	slices.SortStableFunc(t.Jobs, func(a, b history.Job) int { return cmp.Compare(a.At, b.At) })
	return t
}

// TestHistory: no gang has a member outside of its spine, and no pod is evicted but in a swap, whatever the configuration. Only
// replacements that go anywhere may be outside. With Muster's hold all gangs are whole again. Equal input makes equal results.
func TestHistory(t *testing.T) {
	for _, c := range configurations {
		holds, swaps := strings.Contains(c.Args, "repairTimeout: 10m"), !strings.Contains(c.Args, "repairSwap: false")
		t.Run(c.Name, func(t *testing.T) {
			r, err := history.Play(t.Context(), c, small())
			require.NoError(t, err)
			require.Empty(t, r.Broken)
			require.True(t, swaps || r.PodsEvicted == 0)
			require.NotZero(t, r.Gangs)
			require.NotEmpty(t, r.Outcomes)
			require.Equal(t, holds, r.Held > 0)
			for _, o := range r.Outcomes {
				require.True(t, !o.Whole || o.InDomain || c.Anywhere, "%+v", o)
				require.True(t, o.Whole || !holds, "%+v", o)
			}
			again, err := history.Play(t.Context(), c, small())
			require.NoError(t, err)
			require.Equal(t, r, again)
		})
	}
}

// TestTrace: the load and the rate of faults are near the options, and some nodes are down at the begin.
func TestTrace(t *testing.T) {
	o := defaults
	o.Days = 300
	trace := history.NewTrace(o, 1)
	asked := time.Duration(0)
	for _, j := range trace.Jobs {
		asked += j.Lasts * time.Duration(j.Nodes)
	}
	require.InDelta(t, o.Load, asked.Hours()/(o.During().Hours()*float64(o.Nodes)), 0.1)
	atBegin := 0
	for _, f := range trace.Breaks {
		if f.At == 0 {
			atBegin++
		}
	}
	require.InDelta(t, 9, atBegin, 7, "2.3 % of the nodes are down")
	// Nodes that are down have no second fault.
	require.InDelta(t, history.FaultRate*float64(o.Nodes)*o.Days/1000, float64(len(trace.Breaks)), 120)
}

// TestReport: a gang that is whole only after a day counts as not whole, and faults of the last day do not count.
func TestReport(t *testing.T) {
	o := history.Options{Nodes: 4, Spine: 4, Days: 3, Load: 0.5, Shortest: time.Minute, Faults: history.FaultRate}
	r := history.Result{Outcomes: []history.Outcome{
		{At: time.Hour, Whole: true, InDomain: true, After: 90 * time.Second},
		{At: time.Hour, Whole: true, After: 3 * time.Hour, Dead: true},
		{At: time.Hour, Whole: true, InDomain: true, After: 25 * time.Hour},
		{At: time.Hour},
		{At: 49 * time.Hour, Whole: true, InDomain: true, After: time.Second},
	}}
	var out bytes.Buffer
	report(&out, o, []uint64{1}, []history.Result{r})
	for _, line := range []string{
		"| faults that hit a running gang | 4 |",
		"| gang whole again in its domain within a day | 25 % (1) |", "| … not whole after a day | 50 % (2) |",
		"| time to whole, p50 | 3.0 h |", "| … p99 | > 24 h |", "| … p50, node not ready | 3.0 h |",
	} {
		require.Contains(t, out.String(), line)
	}
}
