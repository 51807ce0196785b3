package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is what has been spent so far.
type usage struct {
	writes map[string]float64 // requests to the API server but the bench's, by "VERB resource".
	counts counts             // of the scheduler.
	cpu    float64            // seconds of the scheduler.
	peak   float64            // MB, the most that it ever had in memory.
	rss    float64            // MB now.
}

// measure reads what a scheduler has spent, and has it tell what it counts.
func (b *bench) measure(ctx context.Context, p *scheduler) (usage, error) {
	u, err := b.measureOutside(ctx, p)
	if err == nil {
		u.counts, err = p.counts(ctx)
	}
	return u, err
}

// measureOutside reads the API server's request counts and what a scheduler has used,
// which may be stopped.
func (b *bench) measureOutside(ctx context.Context, p *scheduler) (u usage, err error) {
	text, err := b.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return u, err
	}
	families, err := parseMetrics(text)
	if err != nil {
		return u, fmt.Errorf("metrics of kube-apiserver: %w", err)
	}
	u.writes = b.own.without(writesOf(families["apiserver_request_total"]))
	if p != nil {
		err = u.read(p.Group())
	}
	return u, err
}

// clockTick is the unit of CPU time in /proc, USER_HZ, which is 100 on Linux.
const clockTick = 100

// Fields of /proc/PID/stat behind the name.
const parentField, groupField, userField, systemField = 1, 2, 11, 12

// statOf splits a line of /proc/PID/stat. The second field is the name, in parentheses; it may hold anything.
func statOf(text []byte) (name string, behind []string) {
	end := bytes.LastIndexByte(text, ')')
	return string(text[bytes.IndexByte(text, '(')+1 : end]), strings.Fields(string(text[end+1:]))
}

func secondsOf(fields []string) float64 {
	user, _ := strconv.ParseFloat(fields[userField], 64)
	system, _ := strconv.ParseFloat(fields[systemField], 64)
	return (user + system) / clockTick
}

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
		_, fields := statOf(text)
		if fields[groupField] != strconv.Itoa(group) {
			continue
		}
		found = true
		u.cpu += secondsOf(fields)
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
	r.Writes = perOne(after.writesSince(before), pods)
	r.FilterRuns = share(after.counts.since(before.counts, filterRuns), pods)
	r.PlanningRuns = share(after.counts.since(before.counts, planningRuns), pods)
	r.CPU, r.PeakMB, r.RSSMB = after.cpu-before.cpu, after.peak, after.rss
}

// writesSince leaves out what has not been written.
func (u usage) writesSince(before usage) map[string]float64 {
	out := map[string]float64{}
	for what, n := range u.writes {
		if d := n - before.writes[what]; d > 0 {
			out[what] = d
		}
	}
	return out
}

func perOne(all map[string]float64, n float64) map[string]float64 {
	out := map[string]float64{}
	for what, sum := range all {
		out[what] = sum / n
	}
	return out
}

// share divides what may be unknown.
func share(sum *float64, n float64) *float64 {
	if sum == nil {
		return nil
	}
	part := *sum / n
	return &part
}

// processors reads how many seconds of a processor the bench and what it has started have used, by the program's name.
func processors() (map[string]float64, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	all := map[string]float64{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		name, fields := statOf(text)
		if fields[parentField] == self || filepath.Base(filepath.Dir(path)) == self {
			all[name] += secondsOf(fields)
		}
	}
	return all, nil
}

// sinceThen is what has been used since processors said before, in ms a pod.
func sinceThen(before map[string]float64, pods int) (map[string]float64, error) {
	now, err := processors()
	for name := range now {
		now[name] = 1000 * (now[name] - before[name]) / float64(pods)
	}
	return now, err
}
