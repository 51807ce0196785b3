package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// TestOptionalGangIsNotReportedAsWaiting: two of three gangs suffice and run. The third one lacks capacity,
// and the metrics do not report it as waiting.
func TestOptionalGangIsNotReportedAsWaiting(t *testing.T) {
	set := &Set{}
	dir := filepath.Join("..", "..", "..", "test", "scenarios", "simulate")
	files, err := filepath.Glob(filepath.Join(dir, "int-native-some-waits", "*.yaml"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join("..", "..", "..", "docs", "examples", "clusternetworktopology.yaml")) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, set.Add(file, data))
	}
	w, err := Open(t.Context(), Options{}, set)
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Settle(t.Context(), nil))
	states := map[State]int{}
	for _, g := range w.Result().Gangs {
		states[g.State]++
	}
	require.Equal(t, map[State]int{Scheduled: 2, reasons.Unschedulable: 1}, states)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(w.Shared().Meter))
	all, err := r.Gather()
	require.NoError(t, err)
	seen := false
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "muster_gangs_waiting" || family.GetName() == "muster_gang_longest_wait_seconds" {
				seen = true
				require.Zero(t, m.GetGauge().GetValue(), "%s %v", family.GetName(), m.GetLabel())
			}
		}
	}
	require.True(t, seen)
}

// TestPromisesAreCounted: a promise is counted when it is made, when it is kept, and with its cause when it is moved.
func TestPromisesAreCounted(t *testing.T) {
	type step struct {
		after time.Duration
		file  string // applied after the time
		want  map[string]float64
	}
	for name, steps := range map[string][]step{
		"kept": {
			{9 * time.Minute, "", map[string]float64{}},
			{2 * time.Minute, "", map[string]float64{"muster_start_promises_total": 1, "muster_held_nodes": 4}},
			{30 * time.Minute, "", map[string]float64{"muster_start_promises_total": 1, "muster_start_promises_kept_total": 1}},
		},
		"time-06-overdue": {
			{42 * time.Minute, "", map[string]float64{"muster_start_promises_total": 1, "overdue": 1, "muster_held_nodes": 3}},
		},
		"time-09-node-fails": {
			{30 * time.Minute, "failed.yaml", map[string]float64{"muster_start_promises_total": 2, "node": 1, "muster_held_nodes": 4}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("simulate", name)
			var more []string
			if name != "kept" {
				more = append(more, filepath.Join(folder, "in.yaml"))
			}
			w := openSpines(t, more...)
			for _, s := range steps {
				require.NoError(t, w.pause(t.Context(), s.after))
				if s.file != "" {
					require.NoError(t, w.Apply(t.Context(), scenarioFiles(t, filepath.Join(folder, s.file))))
					require.NoError(t, w.pause(t.Context(), time.Minute))
				}
				require.Equal(t, s.want, promiseMetrics(t, w), s.after)
			}
		})
	}
}

// promiseMetrics returns the metrics of promises that are not 0, by name, or by their cause.
func promiseMetrics(t *testing.T, w *World) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(w.Shared().Meter))
	all, err := r.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, family := range all {
		name := family.GetName()
		if !strings.HasPrefix(name, "muster_start_promises") && name != "muster_held_nodes" && name != "muster_backfilled_nodes" {
			continue
		}
		for _, m := range family.GetMetric() {
			value, name := m.GetCounter().GetValue()+m.GetGauge().GetValue(), family.GetName()
			for _, label := range m.GetLabel() {
				name = label.GetValue()
			}
			if value != 0 {
				out[name] = value
			}
		}
	}
	return out
}

// TestBackfilledNodesAreCounted: held nodes count as backfilled while a pod runs there that started after the hold. Pods that ran before do
// not count, nor does a pod on a node that is not held.
func TestBackfilledNodesAreCounted(t *testing.T) {
	quietLogs(t)
	w := openSpines(t)
	for _, s := range []struct {
		file             string // applied at first
		after            time.Duration
		held, backfilled float64
		what             string
	}{
		{"", 15 * time.Minute, 4, 0, "three jobs run there, and ran before"},
		{"time-02-backfill/short.yaml", time.Minute, 4, 1, "runs until 00:35"},
		{"", 18 * time.Minute, 4, 1, "still runs"},
		{"", 2 * time.Minute, 4, 0, "has ended"},
		{"time-04-evictable/evictable.yaml", time.Minute, 4, 1, "runs until the gang starts"},
		{"", 5 * time.Minute, 0, 0, "the gang has started"},
	} {
		if s.file != "" {
			require.NoError(t, w.Apply(t.Context(), scenarioFiles(t, filepath.Join("simulate", s.file))))
		}
		require.NoError(t, w.pause(t.Context(), s.after))
		values := promiseMetrics(t, w)
		require.Equal(t, [2]float64{s.held, s.backfilled}, [2]float64{values["muster_held_nodes"], values["muster_backfilled_nodes"]}, s.what)
	}
}
