// Package e2ekind runs Muster where it lives: on real kubelets, as containers, installed as the README
// says. One cluster serves all steps, in their order; make e2e-kind starts them.
package e2ekind

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/test/e2ekind/lab"
)

// root is the project's.
const root = "../.."

// memberImage is that of test/e2ekind/member.
const memberImage = "localhost/muster-e2e/member:dev"

// steps in the order in which they run. Each leaves the cluster as it found it.
var steps = []struct {
	name string
	run  func(*world)
}{
	{"install", install},
	{"documents", documents},
	{"together", together},
	{"preempt", preempt},
	{"refused", refused},
	{"two-schedulers", twoSchedulers},
	{"lost-race", lostRace},
	{"failover", failover},
	{"drain", drain},
	{"upgrade", upgrade},
	{"node-stops", nodeStops},
	{"repair", repair},
	{"recreated", recreated},
	{"uninstall", uninstall},
	{"helm", helm},
	{"new-operator", newOperator},
}

// TestKind needs Docker, mmdebstrap and half an hour when nothing has been built, so it must be asked for. E2E_KIND=1
// runs all steps, E2E_KIND="together|drain" the installation and these steps.
func TestKind(t *testing.T) {
	wanted := os.Getenv("E2E_KIND")
	if wanted == "" {
		t.Skip("make e2e-kind runs this")
	}
	only := regexp.MustCompile("^(install|" + wanted + ")$")
	l := start(t)
	bare := (&world{T: t, lab: l}).inventory()
	for _, step := range steps {
		if wanted != "1" && !only.MatchString(step.name) {
			continue
		}
		began := time.Now()
		ok := t.Run(step.name, func(t *testing.T) { step.run(&world{t, l, bare}) })
		fmt.Printf("%s: %.0f s\n", step.name, time.Since(began).Seconds())
		if !ok && step.name == "install" {
			t.FailNow() // there is nothing to test
		}
		if !ok && os.Getenv("E2E_KIND_KEEP") != "" {
			fmt.Printf("the cluster stays until Ctrl-C: KUBECONFIG=%s\n", l.Kubeconfig())
			<-t.Context().Done()
		}
	}
}

// start makes the cluster. It goes with the test, or with the first Ctrl-C.
func start(t *testing.T) *lab.Lab {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	l, err := lab.Start(ctx, os.Stdout, 3)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	go func() {
		<-ctx.Done()
		if t.Context().Err() == nil {
			l.Close()
			os.Exit(130)
		}
	}()
	return l
}

// world is what a step works with.
type world struct {
	*testing.T
	lab  *lab.Lab
	bare []string // what was there before Muster
}

// within is the world of a part of a step.
func (w *world) within(t *testing.T) *world { return &world{t, w.lab, w.bare} }

// kubectl must succeed; its output comes without the last newline.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.kubectlWith("", args...)
}

func (w *world) kubectlWith(input string, args ...string) string {
	w.Helper()
	printed, err := w.lab.KubectlWith(w.Context(), input, args...)
	require.NoError(w, err)
	return strings.TrimSpace(printed)
}

// later is the context of what cleans up: the test's has ended by then.
func later() context.Context { return context.Background() }

// kubectlLater is kubectl for cleaning up.
func (w *world) kubectlLater(args ...string) {
	_, err := w.lab.Kubectl(later(), args...)
	require.NoError(w, err)
}

// apply applies objects, and has them deleted when the step ends.
func (w *world) apply(objects string) {
	w.Helper()
	w.deleteLater(objects)
	w.kubectlWith(objects, "apply", "--server-side", "-f", "-")
}

// deleteLater has objects deleted when the step ends, and waits until they are gone.
func (w *world) deleteLater(objects string) {
	w.Cleanup(func() {
		_, err := w.lab.KubectlWith(later(), objects, "delete", "--ignore-not-found", "--wait", "--timeout=90s", "-f", "-")
		require.NoError(w, err)
	})
}

// fixture reads one of the documents' files.
func (w *world) fixture(names ...string) string {
	w.Helper()
	var all []string
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, "docs/examples", name))
		require.NoError(w, err)
		all = append(all, string(content))
	}
	return strings.Join(all, "\n---\n")
}

// eventually waits until try finds nothing wrong.
func (w *world) eventually(patience time.Duration, what string, try func() error) {
	w.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		if last = try(); last == nil {
			return
		}
	}
	w.Fatalf("%s: not within %s: %v", what, patience, last)
}

// expect waits until kubectl prints what a regular expression matches.
func (w *world) expect(patience time.Duration, pattern string, args ...string) string {
	w.Helper()
	matches := regexp.MustCompile(pattern)
	var printed string
	w.eventually(patience, "kubectl "+strings.Join(args, " "), func() error {
		out, err := w.lab.Kubectl(w.Context(), args...)
		if err != nil {
			return err
		}
		if printed = strings.TrimSpace(out); !matches.MatchString(printed) {
			return fmt.Errorf("it prints %q, want %s", printed, pattern)
		}
		return nil
	})
	return printed
}

// say prints a result to the terminal.
func (w *world) say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }
