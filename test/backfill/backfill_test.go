package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/test/history"
)

// small is two virtual hours of eight full nodes in two spines. A gang of four comes first, and a job every five minutes behind it.
func small() history.Trace {
	o := defaults
	o.Mix, o.Nodes, o.Spine, o.Days = "Seren", 8, 4, 2.0/24
	t := history.Trace{Options: o}
	add := func(name string, at, lasts, limit time.Duration, nodes int) {
		t.Jobs = append(t.Jobs, history.Job{Name: name, At: at, Lasts: lasts, Limit: limit, Nodes: nodes, GPUs: history.WholeNode})
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		add(name, 0, time.Duration(20+len(t.Jobs)*5)*time.Minute, time.Hour, 1)
	}
	add("gang", time.Minute, 30*time.Minute, time.Hour, 4)
	for i := range 20 {
		add("later-"+string(rune('a'+i)), time.Duration(2+5*i)*time.Minute, 10*time.Minute, 10*time.Minute, 1)
	}
	return t
}

// TestPromiseIsKept: with declared run times the gang has a promised start and starts by then. Without a hold, the jobs behind it take each
// node that becomes free. The table has both.
func TestPromiseIsKept(t *testing.T) {
	trace := small()
	var results []history.Result
	for _, c := range configurations {
		r, err := history.Play(t.Context(), c, trace)
		require.NoError(t, err)
		require.Len(t, r.Waits, len(trace.Jobs))
		require.Empty(t, r.Broken)
		results = append(results, r)
	}
	of := func(column int) *history.Wait { return results[column].Waits[8] }
	for column, c := range configurations {
		require.Equal(t, "gang", of(column).Name)
		require.Equal(t, c.Declares > 0, of(column).Promised > 0, c.Name)
		require.Empty(t, of(column).Moves, c.Name)
	}
	require.InDelta(t, time.Hour.Seconds(), of(3).Promised.Seconds(), 1)
	require.True(t, of(3).Started)
	require.LessOrEqual(t, of(3).At+of(3).For, of(3).Promised)
	require.Equal(t, 34*time.Minute, of(4).For, "in strict order the gang waits for the first four nodes of a spine")
	require.Greater(t, of(0).For, of(3).For, "without a hold")
	require.Zero(t, results[0].Holds)
	require.Positive(t, results[3].Backfilled, "jobs of ten minutes run on held nodes until the promised start")
	require.Less(t, results[3].Backfilled, results[3].Holds)
	var out bytes.Buffer
	report(&out, trace.Options, []uint64{1}, results)
	require.Contains(t, out.String(), "| wait of 32 GPUs (1 jobs) |")
	require.Contains(t, out.String(), "| … that started by the first promise | – | – | 100.0 % (1) | 100.0 % (1) | – |")
}
