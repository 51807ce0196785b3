package elasticquota

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestMetrics(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("top max=8 tree-id=t is-root=true is-parent=true", "q min=500m max=6 parent=top tree-id=t")
	w.pod("default/p", "q", "n1", "1500m")
	is, err := testutil.CollectAndLint(w.Manager)
	require.NoError(t, err)
	require.Empty(t, is)
	all := collected(t, w.Manager)
	require.Contains(t, all, `scheduler_elastic_quota_spec{field="min",is_parent="false",name="q",parent="top",resource="cpu",tree="t"} 0.5`)
	require.Contains(t, all, `scheduler_elastic_quota_spec{field="max",is_parent="true",name="top",parent="",resource="cpu",tree="t"} 8`)
	require.Contains(t, all,
		`scheduler_elastic_quota_status{field="used",is_parent="false",name="q",parent="top",resource="cpu",tree="t"} 1.5`)
	require.Contains(t, all,
		`scheduler_elastic_quota_status{field="runtime",is_parent="false",name="q",parent="top",resource="cpu",tree="t"} 1.5`)

	w.Open = func() bool { return false }
	require.Empty(t, collected(t, w.Manager), "another process tells them")
}

// collected are the lines that Prometheus would read.
func collected(t *testing.T, r *Manager) []string {
	text, err := testutil.CollectAndFormat(r, expfmt.TypeTextPlain, "scheduler_elastic_quota_spec", "scheduler_elastic_quota_status")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
