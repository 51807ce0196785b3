// Package e2e tests the scheduler's binary as a process of its own, against a real API
// server. Each script in testdata is one test; it opens with why it exists.
//
// The scripts share the API servers of two local control planes, each of which runs one script
// after the other. With E2E_KUBECONFIG=FILE they use an existing cluster,
// such as kind's: the cluster must have KWOK, for the nodes, and nothing in namespace
// default, since every script begins by clearing it. Scripts that need a control plane
// of their own are skipped then.
//
// E2E_KUBERNETES_VERSION is the version of the control planes, such as 1.34; the default is the
// newest one. Scripts ask for it with the condition [kubernetes:1.34].
//
// The scheduler is $MUSTER_BIN, else bin/muster-scheduler, else it is built. $MUSTERCTL_BIN and $MUSTER_CONTROLLER_BIN name the other
// programs; without them these are built.
//
// Besides testscript's own commands there are:
//
//	cluster [new|own] [-no-crds]   an empty cluster with Muster's CRDs; comes first. "own": not one that existed
//	   [-controllers] [-gangs]     before the test, since the script makes CRDs or devices. A new one may have kube-controller-manager, or Kubernetes' own PodGroups,
//	   [-emulates VERSION]         or emulate an older Kubernetes, or keep an audit log;
//	   [-audit]
//	crds [-without-rules]          applies the CRDs, as they were before they had rules;
//	crds-of-sources                one for each kind that is read of other projects, which takes any object;
//	apiserver restart              stops and starts it; only after "cluster new";
//	apply [-n N] FILE...           kubectl apply; with -n, N times with $i from 0 on;
//	nodes [-n N] FILE              apply, and wait until the nodes take pods;
//	kubectl ARG...                 sets stdout and stderr;
//	helm ARG...                    likewise, Helm;
//	hold POD...                    a pod that is deleted from now on stays Terminating;
//	release POD...                 until this;
//	finish [-failed] SELECTOR      these pods have run to their end;
//	identity FILE USER             a kubeconfig for another user;
//	scheduler start|run [-as NAME] [-config FILE] [-kubeconfig FILE] FLAG...
//	scheduler stop|kill [-as NAME] SIGTERM or SIGKILL, and wait for the end;
//	lossy [-done] FILE PREFIX CODE N
//	                               a kubeconfig through which the first N bindings of each pod PREFIX-* end in
//	                               CODE; -done: only the answer is lost;
//	wait-lost PREFIX N             so many were lost;
//	extender FILE                  a configuration with an extender that agrees to everything;
//	delay POD...                   about a pod it answers from now on;
//	proceed POD...                 only when this was called;
//	get [-as NAME] PATH            asks the scheduler's secure port;
//	log [-as NAME] TEXT            the scheduler's log contains it now;
//	evictions N [POD...]           so many pods, and which, were evicted since "cluster";
//	same spine|block POD...        the pods' nodes have one label in common;
//	muster-controller start|run    the controller that translates, as scheduler; its flags
//	   [-kubeconfig FILE] FLAG...
//	muster-controller stop|kill
//	webhooks PORT FILE             applies the webhooks of a file, and they are called at this port;
//	free-port NAME                 sets a variable to a free port;
//	time-in NAME DURATION          sets a variable to a time from now, as RFC 3339 in UTC;
//	writes ACCOUNT N|-             so much was written by an account since this was asked before, without Leases
//	                               and events; after "cluster new -audit";
//	prometheus start               scrapes the scheduler; not installed, the script is skipped;
//	dashboard                      waits until each query of the dashboard has found something;
//	alerts [NAME...]               exactly these have fired;
//
// and commands that wait, for a minute at most:
//
//	wait-bound POD=NODE|POD...     on this node, or on any;
//	wait-nominated POD=[NODE]...
//	wait-message POD TEXT          in the pod's condition PodScheduled;
//	wait-waiting N SELECTOR TEXT   there are N such pods, no others; none is bound or terminates, and one has
//	                               this message: the gang's representative;
//	wait-evicted POD...            Terminating, with the reason PreemptionByScheduler;
//	wait-gone POD...
//	wait-delayed POD...            the extender was asked and has not answered;
//	wait-condition KIND/NAME TYPE=STATUS/REASON [TEXT]
//	wait-event KIND/NAME REASON [TEXT]
//	wait-status FILE               of ClusterNetworkTopology default, without conditions;
//	wait-log [-as NAME] TEXT       for half a minute: what is wrong must be said in time;
//	wait-metric [-as NAME] TEXT
//	wait-used ACCOUNT FILE...      the account was permitted, by each of the rules in the files that are not
//	                               kube-scheduler's, something that it asked for; after "cluster new -audit";
//	wait-idle SOURCE...            muster-controller has looked at all of what it knows;
//	wait-written RESOURCE FILE     the objects of RESOURCE.VERSION.GROUP are the objects that the file draws;
//	wait-series EXPR...            Prometheus has seen a value of each;
//
// POD and NAME of KIND/NAME are in namespace default, NAMESPACE/POD is in another.
//
// Files are looked for in the script's folder, which also holds copies of fixtures/ and
// manifests/. A failed script ends with what the cluster looked like. E2E_DETAILS=1
// prints every command and what it saw, also of scripts that pass.
package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

