package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// series returns the series of a Meter with a value that is not 0 and a given prefix after muster_. Prefix and
// buckets are left out.
func series(t *testing.T, m *status.Meter, begins ...string) (out []string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	families, err := r.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	for line := range strings.Lines(text.String()) {
		line, ours := strings.CutPrefix(strings.TrimSpace(line), "muster_")
		if !ours || strings.HasSuffix(line, " 0") || strings.Contains(line, "_bucket{") {
			continue
		}
		for _, b := range begins {
			if strings.HasPrefix(line, b) {
				out = append(out, line)
			}
		}
	}
	return out
}

// remove has a pod be gone.
func (w *world) remove(name string) {
	require.NoError(w.t, w.client.CoreV1().Pods("ns").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// TestMeterBeforeItKnows: before there is a cache, and before this process leads, nothing is told of what is now but
// that this process stands by. What was counted is.
func TestMeterBeforeItKnows(t *testing.T) {
	m := status.NewMeter(clock.RealClock{})
	require.Zero(t, m.Runs())
	m.Preemption(3)
	want := []string{"preemption_victims_total 3", "preemptions_total 1"}
	require.Equal(t, want, series(t, m, ""))
	many := testutil.CollectAndCount(m)
	m.SetSources(cache.New(cache.Options{Clock: clock.RealClock{}, Do: func([]gang.Effect) {}}), func() int64 { return 7 }, nil)
	require.EqualValues(t, 7, m.Runs())
	require.Equal(t, append([]string{"filter_runs_total 7"}, want...), series(t, m, ""))
	require.Equal(t, many, testutil.CollectAndCount(m), "the cache is not open")
	inWorld(t, func(w *world) {
		require.Equal(t, []string{"leading 1", "topology_valid 1"}, series(t, w.meter, ""))
		require.Greater(t, testutil.CollectAndCount(w.meter), many)
		bad, err := testutil.CollectAndLint(w.meter)
		require.NoError(t, err)
		require.Empty(t, bad)
	})
}

// TestGangsThatWait: how many, by reason, and how long the one of them waits that waits longest: since its first member
// was made, or since it was seen to wait again.
func TestGangsThatWait(t *testing.T) {
	inWorld(t, func(w *world) {
		made := func(ago time.Duration) func(*v1.Pod) {
			return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Now().Add(-ago)) }
		}
		waiting := func() []string { return series(t, w.meter, "gangs_waiting", "gang_longest") }
		w.gang("nobody", 1)
		w.pass(time.Second)
		require.Empty(t, waiting(), "it has no members")
		w.gang("half", 2)
		w.pod("half", "half-0", "", made(101*time.Second))
		w.pass(10 * time.Second)
		require.Equal(t, []string{`gang_longest_wait_seconds{reason="Waiting"} 110`, `gangs_waiting{reason="Waiting"} 1`}, waiting(),
			"creation times are whole seconds")

		for _, name := range []string{"a", "b"} {
			w.gang(name, 2)
			w.pod(name, name+"-0", "")
			w.pod(name, name+"-1", "")
			w.pass(5 * time.Second)
		}
		w.pod("theirs", "theirs-0", "", func(p *v1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
		w.pass(time.Second)
		require.Equal(t, []string{
			`gang_longest_wait_seconds{reason="Ready"} 11`, `gang_longest_wait_seconds{reason="Waiting"} 121`,
			`gangs_waiting{reason="Ready"} 2`, `gangs_waiting{reason="Waiting"} 1`,
		}, waiting())

		w.bind("a-0")
		w.bind("a-1")
		w.cache.Handle(gang.Unschedulable{
			Group: gang.Ref{Source: "podgroup", Namespace: "ns", Name: "b"}, Refusal: gang.Obstacle{By: gang.Plan, Words: "no room"},
		})
		w.remove("half-0")
		w.pass(time.Second)
		require.Equal(t, []string{`gang_longest_wait_seconds{reason="Unschedulable"} 7`, `gangs_waiting{reason="Unschedulable"} 1`}, waiting())
		w.remove("a-1")
		w.pod("a", "a-2", "", made(time.Hour))
		w.remove("b-0")
		w.remove("b-1")
		w.without("b")
		w.pass(2 * time.Second)
		require.Equal(t, []string{`gang_longest_wait_seconds{reason="Ready"} 2`, `gangs_waiting{reason="Ready"} 1`}, waiting(),
			"it has started before")
	})
}

// attemptFor returns an attempt that only knows its group.
func attemptFor(group gang.Ref) *place.Attempt {
	return &place.Attempt{Group: &cache.Group{Group: gang.Group{Key: group}}}
}

// TestAStartIsMeasured: how long a gang took to start, what that has cost and how near its places are; not when it
// starts again, nor of one that was not seen to wait.
func TestAStartIsMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		measured := func() []string {
			return series(t, w.meter, "gang_start", "gang_cycles", "gang_filter_runs", "gang_domains", "largest_gang")
		}
		g := w.gang("g", 2)
		w.meter.Cycle(g) // no member waits
		w.pod("g", "g-0", "")
		w.pass(10 * time.Second)
		w.pod("g", "g-1", "")
		w.pass(time.Second)
		for range 3 {
			w.meter.Cycle(g)
			before := w.meter.Runs()
			w.runs.Add(40)
			w.meter.Attempt(g, false, time.Second, before)
		}
		w.meter.Placed(attemptFor(g), nil,
			[]place.Spread{{Layer: "SpineLayer", Touched: 1, Least: 1}, {Layer: "BlockLayer", Touched: 4, Least: 2}})
		w.bind("g-0")
		w.pass(time.Second)
		require.Empty(t, measured(), "it needs another one")
		w.bind("g-1")
		w.pass(time.Second)
		want := []string{
			`gang_cycles_sum{size="2-8"} 3`, `gang_cycles_count{size="2-8"} 1`,
			`gang_domains_above_least_sum{layer="BlockLayer"} 2`, `gang_domains_above_least_count{layer="BlockLayer"} 1`,
			`gang_domains_above_least_count{layer="SpineLayer"} 1`,
			`gang_filter_runs_sum{size="2-8"} 120`, `gang_filter_runs_count{size="2-8"} 1`,
			`gang_start_duration_seconds_sum{size="2-8"} 12`, `gang_start_duration_seconds_count{size="2-8"} 1`,
		}
		require.Equal(t, want, measured())

		w.remove("g-1")
		w.pass(time.Second)
		w.pod("g", "g-2", "")
		w.pass(time.Second)
		w.bind("g-2")
		w.gang("ran", 1)
		w.pod("ran", "ran-0", "n")
		w.gang("gone", 1)
		w.pod("gone", "gone-0", "")
		w.pass(time.Second)
		w.remove("gone-0")
		w.pass(time.Second)
		require.Equal(t, want, measured())
	})
}

