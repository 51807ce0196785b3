package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

type key int

// theScript is where a TestScript keeps its script.
const theScript key = iota

// script is what one script has made.
type script struct {
	*harness
	t          *oneByOne
	ts         *testscript.TestScript
	cluster    *cluster
	history    *history
	schedulers []*scheduler // and other projects' controllers
	extender   *extender
	lossy      *lossy
	prometheus *prometheus
	seen       map[string]map[types.UID]bool // the pods of a selector that were gathered last
	wrote      int                           // how many writes of the audit log were looked at
}

// command is one command of the script language. Its error fails the script.
type command func(s *script, ctx context.Context, args []string) error

// negatable are the commands that "!" may stand before. Waiting for something not to
// happen would only be waiting.
var negatable = []string{"apply", "kubectl", "helm", "musterctl", "scheduler", "muster-controller", "log", "same"}

// commands are the commands of all scripts, and more that only some have.
func commands(more map[string]command) map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]command{
		"cluster": (*script).useCluster, "crds": (*script).crds, "apiserver": (*script).apiserver,
		"apply": (*script).apply, "nodes": (*script).nodes, "kubectl": (*script).kubectlCommand, "helm": (*script).helm,
		"musterctl": (*script).musterctl,
		"hold":      (*script).hold, "release": (*script).release, "finish": (*script).finish,
		"identity": (*script).identity, "scheduler": (*script).scheduler, "get": (*script).get, "log": (*script).log,
		"evictions": (*script).evictions, "same": (*script).same,
		"lossy": (*script).loseBindings, "wait-lost": (*script).waitLost,
		"extender": (*script).useExtender, "delay": (*script).delay, "proceed": (*script).proceed, "wait-delayed": (*script).waitDelayed,
		"wait-bound": (*script).waitBound, "wait-nominated": (*script).waitNominated,
		"wait-message": (*script).waitMessage, "wait-waiting": (*script).waitWaiting,
		"wait-evicted": (*script).waitEvicted, "wait-gone": (*script).waitGone,
		"wait-condition": (*script).waitCondition, "wait-event": (*script).waitEvent, "wait-status": (*script).waitStatus,
		"wait-denied": (*script).waitDenied, "wait-warned": (*script).waitWarned, "wait-applied": (*script).waitApplied,
		"wait-log": (*script).waitLog, "wait-metric": (*script).waitMetric,
		"crds-of-sources": (*script).crdsOfSources, "wait-used": (*script).waitUsed,
		"muster-controller": (*script).translate, "wait-idle": (*script).waitIdle, "wait-written": (*script).waitWritten,
		"writes":   (*script).writesBy,
		"webhooks": (*script).webhooksOf, "free-port": (*script).freePort, "time-in": (*script).timeIn,
		"prometheus": (*script).startPrometheus, "wait-series": (*script).waitSeries, "dashboard": (*script).dashboard,
		"alerts": (*script).alerts,
	}
	maps.Copy(all, more)
	out := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range all {
		out[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(theScript).(*script)
			s.ts = ts
			if s.cluster == nil && name != "cluster" {
				ts.Fatalf("%s before cluster", name)
			}
			if neg && !slices.Contains(negatable, name) {
				ts.Fatalf("! before %s", name)
			}
			err := do(s, s.t.Context(), args)
			var broken brokenError
			switch {
			case err == nil && neg:
				ts.Fatalf("%s: unexpected success", name)
			case err != nil && (!neg || errors.As(err, &broken)):
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	return out
}

// brokenError is a failure that "!" does not make a success.
type brokenError struct{ error }

func usage(text string) error { return brokenError{errors.New("usage: " + text)} }

// option takes "-name value" out of the arguments, if it is there.
func option(args []string, name string) (value string, rest []string, err error) {
	i := slices.Index(args, name)
	if i < 0 {
		return "", args, nil
	}
	if i+1 == len(args) {
		return "", nil, usage(name + " needs a value")
	}
	return args[i+1], slices.Delete(slices.Clone(args), i, i+2), nil
}

func (s *script) useCluster(ctx context.Context, args []string) error {
	if s.cluster != nil {
		return usage("one cluster in a script")
	}
	if slices.Contains(args, "own") && s.shared.local == nil {
		s.t.Skip("installs what an existing cluster may have, such as CRDs and devices")
	}
	if slices.Contains(args, "new") {
		if err := s.startCluster(args); err != nil {
			return err
		}
	} else {
		s.cluster = s.shared
	}
	s.ts.Defer(s.end)
	if err := s.cluster.clear(ctx); err != nil {
		return err
	}
	if !slices.Contains(args, "-no-crds") {
		if err := s.cluster.applyCRDs(ctx, true); err != nil {
			return err
		}
	}
	var err error
	s.history, err = newHistory(ctx, s.cluster.client)
	return err
}

func (s *script) startCluster(args []string) error {
	if os.Getenv(existingEnv) != "" {
		s.t.Skip("needs a control plane of its own, and " + existingEnv + " names one that is there already")
	}
	c, err := newCluster(s.t.T, args)
	if err != nil {
		return err
	}
	s.ts.Defer(func() {
		if err := c.local.Stop(); err != nil {
			s.t.Error(err)
		}
	})
	s.cluster = c
	return nil
}

// end is called at the end of a script, whether it has failed or not.
func (s *script) end() {
	if s.t.Failed() {
		s.describe()
	}
	for _, p := range s.schedulers {
		p.stop()
	}
	if s.history != nil {
		s.history.stop()
	}
}

func (s *script) apiserver(_ context.Context, args []string) error {
	if s.cluster == s.shared || !slices.Equal(args, []string{"restart"}) {
		return usage("apiserver restart, after cluster new")
	}
	if err := s.cluster.local.StopAPIServer(); err != nil {
		return err
	}
	return s.cluster.local.StartAPIServer()
}

func (s *script) crds(ctx context.Context, args []string) error {
	return s.cluster.applyCRDs(ctx, !slices.Contains(args, "-without-rules"))
}

func (s *script) apply(ctx context.Context, args []string) error {
	times, args, err := option(args, "-n")
	if err != nil || len(args) == 0 {
		return usage("apply [-n N] FILE...")
	}
	together := []string{"apply"} // one kubectl for all files, except that pods need the classes of the files before them
	for i, file := range args {
		if times != "" {
			if file, err = s.repeat(file, times); err != nil {
				return brokenError{err}
			}
		}
		together = append(together, "-f", file)
		classes := strings.Contains(s.ts.ReadFile(file), "kind: PriorityClass")
		if !classes && i+1 < len(args) {
			continue
		}
		if err := s.kubectlCommand(ctx, together); err != nil {
			return err
		}
		together = together[:1]
		if classes {
			if err := localcluster.AwaitClasses(ctx, s.cluster.client); err != nil {
				return brokenError{err}
			}
		}
	}
	return nil
}

// repeat writes a file so many times into another, with $i counted from 0.
func (s *script) repeat(file, times string) (string, error) {
	n, err := strconv.Atoi(times)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(s.ts.MkAbs(file))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for i := range n {
		all.WriteString("---\n" + strings.ReplaceAll(string(content), "$i", strconv.Itoa(i)))
	}
	out := s.ts.MkAbs(times + "-times-" + filepath.Base(file))
	return out, os.WriteFile(out, []byte(all.String()), 0o644)
}

func (s *script) nodes(ctx context.Context, args []string) error {
	times, args, err := option(args, "-n")
	if err != nil || len(args) != 1 {
		return usage("nodes [-n N] FILE")
	}
	name := args[0]
	if times != "" {
		if name, err = s.repeat(name, times); err != nil {
			return err
		}
	}
	file, err := os.Open(s.ts.MkAbs(name))
	if err != nil {
		return err
	}
	defer file.Close()
	nodes, err := localcluster.ReadNodes(file)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, []string{name}); err != nil {
		return err
	}
	return s.await(ctx, func() (string, bool, error) {
		for _, want := range nodes {
			n, err := s.cluster.client.CoreV1().Nodes().Get(ctx, want.Name, metav1.GetOptions{})
			if err != nil {
				return "", false, err
			}
			if !ready(n) || len(n.Spec.Taints) > 0 {
				return n.Name + " is not ready", false, nil
			}
		}
		return fmt.Sprintf("%d nodes are ready", len(nodes)), true, nil
	})
}

func (s *script) kubectlCommand(ctx context.Context, args []string) error {
	stdout, stderr, err := s.cluster.run(ctx, s.harness, s.ts.MkAbs("."), args...)
	fmt.Fprint(s.ts.Stdout(), stdout)
	fmt.Fprint(s.ts.Stderr(), stderr)
	return err
}

// musterctlBinary is $MUSTERCTL_BIN, else it is built when it is first used: bin/musterctl may be an older one.
func (h *harness) musterctlBinary(ctx context.Context) (string, error) {
	if path := os.Getenv("MUSTERCTL_BIN"); path != "" {
		return path, nil
	}
	if h.ctlBinary == "" {
		path := filepath.Join(h.home, "musterctl")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "../../cmd/musterctl").CombinedOutput(); err != nil {
			return "", fmt.Errorf("build musterctl: %w\n%s", err, out)
		}
		h.ctlBinary = path
	}
	return h.ctlBinary, nil
}

