package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/muster-scheduler/muster/pkg/kube/reload"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// some is a cluster with a gang that starts and one that waits: metrics with labels are there once
// they were counted.
const some = `
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {spine: s}}, status: {capacity: {cpu: 3, pods: 9}}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: starts}, spec: {minMember: 2}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: waits}, spec: {minMember: 2}}
`

const member = `
---
{apiVersion: v1, kind: Pod, metadata: {name: %[1]s-%[2]d, labels: {pod-group.scheduling.sigs.k8s.io: %[1]s}},
  spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
`

// metrics writes the metrics that Muster registers beside kube-scheduler's.
func metrics(out *strings.Builder, _ string) error {
	families, err := exported()
	if err != nil {
		return err
	}
	out.WriteString("\n## Metrics\n\nMuster exports these metrics at `/metrics`, with all metrics of kube-scheduler. Only the replica that leads exports gauges, except\n" +
		"`muster_leading`.\n")
	var rows [][]string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "muster_") {
			continue
		}
		rows = append(rows,
			[]string{code(f.GetName()), strings.ToLower(f.GetType().String()), strings.TrimPrefix(f.GetHelp(), "[ALPHA] "), code(query(f))})
	}
	table(out, []string{"metric", "type", "meaning", "example"}, rows)
	return nil
}

// exported returns the metrics of a scheduler that has placed the gangs of some.
func exported() ([]*dto.MetricFamily, error) {
	text := some
	for _, gang := range []string{"starts", "waits"} {
		for i := range 2 {
			text += fmt.Sprintf(member, gang, i)
		}
	}
	set := &simulate.Set{}
	if err := set.Add("some", []byte(text)); err != nil {
		return nil, err
	}
	if _, err := simulate.Run(context.Background(), simulate.Options{}, set); err != nil {
		return nil, err
	}
	reload.Register()
	return legacyregistry.DefaultGatherer.Gather()
}

// query asks how often a metric has grown, what it is now, or below which value nine of ten observations were. It takes a series that is
// not 0 if there is one.
func query(f *dto.MetricFamily) string {
	name := f.GetName()
	if f.GetType() == dto.MetricType_HISTOGRAM {
		name += "_bucket"
	}
	i := max(0, slices.IndexFunc(f.GetMetric(), func(m *dto.Metric) bool {
		return m.GetCounter().GetValue()+m.GetGauge().GetValue()+float64(m.GetHistogram().GetSampleCount()) > 0
	}))
	var labels []string
	for _, l := range f.GetMetric()[i].GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		return name
	case dto.MetricType_HISTOGRAM:
		return "histogram_quantile(0.9, sum by (le) (rate(" + name + "[1h])))"
	}
	return "rate(" + name + "[5m])"
}
