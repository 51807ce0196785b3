package cli_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
	sim "github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestWhatIf runs the files of testdata/whatif as TestAsk does its own.
func TestWhatIf(t *testing.T) { runCommands(t, "testdata/whatif") }

// TestSimulateRoundTrip: what is printed as JSON is the value that was meant, and counts members and
// says what was changed.
func TestSimulateRoundTrip(t *testing.T) {
	var out, errs bytes.Buffer
	args := append([]string{"simulate", "-o", "json", "--what-if", "cordon=node-0"}, scenarioFiles(t, "29-gang-evicted-whole")...)
	require.Zero(t, cli.Main(t.Context(), args, &out, &errs), errs.String())
	var r sim.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	again, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, out.String(), string(again))
	require.Equal(t, []sim.Changed{{Change: "cordon=node-0", Did: "node-0 takes nobody new"}}, r.Changes)
	require.Equal(t, [2]int{4, 4}, [2]int{r.Gangs[0].Bound, r.Gangs[0].Min})
}
