package simulate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

// TestEachCommandReportsTheSameState runs "simulate", "queue" and "explain" over the first objects of each scenario. A gang that
// "queue" says Starts or Evicts is Scheduled or Preempting after the simulation, in which evicted pods keep terminating. The minimum of
// a gang is the same, unless its Job has completions meanwhile, and "queue" lists each gang that waits.
func TestEachCommandReportsTheSameState(t *testing.T) {
	folders, err := filepath.Glob("*/args")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(folder, func(t *testing.T) {
			t.Chdir(folder)
			input := firstObjects(t)
			var result struct {
				Gangs []struct {
					Namespace, Name, State string
					Min                    int
				}
			}
			ask(t, &result, append([]string{"simulate", "--victims-stay"}, input...)...)
			simulated, minimum := map[string][]string{}, map[string]int{}
			for _, g := range result.Gangs {
				key := g.Namespace + "/" + g.Name
				simulated[key], minimum[key] = append(simulated[key], g.State), g.Min
			}
			type members struct{ Exist, Bound, Min int }
			var queue []struct {
				Gang, State string
				Members     members
			}
			listed := map[string]bool{}
			ask(t, &queue, append([]string{"queue", "-A"}, input...)...)
			for _, q := range queue {
				listed[q.Gang] = true
				if len(simulated[q.Gang]) > 1 {
					continue // the name does not say which gang is asked about
				}
				namespace, name, _ := strings.Cut(q.Gang, "/")
				var explained struct {
					State   string
					Members members
				}
				ask(t, &explained, append([]string{"explain", "podgroup", name, "-n", namespace}, input...)...)
				require.Equal(t, q.State, explained.State, "queue and explain, gang %s", q.Gang)
				require.Equal(t, q.Members, explained.Members, "queue and explain, gang %s", q.Gang)
				require.Equal(t, minimum[q.Gang], q.Members.Min, "simulate and queue, minimum of gang %s", q.Gang)
				afterwards := map[string]string{"Starts": "Scheduled", "Evicts": "Preempting"}[q.State]
				if afterwards == "" {
					afterwards = q.State
				}
				require.Equal(t, simulated[q.Gang], []string{afterwards}, "simulate and queue, gang %s", q.Gang)
				seen[q.State]++
			}
			for key, states := range simulated {
				if !listed[key] && slices.Equal(states, []string{"Waiting"}) { // it may be evicted in simulate
					namespace, name, _ := strings.Cut(key, "/")
					var explained struct{ State string }
					ask(t, &explained, append([]string{"explain", "podgroup", name, "-n", namespace}, input...)...)
					require.Equal(t, "Scheduled", explained.State, "queue omits gang %s", key)
				}
			}
		})
	}
	for _, state := range []string{
		"Starts", "Evicts", "Preempting", "Waiting", "Unschedulable", "NeverFits", "Rejected",
	} {
		require.NotZero(t, seen[state], "no scenario has a gang that is %s: %v", state, seen)
	}
}

// firstObjects returns the arguments of the scenario in the present folder that name its first objects and its configuration.
func firstObjects(t *testing.T) (args []string) {
	t.Helper()
	text, err := os.ReadFile("args")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		for i, word := range words {
			if !strings.HasPrefix(line, "#") && (word == "-f" || word == "--config") {
				args = append(args, words[i:i+2]...)
			}
		}
	}
	return args
}

// ask runs a command and reads its JSON.
func ask(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, notes bytes.Buffer
	code := cli.Main(t.Context(), append(args, "-o", "json"), &out, &notes)
	require.Zero(t, code, "%s: %s", args, notes.String())
	require.NoError(t, json.Unmarshal(out.Bytes(), into))
}
