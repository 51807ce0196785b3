package simulate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/muster-scheduler/muster/pkg/cli"
)

var rewrite = flag.Bool("rewrite", false, "write what the simulations print into expected.json")

// TestScenarios runs "musterctl simulate" in each folder with the arguments in its file args, and compares the output
// with expected.json. The comment in args says why the scenario exists. A file named pending says what is still missing.
func TestScenarios(t *testing.T) {
	folders, err := filepath.Glob("*/args")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(folder, func(t *testing.T) {
			t.Chdir(folder)
			got := simulate(t)
			pending, _ := os.ReadFile("pending")
			if *rewrite && pending == nil {
				require.NoError(t, os.WriteFile("expected.json", got, 0o644))
			}
			want, err := os.ReadFile("expected.json")
			require.NoError(t, err)
			if pending != nil && !bytes.Equal(want, got) {
				t.Skip(string(pending))
			}
			require.Equal(t, string(want), string(got))
		})
	}
}

// simulate runs the scenario in the present folder.
func simulate(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("args")
	require.NoError(t, err)
	args := []string{"simulate", "-o", "json"}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			args = append(args, strings.Fields(line)...)
		}
	}
	var out, notes bytes.Buffer
	code := cli.Main(t.Context(), args, &out, &notes)
	require.Zero(t, code, notes.String())
	for note := range strings.Lines(notes.String()) {
		require.Contains(t, note, "; only this one counts", "a scenario may replace objects of another")
	}
	return out.Bytes()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
