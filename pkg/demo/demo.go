// Package demo runs the documented examples on a control plane on this machine, and compares every outcome with the documents.
//
// It uses kubectl and the scheduler's process. Without a control plane it runs simulations.
//
//	demo.go       the cluster, the scheduler and kubectl
//	script.go     the examples, step by step; devices.go and quotas.go are two of them
//	steps.go      what a step can be
//	checks.go     what outcomes are compared with
//	world.go      the cluster as a picture
//	narrator.go   text for a terminal
//	scheduler.go  the scheduler's process
//	inmemory.go   the first two examples without a control plane
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// terminationDelay is how long a victim is Terminating: long enough to read the state meanwhile, also on a busy machine.
const terminationDelay = 10 * time.Second

// Options say what the demo runs and where it prints.
type Options struct {
	Out, Err io.Writer
	// Scheduler is the path of muster-scheduler. If it is empty, Run looks beside this program and then on PATH.
	Scheduler string
	// Kubernetes is one of localcluster.KubernetesVersions.
	Kubernetes string
	// Keep says that the cluster runs on after the examples, until ctx ends.
	Keep bool
}

// ErrInterrupted is Run's error if ctx ends before the examples do.
var ErrInterrupted = errors.New("interrupted")

// Run starts a cluster, runs the examples on it, and stops it. The error says what could not be done, or how many checks failed.
func Run(ctx context.Context, o Options) error {
	if o.Scheduler == "" {
		found, err := findScheduler()
		if err != nil {
			return err
		}
		o.Scheduler = found
	}
	n := newNarrator(o.Out)
	n.open()
	c, err := localcluster.Start(ctx, localcluster.Options{
		Progress: o.Err, Kubernetes: o.Kubernetes, Controllers: true, PodLeaveDelay: terminationDelay, CRDs: manifests.CRDs,
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	return errors.Join(o.runOn(ctx, n, c), c.Stop())
}

// runOn starts the scheduler on a cluster and plays all examples. With Keep it then waits until parent ends, also if an example failed.
func (o Options) runOn(parent context.Context, n *narrator, c *localcluster.Cluster) error {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	kubectl, err := newKubectl(c)
	if err != nil {
		return err
	}
	scheduler, err := startScheduler(ctx, c, o.Scheduler)
	if err != nil {
		return interrupted(parent, err)
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
	case parent.Err() != nil:
		return interrupted(parent, err)
	case ctx.Err() != nil:
		err = context.Cause(ctx) // kubectl's error says only that kubectl was killed
	}
	if err != nil {
		err = errors.Join(err, copyLog(o.Err, scheduler.Log(), o.Keep))
	}
	if o.Keep {
		n.handOver(c, scheduler)
		<-parent.Done()
	}
	return err
}

var errSchedulerEnded = errors.New("muster-scheduler has ended before the demo")

// interrupted returns ErrInterrupted if err is not nil and ctx has ended; else err.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// handOver prints how to use the cluster.
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
`, c.Kubeconfig(), c.Dir(), examplesPath, program, scheduler.Log()))
	n.say("Ctrl-C ends the cluster and removes all of it.")
}

// kubectl runs kubectl and returns its standard output. The error contains its standard error.
type kubectl func(ctx context.Context, args ...string) (string, error)

// kubectlPatience is the timeout of a command: kubectl itself would wait for hours.
const kubectlPatience = 2 * time.Minute

// newKubectl returns the cluster's kubectl, which runs in the cluster's folder. It copies the examples there, under the same path as in
// the repository, so that the demo shows the commands as it runs them. A link in the folder's bin makes kubectl end with the cluster.
func newKubectl(c *localcluster.Cluster) (kubectl, error) {
	if err := copyExamples(filepath.Join(c.Dir(), filepath.FromSlash(examplesPath))); err != nil {
		return nil, err
	}
	program := filepath.Join(c.Dir(), "bin", "kubectl")
	if err := os.Symlink(c.Kubectl(), program); err != nil {
		return nil, err
	}
	env := append(
		os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(),
		"KUBERC=off", // a user's own preferences change kubectl's output
		"KUBECACHEDIR="+filepath.Join(c.Dir(), "kubectl-cache"),
	)
	return func(ctx context.Context, args ...string) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, kubectlPatience, fmt.Errorf("no end after %s", kubectlPatience))
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		var stdout, stderr strings.Builder
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir(), env, &stdout, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the demo handles Ctrl-C
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
			return stdout.String(), errors.Join(context.Cause(ctx), err)
		}
		return stdout.String(), nil
	}, nil
}

// examplesPath is where the examples' YAML is in the repository.
const examplesPath = "docs/examples"

// copyExamples copies the examples' YAML to a folder.
func copyExamples(dir string) error {
	return errors.Join(os.CopyFS(dir, examples.FS), os.CopyFS(dir, examples.Devices), os.CopyFS(dir, examples.Quotas))
}

// copyLog prints the end of the log at path, and where the log is. Unless stays is true, path will be removed, so it copies the log.
func copyLog(w io.Writer, path string, stays bool) error {
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

func lastLines(content []byte, limit int) string {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-limit):], "\n")
}
