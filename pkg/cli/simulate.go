package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// simulateFlags are the flags of "simulate".
type simulateFlags struct {
	connection
	fromCluster  bool
	files, later []string
	whatIf       []string
	at           string
	only         string
	failOn       []string
	config       string
	victimsStay  bool
	timeout      delay
	output       string
	verbosity    int
	kubernetes   string
}

func newSimulateCommand() *cobra.Command {
	f := simulateFlags{timeout: delay(time.Minute), output: "table"}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE|DIR|- ...|--from-cluster",
		Short: "Run the scheduler in memory, over objects from files or a cluster",
		Long: `Run Muster over objects from files: the same scheduler with the same plugins and the
same configuration, and no cluster. The command prints what Muster would bind, evict and leave
pending.

With --from-cluster the command reads a live cluster with your permissions: one list of each kind.
It writes nothing. Objects from files are added. The output is what the cluster's scheduler would
do next if nothing else happened. Terminating pods count as gone, unless --victims-stay. A file that
"dump" has written stands for its cluster at that moment, also with -f.

Each --what-if is done before the scheduler begins, in order:
  evict=NAMESPACE/POD        the pod is evicted and not recreated
  evict=gang/NAMESPACE/NAME  all bound pods of the gang are evicted
  cordon=NODE                the node takes no new pod
  fail=NODE                  the node is gone with its pods; controllers recreate the pods
  add-nodes=N,like=NODE      N nodes come with the size, the labels and the devices of this one

With --at the result is for a later time: ` + atHelp + `

The files hold Nodes, Pods, PodGroups, the ClusterNetworkTopology, PriorityClasses,
PodDisruptionBudgets and whatever else the profile's Filters read, as YAML or JSON,
also as a List: "kubectl get nodes,pods,podgroups.scheduling.sigs.k8s.io,... -A -o yaml" is
an input. Pods with spec.nodeName run there already. What an API server would fill in may be missing.

Of Jobs, Deployments, ReplicaSets, StatefulSets, JobSets and LeaderWorkerSets the pods
are made that their controllers would make, with their names, labels and indices; where
a name ends in random letters, they are always the same. What comes one after the other
in a cluster does so here: the pods of an OrderedReady StatefulSet, workers that wait for
their leader. A workload with a metadata.uid comes from a cluster, and has only the listed
pods. Other kinds are skipped, and named on standard error.

Each --then file is applied once everything before it has settled: what exists is
replaced, what has a metadata.deletionTimestamp goes, and with a workload its pods. An
evicted pod is recreated when its workload is applied once more. With --victims-stay a
pod that runs terminates first, and goes when a later file deletes it once more.

The exit code is 0 when the simulation has settled, whatever it decided; 1 when it has
not, with what it was waiting for; 2 when a file cannot be read or holds what an API
server would refuse. A pipeline that must notice more names it with --fail-on, and the exit code
is 3 if the result has it:
  waiting    a gang has not started, or a pod has no node
  evicted    a pod was evicted
  rejected   what the user wrote of a gang is invalid, or the result has a warning
With --only gang=NAMESPACE/NAME only that gang counts, and the pods that are evicted for it.`,
		Example: `  kubectl get nodes,pods,priorityclasses,clusternetworktopologies,podgroups.scheduling.sigs.k8s.io -A -o yaml |
    musterctl simulate -f - --then new-job.yaml
  musterctl simulate -f cluster/ -f my-job.yaml --victims-stay -o json
  musterctl simulate -f cluster/ -f my-job.yaml --fail-on=waiting,evicted,rejected
  kubectl muster simulate --from-cluster -f my-job.yaml --only gang=default/my-job
  kubectl muster simulate --from-cluster --what-if evict=gang/research/old --what-if cordon=node-7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "`FILE` or folder of *.yaml, *.yml and *.json, or - for standard input; repeatable")
	flags.BoolVar(&f.fromCluster, "from-cluster", false, "begin with the objects of a live cluster, and add the objects from files")
	f.connection.add(cmd)
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "`CHANGE` made before the scheduler begins; repeatable, in order: "+simulate.ChangeForms)
	addAt(cmd, &f.at)
	flags.StringVar(&f.only, "only", "", "`WHICH` part of the result is shown: waiting, evicted or gang=NAMESPACE/NAME (default: all)")
	flags.StringSliceVar(&f.failOn, "fail-on", nil,
		"`WHAT` makes the exit code 3 if the result has it: "+strings.Join(simulate.Failures, ", ")+"; separated by commas (default: nothing)")
	flags.StringArrayVar(&f.later, "then", nil, "`FILE` to apply when all before it has settled, or a time "+
		"that passes, such as +30m; repeatable, in order")
	flags.StringVar(&f.config, "config", "", "`FILE` with a KubeSchedulerConfiguration "+
		"(default: that of a dump that was made with one, or one that serves muster-scheduler and koord-scheduler)")
	flags.BoolVar(&f.victimsStay, "victims-stay", false,
		"evicted and deleted pods keep terminating until a --then file deletes them once more")
	flags.Var(&f.timeout, "timeout", "how long the simulation may take")
	flags.StringVarP(&f.output, "output", "o", f.output,
		"`FORMAT` of the result: table, wide (a table with the whole messages of pods) or json")
	flags.StringVar(&f.kubernetes, "kubernetes-version", "",
		"`VERSION` of the cluster, such as 1.34 (default: that of the newest kubelet of the nodes)")
	flags.IntVarP(&f.verbosity, "v", "v", 0, "log `LEVEL` of the scheduler, on standard error (default: nothing is logged)")
	complete(cmd, "output", "table", "wide", "json")
	complete(cmd, "only", "waiting", "evicted", "gang=")
	complete(cmd, "fail-on", simulate.Failures...)
	complete(cmd, "what-if", "evict=", "evict=gang/", "cordon=", "fail=", "add-nodes=")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	if f.output != "table" && f.output != "wide" && f.output != "json" {
		return usageError("--output %s: supported values: table, wide, json", f.output)
	}
	if len(f.files) == 0 && !f.fromCluster {
		return usageError("nothing to simulate: give at least one -f FILE, or --from-cluster")
	}
	only, err := simulate.ParseResultFilter(f.only)
	if err != nil {
		return usageError("--only %w", err)
	}
	for _, what := range f.failOn {
		if !slices.Contains(simulate.Failures, what) {
			return usageError("--fail-on %s: supported values: %s", what, strings.Join(simulate.Failures, ", "))
		}
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	defer logTo(cmd.ErrOrStderr(), f.verbosity)()
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(f.timeout))
	defer cancel()
	first, later, err := f.sets(ctx, cmd, &options)
	if err != nil {
		return err
	}
	restore, err := emulate(cmd, f.kubernetes, first)
	if err != nil {
		return err
	}
	defer restore()
	result, err := simulate.Run(ctx, options, first, later...)
	if err != nil {
		return simulateError(err, f.config)
	}
	shown, err := result.Filter(only)
	if err != nil {
		return usageError("--only %w", err)
	}
	if f.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), shown)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), sanitized(simulateTable(shown, f.output == "wide")))
	}
	if strings.HasPrefix(f.only, "gang=") {
		result = shown
	}
	if why := result.Failed(f.failOn); err == nil && why != "" {
		err = &ExitError{exitFailOn, errors.New(why)}
	}
	return err
}

// exitFailOn is the exit code if the result has one of the failures in --fail-on.
const exitFailOn = 3

// options returns the options that do not depend on the source of the objects.
func (f *simulateFlags) options() (o simulate.Options, err error) {
	o.VictimsStay = f.victimsStay
	if o.At, err = parseAt(f.at); err != nil {
		return o, err
	}
	for _, text := range f.whatIf {
		change, err := simulate.ParseChange(text)
		if err != nil {
			return o, usageError("--what-if %w", err)
		}
		o.Changes = append(o.Changes, change)
	}
	if f.config != "" {
		if o.Config, err = os.ReadFile(f.config); err != nil {
			return o, usageError("--config: %w", err)
		}
	}
	return o, nil
}

// sets returns the objects at the start, from the cluster and then from files, and the sets to apply later. It completes o.
func (f *simulateFlags) sets(
	ctx context.Context, cmd *cobra.Command, o *simulate.Options,
) (first *simulate.Set, later []*simulate.Set, err error) {
	first = &simulate.Set{}
	if f.fromCluster {
		if first, err = f.list(ctx, cmd); err != nil {
			return nil, nil, err
		}
	}
	more, err := readSet(cmd, f.files, first)
	if err != nil {
		return nil, nil, err
	}
	first.Append(more)
	o.Live = !first.Moment().IsZero() // from a cluster, or from a dump of one
	if o.Config == nil {
		o.Config = first.Configuration()
	}
	for _, file := range f.later {
		if pause, ok := strings.CutPrefix(file, "+"); ok {
			d, err := time.ParseDuration(pause)
			if err != nil || d <= 0 {
				return nil, nil, usageError("--then: %q is invalid; supported values: a file, or + and a duration, such as +30m", file)
			}
			later = append(later, simulate.Pause(d))
			continue
		}
		set, err := readSet(cmd, []string{file}, slices.Concat(later, []*simulate.Set{first})...)
		if err != nil {
			return nil, nil, err
		}
		later = append(later, set)
	}
	return first, later, nil
}

// simulateError returns err, as a usage error if it is about the input. configFile is --config, "" without the flag.
func simulateError(err error, configFile string) error {
	if input := (*simulate.InputError)(nil); errors.As(err, &input) {
		return usageError("%w", err)
	}
	if config := (*simulate.ConfigError)(nil); errors.As(err, &config) {
		if configFile != "" {
			return usageError("--config %s: %w", configFile, err)
		}
		return usageError("%w", err)
	}
	if moment := (*simulate.MomentError)(nil); errors.As(err, &moment) {
		return usageError("--at %w", err)
	}
	if change := (*simulate.ChangeError)(nil); errors.As(err, &change) {
		return usageError("--what-if %w", err)
	}
	return err
}

// logTo writes the scheduler's log to w if verbosity is at least 1; else it discards the log. restore undoes that.
func logTo(w io.Writer, verbosity int) (restore func()) {
	if verbosity <= 0 {
		w = io.Discard
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	set := func(name, value string) {
		if err := flags.Set(name, value); err != nil {
			panic(err) // the names are klog's
		}
	}
	for _, severity := range []string{"WARNING", "ERROR", "FATAL"} {
		klog.SetOutputBySeverity(severity, io.Discard)
	}
	klog.SetOutputBySeverity("INFO", w) // which also gets the messages of the other severities
	set("stderrthreshold", "FATAL")
	klog.LogToStderr(false)
	set("v", strconv.Itoa(verbosity))
	return func() {
		set("v", "0")
		klog.LogToStderr(true)
		set("stderrthreshold", "ERROR")
	}
}

// readSet returns the objects in files, folders and standard input ("-"), and reports on standard error what it omits. The sets in before
// exist already.
func readSet(cmd *cobra.Command, names []string, before ...*simulate.Set) (*simulate.Set, error) {
	set := &simulate.Set{}
	for _, name := range names {
		files, err := filesIn(name)
		if err != nil {
			return nil, usageError("%w", err)
		}
		for _, file := range files {
			data, err := readFile(cmd, file)
			if err != nil {
				return nil, usageError("%w", err)
			}
			if err = set.Add(file, data); err != nil {
				return nil, usageError("%w", err)
			}
		}
	}
	for _, note := range set.Notes(before...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", sanitized(note))
	}
	return set, nil
}

// readFile reads a file, or standard input.
func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	data, err := io.ReadAll(cmd.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}

// filesIn returns name if it is a file or "-", else the YAML and JSON files of the folder, sorted.
func filesIn(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.yaml, *.yml or *.json in this folder", name)
	}
	slices.SortFunc(files, topology.CompareNames)
	return files, nil
}
