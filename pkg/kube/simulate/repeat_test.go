package simulate

import (
	"encoding/json"
	"flag"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/test/seed"
	smallworlds "github.com/muster-scheduler/muster/test/worlds"
)

var simTwice = flag.Int("sim.twice", seed.Worlds(100), "the number of worlds that TestTwice plays twice")

// TestTwice: equal input gives equal output, byte for byte, including the log. Only threads make the order
// random, so the test has several.
func TestTwice(t *testing.T) {
	quietLogs(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	// 97: the restarted scheduler has two pods to choose from. 142: quotas try pods together with other pods.
	// 1424147394: some nodes take members of a role, and none takes its other members.
	seeds := []uint64{97, 97, 97, 142, 142, 142, 1424147394, 1424147394, 1424147394}
	worlds := *simTwice
	if testing.Short() {
		worlds = min(worlds, 5)
	}
	first := 1000 + firstSeed()
	for i := range uint64(worlds) {
		seeds = append(seeds, first+i)
	}
	began := time.Now()
	for _, number := range seeds {
		h := reliably(draw(number))
		one, err := playFor(t, h)
		if err != nil {
			continue // TestWorlds is about that
		}
		two, err := playFor(t, h)
		if err != nil {
			t.Errorf("seed %d: the second time a rule is broken: %v", number, err)
			continue
		}
		if a, b := firstDifference(allOf(t, one), allOf(t, two)); a != b {
			t.Errorf("seed %d: the same again is another history:\n%s\n%s", number, a, b)
		}
	}
	t.Logf("seeds from %d: %d worlds twice in %s", first, len(seeds), time.Since(began).Round(time.Second))
	smallworlds.Report(t, len(seeds), nil)
}

// TestBackgroundWorkHasOneOrder: works in the background that are due at the same time are done in the order of their names. In this world
// the check of eligible victims is due together with another work, and two threads did them in any order.
func TestBackgroundWorkHasOneOrder(t *testing.T) {
	quietLogs(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	h := reliably(withSuspects(draw(922140)))
	first, err := playFor(t, h)
	require.NoError(t, err)
	for range 7 {
		again, err := playFor(t, h)
		require.NoError(t, err)
		require.Equal(t, first.result(), again.result())
	}
}

// TestPodsComeInOneOrder: pods that several goroutines activate at one moment reach the queue in the order of their names.
func TestPodsComeInOneOrder(t *testing.T) {
	var came activated
	l := &delayedActivator{PodActivator: &came, gate: &gate{}, waiting: map[string]*v1.Pod{}}
	for _, names := range [][]string{{"d", "b"}, {"c", "a"}} {
		pods := map[string]*v1.Pod{}
		for _, name := range names {
			pods[name] = &v1.Pod{}
		}
		l.Activate(klog.Background(), pods)
	}
	require.Empty(t, came)
	require.True(t, l.activateWaiting())
	require.Equal(t, activated{"a", "b", "c", "d"}, came)
	require.False(t, l.activateWaiting())
	l.gate.setScheduler(goroutineID())
	l.Activate(klog.Background(), map[string]*v1.Pod{"f": {}, "e": {}, "g": {}})
	require.Equal(t, activated{"a", "b", "c", "d", "e", "f", "g"}, came, "the scheduler's own at once")
}

// activated are the names of pods that were activated.
type activated []string

// Activate implements fwk.PodActivator.
func (a *activated) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	*a = slices.AppendSeq(*a, maps.Keys(pods))
}

// reliably is a history without lost requests and without PodGroups that are made again. The client's pause before a retry depends on the
// real clock. A PodGroup that is made again changes the order of its members while they are in the scheduler's queue. The queue does not
// sort again, so the order then depends on the order of insertion, which is that of a map (world 921750).
func reliably(h history) history {
	return slices.DeleteFunc(slices.Clone(h), func(e event) bool {
		return e.kind == requestsFail || e.kind == gangAnew || e.kind == runningAnew
	})
}

// allOf is all that a world has to show: one thing a line.
func allOf(t *testing.T, w *world) string {
	t.Helper()
	r := w.s.result()
	out, err := json.MarshalIndent(struct {
		*Result
		Events []Event
	}{r, r.Events}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return w.result() + "\n" + string(out)
}
