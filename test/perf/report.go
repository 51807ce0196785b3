package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is all that one run has measured.
type Report struct {
	Results []*Result `json:"results,omitempty"`
	Churns  []*Churn  `json:"churns,omitempty"`
}

// failures is an error if anything went wrong in what was measured.
func (r Report) failures() (all error) {
	add := func(contender string, s Shape, nodes int, failures []string) {
		if len(failures) > 0 {
			all = errors.Join(all, fmt.Errorf("%s, %s, %d nodes: %s", contender, s, nodes, strings.Join(failures, "; ")))
		}
	}
	for _, d := range r.Results {
		add(d.Contender, d.Shape, d.Nodes, d.Failures)
	}
	for _, c := range r.Churns {
		add(c.Contender, c.Shape, c.Nodes, c.Failures)
	}
	return all
}

// print writes the figures for people.
func (r Report) print(w io.Writer) error {
	return errors.Join(r.table(w), r.churnTable(w))
}

// group is the drains that are compared with one another.
type group struct {
	title   string
	results []*Result
}

func (r Report) groups() (all []group) {
	for _, result := range r.Results {
		title := fmt.Sprintf("%s, %d nodes", result.Shape, result.Nodes)
		if result.Running {
			title += ", while pods come"
		}
		i := slices.IndexFunc(all, func(g group) bool { return g.title == title })
		if i < 0 {
			all = append(all, group{title: title})
			i = len(all) - 1
		}
		all[i].results = append(all[i].results, result)
	}
	return all
}

// of returns one contender's drain, or nil.
func (g group) of(contender string) *Result {
	i := slices.IndexFunc(g.results, func(r *Result) bool { return r.Contender == contender })
	if i < 0 {
		return nil
	}
	return g.results[i]
}

// ratio says how many times as much a drain was as that of another contender.
func (g group) ratio(r *Result, to string, of func(*Result) float64) string {
	other := g.of(to)
	if other == nil || of(other) == 0 || of(r) == 0 {
		return unknown
	}
	return fmt.Sprintf("%.2f", of(r)/of(other))
}

func speed(r *Result) float64  { return r.PodsPerS }
func memory(r *Result) float64 { return r.PeakMB }

// table writes the drains' figures.
func (r Report) table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.groups() {
		fmt.Fprintf(out,
			"\n%s\n\tpods/s\t÷ stock\t÷ floor\tgang p50 s\tp99 s\twrites/pod\tFilter runs/pod\tof plans\tCPU ms/pod\tpeak MB\t÷ stock MB\t\n",
			g.title)
		for _, one := range g.results {
			fmt.Fprintf(out, "%s\t%.0f\t%s\t%s\t%.2f\t%.2f\t%.2f\t%s\t%s\t%.2f\t%.0f\t%s\t%s\n", one.Contender, one.PodsPerS,
				g.ratio(one, "stock", speed), g.ratio(one, "floor", speed), one.P50, one.P99, sum(one.Writes),
				maybe(one.FilterRuns), maybe(one.PlanningRuns),
				1000*one.CPU/float64(one.Shape.Total()), one.PeakMB, g.ratio(one, "stock", memory), verdict(one.Failures))
		}
		g.until(out)
	}
	return out.Flush()
}

// until writes the processor time of each program until the last bind.
func (g group) until(out io.Writer) {
	programs := map[string]bool{}
	for _, one := range g.results {
		for name, ms := range one.Until {
			programs[name] = programs[name] || ms >= 0.01
		}
	}
	maps.DeleteFunc(programs, func(_ string, used bool) bool { return !used })
	names := slices.Sorted(maps.Keys(programs))
	fmt.Fprintf(out, "until the last bind, ms of a processor a pod\t%s\t\n", strings.Join(names, "\t"))
	for _, one := range g.results {
		fmt.Fprintf(out, "%s\t", one.Contender)
		for _, name := range names {
			fmt.Fprintf(out, "%.2f\t", one.Until[name])
		}
		fmt.Fprintln(out)
	}
}

// unknown stands for a value that was not measured.
const unknown = "–"

func maybe(n *float64) string {
	if n == nil {
		return unknown
	}
	return number(*n)
}

// number shows small ones exactly enough to tell them from nothing.
func number(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func sum(all map[string]float64) (sum float64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// verdict is empty if there are no faults.
func verdict(failures []string) string {
	if len(failures) == 0 {
		return ""
	}
	return fmt.Sprintf("WRONG: %s (%d in all)", failures[0], len(failures))
}

func (r Report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
