package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
	"github.com/muster-scheduler/muster/test/fixtures"
)

// demoLeaveDelay is how long a victim stays Terminating: long enough to look at what
// happens meanwhile, also on a busy machine.
const demoLeaveDelay = 10 * time.Second

// exitInterrupted is what shells make of SIGINT.
const exitInterrupted = 130

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run both documented examples, one with GPUs and one with quotas, on a local cluster and check every outcome",
		Long: `Start a control plane with 12 make-believe nodes on this machine and muster-scheduler
as a process of its own, apply the YAML of the two documented examples word for
word, then a gang that wants GPUs and NICs, then two teams with quotas, and show what happens. Every outcome is compared with the documents; the exit
code is 0 only if all of it is the same.

The first run builds the control plane from source, which takes several minutes; later
runs take less than one. Ctrl-C ends everything and leaves nothing behind.`,
		Example: `  musterctl demo
  musterctl demo --keep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.kubernetes = newest()
	f.kubernetes.add(flags)
	flags.BoolVar(&f.keep, "keep", false, "leave the cluster up afterwards, until Ctrl-C")
	flags.StringVar(&f.scheduler, "scheduler", "", "`PATH` of muster-scheduler (default: beside musterctl, then on PATH)")
	return cmd
}

type demoFlags struct {
	keep       bool
	scheduler  string
	kubernetes kubernetesVersion
}

func (f *demoFlags) run(cmd *cobra.Command) error {
	var err error
	if f.scheduler, err = findScheduler(f.scheduler); err != nil {
		return err
	}
	n := newNarrator(cmd.OutOrStdout())
	n.open()
	c, err := localcluster.Start(cmd.Context(), localcluster.Options{
		Progress: cmd.ErrOrStderr(), Kubernetes: string(f.kubernetes), Controllers: true, PodLeaveDelay: demoLeaveDelay, CRDs: manifests.CRDs,
	})
	if err != nil {
		return interrupted(cmd.Context(), err)
	}
	return errors.Join(f.runOn(cmd, n, c), c.Stop())
}

// runOn starts the scheduler on a cluster and plays all scenes.
func (f *demoFlags) runOn(cmd *cobra.Command, n *narrator, c *localcluster.Cluster) error {
	ctx, fail := context.WithCancelCause(cmd.Context())
	defer fail(nil)
	kubectl, err := newKubectl(c)
	if err != nil {
		return err
	}
	scheduler, err := startScheduler(ctx, c, f.scheduler)
	if err != nil {
		return interrupted(cmd.Context(), err)
	}
	go func() {
		<-scheduler.Done()
		fail(errSchedulerEnded)
	}()
	d := &demo{n, kubectl}
	if err = d.play(ctx, script(c)); err == nil {
		err = n.verdict(time.Since(n.began))
	}
	switch {
	case cmd.Context().Err() != nil:
		return interrupted(cmd.Context(), err)
	case ctx.Err() != nil:
		err = context.Cause(ctx) // and not what kubectl says about being stopped
	}
	if err != nil {
		err = errors.Join(err, tellLog(cmd.ErrOrStderr(), scheduler.Log(), f.keep))
	}
	if f.keep {
		n.handOver(c, scheduler)
		<-cmd.Context().Done()
	}
	return err
}

var errSchedulerEnded = errors.New("muster-scheduler has ended before the demo")

// interrupted returns an error for an interruption, and others as they are.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return &ExitError{exitInterrupted, errors.New("interrupted")}
	}
	return err
}

// handOver says how to use the cluster.
func (n *narrator) handOver(c *localcluster.Cluster, scheduler *localcluster.Process) {
	program := "kubectl"
	if _, err := exec.LookPath(program); err != nil {
		program = c.Kubectl()
	}
	n.title("The cluster stays up until Ctrl-C")
	n.say("In another terminal:")
	n.show(fmt.Sprintf(`
  export KUBECONFIG=%s
  cd %s    # the YAML of the examples is in %s
  %s get pods -o wide
  tail -f %s
`, c.Kubeconfig(), c.Dir(), fixturesPath, program, scheduler.Log()))
	n.say("Ctrl-C ends the cluster and removes all of it.")
}

// kubectl runs kubectl and returns its standard output; the error holds what it says
// on the other one.
type kubectl func(ctx context.Context, args ...string) (string, error)

// kubectlPatience is more than any command of the demo may take: kubectl itself would
// wait for hours.
const kubectlPatience = 2 * time.Minute

// newKubectl returns the cluster's kubectl. It runs in the cluster's folder, where the
// fixtures have the same relative path as in the repository, so that the commands which
// the demo shows are the ones that run. It is started through the folder's bin, as all
// programs of the cluster are, so that it ends with the cluster whatever happens.
func newKubectl(c *localcluster.Cluster) (kubectl, error) {
	if err := copyFixtures(filepath.Join(c.Dir(), filepath.FromSlash(fixturesPath))); err != nil {
		return nil, err
	}
	program := filepath.Join(c.Dir(), "bin", "kubectl")
	if err := os.Symlink(c.Kubectl(), program); err != nil {
		return nil, err
	}
	env := append(
		os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(),
		"KUBERC=off", // a user's own preferences change what kubectl prints
		"KUBECACHEDIR="+filepath.Join(c.Dir(), "kubectl-cache"),
	)
	return func(ctx context.Context, args ...string) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, kubectlPatience, fmt.Errorf("no end after %s", kubectlPatience))
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		var stdout, stderr strings.Builder
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir(), env, &stdout, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
			return stdout.String(), errors.Join(context.Cause(ctx), err)
		}
		return stdout.String(), nil
	}, nil
}

// fixturesPath is where the examples' YAML is in the repository.
const fixturesPath = "test/fixtures"

func copyFixtures(dir string) error {
	return errors.Join(copyYAML(dir, fixtures.FS, "*.yaml"), copyYAML(dir, fixtures.Devices, "devices/*.yaml"), copyYAML(dir, fixtures.Quotas, "quotas/*.yaml"))
}

// copyYAML copies files into a folder, where they have the same path.
func copyYAML(dir string, from fs.FS, pattern string) error {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tellLog prints the end of the scheduler's log and where all of it is: a cluster that
// does not stay takes its folder with it, so the log is copied out.
func tellLog(w io.Writer, path string, stays bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !stays {
		file, err := os.CreateTemp("", "muster-demo-*.log")
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		path = file.Name()
	}
	fmt.Fprintf(w, "\nThe end of muster-scheduler's log, which is in %s:\n%s\n", path, lastLines(content, 20))
	return nil
}

func lastLines(content []byte, most int) string {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
