package e2ekind

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repair: machines under a running gang with MustGather are gone (cases R4 and R10). Capacity in its domain is held while the lost
// members are Terminating, since no kubelet confirms their end. A pod of the same priority does not get it, the replacements do.
// No LeaderWorkerSet controller runs here: case R18 is in test/e2e/testdata/controllers.
func repair(w *world) {
	w.apply(w.fixture("clusternetworktopology.yaml"))
	for _, node := range w.lab.Workers() {
		w.kubectl("label", "node", node, spine+"=kind", block+"="+node)
		w.Cleanup(func() { w.kubectlLater("label", "node", node, spine+"-", block+"-") })
	}
	// A scheduler must live, and the leader is not to change.
	stays := w.kubectl("get", "pod", "-n", system, w.leader(), "-o", "jsonpath={.spec.nodeName}")
	others := slices.DeleteFunc(w.lab.Workers(), func(node string) bool { return node == stays })
	require.Len(w, others, 2)
	w.Run("one node", func(t *testing.T) { // the other one is free
		w := w.within(t)
		w.losesNodes(gang{name: "repair", members: 2, cpu: w.ofAWorker(60), spec: impatient}, w.ofAWorker(60), stays, others[:1])
	})
	w.Run("two nodes", func(t *testing.T) { // the third one takes the whole gang, and little more
		w := w.within(t)
		w.losesNodes(gang{name: "repair-two", members: 3, cpu: w.ofAWorker(25), spec: impatient}, w.ofAWorker(40), stays, others)
	})
}

const (
	spine = "network.topology.nvidia.com/spine"
	block = "network.topology.nvidia.com/block"
)

// losesNodes starts a gang with a member on each of the given nodes, stops the lost ones, and has their members recreated. A rival of the
// same priority requests cpu after the loss.
func (w *world) losesNodes(g gang, cpu, stays string, lost []string) {
	const gather = "annotations: {gang.scheduling.koordinator.sh/network-topology-spec: " +
		`'{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'}`
	const meta = "namespace: default}\nspec: {minMember"
	objects := strings.Replace(g.objects(), meta, "namespace: default, "+gather+"}\nspec: {minMember", 1)
	pods := g.pods()
	for i, node := range append([]string{stays}, lost...) {
		objects = strings.Replace(objects, g.pod(i), strings.Replace(g.pod(i), "spec:\n",
			"spec:\n  nodeSelector: {kubernetes.io/hostname: "+node+"}\n", 1), 1)
	}
	w.apply(objects)
	w.said(g, "started", 60*time.Second)

	for _, node := range lost {
		_, err := w.lab.Docker(w.Context(), "stop", "--time=0", node)
		require.NoError(w, err)
		w.Cleanup(func() { w.comesBack(node) })
	}
	for _, pod := range pods[1:] {
		w.expect(180*time.Second, ".", "get", "pod", pod, "-o", "jsonpath={.metadata.deletionTimestamp}")
	}
	state := `jsonpath={range .status.conditions[?(@.type=="Repairing")]}{.status}/{.reason} {.message}{end}`
	w.say("%s", w.expect(30*time.Second, fmt.Sprintf("^True/HoldingCapacity %d of %d members", len(lost), g.members),
		"get", "podgroup.scheduling.sigs.k8s.io", g.name, "-o", state))

	rival := gang{name: g.name + "-rival", members: 1, cpu: cpu}
	w.apply(strings.Replace(rival.pod(0), ", pod-group.scheduling.sigs.k8s.io: "+rival.name, "", 1))
	w.say("%s", w.expect(60*time.Second, "reserved for gang default/"+g.name, "get", "pod", rival.pods()[0], "-o",
		`jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`))

	// The machines are off, as the administrator says.
	const off = "node.kubernetes.io/out-of-service"
	for _, node := range lost {
		w.kubectl("taint", "node", node, off+"=nodeshutdown:NoExecute")
		w.Cleanup(func() { w.kubectlLater("taint", "node", node, off+"-") })
	}
	again := time.Now()
	for i, pod := range pods[1:] {
		w.kubectl("wait", "pod", pod, "--for=delete", "--timeout=90s")
		w.kubectlWith(g.pod(i+1), "apply", "--server-side", "-f", "-")
	}
	for _, pod := range pods[1:] {
		w.expect(90*time.Second, "^Running$", "get", "pod", pod, "-o", "jsonpath={.status.phase}")
		now := w.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
		require.NotContains(w, lost, now)
		w.say("%s, which was recreated, runs on %s %.1f s after the taint", pod, now, time.Since(again).Seconds())
	}
	require.Equal(w, "Running", w.kubectl("get", "pod", pods[0], "-o", "jsonpath={.status.phase}"))
	require.Empty(w, w.kubectl("get", "pod", rival.pods()[0], "-o", "jsonpath={.spec.nodeName}"))
	w.expect(30*time.Second, "^$", "get", "podgroup.scheduling.sigs.k8s.io", g.name, "-o", state)
}
