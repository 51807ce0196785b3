package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/cli"
	"github.com/muster-scheduler/muster/pkg/kube/ask"
)

// TestAsk runs the files of testdata/ask:
//
//	scenario dir=NAME [later]   loads the input and the first objects of a scenario; with later, also its later objects.
//	musterctl                   runs the command of the input on these objects.
//
// Run with -rewrite to write the answers; then read the diff.
func TestAsk(t *testing.T) { runCommands(t, "testdata/ask") }

// TestAskCases shows the answers of queue, topology and explain for each simulated case before anything happens. The
// files have the format of TestAsk.
func TestAskCases(t *testing.T) {
	runCommands(t, "testdata/cases")
	folders, err := filepath.Glob("../../test/scenarios/simulate/[0-9]*")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.FileExists(t, filepath.Join("testdata/cases", filepath.Base(folder)+".txt"))
	}
}

func runCommands(t *testing.T, dir string) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		var files []string
		folder := t.TempDir()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "scenario":
				files = nil
				if d.HasArg("dir") {
					var dir string
					d.ScanArgs(t, "dir", &dir)
					files = scenarioFiles(t, dir)
					if d.HasArg("later") {
						files = append(files, filesOf(t, dir, "--then ")...)
					}
				}
				if d.Input != "" {
					name := filepath.Join(folder, "more.yaml")
					require.NoError(t, os.WriteFile(name, []byte(d.Input), 0o600))
					files = append(files, "-f", name)
				}
				return ""
			case "musterctl":
				var out, errs bytes.Buffer
				code := cli.Main(t.Context(), append(strings.Fields(d.Input), files...), &out, &errs)
				for line := range strings.Lines(out.String()) {
					if code != 0 || strings.Contains(d.Input, "-o json") || strings.Contains(d.Input, "-o yaml") {
						break // only tables are for narrow screens
					}
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
				}
				notes := strings.ReplaceAll(errs.String(), folder+"/", "")
				if code != 0 {
					return out.String() + notes + "exit code " + string(rune('0'+code)) + "\n"
				}
				return notes + out.String()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// scenarioFiles are the arguments of a scenario up to what comes later.
func scenarioFiles(t *testing.T, name string) []string { return filesOf(t, name, "-f ") }

// filesOf are arguments for the files that a scenario has by a flag.
func filesOf(t *testing.T, name, flag string) (args []string) {
	dir := filepath.Join("../../test/scenarios/simulate", name)
	data, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		file, ok := strings.CutPrefix(strings.TrimSpace(line), flag)
		if ok {
			args = append(args, "-f", filepath.Join(dir, file))
		}
	}
	return args
}

// TestAskRoundTrip: the JSON and YAML output is the intended value, with the documented names.
func TestAskRoundTrip(t *testing.T) {
	run := func(args ...string) []byte {
		var out, errs bytes.Buffer
		require.Zero(t, cli.Main(t.Context(), append(args, scenarioFiles(t, "08-no-help")...), &out, &errs), errs.String())
		return out.Bytes()
	}
	for _, test := range []struct {
		args   []string
		value  any
		fields []string
	}{
		{[]string{"explain", "podgroup", "g"}, &ask.Explanation{}, []string{"gang", "state", "since", "waitsFor", "cure", "domains", "queue"}},
		{
			[]string{"topology", "--for", "podgroup/g"}, &ask.Topology{}, []string{"layer", "path", "nodes", "free", "used", "reserved", "children"},
		},
		{[]string{"queue"}, &[]ask.Waiter{}, []string{"gang", "priority", "since", "members", "reason", "start"}},
	} {
		data := run(append(test.args, "-o", "json")...)
		require.NoError(t, json.Unmarshal(data, test.value))
		again, err := json.MarshalIndent(test.value, "", "  ")
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(again))
		fromYAML, err := yaml.YAMLToJSON(run(append(test.args, "-o", "yaml")...))
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(fromYAML))
		for _, name := range test.fields {
			require.Contains(t, string(data), `"`+name+`":`)
		}
	}
}
