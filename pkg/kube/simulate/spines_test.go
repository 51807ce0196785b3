package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// scenarioFiles returns the objects of files in test/scenarios.
func scenarioFiles(t *testing.T, files ...string) *Set {
	t.Helper()
	set := &Set{}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "scenarios", file))
		require.NoError(t, err)
		require.NoError(t, set.Add(file, data))
	}
	return set
}

// openSpines opens a world with a gang that waits for spine s1, where the last of three jobs ends 40 minutes after the start. more are files
// of test/scenarios.
func openSpines(t *testing.T, more ...string) *World {
	t.Helper()
	files := []string{"../fixtures/clusternetworktopology.yaml", "simulate/priorities.yaml", "time/spines.yaml"}
	w, err := Open(t.Context(), Options{}, scenarioFiles(t, append(files, more...)...))
	require.NoError(t, err)
	t.Cleanup(w.Close)
	require.NoError(t, w.Settle(t.Context(), nil))
	return w
}

// trainOf returns gang train of openSpines without the rest of the cluster.
func trainOf(t *testing.T) *Set {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "scenarios", "time", "spines.yaml"))
	require.NoError(t, err)
	docs := slices.DeleteFunc(strings.Split(string(data), "---\n"), func(doc string) bool { return !strings.Contains(doc, "name: train") })
	return setOf(t, strings.Join(docs, "---\n"))
}

// promiseCondition returns the message of the condition StartPromised in the stored object of gang train; "" if it has none.
func promiseCondition(t *testing.T, w *World) string {
	t.Helper()
	o, err := w.cluster.get(sigs.PodGroups, key{"default", "train"})
	require.NoError(t, err)
	conditions, _, err := unstructured.NestedSlice(o.(*unstructured.Unstructured).Object, "status", "conditions")
	require.NoError(t, err)
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == scheduling.ConditionStartPromised {
			return c["message"].(string)
		}
	}
	return ""
}

// TestPromiseSurvivesRestart (case B8): the scheduler is restarted before the promised start. The promise keeps its domain and time, no pod
// uses the held node, and the gang starts in that domain at that time.
func TestPromiseSurvivesRestart(t *testing.T) {
	quietLogs(t)
	w := openSpines(t)
	require.NoError(t, w.pause(t.Context(), 11*time.Minute))
	promise := promiseCondition(t, w)
	require.Contains(t, promise, "The gang starts by 2026-01-01T00:40:00Z in s1,")
	require.NoError(t, w.pause(t.Context(), 4*time.Minute))

	restart(t, t.Context(), w, func() {})
	require.NoError(t, w.Apply(t.Context(), scenarioFiles(t, "simulate/time-03-no-backfill/long.yaml")))
	require.NoError(t, w.pause(t.Context(), 24*time.Minute))
	require.Equal(t, promise, promiseCondition(t, w))
	require.NotContains(t, bound(w), "long")
	require.NotContains(t, bound(w), "train")
	require.NoError(t, w.pause(t.Context(), 2*time.Minute))
	require.Contains(t, bound(w), "train-0 train-1 train-2 train-3")
	require.NotContains(t, bound(w), "long")
}

// TestDeletedGangReleasesItsHold: a gang with a promised start is deleted while capacity is held for it. The hold ends, another pod uses
// the node, and the promise counts neither as kept nor as moved. A gang of that name that comes later has a promise of its own.
func TestDeletedGangReleasesItsHold(t *testing.T) {
	quietLogs(t)
	const deleted = "metadata: {name: %s, deletionTimestamp: '2026-01-01T00:00:00Z'}"
	object := "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, " + fmt.Sprintf(deleted, "train") + "}"
	var members []string
	for i := range 4 {
		members = append(members,
			"{apiVersion: v1, kind: Pod, "+fmt.Sprintf(deleted, fmt.Sprint("train-", i))+", spec: {containers: [{name: c, image: i}]}}")
	}
	for name, gone := range map[string][]string{
		"object and members": append([]string{object}, members...), "members": members, "object": {object},
	} {
		t.Run(name, func(t *testing.T) {
			w := openSpines(t)
			require.NoError(t, w.pause(t.Context(), 11*time.Minute))
			require.Equal(t, map[string]float64{"muster_start_promises_total": 1, "muster_held_nodes": 4}, promiseMetrics(t, w))
			require.NoError(t, w.Apply(t.Context(), setOf(t, strings.Join(gone, "\n---\n"))))
			require.NoError(t, w.Apply(t.Context(), scenarioFiles(t, "simulate/time-03-no-backfill/long.yaml")))
			require.NoError(t, w.pause(t.Context(), time.Minute))
			require.Equal(t, map[string]float64{"muster_start_promises_total": 1}, promiseMetrics(t, w))
			require.Contains(t, bound(w), "long")
			if name == "members" {
				require.Empty(t, promiseCondition(t, w))
			}
			require.NoError(t, w.Apply(t.Context(), trainOf(t)))
			require.NoError(t, w.pause(t.Context(), 11*time.Minute))
			require.Equal(t, map[string]float64{"muster_start_promises_total": 2, "muster_held_nodes": 4}, promiseMetrics(t, w))
		})
	}
}
