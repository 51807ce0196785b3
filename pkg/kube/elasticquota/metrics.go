package elasticquota

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Koordinator's names of its metrics and labels.
var (
	metricLabels = []string{"name", "resource", "tree", "is_parent", "parent", "field"}
	specDesc     = prometheus.NewDesc("scheduler_elastic_quota_spec",
		"Declared min and max of an ElasticQuota by resource.", metricLabels, nil)
	statusDesc = prometheus.NewDesc("scheduler_elastic_quota_status",
		"Current amounts of an ElasticQuota by resource: used, reserved, request, and runtime (its fair share).", metricLabels, nil)
)

// Describe implements prometheus.Collector.
func (r *Manager) Describe(to chan<- *prometheus.Desc) {
	to <- specDesc
	to <- statusDesc
}

// Collect implements prometheus.Collector.
func (r *Manager) Collect(to chan<- prometheus.Metric) {
	if !r.Active() || !r.cluster.Open() {
		return
	}
	for _, m := range r.metrics() {
		to <- m
	}
}

func (r *Manager) metrics() (all []prometheus.Metric) {
	r.lock()
	defer r.mu.Unlock()
	trees := map[string]string{}
	for _, o := range r.objects {
		if o.Tree != "" {
			trees[o.Name] = o.Tree
		}
	}
	book := r.currentBook()
	for _, quota := range book.Tree().Names() {
		sums, _ := book.Sums(quota)
		s, _ := book.Tree().Spec(quota)
		parent := ""
		if n := len(sums.Path); n > 1 {
			parent = sums.Path[n-2]
		}
		for _, f := range []struct {
			desc    *prometheus.Desc
			field   string
			amounts map[string]int64
		}{
			{specDesc, "min", sums.Min},
			{specDesc, "max", sums.Max},
			{statusDesc, "used", sums.Used},
			{statusDesc, "reserved", sums.Reserved},
			{statusDesc, "request", sums.Request},
			{statusDesc, "runtime", sums.FairShare},
		} {
			for name, n := range f.amounts {
				all = append(all, prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, convert.Float(name, n),
					quota, name, trees[quota], strconv.FormatBool(s.Inner), parent, f.field))
			}
		}
	}
	return all
}
