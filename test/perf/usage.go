package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// usage is what has been spent so far.
type usage struct {
	writes map[string]float64 // requests to the API server, by "VERB resource"
	cpu    float64            // seconds of the scheduler
	peak   float64            // MB, the most that it ever had in memory
	rss    float64            // MB now
}

// measure reads the API server's request counts and what a scheduler has used.
func (b *bench) measure(ctx context.Context, p *localcluster.Process) (u usage, err error) {
	text, err := b.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return u, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return u, fmt.Errorf("metrics of kube-apiserver: %w", err)
	}
	u.writes = map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		label := labels(m)
		switch verb := label["verb"]; verb {
		case "POST", "PUT", "PATCH", "DELETE":
			resource := label["resource"]
			if sub := label["subresource"]; sub != "" {
				resource += "/" + sub
			}
			u.writes[verb+" "+resource] += m.GetCounter().GetValue()
		}
	}
	if p != nil {
		err = u.read(p.Group())
	}
	return u, err
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// clockTick is the unit of CPU time in /proc, USER_HZ, which is 100 on Linux.
const clockTick = 100

// read adds up the processes of a group, from /proc.
func (u *usage) read(group int) error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	found := false
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The second field is the name, in parentheses; it may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		const groupField, userField, systemField = 2, 11, 12
		if fields[groupField] != strconv.Itoa(group) {
			continue
		}
		found = true
		user, _ := strconv.ParseFloat(fields[userField], 64)
		system, _ := strconv.ParseFloat(fields[systemField], 64)
		u.cpu += (user + system) / clockTick
		status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			continue
		}
		u.peak += megabytes(string(status), "VmHWM:")
		u.rss += megabytes(string(status), "VmRSS:")
	}
	if !found {
		return fmt.Errorf("the scheduler has ended")
	}
	return nil
}

func megabytes(status, field string) float64 {
	for line := range strings.Lines(status) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			kb, _ := strconv.ParseFloat(words[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// usage fills in what a drain has spent.
func (r *Result) usage(before, after usage) {
	pods := float64(r.Shape.Total())
	r.Writes = map[string]float64{}
	for what, n := range after.writes {
		// While pods come with the scheduler running, the bench's own requests count.
		if d := n - before.writes[what]; d > 0 && !(r.Running && (what == "POST pods" || what == "POST podgroups")) {
			r.Writes[what] = d / pods
		}
	}
	r.CPU, r.PeakMB, r.RSSMB = after.cpu-before.cpu, after.peak, after.rss
}