// join has gangs be one group.
func (w *world) join(names ...string) {
	for _, name := range names {
		u, err := w.custom.Resource(sigs.PodGroups).Namespace("ns").Get(w.t.Context(), name, metav1.GetOptions{})
		require.NoError(w.t, err)
		u.SetAnnotations(map[string]string{
			scheduling.AnnotationMode: string(scheduling.ModeStrict), scheduling.AnnotationGroups: `["ns/` + strings.Join(names, `","ns/`) + `"]`,
		})
		_, err = w.custom.Resource(sigs.PodGroups).Namespace("ns").Update(w.t.Context(), u, metav1.UpdateOptions{})
		require.NoError(w.t, err)
	}
}

// TestWhatAGroupHasCostIsCountedOnce: each gang of a group has started after some time; the cycles were for all of them.
func TestWhatAGroupHasCostIsCountedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.gang("a", 1)
		w.gang("b", 1)
		w.join("a", "b")
		w.pod("a", "a-0", "")
		w.pod("b", "b-0", "")
		w.pass(time.Second)
		w.meter.Cycle(a)
		w.meter.Cycle(a)
		w.bind("b-0")
		w.pass(time.Second)
		w.bind("a-0")
		w.pass(time.Second)
		require.Equal(t, []string{
			`gang_cycles_sum{size="1"} 2`, `gang_cycles_count{size="1"} 1`,
			`gang_start_duration_seconds_sum{size="1"} 3`, `gang_start_duration_seconds_count{size="1"} 2`,
		}, series(t, w.meter, "gang_start", "gang_cycles"))
	})
}

