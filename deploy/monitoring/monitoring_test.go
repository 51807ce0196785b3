package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// promtool runs Prometheus' tool in a folder that holds the rules and a file of tests.
func promtool(t *testing.T, read func() ([]byte, error), tests string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; Debian has it: apt-get install prometheus")
	}
	folder := t.TempDir()
	rules, err := read()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rules.yaml"), rules, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tests.yaml"), []byte(tests), 0o644))
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// rulesByTests are the files of rules, by the file that tests them.
var rulesByTests = map[string]func() ([]byte, error){"alerts.yaml": Rules, "controller-alerts.yaml": ControllerRules}

// TestRules: Prometheus takes the rules, and they fire when they should.
func TestRules(t *testing.T) {
	for file, read := range rulesByTests {
		tests, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		promtool(t, read, string(tests), "check", "rules", "rules.yaml")
		promtool(t, read, string(tests), "test", "rules", "tests.yaml")
	}
}

// TestEveryAlertFires: each alert fires in one of these tests.
func TestEveryAlertFires(t *testing.T) {
	for file, read := range rulesByTests {
		rules, err := read()
		require.NoError(t, err)
		tests, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
		require.GreaterOrEqual(t, len(alerts), 5)
		for _, a := range alerts {
			fires := regexp.MustCompile(`alertname: ` + a[1] + `\n|alertname="` + a[1] + `",alertstate="firing",severity`)
			require.Regexp(t, fires, string(tests))
		}
	}
}

// TestTheDemoIsQuiet: no alert fires, nor is about to, in the series that were recorded while the
// documents' second example ran (E2E_RECORD of test/e2e).
func TestTheDemoIsQuiet(t *testing.T) {
	recorded, err := os.ReadFile("testdata/demo.yaml")
	require.NoError(t, err)
	var series []map[string]string
	require.NoError(t, yaml.Unmarshal(recorded, &series))
	seconds := len(strings.Fields(series[0]["values"]))
	require.Greater(t, seconds, 3)
	require.Contains(t, string(recorded), "muster_evictions_unused_total")
	require.Regexp(t, `reason="Preempting"}\n  values: .*[1-9]`, string(recorded), "somebody was evicted")
	ask := []map[string]any{}
	for s := range seconds {
		ask = append(ask, map[string]any{"expr": "ALERTS", "eval_time": fmt.Sprint(s, "s"), "exp_samples": []any{}})
	}
	tests, err := yaml.Marshal(map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1s",
		"tests": []any{map[string]any{"interval": "1s", "input_series": series, "promql_expr_test": ask}},
	})
	require.NoError(t, err)
	promtool(t, Rules, string(tests), "test", "rules", "tests.yaml")
}