func TestScripts(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	// Scripts mostly wait for conditions, so two run at a time, each on a control plane of its own.
	harnesses := []*harness{newHarness(t)}
	if os.Getenv(existingEnv) == "" {
		harnesses = append(harnesses, newHarness(t))
	}
	queue := make(chan string, len(files))
	for _, file := range files {
		queue <- file
	}
	close(queue)
	deadline, _ := t.Deadline()
	var streams sync.WaitGroup
	for _, h := range harnesses {
		streams.Go(func() {
			for file := range queue {
				testscript.RunT(&oneByOne{t}, testscript.Params{
					Files:              []string{file},
					Setup:              h.setup,
					Cmds:               commands(nil),
					Condition:          condition,
					RequireUniqueNames: true,
					Deadline:           deadline,
				})
			}
		})
	}
	streams.Wait()
}

// besideOthers lets a test run beside the other tests that call it: each has control planes of its own, and waits most of the time.
// On an existing cluster they run one after the other.
func besideOthers(t *testing.T) {
	if os.Getenv(existingEnv) == "" {
		t.Parallel()
	}
}

// condition answers what scripts ask for in brackets.
func condition(asked string) (bool, error) {
	version, ok := strings.CutPrefix(asked, "kubernetes:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", asked)
	}
	of, err := localcluster.KubernetesVersion(os.Getenv(versionEnv))
	return strings.HasPrefix(of, version+"."), err
}

// harness is what all scripts share.
type harness struct {
	scheduler, kubectl string // programs.
	ctlBinary          string // musterctl, which is built when it is first used.
	helmBinary         string // which is built when it is first used.
	controllerProgram  string // muster-controller, likewise.
	home               string // where kubectl keeps what it has learnt of clusters.
	shared             *cluster
}

// newHarness starts what tests share; args are the arguments of newCluster.
func newHarness(t *testing.T, args ...string) *harness {
	h := &harness{
		scheduler: schedulerBinary(t),
		kubectl:   kubectlBinary(t),
		home:      t.TempDir(),
	}
	h.shared = h.sharedCluster(t, args)
	return h
}

// setup prepares one script.
func (h *harness) setup(env *testscript.Env) error {
	for folder, files := range map[string]fs.FS{
		"fixtures": examples.FS, "manifests": manifests.CRDs,
	} {
		if err := os.CopyFS(filepath.Join(env.WorkDir, folder), files); err != nil {
			return err
		}
	}
	for _, files := range []fs.FS{manifests.RBAC, manifests.SchedulerConfigs} {
		if err := os.CopyFS(filepath.Join(env.WorkDir, "manifests"), files); err != nil {
			return err
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("ROOT", root)
	env.Setenv("KUBECTL", h.kubectl)
	env.Setenv("HOME", h.home)
	env.Values[theScript] = &script{harness: h, t: env.T().(*oneByOne)}
	return nil
}

// oneByOne is a T that runs its scripts one after the other.
type oneByOne struct{ *testing.T }

func (t *oneByOne) Parallel() {}

// Verbose false makes a script that passes print its comments, with times, and one that
// fails what it did since the last comment.
func (t *oneByOne) Verbose() bool { return os.Getenv("E2E_DETAILS") != "" }

func (t *oneByOne) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(&oneByOne{t}) })
}

// schedulerBinary returns the path of the binary under test.
func schedulerBinary(t *testing.T) string {
	if path := os.Getenv("MUSTER_BIN"); path != "" {
		return absolute(t, path)
	}
	path := absolute(t, "../../bin/muster-scheduler")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	t.Log("there is no bin/muster-scheduler: building one")
	path = filepath.Join(t.TempDir(), "muster-scheduler")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/muster-scheduler").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func absolute(t *testing.T, path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
