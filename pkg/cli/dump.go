package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/version"
)

func newDumpCommand() *cobra.Command {
	f := askFlags{}
	to := "-"
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Write a cluster as one file that explain, queue, topology, ui and simulate read with -f",
		Long: `Write everything that the other commands read of a cluster as one YAML file, which begins with
the waiting gangs and what each waits for. Its first object has the versions, the configuration
if one was given, and the state of a scheduler that takes the cluster over: reservations, plans,
failed attempts, and the Filters' results for each template of pending pods. With -f, explain,
queue, topology and ui give the same answers as for the cluster, and simulate continues from
there: a bug report that can be run.

Secrets and ConfigMaps are never read. The file also leaves out fields that may hold secrets and
that no command needs: environment, arguments, commands, probes and termination messages of
containers, last-applied configurations, and parameters of volumes and devices. Names, labels, other
annotations and images stay. Read the file before you share it. It names the kinds that you may
not list.

The command reads a live cluster with your permissions: one list of each kind. It writes nothing to
the cluster. With -f the objects come from files.

The exit code is 0 when the file is whole, 1 when it is not, 2 for a mistake in the command line
or in a file.`,
		Example: `  kubectl muster dump -o cluster.yaml
  musterctl explain podgroup training -n research -f cluster.yaml
  musterctl simulate -f cluster.yaml --what-if cordon=node-7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withObjects(cmd, func(ctx context.Context, o ask.Options, set *simulate.Set) error {
				var out bytes.Buffer
				out.WriteString(dumpHeader(set))
				notes := simulate.Notes{Configuration: string(o.Config), Versions: versionsOf(set)}
				waiting, err := addBook(ctx, o, set, &notes)
				if err != nil {
					return simulateError(err, f.config)
				}
				out.WriteString(commented(sanitized(waiting)))
				if err := set.Write(&out, notes); err != nil {
					return err
				}
				if to == "-" {
					_, err := io.Copy(cmd.OutOrStdout(), &out)
					return err
				}
				return writePrivate(to, out.Bytes())
			})
		},
	}
	f.addSource(cmd)
	cmd.Flags().StringVarP(&to, "output", "o", to, "`FILE` to write, which only you may read; - is standard output")
	return cmd
}

// writePrivate writes a file that only its owner may read, even if a file with other permissions existed.
func writePrivate(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = errors.Join(file.Chmod(0o600), file.Truncate(0))
	}
	if err == nil {
		_, err = file.Write(data)
	}
	return errors.Join(err, file.Close())
}

// dumpHeader returns a YAML comment with the versions and the time of the dump.
func dumpHeader(set *simulate.Set) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Dumped by %s\n", strings.ReplaceAll(version.Get().String(), "\n", ", "))
	if kubelet := set.NewestKubelet(); kubelet != nil {
		fmt.Fprintf(&out, "# Newest kubelet: %s\n", kubelet)
	}
	if at := set.Moment(); !at.IsZero() {
		fmt.Fprintf(&out, "# As it was at %s\n", at.UTC().Format(time.RFC3339))
	}
	return out.String()
}

// versionsOf returns the versions of this program, of the cluster, and of the emulated scheduler.
func versionsOf(set *simulate.Set) map[string]string {
	emulated := version.Get()
	out := map[string]string{
		"muster": emulated.Version, "commit": emulated.Commit, "kubernetes": emulated.Kubernetes,
		"behavesAs": utilfeature.DefaultMutableFeatureGate.EmulationVersion().String(),
	}
	if kubelet := set.NewestKubelet(); kubelet != nil {
		out["newestKubelet"] = kubelet.String()
	}
	return out
}

// addBook sets notes.Book to the scheduler's state, and returns a table of the waiting gangs. If the simulation fails, it returns the
// reason as text and no error, since the dump is useful nevertheless. An invalid configuration is an error.
func addBook(ctx context.Context, o ask.Options, set *simulate.Set, notes *simulate.Notes) (string, error) {
	view, err := ask.Open(ctx, o, set)
	if config := (*simulate.ConfigError)(nil); errors.As(err, &config) {
		return "", err
	}
	if err != nil {
		return "Which gangs wait is not known: " + err.Error(), nil
	}
	defer view.Close()
	book, all, err := view.Book(ctx)
	if err != nil {
		return "Which gangs wait is not known: " + err.Error(), nil
	}
	notes.Book = book
	return queueText(all, view.At(), true), nil
}

// commented returns text as a YAML comment.
func commented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		out.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	return out.String()
}
