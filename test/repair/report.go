package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// patience is how long a gang may take until it is whole again. Faults of the last such time of a history are not judged.
const patience = day

// Result is what one configuration made of its traces.
type Result struct {
	Faults       int // of nodes
	Outcomes     []Outcome
	Gangs        int      // that have started
	Broken       []string // gangs with a member outside of their Must
	PodsEvicted  int
	GangsEvicted int
	Used         time.Duration // × nodes: pods of jobs all of whose pods run
	Waiting      time.Duration // × nodes: pods of gangs that wait for missing members
	Held         time.Duration // × nodes: free capacity that is held for missing members
}

// add adds the figures of another trace.
func (r *Result) add(o Result) {
	r.Faults, r.Gangs = r.Faults+o.Faults, r.Gangs+o.Gangs
	r.PodsEvicted, r.GangsEvicted = r.PodsEvicted+o.PodsEvicted, r.GangsEvicted+o.GangsEvicted
	r.Used, r.Waiting, r.Held = r.Used+o.Used, r.Waiting+o.Waiting, r.Held+o.Held
	r.Outcomes, r.Broken = append(r.Outcomes, o.Outcomes...), append(r.Broken, o.Broken...)
}

// judged are the outcomes of faults after which patience was left.
func (r Result) judged(o Options) (all []Outcome) {
	for _, outcome := range r.Outcomes {
		if outcome.At+patience <= o.during() {
			all = append(all, outcome)
		}
	}
	return all
}

// inTime says whether the gang was whole within patience.
func (o Outcome) inTime() bool { return o.Whole && o.After <= patience }

// share is the part of outcomes for which is holds, in percent, with the number.
func share(all []Outcome, holds func(Outcome) bool) string {
	n := 0
	for _, o := range all {
		if holds(o) {
			n++
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %% (%d)", 100*float64(n)/float64(len(all)), n)
}

// after is a percentile of the times until gangs are whole.
func after(all []Outcome, percent int) string {
	if len(all) == 0 {
		return "–"
	}
	var times []time.Duration
	for _, o := range all {
		if !o.inTime() {
			o.After = patience + 1
		}
		times = append(times, o.After)
	}
	slices.Sort(times)
	d := times[(len(times)*percent-1)/100]
	switch {
	case d > patience:
		return "> 24 h"
	case d >= time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.1f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func hours(d time.Duration) string { return fmt.Sprintf("%.0f", d.Hours()) }

// row is a line of the table.
type row struct {
	name string
	text func(r Result, o Options, seeds int) string
}

var rows = []row{
	{"faults that hit a running gang", func(r Result, o Options, _ int) string { return fmt.Sprint(len(r.judged(o))) }},
	{"gang whole again in its domain within a day", func(r Result, o Options, _ int) string {
		return share(r.judged(o), func(o Outcome) bool { return o.inTime() && o.InDomain })
	}},
	{"… whole, but not in its domain", func(r Result, o Options, _ int) string {
		return share(r.judged(o), func(o Outcome) bool { return o.inTime() && !o.InDomain })
	}},
	{"… not whole after a day", func(r Result, o Options, _ int) string {
		return share(r.judged(o), func(o Outcome) bool { return !o.inTime() })
	}},
	{"time to whole, p50", func(r Result, o Options, _ int) string { return after(r.judged(o), 50) }},
	{"… p99", func(r Result, o Options, _ int) string { return after(r.judged(o), 99) }},
	{"… p50, node cordoned", func(r Result, o Options, _ int) string { return after(ofKind(r.judged(o), false), 50) }},
	{"… p50, node not ready", func(r Result, o Options, _ int) string { return after(ofKind(r.judged(o), true), 50) }},
	{"node-hours of gangs that wait for a member", func(r Result, _ Options, _ int) string { return hours(r.Waiting) }},
	{"node-hours idle for holds", func(r Result, _ Options, _ int) string { return fmt.Sprintf("%.2f", r.Held.Hours()) }},
	{"gangs evicted", func(r Result, _ Options, _ int) string { return fmt.Sprint(r.GangsEvicted) }},
	{"gangs outside of their Must", func(r Result, _ Options, _ int) string { return fmt.Sprint(len(r.Broken)) }},
	{"pods evicted", func(r Result, _ Options, _ int) string { return fmt.Sprint(r.PodsEvicted) }},
	{"gangs started", func(r Result, _ Options, _ int) string { return fmt.Sprint(r.Gangs) }},
	{"nodes in use, mean", func(r Result, o Options, seeds int) string {
		return fmt.Sprintf("%.1f %%", 100*r.Used.Hours()/(o.during().Hours()*float64(o.Nodes*seeds)))
	}},
}

// ofKind are the outcomes of faults that made the node not ready, or of the others.
func ofKind(all []Outcome, dead bool) []Outcome {
	return slices.DeleteFunc(slices.Clone(all), func(o Outcome) bool { return o.Dead != dead })
}

// report writes the table, a column for each of configurations.
func report(out io.Writer, o Options, seeds []uint64, results []Result) {
	fmt.Fprintf(out, "%d nodes in spines of %d, %g days, load %g, jobs of %v and more, seeds %s. "+
		"There are %g faults for 1,000 node-days, here %d faults of nodes.\n\n", o.Nodes, o.Spine,
		o.Days, o.Load, o.Shortest, strings.Trim(fmt.Sprint(seeds), "[]"), o.Faults, results[0].Faults)
	fmt.Fprint(out, "| |")
	for _, c := range configurations {
		fmt.Fprintf(out, " %s |", c.name)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("--:|", len(configurations)))
	for _, r := range rows {
		fmt.Fprintf(out, "| %s |", r.name)
		for _, result := range results {
			fmt.Fprintf(out, " %s |", r.text(result, o, len(seeds)))
		}
		fmt.Fprintln(out)
	}
}

// Where the table stands in the page.
const (
	tableBegin = "<!-- table: begin -->\n"
	tableEnd   = "<!-- table: end -->\n"
)

// replace replaces the table of a page.
func replace(path string, table []byte) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(page, []byte(tableBegin))
	_, behind, ends := bytes.Cut(rest, []byte(tableEnd))
	if !begins || !ends {
		return fmt.Errorf("%s: want a line %q, and behind it a line %q", path, strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	return os.WriteFile(path, slices.Concat(before, []byte(tableBegin), table, []byte(tableEnd), behind), 0o644)
}