// musterctl asks the cluster.
func (s *script) musterctl(ctx context.Context, args []string) error {
	program, err := s.musterctlBinary(ctx)
	if err != nil {
		return brokenError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.ts.MkAbs("."), s.ts.Stdout(), s.ts.Stderr()
	cmd.Env = append(os.Environ(), "HOME="+s.home, "KUBECONFIG="+s.cluster.kubeconfig)
	return cmd.Run()
}

// helm runs Helm with a kubeconfig of this cluster only. It is built when it is first used.
func (s *script) helm(ctx context.Context, args []string) error {
	if s.harness.helmBinary == "" {
		out, err := exec.CommandContext(ctx, "go", "tool", "-n", "-modfile=../../tools/deploy/go.mod",
			"helm").Output() // what is downloaded first, go says on stderr
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w\n%s", err, exit.Stderr)
			}
			return brokenError{fmt.Errorf("build helm: %w", err)}
		}
		s.harness.helmBinary = strings.TrimSpace(string(out))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.harness.helmBinary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.ts.MkAbs("."), s.ts.Stdout(), s.ts.Stderr()
	cmd.Env = append(os.Environ(), "HOME="+s.home, "HELM_CACHE_HOME="+s.home, "HELM_CONFIG_HOME="+s.home, "HELM_DATA_HOME="+s.home,
		"KUBECONFIG="+s.cluster.kubeconfig)
	return cmd.Run()
}

