package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// scheduler is a contender's process, and where it tells what it counts.
type scheduler struct {
	*localcluster.Process
	port int
}

// counter is something that a scheduler counts.
type counter string

const (
	// filterRuns is how often a pod was held against a node, by all Filters in turn.
	filterRuns counter = "Filter runs"
	// planningRuns are the Filter runs of Muster's plans, a part of filterRuns.
	planningRuns counter = "Filter runs of plans"
	// cycles are attempts to schedule a pod.
	cycles counter = "cycles"
	// plans are attempts to place a whole gang.
	plans counter = "plans"
	// requests are requests to the API server that write.
	requests counter = "requests"
)

// counts are a scheduler's. What is missing it has not counted, maybe because it does
// not count such things at all.
type counts map[counter]float64

// since is how much was counted after an earlier moment; nil is unknown. Counters appear
// when they first count, so what was missing earlier was nothing.
func (c counts) since(earlier counts, what counter) *float64 {
	now, ok := c[what]
	if !ok {
		return nil
	}
	now -= earlier[what]
	return &now
}

// local trusts every certificate: it speaks only to programs that the bench has started, with certificates of their own.
var local = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// counts asks a scheduler. It must run: a stopped one does not answer. A nil scheduler has no counts.
func (p *scheduler) counts(ctx context.Context) (counts, error) {
	if p == nil {
		return nil, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+strconv.Itoa(p.port)+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := local.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of the scheduler: %s: %s", response.Status, text)
	}
	families, err := parseMetrics(text)
	if err != nil {
		return nil, fmt.Errorf("metrics of the scheduler: %w", err)
	}
	return countsOf(families), nil
}

type families map[string]*dto.MetricFamily

func parseMetrics(text []byte) (families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// countsOf picks what a scheduler's metrics say.
func countsOf(f families) counts {
	c := counts{}
	for what, name := range map[counter][]string{
		planningRuns: {"muster_filter_runs_total"},
		cycles:       {"scheduler_schedule_attempts_total"},
		plans:        {"scheduler_podgroup_schedule_attempts_total", "muster_plan_duration_seconds"},
	} {
		for _, n := range name {
			c.add(what, f[n], func(map[string]string) bool { return true })
		}
	}
	c.add(requests, f["rest_client_requests_total"], func(label map[string]string) bool { return writing[label["method"]] })
	if runs, ok := runsOf(f["scheduler_plugin_evaluation_total"]); ok {
		c[filterRuns] = runs
	}
	return c
}

// add sums the metrics of a family, which may be nil, that have the right labels.
func (c counts) add(what counter, f *dto.MetricFamily, right func(label map[string]string) bool) {
	for _, m := range f.GetMetric() {
		if right(labels(m)) {
			c[what] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
}

// runsOf says how often Filters were run, given how often each of them was. They run in
// turn until one refuses, so the first of them, which has run every time, has run most
// often. (Not so if PreFilter had it skipped, which the first ones, NodeName and
// NodeUnschedulable, do only for pods that have a node.) Unlike the histograms of the
// same plugins, of which a tenth is taken, these counts are exact.
func runsOf(f *dto.MetricFamily) (runs float64, ok bool) {
	for _, m := range f.GetMetric() {
		if labels(m)["extension_point"] == "Filter" {
			runs, ok = max(runs, m.GetCounter().GetValue()), true
		}
	}
	return runs, ok
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}
