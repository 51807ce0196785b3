package main

import (
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// metrics writes those that Muster registers beside kube-scheduler's.
func metrics(out *strings.Builder, _ string) error {
	status.RegisterMetrics(func() int64 { return 0 })
	status.ObservePlan(true, 0) // or those with labels are not there
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return err
	}
	out.WriteString("\n## Metrics\n\nAt `/metrics` of the scheduler, beside all of kube-scheduler's.\n")
	var rows [][]string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "muster_") {
			continue
		}
		rows = append(rows, []string{code(f.GetName()), strings.ToLower(f.GetType().String()), strings.TrimPrefix(f.GetHelp(), "[ALPHA] "), code(query(f))})
	}
	table(out, []string{"metric", "type", "meaning", "example"}, rows)
	return nil
}

// query asks how often a metric has grown.
func query(f *dto.MetricFamily) string {
	name := f.GetName()
	if f.GetType() == dto.MetricType_HISTOGRAM {
		name += "_count"
	}
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	return "rate(" + name + "[5m])"
}
