package ask

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestForecastsCountGangsAhead: one node is free in ten minutes, and each of the gangs that want it runs for ten minutes. Each forecast is
// ten minutes after that of the gang ahead. The first gang without a declared end ends the forecasts, and so does their number.
func TestForecastsCountGangsAhead(t *testing.T) {
	starts := func(gangs, endless int) (out []string) {
		var text strings.Builder
		text.WriteString("---\n{apiVersion: v1, kind: Node, metadata: {name: m}, status: {capacity: {cpu: 1, memory: 8Gi}}}\n")
		pod := func(name, more string, seconds int) {
			deadline := ""
			if seconds > 0 {
				deadline = fmt.Sprintf(", activeDeadlineSeconds: %d", seconds)
			}
			fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s%s%s, "+
				"containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}\n", name, more, deadline)
		}
		pod("run", "}, spec: {schedulerName: muster-scheduler, nodeName: m", 600)
		for i := range gangs {
			name, seconds := fmt.Sprintf("g%02d", i), 600
			if i == endless {
				seconds = 0
			}
			fmt.Fprintf(&text, "---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: 1}}\n", name)
			pod(name+"-0", ", labels: {pod-group.scheduling.sigs.k8s.io: "+name+"}}, spec: {schedulerName: muster-scheduler", seconds)
		}
		set := &simulate.Set{}
		require.NoError(t, set.Add("world.yaml", []byte(text.String())))
		v, err := Open(t.Context(), Options{}, set)
		require.NoError(t, err)
		defer v.Close()
		all, err := v.Queue(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, all, gangs)
		for _, w := range all {
			require.NotNil(t, w.Start, w)
			if w.Start.Kind == simulate.Forecast {
				out = append(out, w.Start.Time.Sub(v.At()).Round(time.Minute).String())
			} else {
				out = append(out, w.Start.Why)
			}
		}
		return out
	}
	require.Equal(t, []string{"10m0s", "20m0s", "30m0s"}, starts(3, -1))
	const few = "Too few pods, or gangs ahead, declare when they end."
	require.Equal(t, []string{"10m0s", "20m0s", few}, starts(3, 1))
	many := starts(22, -1)
	require.Equal(t, "3h20m0s", many[19])
	require.Equal(t, []string{"Forecasts are computed for the first 20 gangs only.", "Forecasts are computed for the first 20 gangs only."}, many[20:])
}