// TestReservationsAreMeasured: the number of reservations, the age of the oldest one, and the time that each was
// held. A reservation also ends when its gang joins another group.
func TestReservationsAreMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		refs := map[string]gang.Ref{}
		for _, name := range []string{"a", "b", "c"} {
			refs[name] = w.gang(name, 1)
			w.pod(name, name+"-0", "")
		}
		w.pass(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			w.cache.Handle(gang.Planned{
				Group: refs[name], Places: []gang.Assignment{{Pod: "ns/" + name + "-0", Node: "n-" + name}}, Reserved: true,
				Until: time.Now().Add(time.Hour),
			})
			w.pass(time.Second)
		}
		w.pass(7 * time.Second)
		held := func() []string { return series(t, w.meter, "reservation") }
		require.Equal(t, []string{"reservation_oldest_seconds 10", "reservations 3"}, held())

		w.cache.Handle(gang.VictimStays{Group: refs["b"], Node: "n-b", Why: "a victim stays"})
		w.pass(time.Second)
		require.Equal(t, []string{
			`reservation_duration_seconds_sum{end="given_up"} 9`, `reservation_duration_seconds_count{end="given_up"} 1`,
			"reservation_oldest_seconds 11", "reservations 2",
		}, held())

		w.meter.Taken(refs["a"])
		w.meter.Taken(refs["b"]) // which has none
		w.cache.Handle(gang.Confirmed{Group: refs["a"]})
		w.bind("a-0")
		w.pass(time.Second)
		taken := []string{`reservation_duration_seconds_sum{end="taken"} 11`, `reservation_duration_seconds_count{end="taken"} 1`}
		require.Equal(t, []string{
			`reservation_duration_seconds_sum{end="given_up"} 9`, `reservation_duration_seconds_count{end="given_up"} 1`,
			taken[0], taken[1], "reservation_oldest_seconds 10", "reservations 1",
		}, held(), "what was taken is not given up")

		w.join("b", "c")
		w.pass(time.Second)
		for range 2 {
			require.Equal(t,
				append([]string{`reservation_duration_seconds_sum{end="given_up"} 20`, `reservation_duration_seconds_count{end="given_up"} 2`},
					taken...),
				held())
		}
	})
}

