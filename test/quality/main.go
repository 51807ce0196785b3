// Quality plays one and the same trace of gangs to several schedulers, one after the other on one control plane. It
// shows how well they placed the gangs: whole or not, in how few domains, with how many victims, how soon.
//
//	go run ./test/quality -traces steady,bursts -seeds 1,2 -for 25s -contenders stock,muster
//
// Three parts know nothing of one another: trace.go makes the gangs of a seed, play.go lets them come and go, and
// judge.go computes the columns from the API server's events. report.go and chart.go show them.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

type options struct {
	kinds      []Kind
	seeds      []uint64
	during     time.Duration
	contenders []string
	muster     string
	json       string
	svg        string
	page       string
	trace      bool
	check      string
	events     string
	again      string
	virtual    int
}

// Result is what one contender made of a trace.
type Result struct {
	Contender string `json:"contender"`
	Trace     string `json:"trace"`
	Seed      uint64 `json:"seed"`
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
	known := append(slices.Clone(Kinds), Rush)
	kinds := flags.String("traces", names(Kinds), "how gangs come: some of "+names(known))
	seeds := flags.String("seeds", "1,2,3", "of the traces")
	flags.DurationVar(&o.during, "for", 40*time.Second, "how long gangs come")
	who := flags.String("contenders", "stock-pods,stock,koordinator,muster", "who is measured")
	flags.StringVar(&o.muster, "muster", "bin/muster-scheduler", "path of the scheduler")
	flags.StringVar(&o.json, "json", "", "file for all figures")
	flags.StringVar(&o.svg, "svg", "", "file for a picture")
	flags.StringVar(&o.page, "page", "", "Markdown file in which the tables are replaced")
	flags.BoolVar(&o.trace, "trace", false, "write the trace as YAML, and measure nothing")
	flags.StringVar(&o.events, "events", "",
		"folder into which all that was seen is written, a file for each play: time, what, gang, run, pod, node")
	flags.StringVar(&o.again, "again", "", "instead: judge once more what -events wrote into this folder")
	flags.StringVar(&o.check, "check", "", "fail if this contender leaves a gang partial or behind, breaks a Must, or has a needless victim")
	flags.IntVar(&o.virtual, "virtual", 0, "instead: play so many seeds to the planner itself on a virtual clock, and print what other policies would make of them; takes a second for each seed or so")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.virtual < 0 {
		return o, fmt.Errorf("-virtual %d: want a number of seeds, 0 or more", o.virtual)
	}
	if written := o.json + o.svg + o.page + o.events + o.check; o.virtual > 0 && written != "" {
		return o, fmt.Errorf("-virtual prints a table and plays to no scheduler: -json, -svg, -page, -events and -check do not go with it")
	}
	if o.again != "" && (o.events != "" || o.virtual > 0) {
		return o, errors.New("-again plays nothing: -events and -virtual do not go with it")
	}
	if o.during <= 0 {
		return o, fmt.Errorf("-for %v: want more than 0", o.during)
	}
	for _, name := range strings.Split(*kinds, ",") {
		i := slices.IndexFunc(known, func(k Kind) bool { return k.Name == name })
		if i < 0 {
			return o, fmt.Errorf("-traces %q: there is no such one, want some of %s", name, names(known))
		}
		o.kinds = append(o.kinds, known[i])
	}
	for _, text := range strings.Split(*seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return o, fmt.Errorf("-seeds %q: want numbers", text)
		}
		o.seeds = append(o.seeds, seed)
	}
	o.contenders = strings.Split(*who, ",")
	for _, name := range o.contenders {
		if !slices.ContainsFunc(contenders, func(c contender) bool { return c.name == name }) {
			return o, fmt.Errorf("-contenders %q: there is no such one", name)
		}
	}
	return o, nil
}

func names(kinds []Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return strings.Join(all, ",")
}

// measure plays the traces to each contender.
func measure(ctx context.Context, o options, out io.Writer) error {
	var traces []Trace
	if o.virtual > 0 {
		o.seeds = nil
		for seed := range uint64(o.virtual) {
			o.seeds = append(o.seeds, seed+1)
		}
	}
	for _, k := range o.kinds {
		for _, seed := range o.seeds {
			traces = append(traces, Generate(k, seed, Unequal, o.during))
		}
	}
	if o.trace {
		text, err := yaml.Marshal(traces)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	if o.virtual > 0 {
		printVirtual(out, traces)
		return nil
	}
	play := playAll
	if o.again != "" {
		play = func(context.Context, options, []Trace) ([]Result, error) { return judgeAgain(o, traces) }
	}
	results, err := play(ctx, o, traces)
	report(out, results)
	if err != nil {
		return err
	}
	return errors.Join(o.keep(results), faults(results, o.check))
}

// keep writes what was measured into files.
func (o options) keep(results []Result) error {
	var all []error
	if o.json != "" {
		content, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, content, 0o644)
		}
		all = append(all, err)
	}
	if o.svg != "" {
		all = append(all, drawTo(o.svg, tables(results)))
	}
	if o.page != "" {
		all = append(all, replace(o.page, results))
	}
	return errors.Join(all...)
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
		all = append(all, fmt.Errorf("%d victims were needless: %s", r.Needless, strings.Join(r.InVain, ", ")))
	}
	return errors.Join(all...)
}
