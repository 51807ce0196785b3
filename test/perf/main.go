// Perf measures how fast a backlog of gangs is bound: by plain requests without any
// scheduling (the floor), by the stock kube-scheduler in several ways, and by Muster,
// side by side on one control plane. Or it measures what a backlog costs that does not
// fit. See docs/measurements/performance.md.
//
//	go run ./test/perf -nodes 2048,8192 -json bench.json -svg bench.svg
//	go run ./test/perf -contenders muster -quotas 500 -rounds 5
//	go run ./test/perf -churn 5m -json bench-churn.json
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

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

// run measures everything, prints the table, and writes the files.
func run(ctx context.Context, o options) error {
	var report Report
	var failed error
	for _, n := range o.nodes {
		if failed = measureAt(ctx, o, n, &report); failed != nil {
			break
		}
	}
	if err := report.print(os.Stdout); err != nil {
		return err
	}
	if o.json != "" {
		failed = errors.Join(failed, report.writeJSON(o.json))
	}
	if o.svg != "" {
		failed = errors.Join(failed, report.writeSVG(o.svg))
	}
	return errors.Join(failed, report.failures())
}

// measureAt measures all contenders on a cluster of one size.
func measureAt(ctx context.Context, o options, nodes int, report *Report) (err error) {
	b, err := start(ctx, o, nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Stop()) }()
	rounds := o.rounds
	if o.churn > 0 {
		rounds = 1
	}
	// Round by round, since a machine may grow slower while it works: the last contender would look bad.
	for range rounds {
		if err := b.round(ctx, o, report); err != nil {
			return err
		}
	}
	report.Results = medians(report.Results)
	report.sort(o.shapes)
	return nil
}

// round measures every contender once.
func (b *bench) round(ctx context.Context, o options, report *Report) error {
	for _, c := range contenders {
		if !slices.Contains(o.contenders, c.name) {
			continue
		}
		err := b.contend(ctx, o, c, report)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// The other contenders are measured all the same; the table shows which one is missing.
			progress("%s: %v", c.name, err)
		}
	}
	return nil
}

// sort brings together what is compared: of one shape, contenders in their order.
func (r *Report) sort(shapes []Shape) {
	order := func(aNodes, bNodes int, a, b Shape) int {
		return cmp.Or(cmp.Compare(aNodes, bNodes), cmp.Compare(slices.Index(shapes, a), slices.Index(shapes, b)))
	}
	slices.SortStableFunc(r.Results, func(a, b *Result) int { return order(a.Nodes, b.Nodes, a.Shape, b.Shape) })
	slices.SortStableFunc(r.Churns, func(a, b *Churn) int { return order(a.Nodes, b.Nodes, a.Shape, b.Shape) })
}

// contend measures one contender at every shape.
func (b *bench) contend(ctx context.Context, o options, c contender, report *Report) (err error) {
	if c.quotas {
		if err := b.makeQuotas(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.dropQuotas(ctx)) }()
	}
	if o.churn == 0 {
		results, err := b.drainAll(ctx, o, c)
		report.Results = append(report.Results, results...)
		return err
	}
	for _, s := range o.shapes {
		report.Churns = append(report.Churns, b.churn(ctx, c, s, o.churn))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// drainAll drains every shape.
func (b *bench) drainAll(ctx context.Context, o options, c contender) (all []*Result, err error) {
	var p *scheduler
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
			// A claim's status is written before its pod is bound, which the floor does not do while pods come.
			if running && (!o.running || i > 0 || p == nil && s.Claims) {
				continue
			}
			r, err := b.drain(ctx, c, s, p, running)
			if err != nil {
				return all, err
			}
			progress("%-20s %-26s %6.0f pods/s", c.name, s, r.PodsPerS)
			all = append(all, r)
		}
	}
	return all, nil
}

// medians keeps the median of equal drains, with the median processor time, in the order of the first drain of each
// kind. What went wrong in any of them is kept.
func medians(all []*Result) (out []*Result) {
	type key struct {
		contender string
		shape     Shape
		nodes     int
		running   bool
	}
	equal := map[key][]*Result{}
	var order []key
	for _, r := range all {
		k := key{r.Contender, r.Shape, r.Nodes, r.Running}
		if equal[k] == nil {
			order = append(order, k)
		}
		equal[k] = append(equal[k], r)
	}
	for _, k := range order {
		rounds := equal[k]
		var failures []string
		for _, r := range rounds {
			failures = append(failures, r.Failures...)
		}
		slices.SortStableFunc(rounds, func(x, y *Result) int { return cmp.Compare(x.PodsPerS, y.PodsPerS) })
		middle := *rounds[len(rounds)/2]
		slices.SortStableFunc(rounds, func(x, y *Result) int { return cmp.Compare(x.CPU, y.CPU) })
		middle.CPU = rounds[len(rounds)/2].CPU
		middle.Failures = failures
		out = append(out, &middle)
	}
	return out
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// lastLines is the end of a log. It shows why a program failed.
func lastLines(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
