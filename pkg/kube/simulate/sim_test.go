package simulate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/test/seed"
	smallworlds "github.com/muster-scheduler/muster/test/worlds"
)

var (
	simSeed   = flag.Uint64("sim.seed", 1, "the first seed of TestWorlds and TestTwice; 0 draws one")
	simShrink = flag.Bool("sim.shrink", false, "make histories that break a rule shorter")
	simWorlds = flag.Int("sim.worlds", seed.Worlds(200), "the number of seeds that TestWorlds tries")
	simWith   = flag.String("sim.with", "", "troubles and rules to have that are off, with commas; or all")
)

// knownFaults are seeds that break a rule for a known reason. They are skipped, unless a run names one alone.
var knownFaults = map[uint64]string{}

// leastOften says how often things must happen in 200 worlds: else the histories are too
// tame to prove anything.
var leastOften = map[string]int{
	nodePut: 800, nodeDeleted: 80, nodeCleared: 35, gangPut: 1000, gangDeleted: 50, gangAnew: 40, gangMin: 35, memberPut: 2500,
	podPut: 500, podDeleted: 150, podFinished: 25, topologySet: 180, restarted: 100, turnsGiven: 350, timePassed: 250, settledDown: 250,
	longTimeLeft: 100,

	podsBound: 800, gangsWhole: 280, gangsUnfit: 300, gangEvictions: 40, podEvictions: 25, placesAwaited: 5,
	restartedMidway: 2, multiplesKept: 6, sameAgain: 5,

	wholeOf(schedulerPluginsAPI): 14, wholeOf(volcanoAPI): 8, wholeOf(nativeAPI): 14, wholeOf(groveAPI): 14,
	treesWhole: 10, treesJoined: 5, partsWhole: 8,
	wholeOf(lwsAPI): 3, wholeOf(jobSetAPI): 1, wholeOf(jobAPI): 2, wholeByLabels: 5,
}

// TestWorlds: whatever happens, and in whatever order, no rule is broken.
func TestWorlds(t *testing.T) {
	quietLogs(t)
	from, worlds := firstSeed(), *simWorlds
	if testing.Short() {
		worlds = min(worlds, 20)
	}
	t.Logf("make sim SEED=%d WORLDS=%d", from, worlds)
	counts := map[string]int{}
	skipped, events := 0, 0
	began := time.Now()
	for i := range uint64(worlds) {
		if i > 0 && i%500 == 0 {
			t.Logf("%d worlds in %s", i, time.Since(began).Round(time.Second))
		}
		if knownFaults[from+i] != "" && worlds > 1 {
			skipped++
			continue
		}
		h := withSuspects(draw(from + i))
		events += len(h)
		w, err := playFor(t, h)
		if err != nil {
			t.Errorf("seed %d breaks a rule: %v", from+i, err)
			if *simShrink {
				h, err = shrink(t, h, err)
				t.Errorf("these %d events are enough: %v\n%s", len(h), err, h)
			}
			if *simShrink || worlds == 1 {
				t.Errorf("what the scheduler did:\n%s", replay(t, h))
			}
			continue
		}
		w.countQuotas(h)
		for k, n := range w.counts {
			counts[k] += n
		}
		if i%20 == 0 {
			once, errOnce := playFor(t, reliably(h))
			again, err := playFor(t, reliably(h))
			if a, b := firstDifference(once.result(), again.result()); errOnce != nil || err != nil || a != b {
				t.Errorf("seed %d: the same again is another history (%v, %v):\n%s\n%s", from+i, errOnce, err, a, b)
			}
			counts[sameAgain]++
		}
	}
	least := maps.Clone(leastOften)
	if on(quotaTrouble) {
		maps.Copy(least, leastQuotas)
	}
	for name, asked := range troublesDrawn {
		for what, n := range asked {
			if on(name) {
				least[what] = max(least[what], n)
			}
		}
	}
	for what, n := range least {
		if worlds >= 200 && counts[what] < n*worlds/200 {
			t.Errorf("%q happened %d times, at least %d are asked for", what, counts[what], n*worlds/200)
		}
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, counts[k]))
	}
	t.Logf("seeds %d to %d: %d worlds, %d skipped, %d events in %s: %s", from, from+uint64(worlds)-1, worlds-skipped, skipped, events,
		time.Since(began).Round(time.Second), strings.Join(kinds, ", "))
	smallworlds.Report(t, worlds-skipped, kinds)
}

// firstSeed is the first of the seeds that are asked for.
func firstSeed() uint64 {
	if *simSeed == 0 {
		return rand.Uint64N(1_000_000) + 1000
	}
	return *simSeed
}

// quietLogs keeps what schedulers say that are killed in the middle of their work out of
// the output.
func quietLogs(t *testing.T) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(io.Discard)
}

// firstDifference returns the first lines that differ.
func firstDifference(a, b string) (x, y string) {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return left[i], right[i]
		}
	}
	return fmt.Sprint(len(left), " lines"), fmt.Sprint(len(right), " lines")
}

func playFor(t *testing.T, h history) (*world, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of real time, which passes slower on a machine that is busy
	defer cancel()
	return play(ctx, h)
}

func replay(t *testing.T, h history) string {
	w, _ := playFor(t, h)
	lines := w.trace
	for _, p := range w.s.result().Pods {
		if p.State == Pending {
			lines = append(lines, fmt.Sprintf("%s waits: %s", p.Name, p.Message))
		}
	}
	return strings.Join(lines, "\n")
}

// shrink drops events that the fault does not need.
func shrink(t *testing.T, h history, err error) (history, error) {
	rule := ruleOf(err)
	end := time.Now().Add(time.Minute)
	for size := len(h) / 2; size > 0; size /= 2 {
		for i := 0; i < len(h); {
			without := slices.Delete(slices.Clone(h), i, min(i+size, len(h)))
			if time.Now().After(end) {
				return h, err
			}
			if _, is := playFor(t, without); is != nil && ruleOf(is) == rule {
				h, err = without, is
			} else {
				i += size
			}
		}
	}
	return h, err
}

func ruleOf(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.rule
	}
	return "error"
}
