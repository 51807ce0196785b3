package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // as kube-scheduler
	_ "sigs.k8s.io/controller-runtime/pkg/controller"       // as muster-controller
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	metricName = regexp.MustCompile(`\b(?:muster|scheduler|process|rest_client|workqueue|controller_runtime|go)_[a-z0-9_]+\b`)
	wholeName  = regexp.MustCompile(`^` + metricName.String() + `$`)
	// describedName is the name in the text of a description.
	describedName = regexp.MustCompile(`fqName: "([^"]+)"`)
	// histogramPart ends the name of a series of a histogram.
	histogramPart = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// queries returns the PromQL expressions of a page: blocks without a language, and code in a sentence or a table, that begin with a
// metric or a function.
func queries(text string) (found []string) {
	add := func(code string) {
		start, _, call := strings.Cut(code, "(")
		if metricName.MatchString(code) && (wholeName.MatchString(code) || strings.Contains(code, "{") || call && !strings.Contains(start, " ")) {
			found = append(found, strings.TrimSpace(code))
		}
	}
	for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
		if m[1] == "" || m[1] == "promql" {
			add(m[2])
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		add(strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return found
}

// queriesByPage returns the PromQL expressions of all pages.
func queriesByPage(t *testing.T) map[string][]string {
	t.Helper()
	root, err := rootFolder()
	require.NoError(t, err)
	all, count := map[string][]string{}, 0
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		if found := queries(string(text)); len(found) > 0 {
			all[strings.TrimPrefix(file, root+"/")] = found
			count += len(found)
		}
		return err
	}))
	require.Greater(t, count, 50)
	return all
}

// exportedNames returns the types of the metrics that the programs export, by name. Some are there only once they were counted.
func exportedNames(t *testing.T) map[string]dto.MetricType {
	t.Helper()
	_, err := exported()
	require.NoError(t, err)
	clientmetrics.RequestResult.Increment(context.Background(), "200", "GET", "host")
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "test"})
	t.Cleanup(queue.ShutDown)
	queue.Add("test")
	names := map[string]dto.MetricType{}
	for _, gatherer := range []interface {
		Gather() ([]*dto.MetricFamily, error)
	}{legacyregistry.DefaultGatherer, runtimemetrics.Registry} {
		families, err := gatherer.Gather()
		require.NoError(t, err)
		for _, f := range families {
			names[f.GetName()] = f.GetType()
		}
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		runtimemetrics.Registry.(prometheus.Collector).Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		name := describedName.FindStringSubmatch(d.String())[1]
		if _, counted := names[name]; !counted {
			names[name] = dto.MetricType_UNTYPED
		}
	}
	return names
}

// wrongNames returns what is wrong with the metrics of an expression: the program has none of that name, or the number of observations
// stands for their size.
func wrongNames(query string, exported map[string]dto.MetricType) (wrong []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		part := histogramPart.FindString(name)
		kind, exists := exported[name]
		if of, ok := exported[strings.TrimSuffix(name, part)]; !exists && part != "" && ok && of == dto.MetricType_HISTOGRAM {
			kind, exists = of, true
		}
		switch {
		case !exists:
			wrong = append(wrong, name+": no program exports it")
		case kind == dto.MetricType_HISTOGRAM && part != "_bucket" && query != name && !strings.Contains(query, "histogram_quantile("):
			wrong = append(wrong, name+": a histogram is asked with histogram_quantile")
		}
	}
	return wrong
}

// TestQueriesNameMetrics: each PromQL expression of a page names metrics that a program exports, and asks a histogram for a quantile.
func TestQueriesNameMetrics(t *testing.T) {
	names := exportedNames(t)
	for file, queries := range queriesByPage(t) {
		for _, q := range queries {
			require.Empty(t, wrongNames(q, names), "%s: %s", file, q)
		}
	}
	for query, want := range map[string]bool{
		`muster_gangs_waiting{reason="Waiting"}`:                                               false,
		`rate(muster_evictions_total[5m])`:                                                     false,
		`rate(muster_eviction_total[5m])`:                                                      true,
		`rate(muster_plan_duration_seconds_count[5m])`:                                         true,
		`rate(muster_evictions_total_bucket[5m])`:                                              true,
		"muster_plan_duration_seconds":                                                         false,
		"process_start_time_seconds + workqueue_depth":                                         false,
		"sum(rate(rest_client_requests_total{code=\"403\"}))":                                  false,
		"histogram_quantile(0.9, sum by (le) (rate(muster_plan_duration_seconds_bucket[5m])))": false,
	} {
		require.Equal(t, want, len(wrongNames(query, names)) > 0, query)
	}
}

// TestQueriesParse: Prometheus reads each PromQL expression of a page.
func TestQueriesParse(t *testing.T) {
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; Debian has it: apt-get install prometheus")
	}
	check := func(queries []string) (string, error) {
		rules := []map[string]string{}
		for i, q := range queries {
			rules = append(rules, map[string]string{"record": fmt.Sprintf("page:query%d", i), "expr": q})
		}
		text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "pages", "rules": rules}}})
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		out, err := exec.CommandContext(t.Context(), program, "check", "rules", file).CombinedOutput()
		return string(out), err
	}
	pages := queriesByPage(t)
	all := []string{}
	for _, file := range slices.Sorted(maps.Keys(pages)) {
		all = append(all, pages[file]...)
	}
	out, err := check(all)
	require.NoError(t, err, out)
	out, err = check([]string{"rate(muster_evictions_total[5m]"})
	require.Error(t, err, out)
}
