// Package history plays the history of a cluster on the virtual clock of pkg/kube/simulate: jobs come and end, and nodes fail.
//
// The scheduler is Muster's own. trace.go makes the jobs and the faults of a seed, play.go is the cluster with its controllers, and
// program.go is a command that compares configurations.
package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
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

// Program is a command that plays traces to configurations, and shows what came of them.
type Program struct {
	Name           string
	Mixes          []string // a table for each
	Configurations []Configuration
	Defaults       Options
	// Report writes the table of a mix. Results has the sums over the seeds, one for each configuration.
	Report func(out io.Writer, o Options, seeds []uint64, results []Result)
}

type options struct {
	Options
	seeds []uint64
	only  string
	args  []string // all of the above, as they were given
	page  string
}

// Run is the main function of the program.
func (p Program) Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(klog.Logger{})
	o, err := p.parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = p.measure(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		stop()
		os.Exit(1)
	}
}

func (p Program) parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.IntVar(&o.Nodes, "nodes", p.Defaults.Nodes, "of the cluster")
	flags.IntVar(&o.Spine, "spine", p.Defaults.Spine, "nodes of a spine")
	flags.Float64Var(&o.Days, "days", p.Defaults.Days, "that the history lasts")
	flags.Float64Var(&o.Load, "load", p.Defaults.Load, "part of the nodes that jobs request")
	flags.DurationVar(&o.Shortest, "shortest", p.Defaults.Shortest, "the shortest job; shorter ones are left out")
	flags.DurationVar(&o.Longest, "longest", p.Defaults.Longest, "the longest job; longer ones are cut")
	flags.Float64Var(&o.Over, "over", p.Defaults.Over, "how many times its duration a job declares at the most; 1: its duration")
	flags.Float64Var(&o.Faults, "faults", p.Defaults.Faults, "of nodes, for 1,000 node-days")
	known := strings.Join(slices.Sorted(maps.Keys(mixes)), ", ")
	flags.StringVar(&o.Mix, "mix", "", "of the jobs: "+known+"; by default "+strings.Join(p.Mixes, ", "))
	seeds := flags.String("seeds", "1", "of the traces")
	flags.StringVar(&o.only, "only", "", "instead: play the first seed of -mix to this configuration, and print its figures as JSON")
	flags.StringVar(&o.page, "page", "", "Markdown file in which the table is replaced")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.args = args
	switch {
	case o.only != "" && !slices.ContainsFunc(p.Configurations, func(c Configuration) bool { return c.Name == o.only }):
		return o, fmt.Errorf("-only %q: there is no such configuration", o.only)
	case mixes[o.Mix] == nil && (o.Mix != "" || o.only != ""):
		return o, fmt.Errorf("-mix %q: want one of %s", o.Mix, known)
	case o.Spine < 2:
		return o, fmt.Errorf("-spine %d: want at least 2", o.Spine)
	case o.Nodes < o.Spine/2:
		return o, fmt.Errorf("-nodes %d: want at least %d, for the largest gang", o.Nodes, o.Spine/2)
	case o.Days <= 0:
		return o, fmt.Errorf("-days %v: want more than 0", o.Days)
	case o.Load <= 0 || o.Load > 1:
		return o, fmt.Errorf("-load %v: want more than 0, at most 1", o.Load)
	case o.Over < 1:
		return o, fmt.Errorf("-over %v: want at least 1", o.Over)
	case o.Faults < 0:
		return o, fmt.Errorf("-faults %v: want at least 0", o.Faults)
	case o.Shortest < 0 || o.Shortest > o.Longest:
		return o, fmt.Errorf("-shortest %v: want 0 to -longest", o.Shortest)
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

// measure has each trace played to each configuration, and writes the tables. Each play has its own process, since a process can run one
// simulation at a time. If a play fails or ctx ends, a table has the seeds that all configurations have played.
func (p Program) measure(ctx context.Context, o options, out io.Writer) error {
	if o.only != "" {
		i := slices.IndexFunc(p.Configurations, func(c Configuration) bool { return c.Name == o.only })
		r, err := Play(ctx, p.Configurations[i], NewTrace(o.Options, o.seeds[0]))
		return errors.Join(err, json.NewEncoder(out).Encode(r))
	}
	mixed := p.Mixes
	if o.Mix != "" {
		mixed = []string{o.Mix}
	}
	var tables bytes.Buffer
	var failed error
	for _, mix := range mixed {
		o.Mix = mix
		failed = errors.Join(failed, p.compare(ctx, o, &tables))
	}
	_, err := out.Write(tables.Bytes())
	if o.page != "" && tables.Len() > 0 {
		err = errors.Join(err, replace(o.page, tables.Bytes()))
	}
	return errors.Join(err, failed)
}

// compare writes the table of a mix.
func (p Program) compare(ctx context.Context, o options, out io.Writer) error {
	parts := make([]*Result, len(p.Configurations)*len(o.seeds)) // nil if it has failed
	failed := make([]error, len(parts))
	workqueue.ParallelizeUntil(ctx, runtime.NumCPU(), len(parts), func(i int) {
		parts[i], failed[i] = playAlone(ctx, o, p.Configurations[i%len(p.Configurations)].Name, o.seeds[i/len(p.Configurations)])
	})
	var seeds []uint64
	results := make([]Result, len(p.Configurations))
	for i, seed := range o.seeds {
		plays := parts[i*len(p.Configurations):][:len(p.Configurations)]
		if slices.Contains(plays, nil) {
			continue
		}
		seeds = append(seeds, seed)
		for c, r := range plays {
			results[c].add(*r)
		}
	}
	if len(seeds) > 0 {
		p.Report(out, o.Options, seeds, results)
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// playAlone plays the trace of a seed to a configuration, in a process of this program.
func playAlone(ctx context.Context, o options, name string, seed uint64) (*Result, error) {
	begin := time.Now()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	play := exec.CommandContext(ctx, program, append(slices.Clone(o.args), "-mix", o.Mix, "-only", name, "-seeds", fmt.Sprint(seed))...)
	play.Stderr = os.Stderr
	figures, err := play.Output()
	r := &Result{}
	if err == nil {
		err = json.Unmarshal(figures, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s, seed %d: %w", o.Mix, name, seed, err)
	}
	fmt.Fprintf(os.Stderr, "%s: %s has played seed %d in %v\n", o.Mix, name, seed, time.Since(begin).Round(time.Second))
	return r, nil
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

// Row is a line of the table.
type Row struct {
	Name string
	Text func(r Result) string
}

// WriteTable writes a column for each configuration.
func WriteTable(out io.Writer, columns []Configuration, rows []Row, results []Result) {
	fmt.Fprint(out, "| |")
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.Name)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("--:|", len(columns)))
	for _, r := range rows {
		fmt.Fprintf(out, "| %s |", r.Name)
		for _, result := range results {
			fmt.Fprintf(out, " %s |", r.Text(result))
		}
		fmt.Fprintln(out)
	}
}

// Percentile returns the element of a sorted list that is not less than percent of it.
func Percentile[T any](sorted []T, percent int) T { return sorted[(len(sorted)*percent-1)/100] }

// Text returns a duration for a table.
func Text(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.1f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// Utilisation returns the part of the nodes that jobs used on the mean, in percent.
func (r Result) Utilisation(o Options, seeds int) string {
	return fmt.Sprintf("%.1f %%", 100*r.Used.Hours()/(o.During().Hours()*float64(o.Nodes*seeds)))
}
