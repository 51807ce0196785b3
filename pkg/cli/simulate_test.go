package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

// simulate runs the command in testdata/simulate.
func simulate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir("testdata/simulate")
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), append([]string{"simulate"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// TestSimulateTable: tables are for people, at most 100 columns wide.
func TestSimulateTable(t *testing.T) {
	code, stdout, stderr := simulate(t, "-f", "cluster.yaml", "-f", "jobs", "--victims-stay")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	want, err := os.ReadFile("table.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), stdout)
	for line := range strings.Lines(stdout) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
}

// TestSimulateWarnings: what is wrong with an object is shown, though its gang starts.
func TestSimulateWarnings(t *testing.T) {
	code, stdout, stderr := simulate(t, "-f", "cluster.yaml", "-f", "warnings.yaml")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `
WARNING             REASON
Pod default/b-0     InvalidTopologyIndex
    gang.scheduling.koordinator.sh/network-topology-index: "first" is invalid; supported
    values: an integer ≥ 0; see warnings.yaml: document 2, line 8
PodGroup default/b  InvalidAnnotation
    gang.scheduling.koordinator.sh/mode: "strict" is invalid; supported values: Strict,
    NonStrict; did you mean Strict?; the default is used; see warnings.yaml: document 1, line 1
`)
}

// TestSimulateHeld: pods that their controller does not make yet are shown, and what it waits for.
func TestSimulateHeld(t *testing.T) {
	code, stdout, stderr := simulate(t, "-f", "ordered.yaml")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `
NOT MADE YET  WAITS FOR
default/db-1  pod db-0
default/db-2  pod db-1
`)
}

func TestSimulateNotes(t *testing.T) {
	code, stdout, stderr := simulate(t, "-f", "notes.yaml", "-o", "json")
	require.Zero(t, code)
	require.Equal(t,
		"Note: notes.yaml: document 1, line 1: skipped batch/v1 CronJob j: not read by a scheduler\nNote: notes.yaml: document 2, line 5: "+
			"ignored in Pod default/p: unknown field \"spec.nodeNam\"\n",
		stderr)
	require.JSONEq(t, `{"pods": [{"namespace": "default", "name": "p", "node": "", "nominatedNode": "", "state": "Pending",
		"message": "no profile serves schedulerName \"default-scheduler\" (served: koord-scheduler, muster-scheduler)"}],
		"gangs": [], "evicted": []}`, stdout)
}

func TestSimulateStandardInput(t *testing.T) {
	file, err := os.Open(filepath.Join("testdata", "simulate", "cluster.yaml"))
	require.NoError(t, err)
	defer file.Close()
	cmd := cli.New()
	var out bytes.Buffer
	cmd.SetIn(file)
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"simulate", "-f", "-", "--then", "testdata/simulate/jobs/small.yaml", "-o", "json"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), `"name": "small-0"`)
}

func TestSimulateConfig(t *testing.T) {
	code, stdout, stderr := simulate(t, "-f", "notes.yaml", "-o", "json", "--config", "config.yaml")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "no nodes available to schedule pods")
}

// TestSimulateExits: 1 for a simulation that did not settle, 2 for input that cannot be read.
func TestSimulateExits(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"unsettled":    {[]string{"-f", "cluster.yaml", "--timeout", "0s"}, 1, "Error: the simulation has not settled; it waits for "},
		"nothing":      {nil, 2, "Error: nothing to simulate: give at least one -f FILE, or --from-cluster"},
		"no such file": {[]string{"-f", "nowhere.yaml"}, 2, "Error: stat nowhere.yaml: no such file or directory"},
		"empty folder": {[]string{"-f", t.TempDir()}, 2, ": no *.yaml, *.yml or *.json in this folder"},
		"bad document": {
			[]string{"-f", "cluster.yaml", "-f", "bad.yaml"},
			2,
			"Error: bad.yaml: document 2, line 7: mapping values are not allowed in this context",
		},
		"bad then": {[]string{"-f", "cluster.yaml", "--then", "bad.yaml"}, 2, "Error: bad.yaml: document 2, line 7: "},
		"refused": {
			[]string{"-f", "refused.yaml"},
			2,
			`Error: refused.yaml: document 2, line 4: PodGroup.scheduling.sigs.k8s.io "b" is invalid: spec.minMember: Invalid value: 0: ` +
				`spec.minMember in body should be greater than or equal to 1`,
		},
		"not admitted": {[]string{"-f", "class.yaml"}, 2, "Error: class.yaml: document 1, line 1: Pod default/p: spec.priorityClassName: no " +
			"PriorityClass with name none was found"},
		"no config": {
			[]string{"-f", "cluster.yaml", "--config", "nowhere.yaml"}, 2, "Error: --config: open nowhere.yaml: no such file or directory",
		},
		"bad config": {[]string{"-f", "cluster.yaml", "--config", "cluster.yaml"}, 2, "Error: --config cluster.yaml: scheduler configuration: "},
		"two configs": {
			[]string{"-f", "cluster.yaml", "--config", "configs.yaml"},
			2,
			"Error: --config configs.yaml: scheduler configuration: second document at line 7, kind KubeSchedulerConfiguration; " +
				"supported values: one document, a KubeSchedulerConfiguration",
		},
		"bad workload": {
			[]string{"-f", "workload.yaml"},
			2,
			`Error: workload.yaml: document 1, line 1: Job.batch "j" is invalid: spec.parallelism: Invalid value: -2: ` +
				`must be greater than or equal to 0`,
		},
		"unknown output": {[]string{"-f", "cluster.yaml", "-o", "yaml"}, 2, "Error: --output yaml: supported values: table, wide, json"},
		"bad timeout": {
			[]string{"-f", "cluster.yaml", "--timeout", "soon"}, 2, "Error: invalid argument \"soon\" for \"--timeout\" flag: must be a duration",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := simulate(t, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.stderr)
			require.Empty(t, stdout)
		})
	}
}

// TestSimulateIsHarmless: text from users cannot control the terminal.
func TestSimulateIsHarmless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "steers.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 1, pods: 9}}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, annotations: {gang.scheduling.koordinator.sh/groups: '["default/\u001b[2Jh"]'}}, spec: {minMember: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i}]}}
`), 0o600))
	code, stdout, stderr := simulate(t, "-f", file)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "[2Jh")
	require.NotContains(t, stdout+stderr, "\x1b")
}
