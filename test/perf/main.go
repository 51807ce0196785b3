// Perf measures how fast a backlog of gangs is bound: by plain requests without any
// scheduling (the floor), by the stock kube-scheduler in several ways, and by Muster,
// side by side on one control plane. See docs/performance.md.
//
//	go run ./test/perf -nodes 2048,8192 -json bench.json -svg bench.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

type options struct {
	nodes      []int
	shapes     []Shape
	contenders []string
	rounds     int
	running    bool
	timeout    time.Duration
	muster     string
	root       string
	json, svg  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		stop()
		os.Exit(1)
	}
}

const defaultShapes = "32x32,128x4,8x128,256x8x1,2x2048p"

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	var nodes, shapes, names string
	known := make([]string, len(contenders))
	for i, c := range contenders {
		known[i] = c.name
	}
	flags.StringVar(&nodes, "nodes", "2048,8192", "sizes of the cluster, multiples of "+strconv.Itoa(nodesPerSpine))
	flags.StringVar(&shapes, "shapes", defaultShapes, "backlogs, GANGSxPODS[xGPUS][p]; p is PreferGather. A shape that a cluster has no room for is left out")
	flags.StringVar(&names, "contenders", strings.Join(known, ","), "who is measured")
	flags.IntVar(&o.rounds, "rounds", 1, "how often each drain is made; the median counts")
	flags.BoolVar(&o.running, "running", true, "also drain while pods come, at the first shape")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "of one drain")
	flags.StringVar(&o.muster, "muster", "bin/muster-scheduler", "path of the scheduler")
	flags.StringVar(&o.root, "root", ".", "path of the repository")
	flags.StringVar(&o.json, "json", "", "file for all figures")
	flags.StringVar(&o.svg, "svg", "", "file for a chart")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < nodesPerSpine || n%nodesPerSpine != 0 {
			return o, fmt.Errorf("-nodes %q: want multiples of %d", text, nodesPerSpine)
		}
		o.nodes = append(o.nodes, n)
	}
	for _, text := range strings.Split(shapes, ",") {
		s, err := parseShape(text)
		if err != nil {
			return o, err
		}
		o.shapes = append(o.shapes, s)
	}
	for _, name := range strings.Split(names, ",") {
		if !slices.Contains(known, name) {
			return o, fmt.Errorf("-contenders %q: want some of %s", name, strings.Join(known, ","))
		}
		o.contenders = append(o.contenders, name)
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds %d: want at least 1", o.rounds)
	}
	return o, nil
}

// run measures everything, prints the table, and writes the files.
func run(ctx context.Context, o options) error {
	var report Report
	var failed error
	for _, n := range o.nodes {
		if failed = measureAt(ctx, o, n, &report); failed != nil {
			break
		}
	}
	if err := report.table(os.Stdout); err != nil {
		return err
	}
	if o.json != "" {
		failed = errors.Join(failed, report.writeJSON(o.json))
	}
	if o.svg != "" {
		failed = errors.Join(failed, report.writeSVG(o.svg))
	}
	for _, r := range report.Results {
		if len(r.Failures) > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s, %s, %d nodes: %s", r.Contender, r.Shape, r.Nodes, strings.Join(r.Failures, "; ")))
		}
	}
	return failed
}

// measureAt measures all contenders on a cluster of one size.
func measureAt(ctx context.Context, o options, nodes int, report *Report) (err error) {
	b, err := start(ctx, o, nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Stop()) }()
	for _, c := range contenders {
		if !slices.Contains(o.contenders, c.name) {
			continue
		}
		results, err := b.contend(ctx, o, c)
		report.Results = append(report.Results, results...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// Others are measured all the same; the table shows who is missing.
			progress("%s: %v", c.name, err)
		}
	}
	report.sort(o.shapes)
	return nil
}

// sort brings drains of one shape together, contenders in their order.
func (r *Report) sort(shapes []Shape) {
	slices.SortStableFunc(r.Results, func(a, b *Result) int {
		if a.Nodes != b.Nodes {
			return a.Nodes - b.Nodes
		}
		return slices.Index(shapes, a.Shape) - slices.Index(shapes, b.Shape)
	})
}

// contend measures one contender at every shape.
func (b *bench) contend(ctx context.Context, o options, c contender) (all []*Result, err error) {
	var p *localcluster.Process
	if c.program != "" {
		if p, err = b.launch(ctx, c); err != nil {
			return nil, err
		}
		defer func() { _ = p.Resume(); p.Stop() }()
	}
	for i, s := range o.shapes {
		if !s.fits(b.nodes) || c.only != nil && !c.only(s) {
			continue
		}
		for _, running := range []bool{false, true} {
			if running && (!o.running || i > 0 || p == nil) {
				continue
			}
			r, err := b.median(ctx, c, s, p, running, o.rounds)
			if err != nil {
				return all, err
			}
			progress("%-20s %-26s %6.0f pods/s", c.name, s, r.PodsPerS)
			all = append(all, r)
		}
	}
	return all, nil
}

// median drains several times and returns the one in the middle. What went wrong in
// any of them is kept.
func (b *bench) median(ctx context.Context, c contender, s Shape, p *localcluster.Process, running bool, rounds int) (*Result, error) {
	var all []*Result
	var failures []string
	for range rounds {
		r, err := b.drain(ctx, c, s, p, running)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		failures = append(failures, r.Failures...)
	}
	slices.SortFunc(all, func(x, y *Result) int {
		switch {
		case x.PodsPerS < y.PodsPerS:
			return -1
		case x.PodsPerS > y.PodsPerS:
			return 1
		}
		return 0
	})
	middle := all[len(all)/2]
	middle.Failures = failures
	return middle, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// lastLines is the end of a log, for somebody who asks why a program failed.
func lastLines(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
