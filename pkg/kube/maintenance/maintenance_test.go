package maintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
)

func at(clock string) time.Time {
	t, err := time.Parse(time.RFC3339, "2026-12-01T"+clock+":00Z")
	if err != nil {
		panic(err)
	}
	return t
}

func node(value string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{scheduling.AnnotationMaintenance: value}}}
}

// TestNodeIsClosedBeforeAndInItsWindow: a pod is kept off a node if its declared end is after the start of the window. Without a declared
// end it is kept off from the lead before the window. Within the window all pods are.
func TestNodeIsClosedBeforeAndInItsWindow(t *testing.T) {
	const window = "2026-12-01T02:00:00Z/2026-12-01T06:00:00Z"
	declared := func(d time.Duration) maintenance.Run { return maintenance.Run{Time: d, Known: true} }
	for name, c := range map[string]struct {
		value  string
		start  string
		run    maintenance.Run
		lead   time.Duration
		closed bool
	}{
		"ends before":                 {value: window, start: "00:30", run: declared(time.Hour)},
		"ends as the window begins":   {value: window, start: "01:00", run: declared(time.Hour)},
		"ends after its start":        {value: window, start: "01:01", run: declared(time.Hour), closed: true},
		"unknown, before the lead":    {value: window, start: "00:59", lead: time.Hour},
		"unknown, from the lead on":   {value: window, start: "01:00", lead: time.Hour, closed: true},
		"unknown, without lead":       {value: window, start: "01:59"},
		"within, unknown":             {value: window, start: "02:00", closed: true},
		"within, short":               {value: window, start: "05:59", run: declared(time.Second), closed: true},
		"after the window":            {value: window, start: "06:00", lead: 24 * time.Hour},
		"second window":               {value: window + ", 2026-12-01T08:00:00Z/2026-12-01T09:00:00Z", start: "07:30", run: declared(time.Hour), closed: true},
		"windows out of order":        {value: "2026-12-01T08:00:00Z/2026-12-01T09:00:00Z," + window, start: "01:30", run: declared(time.Hour), closed: true},
		"between windows":             {value: window + ",2026-12-01T08:00:00Z/2026-12-01T09:00:00Z", start: "06:30", run: declared(time.Hour)},
		"other time zone":             {value: "2026-12-01T03:00:00+01:00/2026-12-01T07:00:00+01:00", start: "01:01", run: declared(time.Hour), closed: true},
		"no annotation":               {value: "", start: "03:00"},
		"ends before its start":       {value: "2026-12-01T06:00:00Z/2026-12-01T02:00:00Z", start: "03:00"},
		"one of several is no window": {value: window + ",soon", start: "03:00"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(c.value)
			if c.value == "" {
				n.Annotations = nil
			}
			windows, _ := maintenance.Of(n) // an invalid annotation closes no node
			w, closed := windows.Closed(at(c.start), c.run, c.lead)
			require.Equal(t, c.closed, closed)
			require.Equal(t, c.closed, !w.End.IsZero())
		})
	}
}

// TestInvalidWindowsAreNamed: the error names the annotation, its value and the supported values.
func TestInvalidWindowsAreNamed(t *testing.T) {
	for _, value := range []string{"", "soon", "2026-12-01T02:00:00Z", "2026-12-01/2026-12-02", "2026-12-01T02:00:00Z/2026-12-01T02:00:00Z"} {
		_, err := maintenance.Of(node(value))
		require.ErrorContains(t, err, "muster.sh/maintenance: ")
		require.ErrorContains(t, err, "is invalid; supported values: START/END with an END after START, such as 2026-12-01T02:00:00Z/2026-12-01T06:00:00Z")
	}
	none, err := maintenance.Of(&v1.Node{})
	require.NoError(t, err)
	require.Empty(t, none)
}

// TestChangesOfNodes: the times at which a node takes other pods than before are the lead, the start and the end of each window.
func TestChangesOfNodes(t *testing.T) {
	windows, err := maintenance.Of(node("2026-12-01T02:00:00Z/2026-12-01T06:00:00Z"))
	require.NoError(t, err)
	nodes := (*maintenance.Nodes)(nil).With("n", windows)
	for from, want := range map[string]bool{"00:00": false, "00:59": true, "01:00": false, "01:59": true, "02:00": false, "05:59": true, "06:00": false} {
		require.Equal(t, want, nodes.AnyChange(at(from), at(from).Add(time.Minute), time.Hour), from)
	}
	require.False(t, (*maintenance.Nodes)(nil).AnyChange(time.Time{}, at("12:00"), 0))
	require.Equal(t, windows, nodes.Of("n"))
	require.Empty(t, nodes.Of("m"))
	require.Nil(t, nodes.With("n", nil))
	require.NotNil(t, nodes.With("m", windows).With("n", nil))
	require.Equal(t, "node(s) have maintenance from 2026-12-01T02:00:00Z until 2026-12-01T06:00:00Z", maintenance.Reason(windows[0]))
}
