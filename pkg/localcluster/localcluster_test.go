package localcluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const leaveDelay = 1500 * time.Millisecond

// cluster starts one that ends with the test; all tests but the fast ones want it.
func cluster(t *testing.T, options Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	options.Progress = t.Output()
	c, err := Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := fs.Glob(os.DirFS(c.Dir()), "logs/*.log")
			for _, log := range logs {
				content, _ := os.ReadFile(c.Dir() + "/" + log)
				t.Logf("%s:\n%s", log, tail(content))
			}
		}
		require.NoError(t, c.Stop())
		requireNothingLeft(t, c.Dir())
	})
	return c
}

func clientOf(t *testing.T, c *Cluster) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(c.Config())
	require.NoError(t, err)
	return client
}

// kubectl runs the cluster's and returns what it prints.
func kubectl(t *testing.T, c *Cluster, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.Kubectl(), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// boundPod is a pod that asks for 8 CPUs on a node; %s are its name and node.
const boundPod = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 30
  initContainers: [{name: init, image: busybox}]
  containers: [{name: main, image: busybox, resources: {requests: {cpu: 8}}}]
`

// TestCluster goes through the life of nodes and pods on one cluster.
func TestCluster(t *testing.T) {
	c := cluster(t, Options{
		PodLeaveDelay:   leaveDelay,
		CRDs:            fstest.MapFS{"crd/widgets.yaml": {Data: []byte(widgets)}, "crd/README": {Data: []byte("{")}},
		APIFeatureGates: "GenericWorkload=true",
		RuntimeConfig:   "scheduling.k8s.io/v1alpha3=true",
		APIServerArgs:   []string{"--event-ttl=2h"},
	})
	client := clientOf(t, c)
	require.NoError(t, c.AddNodes(t.Context(), Nodes(2, 2, 2)))

	t.Run("versions", func(t *testing.T) {
		require.Equal(t, 2, strings.Count(kubectl(t, c, "version"), "Version: v1.37.0\n"))
	})
	t.Run("nodes", func(t *testing.T) { testNodes(t, client) })
	t.Run("pod", func(t *testing.T) { testPod(t, c, client) })
	t.Run("apply", func(t *testing.T) { testApply(t, c) })
	t.Run("user", func(t *testing.T) { testUser(t, c) })
	t.Run("launch", func(t *testing.T) { testLaunch(t, c) })
	t.Run("restart", func(t *testing.T) { testRestart(t, c, client) })
}

func testNodes(t *testing.T, client kubernetes.Interface) {
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 8)
	for _, n := range nodes.Items {
		require.True(t, ready(&n))
		require.Empty(t, n.Spec.Taints)
		require.Equal(t, int64(8), n.Status.Allocatable.Cpu().Value())
		require.Equal(t, int64(32<<30), n.Status.Allocatable.Memory().Value())
		require.Equal(t, int64(110), n.Status.Capacity.Pods().Value())
	}
}

func testPod(t *testing.T, c *Cluster, client kubernetes.Interface) {
	pods := client.CoreV1().Pods("default")
	require.NoError(t, c.Apply(t.Context(), strings.NewReader(fmt.Sprintf(boundPod, "runs", "node-3"))))
	kubectl(t, c, "wait", "--for=condition=Ready", "pod/runs", "--timeout=60s")
	pod, err := pods.Get(t.Context(), "runs", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, v1.PodRunning, pod.Status.Phase)
	require.NotEmpty(t, pod.Status.PodIP)

	watcher, err := pods.Watch(t.Context(), metav1.SingleObject(pod.ObjectMeta))
	require.NoError(t, err)
	defer watcher.Stop()
	start := time.Now()
	require.NoError(t, pods.Delete(t.Context(), "runs", metav1.DeleteOptions{}))
	terminating, err := pods.Get(t.Context(), "runs", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, terminating.DeletionTimestamp)
	for event := range watcher.ResultChan() {
		if event.Type == "DELETED" {
			break
		}
	}
	require.GreaterOrEqual(t, time.Since(start), leaveDelay)
	require.Less(t, time.Since(start), 30*time.Second, "the grace period")
	require.NoError(t, t.Context().Err())
}

func testApply(t *testing.T, c *Cluster) {
	objects := `
apiVersion: v1
kind: List
items:
- {apiVersion: example.org/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}, status: {phase: Done}}
- {apiVersion: v1, kind: Node, metadata: {name: given}, status: {allocatable: {cpu: 16}, capacity: {cpu: 16}}}
---
` + strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget", "widget", "gadget").Replace(widgets) + `
---
{apiVersion: example.org/v1, kind: Gadget, metadata: {generateName: g-}}
`
	for range 2 { // creates, then changes nothing
		require.NoError(t, c.Apply(t.Context(), strings.NewReader(objects)))
		require.Equal(t, "1 Done", kubectl(t, c, "get", "widget", "a", "-o", "jsonpath={.spec.size} {.status.phase}"))
	}
	require.Len(t, strings.Fields(kubectl(t, c, "get", "gadgets", "-o", "name")), 2)
	objects = strings.ReplaceAll(objects, "16", "4")
	require.NoError(t, c.Apply(t.Context(), strings.NewReader(objects)))
	require.Equal(t, "4 4", kubectl(t, c, "get", "node", "given", "-o", "jsonpath={.status.allocatable.cpu} {.status.capacity.cpu}"))
	kubectl(t, c, "wait", "--for=condition=Ready", "node/given", "--timeout=60s")

	err := c.Apply(t.Context(), strings.NewReader("{apiVersion: example.org/v1, kind: Gizmo, metadata: {name: z}}"))
	require.ErrorContains(t, err, `apply Gizmo "z": no matches for kind "Gizmo" in version "example.org/v1"`)
}

func testUser(t *testing.T, c *Cluster) {
	kubeconfig, err := c.AddUser("system:serviceaccount:muster-system:muster", "readers")
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	list := func() error {
		_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	}
	require.True(t, apierrors.IsForbidden(list()), "%v", list())
	kubectl(t, c, "create", "clusterrole", "readers", "--verb=list", "--resource=nodes")
	kubectl(t, c, "create", "clusterrolebinding", "readers", "--clusterrole=readers", "--group=readers")
	require.Eventually(t, func() bool { return list() == nil }, waitLong, waitTick)
}

func testLaunch(t *testing.T, c *Cluster) {
	p, err := c.Launch(t.Context(), "sh", "-c", "echo hello; exit 3")
	require.NoError(t, err)
	require.EqualError(t, p.Wait(), "exit status 3")
	log, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(log))
	require.ErrorContains(t, p.failure(), "exit status 3\nhello")

	ctx, cancel := context.WithCancel(t.Context())
	ends, err := c.Launch(ctx, "sleep", "3600")
	require.NoError(t, err)
	cancel()
	require.Error(t, ends.Wait())

	killed, err := c.Launch(t.Context(), "sleep", "3600")
	require.NoError(t, err)
	killed.Kill()
	killed.Kill()
	require.EqualError(t, killed.Wait(), "signal: killed")
}

func testRestart(t *testing.T, c *Cluster, client kubernetes.Interface) {
	require.NoError(t, c.StopAPIServer())
	_, err := client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	require.Error(t, err)
	require.NoError(t, c.StartAPIServer())
	_, err = client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	require.NoError(t, err)
	// KWOK has come back too.
	require.NoError(t, c.Apply(t.Context(), strings.NewReader(fmt.Sprintf(boundPod, "after", "node-0"))))
	kubectl(t, c, "wait", "--for=condition=Ready", "pod/after", "--timeout=60s")
}

// TestTwoClusters runs two side by side; with PodLeaveDelay 0 pods leave at once.
func TestTwoClusters(t *testing.T) {
	first, second := cluster(t, Options{}), cluster(t, Options{})
	require.NotEqual(t, first.Config().Host, second.Config().Host)
	require.NoError(t, first.AddNodes(t.Context(), Nodes(1, 1, 1)))
	require.NoError(t, second.AddNodes(t.Context(), Nodes(1, 1, 2)))
	require.Len(t, strings.Fields(kubectl(t, first, "get", "nodes", "-o", "name")), 1)
	require.Len(t, strings.Fields(kubectl(t, second, "get", "nodes", "-o", "name")), 2)

	require.ErrorContains(t, first.AddNodes(t.Context(), Nodes(1, 1, 1)), "create node node-0: ")
	require.NoError(t, first.Stop())
	require.NoError(t, second.Apply(t.Context(), strings.NewReader(fmt.Sprintf(boundPod, "runs", "node-1"))))
	kubectl(t, second, "wait", "--for=condition=Ready", "pod/runs", "--timeout=60s")
	kubectl(t, second, "delete", "pod", "runs", "--timeout=60s")

	_, err := first.Launch(t.Context(), "sleep", "3600")
	require.Error(t, err, "after Stop")
}

func TestKilledParent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	parent, dir := startHolder(t)
	running := strings.Join(mentions(t, dir), "\n")
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok", "sh -c sleep"} {
		require.Contains(t, running, dir+"/bin/"+program)
	}
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	requireNothingLeft(t, dir)
}

func TestStartFails(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	t.Setenv("TMPDIR", t.TempDir())
	requireEmpty := func() {
		entries, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	_, err := Start(t.Context(), Options{APIFeatureGates: "NoSuchGate=true"})
	require.ErrorContains(t, err, "start cluster: ")
	require.ErrorContains(t, err, "unrecognized feature gate: NoSuchGate")
	requireEmpty()

	_, err = Start(t.Context(), Options{APIServerArgs: []string{"event-ttl"}})
	require.ErrorContains(t, err, `kube-apiserver argument "event-ttl": want --name=value`)
	requireEmpty()

	for _, after := range []string{"guard.sh", "logs/etcd.log", "logs/kube-apiserver.log", "logs/kube-controller-manager.log"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				if found, _ := fs.Glob(os.DirFS(os.Getenv("TMPDIR")), "muster-*/"+after); len(found) > 0 {
					return
				}
			}
		}()
		_, err = Start(ctx, Options{Controllers: true})
		require.ErrorIs(t, err, context.Canceled, after)
		require.Empty(t, mentions(t, os.Getenv("TMPDIR")), after)
		requireEmpty()
	}

	// After KWOK only the CRDs are left, for too short a time to see them in the files.
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Start(ctx, Options{CRDs: endWhenRead{fstest.MapFS{}, cancel}})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, mentions(t, os.Getenv("TMPDIR")))
	requireEmpty()
}

// endWhenRead cancels a context when one of its files is opened.
type endWhenRead struct {
	fs.FS
	end context.CancelFunc
}

func (f endWhenRead) Open(name string) (fs.File, error) {
	f.end()
	return f.FS.Open(name)
}

// Beside real nodes KWOK must leave them, and their pods, alone.
func TestKWOKBesideRealNodes(t *testing.T) {
	config := KWOKBesideRealNodes()
	require.NotContains(t, config, "manageAllNodes: true")
	require.Contains(t, config, "\n  manageAllNodes: false\n  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake\n")
	require.Contains(t, config, "\n  nodeLeaseDurationSeconds: 40\n  nodeLeaseParallelism: 4\n")
	require.NotContains(t, config, "POD_LEAVE_DELAY")
}
