package status

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	planSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "muster_plan_duration_seconds", Help: "Time to plan a whole gang, by result (planned, refused).",
		Buckets: metrics.ExponentialBuckets(0.0001, 4, 10), StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	preemptions = metrics.NewCounter(&metrics.CounterOpts{
		Name: "muster_preemptions_total", Help: "Reservations for which victims were asked to leave.", StabilityLevel: metrics.ALPHA,
	})
	victims = metrics.NewCounter(&metrics.CounterOpts{
		Name: "muster_preemption_victims_total", Help: "Pods asked to leave for a gang.", StabilityLevel: metrics.ALPHA,
	})
	register sync.Once
)

// RegisterMetrics makes the metrics appear, at zero. Call it before any of them is
// observed. filterRuns says how often the Filters were run to count slots.
func RegisterMetrics(filterRuns func() int64) {
	register.Do(func() {
		legacyregistry.MustRegister(planSeconds, preemptions, victims)
		legacyregistry.RawMustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "muster_filter_runs_total",
			Help: "[ALPHA] How often the profiles' Filters were run for a node to count the slots of a gang.",
		}, func() float64 { return float64(filterRuns()) }))
	})
}

// ObservePlan counts an attempt to plan a gang.
func ObservePlan(planned bool, took time.Duration) {
	result := "refused"
	if planned {
		result = "planned"
	}
	planSeconds.WithLabelValues(result).Observe(took.Seconds())
}

// ObservePreemption counts a reservation and its victims.
func ObservePreemption(n int) {
	preemptions.Inc()
	victims.Add(float64(n))
}
