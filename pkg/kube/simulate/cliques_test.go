package simulate

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpreadNamesCliques is case 22: a ComputeDomain that does not fit into one clique starts in several, and that it is bound is
// said with their names; where members must gather, the refusal names all that were looked at, with what there is in each.
func TestSpreadNamesCliques(t *testing.T) {
	for name, want := range map[string]string{
		"channels-spread": "the gang is bound (domains touched: 2 of CliqueLayer: b, c, least possible 2; 8 of NodeTopologyLayer, least " +
			"possible 8)",
		"channels-must-gather": "topology topologyNode CliqueLayer/b: 7;topology topologyNode CliqueLayer/a: 6;topology topologyNode " +
			"CliqueLayer/c",
	} {
		t.Run(name, func(t *testing.T) {
			quietLogs(t)
			text, err := os.ReadFile("../../../test/scenarios/simulate/" + name + "/in.yaml")
			require.NoError(t, err)
			w, err := Open(t.Context(), Options{}, setOf(t, string(text)))
			require.NoError(t, err)
			defer w.Close()
			require.NoError(t, w.Settle(t.Context(), nil))
			events := w.Result().Events
			require.True(t, slices.ContainsFunc(events, func(e Event) bool { return strings.Contains(e.Message, want) }), events)
		})
	}
}
