package e2ekind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// documents: both examples of the network topology documents, on twelve make-believe nodes beside
// the real ones. Their pods name Koordinator's scheduler, which is not installed here; ours is
// named instead.
func documents(w *world) {
	w.kwok()
	w.apply(w.fixture("clusternetworktopology.yaml"))
	nodes := w.fixture("example-nodes.yaml")
	w.apply(nodes)
	w.kubectl("wait", "node", "--for=condition=Ready", "--timeout=60s", "-l", "network.topology.nvidia.com/spine")
	// Ready comes first, and then the controller takes the taint away that keeps pods out.
	w.expect(60*time.Second, "^$", "get", "nodes", "-l", "network.topology.nvidia.com/spine", "-o", "jsonpath={.items[*].spec.taints}")

	w.Run("example 1", func(t *testing.T) {
		w := w.within(t)
		w.apply(w.fixture("example1-podgroup.yaml"))
		w.apply(ours(w.fixture("example1-pods.yaml")))
		w.expect(60*time.Second, "^node-5 node-6 node-7 node-8$", "get", "pods", "training-pod-0", "training-pod-1", "training-pod-2",
			"training-pod-3", "-o", "jsonpath={.items[*].spec.nodeName}")
		w.expect(60*time.Second, "^Running$", "get", "podgroup.scheduling.sigs.k8s.io", "topology-demo-job", "-o", "jsonpath={.status.phase}")
		w.say("example 1: training-pod-0 … 3 run on node-5 … 8")
	})
	w.Run("example 2", func(t *testing.T) {
		w := w.within(t)
		w.apply(w.fixture("example2-priorityclasses.yaml"))
		w.apply(ours(w.fixture("example2-low-priority-pods.yaml")))
		w.expect(30*time.Second, "^Running Running Running$", "get", "pods", "low-priority-pod-0", "low-priority-pod-1", "low-priority-pod-5",
			"-o", "jsonpath={.items[*].status.phase}")
		w.apply(w.fixture("example2-podgroup.yaml"))
		w.apply(ours(w.fixture("example2-pods.yaml")))
		w.expect(60*time.Second, "^node-5 node-6 node-7 node-8$", "get", "pods", "hp-training-pod-0", "hp-training-pod-1", "hp-training-pod-2",
			"hp-training-pod-3", "-o", "jsonpath={.items[*].spec.nodeName}")
		left := w.kubectl("get", "pods", "-o", "name")
		require.Contains(t, left, "low-priority-pod-0")
		require.Contains(t, left, "low-priority-pod-1")
		require.NotContains(t, left, "low-priority-pod-5")
		w.say("example 2: low-priority-pod-5 was evicted, hp-training-pod-0 … 3 are on node-5 … 8")
	})
}

// ours names our scheduler in the documents' pods.
func ours(pods string) string {
	return strings.ReplaceAll(pods, "schedulerName: koord-scheduler", "schedulerName: muster-scheduler")
}

// kwok runs beside the cluster until the step ends, for the nodes that are annotated for it alone.
func (w *world) kwok() {
	config := filepath.Join(w.lab.Folder(), "kwok.yaml")
	require.NoError(w, os.WriteFile(config, []byte(localcluster.KWOKBesideRealNodes()), 0o644))
	program, err := localcluster.Binaries(w.Context(), os.Stdout, "", localcluster.KWOK)
	require.NoError(w, err)
	log, err := os.Create(filepath.Join(w.lab.Folder(), "kwok.log"))
	require.NoError(w, err)
	cmd := exec.Command(program[localcluster.KWOK], "--config="+config, "--kubeconfig="+w.lab.Kubeconfig())
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(w.lab.Folder(), "kwok"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w, cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	})
}
