package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestExamplesInMemory: both examples end as documented without a control plane, and a lost pod is noticed.
func TestExamplesInMemory(t *testing.T) {
	var out strings.Builder
	require.NoError(t, RunInMemory(t.Context(), &out), out.String())
	require.Equal(t, 3, strings.Count(out.String(), "✓ ")-1, out.String())
	require.Contains(t, out.String(), `
hp-training-pod-0     Pending   <none>    node-5
`)
	require.Contains(t, out.String(), `
    spine-1                                       0
      block-2  node-5 x  node-6 x                 0
`)
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), demoWidth, line)
	}

	m := inMemory{narrator: newNarrator(&out), mayBeSeen: func(simulate.State) bool { return false }}
	require.NoError(t, m.play(t.Context(), "rows are missing", example1Pods, networkFiles, example1Files))
	require.Equal(t, []string{"rows are missing"}, m.failed)
}
