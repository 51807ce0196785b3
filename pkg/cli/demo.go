package cli

import (
	"errors"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/demo"
)

// exitInterrupted is the exit code of shells for SIGINT.
const exitInterrupted = 130

func newDemoCommand() *cobra.Command {
	var o demo.Options
	kubernetes := newest()
	inMemory := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run both documented examples, one with GPUs and one with quotas, on a local cluster and check every outcome",
		Long: `Start a control plane with 12 make-believe nodes on this machine and muster-scheduler
as a process of its own, apply the YAML of the two documented examples word for
word, then a gang that wants GPUs and NICs, then two teams with quotas, and show
what happens. Every outcome is compared with the documents; the exit code is 0 only
if all of it is the same.

The first run builds the control plane from source, which takes several minutes; later
runs take less than one. Ctrl-C ends everything and leaves nothing behind.

With --without-cluster the scheduler runs in this process, and only the two documented
examples are played. That takes a second.`,
		Example: `  musterctl demo --without-cluster
  musterctl demo
  musterctl demo --keep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if inMemory {
				defer logTo(cmd.ErrOrStderr(), 0)()
				return demo.RunInMemory(cmd.Context(), cmd.OutOrStdout())
			}
			if o.Scheduler != "" {
				if o.Scheduler, err = exec.LookPath(o.Scheduler); err != nil {
					return usageError("--scheduler: %w", err)
				}
			}
			o.Out = cmd.OutOrStdout()
			o.Err = cmd.ErrOrStderr()
			o.Kubernetes = string(kubernetes)
			if err = demo.Run(cmd.Context(), o); errors.Is(err, demo.ErrInterrupted) {
				return &ExitError{exitInterrupted, demo.ErrInterrupted}
			}
			return err
		},
	}
	flags := cmd.Flags()
	kubernetes.add(flags)
	flags.BoolVar(&inMemory, "without-cluster", false, "play the two documented examples with the scheduler in this process")
	flags.BoolVar(&o.Keep, "keep", false, "leave the cluster up afterwards, until Ctrl-C")
	flags.StringVar(&o.Scheduler, "scheduler", "", "`PATH` of muster-scheduler (default: beside musterctl, then on PATH)")
	for _, other := range []string{"keep", "scheduler", "kubernetes-version"} {
		cmd.MarkFlagsMutuallyExclusive("without-cluster", other)
	}
	return cmd
}
