package command

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestSimulatedGates: a simulation runs with the scheduler's feature gates, whichever Kubernetes is emulated,
// so that its outcome is the scheduler's. Gates belong to the process and can be set once, so each check runs
// in its own process.
func TestSimulatedGates(t *testing.T) {
	if as := os.Getenv("GATES_OF"); as != "" {
		require.NoError(t, os.WriteFile(os.Getenv("GATES_TO"), []byte(gatesOf(t, as)), 0o600))
		return
	}
	gates := func(of string) []string {
		to := filepath.Join(t.TempDir(), of)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimulatedGates$")
		cmd.Env = append(os.Environ(), "GATES_OF="+of, "GATES_TO="+to)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		text, err := os.ReadFile(to)
		require.NoError(t, err)
		return strings.Split(string(text), "\n")
	}
	scheduler := gates("scheduler")
	require.Contains(t, scheduler, "1.37 SchedulerPreQueueingHints true")
	require.Contains(t, scheduler, "1.37 NominatedNodeNameForExpectation false")
	simulated := gates("simulate")
	require.Empty(t, slices.DeleteFunc(simulated, func(gate string) bool { return slices.Contains(scheduler, gate) }),
		"not so in the scheduler")
	require.Len(t, simulated, len(scheduler))
}

// gatesOf lists what each feature gate is after a scheduler's process began, or in which state simulations leave it.
func gatesOf(t *testing.T, of string) string {
	gates := utilfeature.DefaultMutableFeatureGate
	if of == "scheduler" {
		os.Args = []string{"muster-scheduler", "--version"}
		require.Zero(t, Main(Options{}))
	}
	var out []string
	for minor := connect.Oldest.Minor(); minor <= connect.Newest.Minor(); minor++ {
		v := version.MajorMinor(connect.Newest.Major(), minor)
		require.NoError(t, gates.SetEmulationVersion(v))
		if of == "simulate" {
			_, err := simulate.Run(context.Background(), simulate.Options{}, &simulate.Set{})
			require.NoError(t, err)
		}
		for _, name := range slices.Sorted(maps.Keys(gates.GetAll())) {
			out = append(out, fmt.Sprint(v, " ", name, " ", gates.Enabled(name)))
		}
	}
	return strings.Join(out, "\n")
}
