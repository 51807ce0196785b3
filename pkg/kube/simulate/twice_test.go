package simulate

import (
	"encoding/json"
	"flag"
	"runtime"
	"slices"
	"testing"
	"time"

	smallworlds "github.com/muster-scheduler/muster/test/worlds"
)

var simTwice = flag.Int("sim.twice", 40, "how many worlds TestTwice plays twice")

// TestTwice: equal input gives equal output, byte for byte, with all that was said
// meanwhile. Threads are what leaves the order to chance, so there are some.
func TestTwice(t *testing.T) {
	quietLogs(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	seeds := []uint64{97, 97, 97} // whose scheduler, when it begins again, has two pods to choose from
	worlds := *simTwice
	if testing.Short() {
		worlds = min(worlds, 5)
	}
	first := 1000 + firstSeed()
	for i := range uint64(worlds) {
		seeds = append(seeds, first+i)
	}
	began := time.Now()
	for _, seed := range seeds {
		h := reliably(draw(seed))
		one, err := playFor(t, h)
		if err != nil {
			continue // TestWorlds is about that
		}
		two, err := playFor(t, h)
		if err != nil {
			t.Errorf("seed %d: the second time a rule is broken: %v", seed, err)
			continue
		}
		if a, b := firstDifference(allOf(t, one), allOf(t, two)); a != b {
			t.Errorf("seed %d: the same again is another history:\n%s\n%s", seed, a, b)
		}
	}
	t.Logf("seeds from %d: %d worlds twice in %s", first, len(seeds), time.Since(began).Round(time.Second))
	smallworlds.Report(t, len(seeds), nil)
}

// reliably is a history in which no request is lost: how long the client waits before it sends
// one again goes by the clock on the wall.
func reliably(h history) history {
	return slices.DeleteFunc(slices.Clone(h), func(e event) bool { return e.kind == requestsFail })
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
