package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/kube/survey"
)

// sourcesFlags are the flags of "sources".
type sourcesFlags struct {
	connection
	schedulers        []string
	namespace, output string
	timeout           delay
	verbosity         int
}

func newSourcesCommand() *cobra.Command {
	f := sourcesFlags{schedulers: []string{"muster-scheduler", "koord-scheduler"}, output: "table", timeout: delay(30 * time.Second)}
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Which APIs make gangs in a cluster, how many each, and which object's topology constraint counts",
		Long: `Read a cluster as the scheduler does, and say which of the APIs that make gangs are
served and may be read, how many gangs and members each has, and which object each gang's
topology constraint comes from. The command writes nothing.

With --as the command reads with the permissions of another user, such as the scheduler:
system:serviceaccount:muster-system:muster-scheduler.

The exit code is 0 when the cluster could be read, 1 when it could not, 2 for a mistake
in the command line.`,
		Example: `  kubectl muster sources
  musterctl sources -n research -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.connection.add(cmd)
	flags.StringArrayVar(&f.schedulers, "scheduler-name", f.schedulers, "`NAME` that the scheduler serves; repeatable")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the gangs to list (default: all)")
	flags.StringVarP(&f.output, "output", "o", f.output, "`FORMAT` of the result: table or json")
	flags.Var(&f.timeout, "timeout", "how long reading may take")
	flags.IntVarP(&f.verbosity, "v", "v", 0, "log `LEVEL`, on standard error (default: nothing is logged)")
	return cmd
}

// run prints which APIs make gangs in the cluster, and which gangs there are.
func (f *sourcesFlags) run(cmd *cobra.Command) error {
	if f.output != "table" && f.output != "json" {
		return usageError("--output %s: supported values: table, json", f.output)
	}
	config, err := f.restConfig()
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
		return writeJSON(cmd.OutOrStdout(), r)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), sourcesTable(r))
	return err
}

// sourcesTable formats a report: integrations, served owners, and gangs.
func sourcesTable(r *survey.Report) string {
	var out strings.Builder
	sources := newTable("SOURCE", "STATE", "GANGS", "MEMBERS")
	for _, s := range r.Sources {
		name, note := s.Resource, "pods say it by "+s.Way
		if name == "" {
			name = "pods"
		}
		if s.Message != "" {
			note += "\n" + s.Message
		}
		sources.add(indented(note, 4), name, string(s.State), strconv.Itoa(s.Gangs), strconv.Itoa(s.Members))
	}
	sources.write(&out)
	out.WriteByte('\n')
	owners := newTable("OWNER", "OBJECTS", "STATE", "GANGS")
	for _, o := range r.Owners {
		owners.add(indented(o.Message, 4), o.Kind, o.Resource, string(o.State), strconv.Itoa(o.Gangs))
	}
	owners.write(&out)
	if len(r.Gangs) == 0 {
		out.WriteString("\nno gangs\n")
		return out.String()
	}
	gangs := newTable("GANG", "MEMBERS", "RULE FROM")
	for _, g := range r.Gangs {
		note := g.Problem
		if g.Elsewhere {
			note = "another scheduler's"
		}
		gangs.add(indented(note, 4), g.Namespace+"/"+g.Name, fmt.Sprintf("%d/%d", g.Members, g.Min), orDash(g.Rule))
	}
	gangs.writeLast(&out)
	return out.String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
