// Package cli is the command line of musterctl, which is also kubectl-muster.
//
// It handles flags, files and output. What it shows comes from the API server or from the core packages.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes of errors without a code of their own, see ExitError. A mistake in the command line is exitUsage, any other error exitFailed.
const (
	exitFailed = 1
	exitUsage  = 2
)

// ExitError ends the process with Code; Err is printed if it is not nil.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprint("exit code ", e.Code)
	}
	return e.Err.Error()
}
func (e *ExitError) Unwrap() error { return e.Err }

// usageError returns an ExitError for a mistake in the command line.
func usageError(format string, args ...any) error {
	return &ExitError{exitUsage, fmt.Errorf(format, args...)}
}

// New returns the root command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "musterctl",
		Short:         "Look at gangs and topology, and try Muster out",
		SilenceErrors: true, // Main prints errors
		SilenceUsage:  true,
	}
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "kubectl-"); ok {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + name}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee \"%s --help\"", err, cmd.CommandPath())
	})
	cmd.AddCommand(newClusterCommand(), newDemoCommand(), newDrainPlanCommand(), newDumpCommand(), newEmptyCommand(),
		newExplainCommand(), newQueueCommand(), newQuotaCommand(), newSimulateCommand(), newSourcesCommand(),
		newTopologyCommand(), newUICommand(), newVersionCommand())
	return cmd
}

// Main runs the root command with args, prints its error to stderr, and returns the exit code: that of an ExitError, exitUsage for an
// error before the command runs, else exitFailed.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctrllog.SetLogger(klog.Background()) // else controller-runtime prints a stack after 30 seconds
	cmd, running := New(), false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	exit := (*ExitError)(nil)
	if !errors.As(err, &exit) || exit.Err != nil {
		fmt.Fprintln(stderr, "Error:", err)
	}
	if exit != nil {
		return exit.Code
	}
	if !running {
		return exitUsage
	}
	return exitFailed
}
