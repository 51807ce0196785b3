// Repair plays the history of a cluster whose nodes fail, and shows how gangs become whole again.
//
//	go run ./test/repair -nodes 400 -days 30 -seeds 1,2
//
// The scheduler is Muster's own, on the virtual clock of pkg/kube/simulate. trace.go makes the jobs and the faults of a seed, and play.go
// is the cluster with its controllers. Another configuration is a line in play.go.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

type options struct {
	Options
	seeds []uint64
	only  string
	args  []string // all of the above, as they were given
	page  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(klog.Logger{})
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = measure(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "repair:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("repair", flag.ContinueOnError)
	flags.IntVar(&o.Nodes, "nodes", 400, "of the cluster")
	flags.IntVar(&o.Spine, "spine", 32, "nodes of a spine")
	flags.Float64Var(&o.Days, "days", 30, "that the history lasts")
	flags.Float64Var(&o.Load, "load", 0.85, "part of the nodes that jobs request")
	flags.DurationVar(&o.Shortest, "shortest", 10*time.Minute, "the shortest job; shorter ones are left out")
	flags.Float64Var(&o.Faults, "faults", faultRate, "of nodes, for 1,000 node-days")
	seeds := flags.String("seeds", "1", "of the traces")
	flags.StringVar(&o.only, "only", "", "instead: play the first seed to this configuration, and print its figures as JSON")
	flags.StringVar(&o.page, "page", "", "Markdown file in which the table is replaced")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.args = args
	switch {
	case o.only != "" && !slices.ContainsFunc(configurations, func(c configuration) bool { return c.name == o.only }):
		return o, fmt.Errorf("-only %q: there is no such configuration", o.only)
	case o.Spine < 2:
		return o, fmt.Errorf("-spine %d: want at least 2", o.Spine)
	case o.Nodes < o.Spine/2:
		return o, fmt.Errorf("-nodes %d: want at least %d, for the largest gang", o.Nodes, o.Spine/2)
	case o.Days <= 0:
		return o, fmt.Errorf("-days %v: want more than 0", o.Days)
	case o.Load <= 0 || o.Load > 1:
		return o, fmt.Errorf("-load %v: want more than 0, at most 1", o.Load)
	case o.Faults <= 0:
		return o, fmt.Errorf("-faults %v: want more than 0", o.Faults)
	case o.Shortest < 0 || o.Shortest > longest:
		return o, fmt.Errorf("-shortest %v: want 0 to %v", o.Shortest, longest)
	}
	for _, text := range strings.Split(*seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return o, fmt.Errorf("-seeds %q: want numbers", text)
		}
		o.seeds = append(o.seeds, seed)
	}
	return o, nil
}

// measure has each trace played to each configuration, and writes the table. Each play has its own process, since a process can run one
// simulation at a time. If a play fails or ctx ends, the table has the seeds that all configurations have played.
func measure(ctx context.Context, o options, out io.Writer) error {
	if o.only != "" {
		i := slices.IndexFunc(configurations, func(c configuration) bool { return c.name == o.only })
		r, err := playTrace(ctx, configurations[i], NewTrace(o.Options, o.seeds[0]))
		return errors.Join(err, json.NewEncoder(out).Encode(r))
	}
	parts := make([]*Result, len(configurations)*len(o.seeds)) // nil if it has failed
	failed := make([]error, len(parts))
	workqueue.ParallelizeUntil(ctx, runtime.NumCPU(), len(parts), func(i int) {
		parts[i], failed[i] = playAlone(ctx, o, configurations[i%len(configurations)].name, o.seeds[i/len(configurations)])
	})
	var seeds []uint64
	results := make([]Result, len(configurations))
	for i, seed := range o.seeds {
		plays := parts[i*len(configurations):][:len(configurations)]
		if slices.Contains(plays, nil) {
			continue
		}
		seeds = append(seeds, seed)
		for c, r := range plays {
			results[c].add(*r)
		}
	}
	failure := errors.Join(append(failed, ctx.Err())...)
	if len(seeds) == 0 {
		return failure
	}
	var table bytes.Buffer
	report(&table, o.Options, seeds, results)
	_, err := out.Write(table.Bytes())
	if o.page != "" {
		err = errors.Join(err, replace(o.page, table.Bytes()))
	}
	return errors.Join(err, failure)
}

// playAlone plays the trace of a seed to a configuration, in a process of this program.
func playAlone(ctx context.Context, o options, name string, seed uint64) (*Result, error) {
	begin := time.Now()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	play := exec.CommandContext(ctx, program, append(slices.Clone(o.args), "-only", name, "-seeds", fmt.Sprint(seed))...)
	play.Stderr = os.Stderr
	figures, err := play.Output()
	r := &Result{}
	if err == nil {
		err = json.Unmarshal(figures, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, seed %d: %w", name, seed, err)
	}
	fmt.Fprintf(os.Stderr, "%s has played seed %d in %v\n", name, seed, time.Since(begin).Round(time.Second))
	return r, nil
}
