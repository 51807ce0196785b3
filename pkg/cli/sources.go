package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-scheduler/muster/pkg/kube/survey"
)

// sourcesFlags are the flags of "sources".
type sourcesFlags struct {
	kubeconfig, context, as string
	schedulers              []string
	namespace, output       string
	timeout                 delay
	verbosity               int
}

func newSourcesCommand() *cobra.Command {
	f := sourcesFlags{schedulers: []string{"muster-scheduler", "koord-scheduler"}, output: "table", timeout: delay(30 * time.Second)}
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Which APIs make gangs in a cluster, how many each, and whose rule counts",
		Long: `Read a cluster as the scheduler does, and say which of the APIs that make gangs are
served and may be read, how many gangs and members each has, and of each gang where
the rule comes from by which its members gather. Nothing is written.

With --as it is asked what somebody else may read, such as the scheduler itself:
system:serviceaccount:muster-system:muster-scheduler.

The exit code is 0 when the cluster could be read, 1 when it could not, 2 for a mistake
in the command line.`,
		Example: `  kubectl muster sources
  musterctl sources -n research -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`PATH` of the kubeconfig (default: as kubectl has it)")
	flags.StringVar(&f.context, "context", "", "`NAME` of the kubeconfig's context")
	flags.StringVar(&f.as, "as", "", "`USER` as whom to read")
	flags.StringArrayVar(&f.schedulers, "scheduler-name", f.schedulers, "`NAME` that the scheduler serves; repeatable")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` whose gangs are listed (default: all)")
	flags.StringVarP(&f.output, "output", "o", f.output, "`FORMAT` of the result: table or json")
	flags.Var(&f.timeout, "timeout", "how long reading may take")
	flags.IntVarP(&f.verbosity, "v", "v", 0, "log `LEVEL`, on standard error (default: nothing is logged)")
	return cmd
}

func (f *sourcesFlags) run(cmd *cobra.Command) error {
	if f.output != "table" && f.output != "json" {
		return usageError("--output %s: legal: table, json", f.output)
	}
	config, err := f.connect()
	if err != nil {
		return err
	}
	defer logTo(cmd.ErrOrStderr(), f.verbosity)()
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(f.timeout))
	defer cancel()
	r, err := survey.Run(ctx, config, survey.Options{Schedulers: f.schedulers, Namespace: f.namespace})
	if err != nil {
		return err
	}
	if f.output == "json" {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), sourcesTable(r))
	return err
}

func (f *sourcesFlags) connect() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = f.as
	return config, nil
}

// sourcesTable shows a report to people: sources, owners that are served, and gangs.
func sourcesTable(r *survey.Report) string {
	var out strings.Builder
	rows, notes := [][]string{{"SOURCE", "STATE", "GANGS", "MEMBERS"}}, []string{""}
	for _, s := range r.Sources {
		name, note := s.Resource, "pods say it by "+s.Way
		if name == "" {
			name = "pods"
		}
		if s.Message != "" {
			note += "\n" + s.Message
		}
		rows = append(rows, []string{name, string(s.State), strconv.Itoa(s.Gangs), strconv.Itoa(s.Members)})
		notes = append(notes, indented(note, 4))
	}
	writeRows(&out, rows, notes)
	out.WriteByte('\n')
	rows, notes = [][]string{{"OWNER", "OBJECTS", "STATE", "GANGS"}}, []string{""}
	for _, o := range r.Owners {
		rows = append(rows, []string{o.Kind, o.Resource, string(o.State), strconv.Itoa(o.Gangs)})
		notes = append(notes, indented(o.Message, 4))
	}
	writeRows(&out, rows, notes)
	if len(r.Gangs) == 0 {
		out.WriteString("\nno gangs\n")
		return out.String()
	}
	out.WriteByte('\n')
	rows, notes = [][]string{{"GANG", "MEMBERS", "RULE FROM"}}, []string{""}
	for _, g := range r.Gangs {
		rows = append(rows, []string{g.Namespace + "/" + g.Name, fmt.Sprintf("%d/%d", g.Members, g.Min), orDash(g.Rule)})
		note := g.Problem
		if g.Elsewhere {
			note = "another scheduler's"
		}
		notes = append(notes, indented(note, 4))
	}
	writeRows(&out, rows, notes)
	return out.String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
