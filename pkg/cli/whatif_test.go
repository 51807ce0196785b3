package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/cli"
	"github.com/muster-scheduler/muster/pkg/kube/ask"
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
	require.Equal(t, []sim.ChangeReport{{Change: "cordon=node-0", Did: "node-0 takes no new pod"}}, r.Changes)
	require.Equal(t, [2]int{4, 4}, [2]int{r.Gangs[0].Bound, r.Gangs[0].Min})
}

// TestDrainRoundTrip: what is printed as JSON and as YAML is the value that was meant.
func TestDrainRoundTrip(t *testing.T) {
	for _, args := range [][]string{{"drain-plan", "node-11"}, {"empty", "--layer", "SpineLayer"}} {
		args = append(args, scenarioFiles(t, "int-job")...)
		data := say(t, append(args, "-o", "json")...)
		var d ask.Drain
		require.NoError(t, json.Unmarshal([]byte(data), &d))
		require.NotEmpty(t, d.Before.Starts)
		again, err := json.Marshal(d)
		require.NoError(t, err)
		require.JSONEq(t, data, string(again))
		fromYAML, err := yaml.YAMLToJSON([]byte(say(t, append(args, "-o", "yaml")...)))
		require.NoError(t, err)
		require.JSONEq(t, data, string(fromYAML))
	}
}

// TestCompletion: the values of flags that are fixed are offered, and files where there are none.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"simulate --only ", "waiting\nevicted\ngang=\n"},
		{"simulate --what-if ", "evict=\nevict=gang/\ncordon=\nfail=\nadd-nodes=\n"},
		{"simulate -o ", "table\nwide\njson\n"},
		{"simulate --fail-on ", "waiting\nevicted\nrejected\n"},
		{"drain-plan x -o ", "table\nwide\njson\nyaml\n"},
		{"empty -o ", "table\nwide\njson\nyaml\n"},
		{"drain-plan ", ""},
	} {
		args := strings.Split(c.args, " ") // the last is what is to be completed
		var out, errs bytes.Buffer
		require.Zero(t, cli.Main(t.Context(), append([]string{"__complete"}, args...), &out, &errs), errs.String())
		values, directive, _ := strings.Cut(out.String(), ":")
		require.Equal(t, c.want, values, c.args)
		require.NotEmpty(t, directive, c.args)
	}
}
