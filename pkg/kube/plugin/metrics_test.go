package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// meter reads a scheduler's metrics as Prometheus does.
type meter struct {
	t *testing.T
	*prometheus.Registry
}

func meterOf(t *testing.T, c *testcluster.Cluster) meter {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c.Plugin.Meter))
	return meter{t, r}
}

// value is that of a series, written as in a query: of a histogram NAME_count or NAME_sum. One
// that there is not is 0.
func (m meter) value(series string) float64 {
	m.t.Helper()
	families, err := m.Gather()
	require.NoError(m.t, err)
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for _, f := range families {
		part := strings.TrimPrefix(name, f.GetName())
		for _, s := range f.GetMetric() {
			var has []string
			for _, l := range s.GetLabel() {
				has = append(has, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if !slices.Equal(has, strings.FieldsFunc(labels, func(r rune) bool { return r == ',' })) {
				continue
			}
			switch {
			case f.GetType() == dto.MetricType_HISTOGRAM && part == "_count":
				return float64(s.GetHistogram().GetSampleCount())
			case f.GetType() == dto.MetricType_HISTOGRAM && part == "_sum":
				return s.GetHistogram().GetSampleSum()
			case part == "":
				return s.GetCounter().GetValue() + s.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// are compares values of series, each as "SERIES VALUE".
func (m meter) are(want ...string) {
	m.t.Helper()
	var is []string
	for _, w := range want {
		series, _, _ := strings.Cut(w, " ")
		is = append(is, fmt.Sprint(series, " ", m.value(series)))
	}
	require.Equal(m.t, want, is)
}

// TestMetricsOfStarts: how long it took, what it cost, and how near the places are. Binpacking
// leaves the block of large nodes alone, of which two would have had room.
func TestMetricsOfStarts(t *testing.T) { // alone: the Filters' runs are counted for the whole process
	c := testcluster.New(t, "s/b1/n0=8 s/b1/n1=8 s/b1/n2=8 s/b1/n3=8 s/b1/n4=8 s/b2/n5=32 s/b2/n6=32").Run()
	m := meterOf(t, c)
	before := m.value("muster_filter_runs_total")
	c.Gang("g", 5, testcluster.Pending(5, 0, "8")...)
	c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_gang_start_duration_seconds_count{size="2-8"}`)) })
	m.are(
		`muster_leading 1`,
		`muster_topology_valid 1`,
		`muster_gang_cycles_count{size="2-8"} 1`,
		`muster_gang_filter_runs_count{size="2-8"} 1`,
		`muster_plan_duration_seconds_count{result="planned"} 1`,
		`muster_gang_domains_above_least_count{layer="SpineLayer"} 1`,
		`muster_gang_domains_above_least_sum{layer="BlockLayer"} 0`,
		`muster_gang_domains_above_least_sum{layer="NodeTopologyLayer"} 3`,
		`muster_largest_gang{layer="BlockLayer"} 8`,
		`muster_largest_gang{layer="ClusterTopologyLayer"} 8`,
		`muster_gangs_waiting{reason="Unschedulable"} 0`,
		`muster_evictions_unused_total 0`,
	)
	require.GreaterOrEqual(t, m.value(`muster_gang_cycles_sum{size="2-8"}`), 5.0, "each member has one")
	require.Less(t, m.value(`muster_gang_start_duration_seconds_sum{size="2-8"}`), testcluster.WaitFor.Seconds())
	require.Positive(t, m.value(`muster_gang_start_duration_seconds_sum{size="2-8"}`))
	require.GreaterOrEqual(t, m.value(`muster_gang_filter_runs_sum{size="2-8"}`), 7.0, "each node was asked about")
	require.Equal(t, m.value(`muster_gang_filter_runs_sum{size="2-8"}`), m.value("muster_filter_runs_total")-before)

	c.Remove("g-1")
	again := testcluster.A("g-1", 0, "8", "")
	again.UID, again.Labels = "again", c.Get("g-0").Labels
	c.Pod(again)
	c.Wait("g-1=n1", func() string { return c.Where("g-1") })
	c.Wait("0", func() string {
		return fmt.Sprint(m.value(`muster_gangs_waiting{reason="Ready"}`) + m.value(`muster_gangs_waiting{reason="Binding"}`))
	})
	m.are(`muster_gang_start_duration_seconds_count{size="2-8"} 1`)
}

// The metrics show which gangs wait, why, which plugin rejected them, and whether retries helped.
func TestMetricsOfWaiting(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Pod(testcluster.A("low", 1000, "8", "n0"))
	c.Pod(testcluster.A("little", 1000, "1", "n1"))
	c.Run()
	m := meterOf(t, c)
	c.Gang("few", 3, testcluster.Pending(1, 0, "1")...)
	c.Gang("g", 3, testcluster.Pending(3, 0, "8")...)
	waiting := func() string {
		return fmt.Sprint(m.value(`muster_gangs_waiting{reason="Unschedulable"}`), m.value(`muster_gangs_waiting{reason="Waiting"}`))
	}
	c.Wait("1 1", waiting)
	grows := func(series string, than float64) {
		t.Helper()
		c.Wait("true", func() string { return fmt.Sprint(m.value(series) > than) })
	}
	// It may be tried more than once at the start: what was bound before is heard of then, too.
	grows(`muster_refusals_total{plugin="NodeResourcesFit"}`, 0)
	m.are(`muster_largest_gang{layer="SpineLayer"} 1`, `muster_wakeups_total{result="helped"} 0`)
	require.Positive(t, m.value(`muster_plan_duration_seconds_count{result="refused"}`))
	require.Positive(t, m.value(`muster_gang_longest_wait_seconds{reason="Unschedulable"}`))
	vain, refused := m.value(`muster_wakeups_total{result="vain"}`), m.value(`muster_refusals_total{plugin="NodeResourcesFit"}`)
	c.Remove("little")
	grows(`muster_wakeups_total{result="vain"}`, vain)
	grows(`muster_refusals_total{plugin="NodeResourcesFit"}`, refused)
	m.are(`muster_wakeups_total{result="helped"} 0`)
	c.Remove("low")
	c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_wakeups_total{result="helped"}`)) })
	c.Wait("0 1", waiting)
	m.are(`muster_gang_longest_wait_seconds{reason="Unschedulable"} 0`)
	c.Remove("few-0")
	c.Wait("0 0", waiting)
}

// TestMetricsOfEvictions: a gang leaves whole for another one, which takes the place.
func TestMetricsOfEvictions(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s1/b/n0=8 s1/b/n1=8 s2/b2/n2=8")
	c.Pod(testcluster.A("stays", 1000, "8", "n1"))
	c.Gang("low", 2, testcluster.A("", 10, "8", "n0"), testcluster.A("", 10, "8", "n2"))
	c.Stay()
	c.Run()
	m := meterOf(t, c)
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.Wait("1", func() string { return fmt.Sprint(m.value("muster_reservations")) })
	c.Wait("2", func() string {
		return fmt.Sprint(m.value(`muster_evictions_total{cause="gang"}`) + m.value(`muster_evictions_total{cause="whole"}`))
	})
	m.are(`muster_evictions_total{cause="gang"} 1`, `muster_evictions_total{cause="whole"} 1`, `muster_preemptions_total 1`)
	require.Positive(t, m.value("muster_reservation_oldest_seconds"))
	c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_gangs_waiting{reason="Preempting"}`)) })
	c.Release()
	c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_gang_start_duration_seconds_count{size="1"}`)) })
	m.are(
		`muster_reservations 0`,
		`muster_reservation_oldest_seconds 0`,
		`muster_reservation_duration_seconds_count{end="taken"} 1`,
		`muster_reservation_duration_seconds_count{end="given_up"} 0`,
		`muster_evictions_unused_total 0`,
	)
}

