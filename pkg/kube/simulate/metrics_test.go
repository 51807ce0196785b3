package simulate

import (
	"os"
	"path/filepath"
	"testing"

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
