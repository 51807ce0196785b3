package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/localcluster"
	"github.com/muster-scheduler/muster/test/koord"
)

// controllersEnv says that TestControllers runs. It builds other projects' programs, which
// takes minutes the first time.
const controllersEnv = "E2E_CONTROLLERS"

// TestControllers plays the scripts of testdata/controllers: the controllers that make gangs, as
// their projects have released them, with their CRDs and webhooks, beside the scheduler.
// Unit tests show only how we read these projects; the scripts show the pods that they create.
//
// These scripts have more commands:
//
//	racks SPINES NODES CPU         so many spines a, b, …, each with nodes a-0, a-1, … of so much;
//	controller NAME                lws, jobset, trainer, mpi-operator or kueue (kueue-topology: with its Topology Aware
//	                               Scheduling): its CRDs and webhooks, and the program. $FILES is the folder of files of its module.
//	                               koord-scheduler, koord-scheduler-full (with its quotas and devices) and
//	                               kube-scheduler (with its own gangs and topology) are schedulers; they are
//	                               started in the same way;
//	placed NAME SELECTOR           writes on stdout how many of these pods have a node, and in how many racks and
//	                               blocks the nodes are;
//	gangs MIN KEY|KEY=VALUE...     follow the pods that have these labels: pods that agree in
//	                               all are a gang, which must begin as gangRule says;
//	whole [N]                      all gangs did until now, and so many beginnings were seen;
//	wait-gathered [-new K] spine|block N SELECTOR
//	                               there are N such pods, no others; they run, in one domain. K of
//	                               them were not there the last time that this was waited for
func TestControllers(t *testing.T) {
	if os.Getenv(controllersEnv) == "" {
		t.Skip("make e2e-controllers sets " + controllersEnv)
	}
	h := &harness{scheduler: schedulerBinary(t), kubectl: kubectlBinary(t), home: t.TempDir()}
	deadline, _ := t.Deadline()
	testscript.RunT(&oneByOne{t}, testscript.Params{
		Dir:   "testdata/controllers",
		Setup: h.setup,
		Cmds: commands(map[string]command{
			"racks": (*script).racks, "controller": (*script).controller, "gangs": (*script).gangs, "whole": (*script).whole,
			"placed": (*script).placed, "wait-gathered": (*script).waitGathered,
		}),
		RequireUniqueNames: true,
		Deadline:           deadline,
	})
}

// controller says how a controller of another project is installed and started.
type controller struct {
	name      string // in scripts; "" is the component's
	component localcluster.Component
	install   []string // kustomizations among its files, or folders of YAML
	config    string   // what --config names, with $PORT, $CERTS; "" if there is no such flag
	args      []string // with $KUBECONFIG, $CONFIG
	needs     string   // an address of this machine that it takes and cannot be told another;
	etc       string   // a folder in /etc that it takes certificates from, likewise
}

var controllers = []controller{
	{
		"", localcluster.LeaderWorkerSet,
		[]string{"config/default"},
		managerConfig("config.lws.x-k8s.io/v1alpha1", "internalCertManagement", ", certDir: $CERTS"), managerArgs, "", "",
	},
	{
		"", localcluster.JobSet,
		[]string{"config/default"},
		managerConfig("config.jobset.x-k8s.io/v1alpha1", "internalCertManagement", ", certDir: $CERTS"), managerArgs, "", "",
	},
	{
		"", localcluster.Trainer,
		[]string{"manifests/base/crds", "manifests/base/webhook"},
		managerConfig("config.trainer.kubeflow.org/v1alpha1", "certManagement", ""), managerArgs, "", "",
	},
	// It makes PodGroups for a scheduler's name that it does not know as for scheduler-plugins.
	{"", localcluster.MPIOperator, []string{"manifests/base"}, "", []string{
		"--kubeConfig=$KUBECONFIG", "--gang-scheduling=muster-scheduler", "--lock-namespace=default", "--kube-api-qps=500",
		"--kube-api-burst=500",
	}, ":8080", ""},
	{"", localcluster.Kueue, []string{"config/default"}, kueueConfig(false), managerArgs, "", kueueCerts},
	{"kueue-topology", localcluster.Kueue, []string{"config/default"}, kueueConfig(true), managerArgs, "", kueueCerts},
	// No controllers, and started like them.
	{"", localcluster.KoordScheduler, []string{koord.CRDs}, koord.Config("$KUBECONFIG"), koordArgs, "", ""},
	{"koord-scheduler-full", localcluster.KoordScheduler, []string{koord.CRDs}, koord.FullConfig("$KUBECONFIG"), koordArgs, "", ""},
	{"", localcluster.Scheduler, nil, nativeConfig, []string{
		"--config=$CONFIG", "--bind-address=127.0.0.1", "--secure-port=$PORT",
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
	}, "", ""},
}