// The preemptor, a gang or a pod without one, is deleted before its capacity is free.
func TestMetricsOfEvictionsForDeletedPreemptor(t *testing.T) {
	for cause, come := range map[string]func(*testcluster.Cluster){
		"gang": func(c *testcluster.Cluster) { c.Gang("g", 1, testcluster.Pending(1, 100, "8")...) },
		"pod":  func(c *testcluster.Cluster) { c.Pod(testcluster.A("g-0", 100, "8", "")) },
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s1/b/n0=8")
			c.Pod(testcluster.A("low", 10, "8", "n0"))
			c.Stay()
			c.Run()
			m := meterOf(t, c)
			come(c)
			c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_evictions_total{cause="` + cause + `"}`)) })
			m.are(`muster_evictions_unused_total 0`)
			c.Remove("g-0")
			c.Wait("1", func() string { return fmt.Sprint(m.value("muster_evictions_unused_total")) })
			if cause == "gang" {
				c.Wait("0", func() string { return fmt.Sprint(m.value("muster_reservations")) })
				m.are(`muster_reservation_duration_seconds_count{end="given_up"} 1`)
			}
		})
	}
}

// TestMetricsOfUsedEviction: a pod without a gang takes the place that was made for it.
func TestMetricsOfUsedEviction(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s1/b/n0=8")
	c.Pod(testcluster.A("low", 10, "8", "n0"))
	c.Run()
	m := meterOf(t, c)
	c.Pod(testcluster.A("high", 100, "8", ""))
	c.Wait("high=n0", func() string { return c.Where("high") })
	c.Wait("1", func() string { return fmt.Sprint(m.value(`muster_evictions_total{cause="pod"}`)) })
	c.Remove("high")
	c.Never(func() bool { return m.value(`muster_evictions_unused_total`) != 0 })
}

// Pods are evicted for a leader and for its future members. Their nodes stay reserved, so the eviction is not in
// vain before the reservation ends.
func TestMetricsOfALeadersEvictions(t *testing.T) {
	member := func(index string) *v1.Pod {
		p := testcluster.A("lr-0-"+index, 100, "8", "")
		p.Labels = map[string]string{
			"leaderworkerset.sigs.k8s.io/name": "lr", "leaderworkerset.sigs.k8s.io/group-index": "0",
			"leaderworkerset.sigs.k8s.io/template-revision-hash": "a", "leaderworkerset.sigs.k8s.io/worker-index": index,
		}
		p.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "3", "leaderworkerset.sigs.k8s.io/exclusive-topology": "spine"}
		return p
	}
	for _, come := range []bool{true, false} {
		t.Run(fmt.Sprintf("workers come: %t", come), func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s1/b/n0=8 s1/b/n1=8 s1/b/n2=8")
			for i := range 3 {
				c.Pod(testcluster.A(fmt.Sprint("low-", i), 10, "8", fmt.Sprint("n", i)))
			}
			c.Run()
			m := meterOf(t, c)
			unused := func() string { return fmt.Sprint(m.value("muster_evictions_unused_total")) }
			c.Pod(member("0"))
			c.Wait("lr-0-0=n0", func() string { return c.Where("lr-0-0") })
			m.are(`muster_evictions_total{cause="gang"} 3`, `muster_evictions_unused_total 0`)
			if !come {
				c.Remove("lr-0-0")
				c.Wait("2", unused) // the leader has used its own
				return
			}
			c.Pod(member("1"))
			c.Wait("lr-0-1=n1", func() string { return c.Where("lr-0-1") })
			m.are(`muster_evictions_unused_total 0`)
			c.Pod(member("2"))
			c.Wait("lr-0-2=n2", func() string { return c.Where("lr-0-2") })
			c.Never(func() bool { return unused() != "0" })
		})
	}
}

// TestMetricsOfBadTopology: 0 when the topology that is written cannot be used.
func TestMetricsOfBadTopology(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s/b/n0=8").Run()
	m := meterOf(t, c)
	c.Wait("1", func() string { return fmt.Sprint(m.value("muster_topology_valid")) })
	topologies := c.Custom.Resource(koordinator.ClusterNetworkTopologies)
	bad, err := topologies.Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedSlice(bad.Object, []any{
		map[string]any{"topologyLayer": "SpineLayer", "parentTopologyLayer": "nowhere", "labelKey": []any{"spine"}},
	}, "spec", "networkTopologySpec"))
	_, err = topologies.Update(t.Context(), bad, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.Wait("0", func() string { return fmt.Sprint(m.value("muster_topology_valid")) })
}
