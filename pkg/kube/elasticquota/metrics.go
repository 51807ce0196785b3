package elasticquota

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What Koordinator's plugin calls its metrics, and their labels.
var (
	labelsOf = []string{"name", "resource", "tree", "is_parent", "parent", "field"}
	specNow  = prometheus.NewDesc("scheduler_elastic_quota_spec", "What an ElasticQuota declares: min and max, by resource.", labelsOf, nil)
	stateNow = prometheus.NewDesc("scheduler_elastic_quota_status", "What an ElasticQuota has, by resource: used, reserved, request and runtime, which is what it is entitled to.", labelsOf, nil)
)

// Describe implements prometheus.Collector.
func (r *Room) Describe(to chan<- *prometheus.Desc) {
	to <- specNow
	to <- stateNow
}

// Collect implements prometheus.Collector.
func (r *Room) Collect(to chan<- prometheus.Metric) {
	if r.Open != nil && !r.Open() {
		return
	}
	for _, q := range r.Quotas() {
		tree, parent := "", false
		r.lock()
		if s, _ := r.book.Tree().Spec(q.Name); s.Inner {
			parent = true
		}
		for _, o := range r.objects {
			if o.Name == q.Name {
				tree = o.Tree
			}
		}
		r.mu.Unlock()
		for _, f := range []struct {
			desc    *prometheus.Desc
			field   string
			amounts map[string]string
		}{
			{specNow, "min", q.Min},
			{specNow, "max", q.Max},
			{stateNow, "used", q.Used},
			{stateNow, "reserved", q.Reserved},
			{stateNow, "request", q.Request},
			{stateNow, "runtime", q.Runtime},
		} {
			for name, text := range f.amounts {
				n, err := resource.ParseQuantity(text)
				if err != nil {
					continue
				}
				to <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, n.AsApproximateFloat64(), q.Name, name, tree, strconv.FormatBool(parent), q.Parent, f.field)
			}
		}
	}
}
