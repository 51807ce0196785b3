package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// askFlags are the flags of commands that read a cluster or files.
type askFlags struct {
	connection
	files                         []string
	config                        string
	namespace, output, kubernetes string
	all                           bool
	timeout                       delay
	verbosity                     int
}

// askSource is the common help text of these commands.
const askSource = askReads + `

The exit code is 0 when there is an answer, 1 when there is none, 2 for a mistake in the
command line or in a file.`

// askReads is the help text about what these commands read.
const askReads = `

The command reads a live cluster with your permissions: one list of each kind. It writes nothing.
Kinds that you may not list are named on standard error. With -f the objects come from files, such
as "kubectl get nodes,pods,podgroups.scheduling.sigs.k8s.io,... -A -o yaml" prints. A scheduler in
memory takes the objects over, as after a restart, and continues. Its answers hold as long as
nothing else in the cluster changes.`

func (f *askFlags) add(cmd *cobra.Command) {
	f.addSource(cmd)
	f.output = "table"
	cmd.Flags().StringVarP(&f.output, "output", "o", f.output, "`FORMAT` of the answer: table, wide, json or yaml")
	complete(cmd, "output", "table", "wide", "json", "yaml")
}

// addSource adds the flags that choose the cluster or the files.
func (f *askFlags) addSource(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.timeout = delay(time.Minute)
	flags.StringArrayVarP(&f.files, "filename", "f", nil,
		"`FILE` or folder of objects to ask instead of a cluster, or - for standard input; repeatable")
	flags.StringVar(&f.config, "config", "",
		"`FILE` with the scheduler's KubeSchedulerConfiguration (default: that of a dump that was made with one, or one that serves "+
			"muster-scheduler and koord-scheduler)")
	f.connection.add(cmd)
	flags.Var(&f.timeout, "timeout", "how long the answer may take")
	flags.StringVar(&f.kubernetes, "kubernetes-version", "",
		"`VERSION` of the cluster, such as 1.34 (default: that of the newest kubelet of the nodes)")
	flags.IntVarP(&f.verbosity, "v", "v", 0, "log `LEVEL` of the scheduler in memory, on standard error (default: nothing is logged)")
}

func (f *askFlags) addNamespace(cmd *cobra.Command, object string) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"`NAMESPACE` of "+object+" (default: that of the context, or \"default\" for files)")
}

// answer calls question with a view of the objects, and prints its result.
func (f *askFlags) answer(
	cmd *cobra.Command, question func(context.Context, *ask.View) (value any, text func(wide bool) string, err error),
) error {
	return f.read(cmd, func(ctx context.Context, o ask.Options, set *simulate.Set) (any, func(bool) string, error) {
		set.GiveObjects()
		view, err := ask.Open(ctx, o, set)
		if err != nil {
			return nil, nil, err
		}
		defer view.Close()
		return question(ctx, view)
	})
}

// read calls question with the objects, and prints its result.
func (f *askFlags) read(
	cmd *cobra.Command, question func(context.Context, ask.Options, *simulate.Set) (value any, text func(wide bool) string, err error),
) error {
	switch f.output {
	case "table", "wide", "json", "yaml":
	default:
		return usageError("--output %s: supported values: table, wide, json, yaml", f.output)
	}
	return f.withObjects(cmd, func(ctx context.Context, o ask.Options, set *simulate.Set) error {
		value, text, err := question(ctx, o, set)
		if err != nil {
			return simulateError(err, f.config)
		}
		return f.print(cmd.OutOrStdout(), value, text)
	})
}

// withObjects reads the objects, and calls do while the process emulates that cluster's Kubernetes version.
func (f *askFlags) withObjects(cmd *cobra.Command, do func(context.Context, ask.Options, *simulate.Set) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(f.timeout))
	defer cancel()
	defer logTo(cmd.ErrOrStderr(), f.verbosity)()
	defer collectLate()()
	o, set, err := f.objects(ctx, cmd)
	if err != nil {
		return err
	}
	restore, err := emulate(cmd, f.kubernetes, set)
	if err != nil {
		return err
	}
	defer restore()
	return do(ctx, o, set)
}

// collectLate delays garbage collection until 840 MiB are used, unless GOGC or GOMEMLIMIT is set. restore undoes that. An answer about
// 20,000 pods then takes a fifth less time.
func collectLate() (restore func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	limit, percent := debug.SetMemoryLimit(840<<20), debug.SetGCPercent(-1)
	return func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }
}

// print prints value as JSON or YAML, or text, as --output demands.
func (f *askFlags) print(w io.Writer, value any, text func(wide bool) string) (err error) {
	switch f.output {
	case "json":
		return writeJSON(w, value)
	case "yaml":
		var data []byte
		if data, err = yaml.Marshal(value); err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	_, err = io.WriteString(w, sanitized(text(f.output == "wide")))
	return err
}

func writeJSON(w io.Writer, value any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(value)
}

// sanitized returns text without terminal control characters and Unicode line breaks: objects contain text from many users.
func sanitized(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// oneLine returns text without line breaks: an annotation may give a gang any name.
func oneLine(text string) string {
	return strings.ReplaceAll(text, "\n", string(unicode.ReplacementChar))
}

// objects returns the objects of the files or of the cluster. The scheduler's configuration is that of --config, else that of the files; it
// is not read from the cluster.
func (f *askFlags) objects(ctx context.Context, cmd *cobra.Command) (o ask.Options, set *simulate.Set, err error) {
	if f.config != "" {
		if o.Config, err = os.ReadFile(f.config); err != nil {
			return o, nil, usageError("--config: %w", err)
		}
	}
	if len(f.files) > 0 {
		if set, err = readSet(cmd, f.files); err == nil && o.Config == nil {
			o.Config = set.Configuration()
		}
		return o, set, err
	}
	set, err = f.list(ctx, cmd)
	return o, set, err
}

// namespaceName returns the namespace from the flag, else that of the context; "default" for files.
func (f *askFlags) namespaceName() (string, error) {
	if f.namespace != "" || len(f.files) > 0 {
		if f.namespace == "" {
			return "default", nil
		}
		return f.namespace, nil
	}
	namespace, _, err := f.client().Namespace()
	return namespace, err
}

// target parses the gang or pod that the user names.
func (f *askFlags) target(words ...string) (ask.Target, error) {
	namespace, err := f.namespaceName()
	if err != nil {
		return ask.Target{}, err
	}
	t, err := ask.ParseTarget(namespace, words)
	if err != nil {
		return t, usageError("%w", err)
	}
	return t, nil
}

// slotSize returns the size of a slot: a member of gangName, or a pod with requests. Both "" is a whole node.
func (f *askFlags) slotSize(gangName, requests string) (size ask.SlotSize, err error) {
	switch {
	case gangName != "" && requests != "":
		return size, usageError("--for and --requests exclude one another")
	case requests != "":
		if size.Requests, err = ask.ParseRequests(requests); err != nil {
			return size, usageError("--requests: %w", err)
		}
	case gangName != "":
		target, err := f.target(gangName)
		if err != nil {
			return size, err
		}
		size.Gang = &target
	}
	return size, nil
}

// targetArgs accepts one or two words: "podgroup NAME", "podgroup/NAME".
func targetArgs(_ *cobra.Command, args []string) error {
	if len(args) == 1 && strings.Contains(args[0], "/") || len(args) == 2 {
		return nil
	}
	return errors.New("say what is to be explained: podgroup NAME or pod NAME")
}