// holding is the finalizer of pods that must stay Terminating.
const holding = "muster.sh/e2e-hold"

func (s *script) hold(ctx context.Context, args []string) error {
	return s.setFinalizers(ctx, args, `["`+holding+`"]`)
}

func (s *script) release(ctx context.Context, args []string) error {
	return s.setFinalizers(ctx, args, "null")
}

func (s *script) setFinalizers(ctx context.Context, pods []string, value string) error {
	for _, pod := range pods {
		patch := []byte(`{"metadata":{"finalizers":` + value + `}}`)
		if _, err := s.pods().Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) identity(_ context.Context, args []string) error {
	if len(args) != 2 {
		return usage("identity FILE USER")
	}
	return s.cluster.identity(s.ts.MkAbs(args[0]), args[1])
}

// timeIn sets a variable to a time from now, in UTC: time-in NAME DURATION.
func (s *script) timeIn(_ context.Context, args []string) error {
	if len(args) != 2 {
		return usage("time-in NAME DURATION")
	}
	d, err := time.ParseDuration(args[1])
	s.ts.Setenv(args[0], time.Now().Add(d).UTC().Format(time.RFC3339))
	return err
}

// evictions compares the pods that the scheduler has evicted since the script began.
func (s *script) evictions(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usage("evictions N [POD...]")
	}
	evicted, err := s.history.evicted(ctx)
	if err != nil {
		return err
	}
	if strconv.Itoa(len(evicted)) != args[0] {
		return fmt.Errorf("evicted were %d: %v", len(evicted), evicted)
	}
	if want := args[1:]; len(want) > 0 {
		slices.Sort(want)
		if !slices.Equal(want, evicted) {
			return fmt.Errorf("evicted were %v", evicted)
		}
	}
	return nil
}

func (s *script) same(ctx context.Context, args []string) error {
	if len(args) < 3 || layers[args[0]] == "" {
		return usage("same spine|block POD POD...")
	}
	found := map[string][]string{}
	for _, name := range args[1:] {
		pod, err := s.pod(ctx, name)
		if err != nil {
			return brokenError{err}
		}
		node, err := s.cluster.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return brokenError{fmt.Errorf("node of %s: %w", name, err)}
		}
		place := node.Labels[layers[args[0]]]
		found[place] = append(found[place], name+" on "+node.Name)
	}
	s.ts.Logf("%v", found)
	if len(found) != 1 {
		return fmt.Errorf("the pods are not in one %s: %v", args[0], found)
	}
	return nil
}

// finish lets pods come to their end, as kubelets do when their containers have.
func (s *script) finish(ctx context.Context, args []string) error {
	phase, code := v1.PodSucceeded, 0
	if len(args) == 2 && args[0] == "-failed" {
		phase, code, args = v1.PodFailed, 1, args[1:]
	}
	if len(args) != 1 {
		return usage("finish [-failed] SELECTOR")
	}
	list, err := s.pods().List(ctx, metav1.ListOptions{LabelSelector: args[0]})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("no pods of %s", args[0])
	}
	for _, pod := range list.Items {
		statuses := []string{}
		for _, c := range pod.Spec.Containers {
			const status = `{"name":%q,"image":%q,"imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d}}}`
			statuses = append(statuses, fmt.Sprintf(status, c.Name, c.Image, code))
		}
		patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[%s]}}`, phase, strings.Join(statuses, ","))
		if _, err := s.pods().Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	s.ts.Logf("%d pods: %s", len(list.Items), phase)
	return nil
}
