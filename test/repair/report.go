package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/test/history"
)

// patience is how long a gang may take until it is whole again. Faults of the last such time of a history are not judged.
const patience = 24 * time.Hour

// judged are the outcomes of faults after which patience was left.
func judged(r history.Result, o history.Options) (all []history.Outcome) {
	for _, outcome := range r.Outcomes {
		if outcome.At+patience <= o.During() {
			all = append(all, outcome)
		}
	}
	return all
}

// inTime says whether the gang was whole within patience.
func inTime(o history.Outcome) bool { return o.Whole && o.After <= patience }

// share is the part of outcomes for which is holds, in percent, with the number.
func share(all []history.Outcome, holds func(history.Outcome) bool) string {
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
func after(all []history.Outcome, percent int) string {
	if len(all) == 0 {
		return "–"
	}
	var times []time.Duration
	for _, o := range all {
		if !inTime(o) {
			o.After = patience + 1
		}
		times = append(times, o.After)
	}
	slices.Sort(times)
	if d := history.Percentile(times, percent); d <= patience {
		return history.Text(d)
	}
	return "> 24 h"
}

func hours(d time.Duration) string { return fmt.Sprintf("%.0f", d.Hours()) }

// rows returns the lines of the table.
func rows(o history.Options, seeds int) []history.Row {
	return []history.Row{
		{Name: "faults that hit a running gang", Text: func(r history.Result) string { return fmt.Sprint(len(judged(r, o))) }},
		{Name: "gang whole again in its domain within a day", Text: func(r history.Result) string {
			return share(judged(r, o), func(o history.Outcome) bool { return inTime(o) && o.InDomain })
		}},
		{Name: "… whole, but not in its domain", Text: func(r history.Result) string {
			return share(judged(r, o), func(o history.Outcome) bool { return inTime(o) && !o.InDomain })
		}},
		{Name: "… not whole after a day", Text: func(r history.Result) string {
			return share(judged(r, o), func(o history.Outcome) bool { return !inTime(o) })
		}},
		{Name: "time to whole, p50", Text: func(r history.Result) string { return after(judged(r, o), 50) }},
		{Name: "… p99", Text: func(r history.Result) string { return after(judged(r, o), 99) }},
		{Name: "… p50, node cordoned", Text: func(r history.Result) string { return after(ofKind(judged(r, o), false), 50) }},
		{Name: "… p50, node not ready", Text: func(r history.Result) string { return after(ofKind(judged(r, o), true), 50) }},
		{Name: "node-hours of gangs that wait for a member", Text: func(r history.Result) string { return hours(r.Waiting) }},
		{Name: "node-hours idle for holds", Text: func(r history.Result) string { return fmt.Sprintf("%.2f", r.Held.Hours()) }},
		{Name: "gangs evicted", Text: func(r history.Result) string { return fmt.Sprint(r.GangsEvicted) }},
		{Name: "gangs outside of their Must", Text: func(r history.Result) string { return fmt.Sprint(len(r.Broken)) }},
		{Name: "pods evicted", Text: func(r history.Result) string { return fmt.Sprint(r.PodsEvicted) }},
		{Name: "gangs started", Text: func(r history.Result) string { return fmt.Sprint(r.Gangs) }},
		{Name: "nodes in use, mean", Text: func(r history.Result) string {
			return r.Utilisation(o, seeds)
		}},
	}
}

// ofKind are the outcomes of faults that made the node not ready, or of the others.
func ofKind(all []history.Outcome, dead bool) []history.Outcome {
	return slices.DeleteFunc(slices.Clone(all), func(o history.Outcome) bool { return o.Dead != dead })
}

// report writes the table.
func report(out io.Writer, o history.Options, seeds []uint64, results []history.Result) {
	fmt.Fprintf(out, "%d nodes in spines of %d, %g days, load %g, jobs of %v and more, seeds %s. "+
		"There are %g faults for 1,000 node-days, here %d faults of nodes.\n\n", o.Nodes, o.Spine,
		o.Days, o.Load, o.Shortest, strings.Trim(fmt.Sprint(seeds), "[]"), o.Faults, results[0].Faults)
	history.WriteTable(out, configurations, rows(o, len(seeds)), results)
}