const kueueCerts = "/etc/kueue/metrics/certs"

// kueueConfig is Kueue's with or without its Topology Aware Scheduling. Workloads get the label app of their jobs.
func kueueConfig(topology bool) string {
	return managerConfig("config.kueue.x-k8s.io/v1beta2", "internalCertManagement", ", certDir: $CERTS") +
		fmt.Sprintf("featureGates: {VisibilityOnDemand: false, TopologyAwareScheduling: %t}\n", topology) +
		"integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod], labelKeysToCopy: [app]}\n"
}

var koordArgs = append([]string{"--config=$CONFIG", "--bind-address=127.0.0.1", "--secure-port=$PORT"}, koord.Flags...)

var managerArgs = []string{"--kubeconfig=$KUBECONFIG", "--config=$CONFIG"}

// nativeConfig is kube-scheduler's: as shipped, without leader election.
const nativeConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: $KUBECONFIG}
leaderElection: {leaderElect: false}
`

// managerConfig is for a program that is alone and has its certificates from us.
func managerConfig(version, certificates, webhook string) string {
	return `apiVersion: ` + version + `
kind: Configuration
leaderElection: {leaderElect: false}
` + certificates + `: {enable: false}
webhook: {port: $PORT, host: 127.0.0.1` + webhook + `}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "0"}
`
}

func (s *script) racks(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return usage("racks SPINES NODES CPU")
	}
	spines, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range spines {
		spine := string(rune('a' + i))
		node := strings.NewReplacer("SPINE", spine, "CPU", args[2]).Replace(oneNode)
		file := s.ts.MkAbs("rack-" + spine + ".yaml")
		if err := os.WriteFile(file, []byte(node), 0o644); err != nil {
			return err
		}
		if err := s.nodes(ctx, []string{"-n", args[1], file}); err != nil {
			return err
		}
	}
	return nil
}

const oneNode = `apiVersion: v1
kind: Node
metadata:
  name: SPINE-$i
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {` + localcluster.SpineLabel + `: SPINE, ` + localcluster.BlockLabel + `: only, kubernetes.io/hostname: SPINE-$i}
status: {allocatable: {cpu: CPU, memory: 32Gi, pods: 110}, capacity: {cpu: CPU, memory: 32Gi, pods: 110}}
`

func (s *script) controller(ctx context.Context, args []string) error {
	if s.cluster.local == nil || len(args) != 1 {
		return usage("controller NAME, after cluster new -controllers")
	}
	i := slices.IndexFunc(controllers, func(c controller) bool { return cmp.Or(c.name, string(c.component)) == args[0] })
	if i < 0 {
		return usage("controller lws|jobset|trainer|mpi-operator|kueue|kueue-topology|koord-scheduler|koord-scheduler-full|kube-scheduler")
	}
	c := controllers[i]
	if c.needs != "" {
		listener, err := net.Listen("tcp", c.needs)
		if err != nil {
			s.t.Skipf("%s needs %s: %v", c.component, c.needs, err)
		}
		listener.Close()
	}
	if c.etc != "" {
		if out, err := exec.CommandContext(ctx, "unshare", ownEtc("true")...).CombinedOutput(); err != nil {
			s.t.Skipf("%s needs %s, and cannot have its own /etc: %v: %s", c.component, c.etc, err, out)
		}
	}
	programs, err := localcluster.Binaries(ctx, s.t.Output(), "", c.component)
	if err != nil {
		return err
	}
	program := programs[c.component]
	s.ts.Setenv("FILES", localcluster.Kept(program))
	port, err := localcluster.FreePort()
	if err != nil {
		return err
	}
	paths, err := s.install(ctx, c, localcluster.Kept(program), port)
	if err != nil {
		return err
	}
	if err := s.startController(c, program, port); err != nil {
		return err
	}
	return s.awaitWebhooks(ctx, port, paths)
}

// install applies a controller's CRDs and webhooks, which it serves at a port of this machine, and
// returns the webhooks' paths. What else its project installs is for one that runs in a pod.
func (s *script) install(ctx context.Context, c controller, files string, port int) (paths []string, err error) {
	authority, err := s.cluster.authority()
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, folder := range c.install {
		out, err := s.objectsIn(ctx, filepath.Join(files, folder))
		if err != nil {
			return nil, err
		}
		docs := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096)
		for {
			u := &unstructured.Unstructured{}
			if err := docs.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			switch u.GetKind() {
			case "CustomResourceDefinition":
				paths = append(paths, redirectConversion(u, port, authority)...)
			case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				paths = append(paths, redirect(u, port, authority)...)
			default:
				continue
			}
			content, err := yaml.Marshal(u.Object)
			if err != nil {
				return nil, err
			}
			all.WriteString("---\n" + string(content))
		}
	}
	return paths, s.cluster.local.Apply(ctx, &all)
}

// objectsIn is what a kustomization makes; a folder without one is all of its YAML.
func (s *script) objectsIn(ctx context.Context, folder string) (string, error) {
	if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); err == nil {
		out, stderr, err := s.cluster.run(ctx, s.harness, ".", "kustomize", folder)
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, stderr)
		}
		return out, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no YAML in %s: %w", folder, cmp.Or(err, fs.ErrNotExist))
	}
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.WriteString("---\n" + string(content) + "\n")
	}
	return all.String(), nil
}

// redirect makes webhooks call a port of this machine instead of a Service.
func redirect(u *unstructured.Unstructured, port int, authority []byte) (paths []string) {
	hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, h := range hooks {
		h := h.(map[string]any)
		paths = append(paths, redirectClient(h, port, authority))
	}
	u.Object["webhooks"] = hooks
	return paths
}

// redirectConversion is redirect for the webhook of a CustomResourceDefinition with several versions. JobSet's has one version, and its
// webhook is not served.
func redirectConversion(u *unstructured.Unstructured, port int, authority []byte) (paths []string) {
	hook, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "conversion", "webhook")
	if versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions"); !found || len(versions) < 2 {
		return nil
	}
	return []string{redirectClient(hook.(map[string]any), port, authority)}
}

func redirectClient(hook map[string]any, port int, authority []byte) (path string) {
	path, _, _ = unstructured.NestedString(hook, "clientConfig", "service", "path")
	hook["clientConfig"] = map[string]any{"url": "https://" + at(port) + path, "caBundle": authority}
	return path
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// authority is the certificate authority that the cluster's clients trust.
func (c *cluster) authority() ([]byte, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, err
	}
	return config.CAData, nil
}

// startController starts a controller as if it were one more scheduler. It ends with the script. If it ends before, each
// waiting command fails.
func (s *script) startController(c controller, program string, port int) error {
	// A controller without a flag for certificates looks for them here.
	temp := s.ts.MkAbs(fmt.Sprintf("%s-%d-tmp", c.component, port))
	certs := filepath.Join(temp, "k8s-webhook-server", "serving-certs")
	cert, key := s.cluster.local.Certificate()
	if err := errors.Join(os.MkdirAll(certs, 0o700),
		os.Symlink(cert, filepath.Join(certs, "tls.crt")), os.Symlink(key, filepath.Join(certs, "tls.key"))); err != nil {
		return err
	}
	config := s.ts.MkAbs(string(c.component) + "-config.yaml")
	fill := strings.NewReplacer("$PORT", strconv.Itoa(port), "$CERTS", certs, "$KUBECONFIG", s.cluster.kubeconfig, "$CONFIG", config)
	if err := os.WriteFile(config, []byte(fill.Replace(c.config)), 0o644); err != nil {
		return err
	}
	args := slices.Clone(c.args)
	for i := range args {
		args[i] = fill.Replace(args[i])
	}
	if c.etc != "" {
		// The controller has an /etc of its own, with the certificates.
		args = append(ownEtc(`mkdir -p "${0%/*}" && ln -s "$1" "$0" && shift && exec "$@"`, c.etc, certs, program), args...)
		program = "unshare"
	}
	process, err := s.cluster.local.LaunchWith(context.Background(), []string{"TMPDIR=" + temp}, program, args...)
	if err != nil {
		return err
	}
	s.schedulers = append(s.schedulers, &scheduler{
		name: string(c.component), log: process.Log(), done: process.Done(),
		wait: process.Wait, stop: process.Stop, kill: process.Kill,
	})
	return nil
}

// ownEtc returns arguments of unshare: command, with args as $0, $1, …, runs where /etc is an empty folder that no other program sees.
func ownEtc(command string, args ...string) []string {
	out := []string{"--mount", "--fork", "--kill-child", "sh", "-c", "mount -t tmpfs tmpfs /etc && " + command}
	if os.Getuid() != 0 {
		out = append([]string{"--map-root-user"}, out...)
	}
	return append(out, args...)
}

// awaitWebhooks waits until a controller serves them: until then the API server takes none of
// its objects.
func (s *script) awaitWebhooks(ctx context.Context, port int, paths []string) error {
	authority, err := s.cluster.authority()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	return s.await(ctx, func() (string, bool, error) {
		for _, path := range paths {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at(port)+path, strings.NewReader("{}"))
			if err != nil {
				return "", false, err
			}
			request.Header.Set("Content-Type", "application/json")
			answer, err := client.Do(request)
			if err != nil {
				return err.Error(), false, nil // it has to start yet
			}
			answer.Body.Close()
			if answer.StatusCode == http.StatusNotFound {
				return path + " is not served yet", false, nil
			}
		}
		return fmt.Sprintf("%d webhooks are served", len(paths)), true, nil
	})
}

func (s *script) gangs(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return usage("gangs MIN KEY|KEY=VALUE...")
	}
	least, err := strconv.Atoi(args[0])
	if err != nil {
		return usage("gangs MIN KEY|KEY=VALUE...")
	}
	nodes, err := s.cluster.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	rule := newGangRule(least, args[1:])
	for _, n := range nodes.Items {
		rule.domains[n.Name] = n.Labels[localcluster.SpineLabel]
	}
	s.history.follows(rule)
	return nil
}

func (s *script) whole(ctx context.Context, args []string) error {
	if len(args) > 1 {
		return usage("whole [N]")
	}
	var wrong, story []string
	begun := 0
	err := s.history.now(ctx, func() {
		for _, r := range s.history.rules {
			wrong = append(wrong, r.faults()...)
			story = append(story, r.story...)
			begun += r.begun
		}
	})
	switch {
	case err != nil:
		return err
	case len(wrong) > 0:
		return fmt.Errorf("%s\nwhat was seen:\n%s", strings.Join(wrong, "\n"), strings.Join(story, "\n"))
	case len(args) == 1 && args[0] != strconv.Itoa(begun):
		return fmt.Errorf("%d beginnings were seen:\n%s", begun, strings.Join(story, "\n"))
	}
	s.ts.Logf("%d beginnings\n%s", begun, strings.Join(story, "\n"))
	return nil
}

func (s *script) waitGathered(ctx context.Context, args []string) error {
	text := "wait-gathered [-new K] spine|block N SELECTOR"
	fresh, args, err := option(args, "-new")
	if err != nil || len(args) != 3 || layers[args[0]] == "" {
		return usage(text)
	}
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return usage(text)
	}
	selector, before := args[2], s.seen[args[2]]
	now := map[types.UID]bool{}
	err = s.await(ctx, func() (string, bool, error) {
		list, err := s.pods().List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return "", false, err
		}
		clear(now)
		lines, domains, others := []string{}, map[string]bool{}, 0
		ok := len(list.Items) == want
		for i := range list.Items {
			pod := &list.Items[i]
			now[pod.UID] = true
			if !before[pod.UID] {
				others++
			}
			domain, err := s.domainOf(ctx, pod, layers[args[0]])
			if err != nil {
				return "", false, err
			}
			domains[domain] = true
			ok = ok && pod.Status.Phase == v1.PodRunning && pod.DeletionTimestamp == nil
			lines = append(lines, fmt.Sprintf("%s on %s in %s: %s %s", pod.Name, pod.Spec.NodeName, domain, pod.Status.Phase, message(pod)))
		}
		ok = ok && (fresh == "" || fresh == strconv.Itoa(others))
		seen := fmt.Sprintf("%d pods of which %d are new: %s", len(lines), others, strings.Join(lines, "; "))
		if ok && len(domains) > 1 {
			return seen, false, errors.New("not in one " + args[0]) // they run, and stay where they are
		}
		return seen, ok, nil
	})
	if s.seen == nil {
		s.seen = map[string]map[types.UID]bool{}
	}
	s.seen[selector] = now
	return err
}

// placed reports the placement in the same words for each scheduler.
func (s *script) placed(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return usage("placed NAME SELECTOR")
	}
	list, err := s.pods().List(ctx, metav1.ListOptions{LabelSelector: args[1]})
	if err != nil {
		return err
	}
	bound, racks, blocks := 0, map[string]bool{}, map[string]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		bound++
		for label, in := range map[string]map[string]bool{"topology.kubernetes.io/rack": racks, "topology.kubernetes.io/block": blocks} {
			domain, err := s.domainOf(ctx, pod, label)
			if err != nil {
				return err
			}
			in[domain] = true
		}
	}
	fmt.Fprintf(s.ts.Stdout(), "%-16s %-14s bound %d of %d, racks %d, blocks %d\n", args[0], args[1], bound, len(list.Items), len(racks),
		len(blocks))
	return nil
}

// layers are what scripts call them, and their labels.
var layers = map[string]string{"spine": localcluster.SpineLabel, "block": localcluster.BlockLabel}

// domainOf is where a pod is; "" if it is not bound.
func (s *script) domainOf(ctx context.Context, pod *v1.Pod, label string) (string, error) {
	if pod.Spec.NodeName == "" {
		return "", nil
	}
	node, err := s.cluster.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("node of %s: %w", pod.Name, err)
	}
	return node.Labels[label], nil
}