// TestUnusedEvictionsForGang: pods that have left nodes of which then no member is on one are counted when the
// gang has what it needs, or is gone.
func TestUnusedEvictionsForGang(t *testing.T) {
	for name, c := range map[string]struct {
		from   []string // the nodes of the victims; members go to n
		then   func(w *world)
		unused string
	}{
		"all is used":      {[]string{"n", "n"}, func(w *world) { w.bind("g-0"); w.bind("g-1") }, ""},
		"one node is":      {[]string{"n", "m", "m"}, func(w *world) { w.bind("g-0"); w.bind("g-1") }, "evictions_unused_total 2"},
		"one has yet to":   {[]string{"n", "m"}, func(w *world) { w.bind("g-0") }, ""},
		"one of them goes": {[]string{"n", "m"}, func(w *world) { w.bind("g-0"); w.remove("g-1") }, "evictions_unused_total 1"},
		"its members go":   {[]string{"n", "m"}, func(w *world) { w.remove("g-0"); w.remove("g-1") }, "evictions_unused_total 2"},
		"it goes":          {[]string{"n"}, func(w *world) { w.remove("g-0"); w.remove("g-1"); w.without("g") }, "evictions_unused_total 1"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.gang("g", 2)
				by := w.pod("g", "g-0", "")
				w.pod("g", "g-1", "")
				w.pass(time.Second)
				for _, node := range c.from {
					w.meter.Evicted(&v1.Pod{Spec: v1.PodSpec{NodeName: node}}, by, true)
				}
				w.meter.Evicted(&v1.Pod{Spec: v1.PodSpec{NodeName: "x"}}, by, false)
				w.pass(time.Second)
				counted := []string{fmt.Sprintf(`evictions_total{cause="gang"} %d`, len(c.from)), `evictions_total{cause="whole"} 1`}
				require.Equal(t, counted, series(t, w.meter, "evictions"))
				c.then(w)
				w.pass(time.Second)
				if c.unused != "" {
					counted = append(counted, c.unused)
				}
				require.Equal(t, counted, series(t, w.meter, "evictions"))
				w.pass(time.Minute)
				require.Equal(t, counted, series(t, w.meter, "evictions"), "once")
			})
		})
	}
}

// TestUnusedEvictionsForPod: evictions for a pod without a gang are unused once the pod is deleted or bound to
// another node. The binding need not be reported.
func TestUnusedEvictionsForPod(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(w *world, by *v1.Pod)
		unused []string
	}{
		"it waits":                     {func(*world, *v1.Pod) {}, nil},
		"it is bound":                  {func(w *world, by *v1.Pod) { w.meter.Bound(by, "n") }, []string{"evictions_unused_total 1"}},
		"it is bound elsewhere":        {func(w *world, by *v1.Pod) { w.meter.Bound(by, "x") }, []string{"evictions_unused_total 3"}},
		"another one is":               {func(w *world, _ *v1.Pod) { w.meter.Bound(&v1.Pod{}, "n") }, nil},
		"it is bound without a report": {func(w *world, _ *v1.Pod) { w.bind("p") }, []string{"evictions_unused_total 1"}},
		"it is gone":                   {func(w *world, _ *v1.Pod) { w.remove("p") }, []string{"evictions_unused_total 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				by := w.pod("", "p", "")
				w.meter.Bound(by, "x") // before its first victim terminated
				for _, node := range []string{"n", "n", "m"} {
					w.meter.Evicted(&v1.Pod{Spec: v1.PodSpec{NodeName: node}}, by, true)
				}
				c.then(w, by)
				for range 2 {
					require.Equal(t, append([]string{`evictions_total{cause="pod"} 3`}, c.unused...), series(t, w.meter, "evictions"))
				}
			})
		})
	}
}

// TestWhatIsCounted: the metrics of attempts, of rejecting plugins and of retries.
func TestWhatIsCounted(t *testing.T) {
	m, a := status.NewMeter(clock.RealClock{}), attemptFor(gang.Ref{})
	m.Refused(a, nil) // a plugin has failed
	for _, plugins := range [][]string{nil, {"A"}, {"A", "B"}} {
		m.Refused(a, &place.Refusal{Plugins: plugins})
	}
	for i := range 3 {
		m.TriedAgain(i == 0)
		m.Attempt(a.Group.Key, i == 0, time.Duration(i+1)*time.Second, 0)
	}
	m.Revoked()
	require.Equal(t, []string{
		`evictions_total{cause="quota"} 1`,
		`plan_duration_seconds_sum{result="planned"} 1`, `plan_duration_seconds_count{result="planned"} 1`,
		`plan_duration_seconds_sum{result="refused"} 5`, `plan_duration_seconds_count{result="refused"} 2`,
		`refusals_total{plugin="A"} 2`, `refusals_total{plugin="B"} 1`, `refusals_total{plugin="none"} 2`,
		`wakeups_total{result="helped"} 1`, `wakeups_total{result="vain"} 2`,
	}, series(t, m, ""))
}
