// Quality plays one and the same trace of gangs to several schedulers, one after the other on one control plane, and says
// how well they placed them: whole or not, in how few domains, with how many victims, how soon.
//
//	go run ./test/quality -load 0.7 -for 25s -contenders stock,muster
//
// Three parts know nothing of one another: trace.go makes the gangs of a seed, play.go lets them come and go, and judge.go computes
// the columns from what the API server told.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"
)

type options struct {
	seed       uint64
	load       float64
	during     time.Duration
	contenders []string
	muster     string
	json       string
	trace      bool
	check      string
}

// Result is what one contender made of a trace.
type Result struct {
	Contender string `json:"contender"`
	Columns
	Requests float64 `json:"requests"` // that write, of the scheduler
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = measure(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("quality", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "of the trace")
	flags.Float64Var(&o.load, "load", 0.7, "what the gangs ask for, as a part of the cluster")
	flags.DurationVar(&o.during, "for", 2*time.Minute, "how long gangs come")
	names := flags.String("contenders", "stock-pods,stock,koordinator,muster", "who is measured")
	flags.StringVar(&o.muster, "muster", "bin/muster-scheduler", "path of the scheduler")
	flags.StringVar(&o.json, "json", "", "file for all figures")
	flags.BoolVar(&o.trace, "trace", false, "write the trace as YAML, and measure nothing")
	flags.StringVar(&o.check, "check", "", "fail if this contender leaves a gang partial or behind, breaks a Must, or has a needless victim")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.load <= 0 || o.during <= 0 {
		return o, fmt.Errorf("-load %v -for %v: want more than 0", o.load, o.during)
	}
	o.contenders = strings.Split(*names, ",")
	for _, name := range o.contenders {
		if !slices.ContainsFunc(contenders, func(c contender) bool { return c.name == name }) {
			return o, fmt.Errorf("-contenders %q: there is no such one", name)
		}
	}
	return o, nil
}

// measure plays the trace to everybody.
func measure(ctx context.Context, o options, out io.Writer) error {
	trace := Generate(o.seed, Unequal, o.load, o.during)
	if o.trace {
		text, err := yaml.Marshal(trace)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	results, err := playAll(ctx, o, trace)
	if err := errors.Join(err, report(out, trace, results)); err != nil {
		return err
	}
	if o.json != "" {
		content, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range results {
		if r.Contender == o.check {
			return r.faults()
		}
	}
	return nil
}

// faults are what may never be.
func (r Result) faults() error {
	var all []error
	if r.Partial > 0 {
		all = append(all, fmt.Errorf("%d gangs were partial", r.Partial))
	}
	if r.Finished < r.Gangs {
		all = append(all, fmt.Errorf("%d of %d gangs have ended", r.Finished, r.Gangs))
	}
	if len(r.BrokenMust) > 0 {
		all = append(all, fmt.Errorf("a Must was broken: %s", strings.Join(r.BrokenMust, ", ")))
	}
	if r.Needless > 0 {
		all = append(all, fmt.Errorf("%d victims were needless", r.Needless))
	}
	return errors.Join(all...)
}

// report prints a column for each contender.
func report(out io.Writer, t Trace, results []Result) error {
	fmt.Fprintf(out, "seed %d, load %.2f, %d gangs on %d nodes\n", t.Seed, t.Load, len(t.Gangs), len(t.Cluster.Nodes()))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name string, cell func(Result) string) {
		fmt.Fprintf(w, "%s\t", name)
		for _, r := range results {
			fmt.Fprintf(w, "%s\t", cell(r))
		}
		fmt.Fprintln(w)
	}
	line("", func(r Result) string { return r.Contender })
	line("gangs ended", func(r Result) string { return fmt.Sprint(r.Finished) })
	line("starts in one leaf, of those of several pods", func(r Result) string { return fmt.Sprintf("%d of %d", r.OneLeaf, r.Several) })
	line("leafs above the least", func(r Result) string { return fmt.Sprint(r.ExcessLeafs) })
	line("spines above the least", func(r Result) string { return fmt.Sprint(r.ExcessSpines) })
	line("Musts broken", func(r Result) string { return fmt.Sprint(len(r.BrokenMust)) })
	line("makespan, s", func(r Result) string { return fmt.Sprintf("%.1f", r.Makespan) })
	for _, size := range []string{"1-2", "3-8", "9-"} {
		line("wait p50 / p99 of "+size+" pods, s", func(r Result) string { return fmt.Sprintf("%.1f / %.1f", r.Waits[size].P50, r.Waits[size].P99) })
	}
	line("victims", func(r Result) string { return fmt.Sprint(r.Victims) })
	line("needless victims, gangs", func(r Result) string { return fmt.Sprint(r.Needless) })
	line("lost pod-seconds", func(r Result) string { return fmt.Sprintf("%.0f", r.Lost) })
	line("partial gangs", func(r Result) string { return fmt.Sprint(r.Partial) })
	line("pod-seconds held by gangs that were not whole", func(r Result) string { return fmt.Sprintf("%.0f", r.PartialHeld) })
	line("largest gang that fits a leaf, mean", func(r Result) string { return fmt.Sprintf("%.1f", r.LargestFit) })
	line("utilisation", func(r Result) string { return fmt.Sprintf("%.2f", r.Utilisation) })
	line("requests that write, of the scheduler", func(r Result) string { return fmt.Sprintf("%.0f", r.Requests) })
	return w.Flush()
}
