package e2ekind

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
)

// nodeStops: the machine under a member is gone. The others go on; the member that is made in its place,
// as a Job's controller makes it, comes to a node that lives.
func nodeStops(w *world) {
	g := gang{name: "outage", members: 3, cpu: "100m", spec: impatient}
	w.apply(g.objects())
	w.said(g, "started", 60*time.Second)
	lost := w.worker(g)
	node := w.kubectl("get", "pod", lost, "-o", "jsonpath={.spec.nodeName}")
	began := time.Now()
	_, err := w.lab.Docker(w.Context(), "stop", "--time=0", node)
	require.NoError(w, err)
	w.Cleanup(func() { w.comesBack(node) })
	ready := `jsonpath={.status.conditions[?(@.type=="Ready")].status}`
	w.expect(120*time.Second, "^Unknown$", "get", "node", node, "-o", ready)
	w.say("%s was stopped under %s: not ready after %.0f s", node, lost, time.Since(began).Seconds())
	w.expect(60*time.Second, ".", "get", "pod", lost, "-o", "jsonpath={.metadata.deletionTimestamp}")

	again := time.Now()
	w.kubectl("delete", "pod", lost, "--force", "--grace-period=0")
	w.kubectlWith(g.pod(rankOf(lost)), "apply", "--server-side", "-f", "-")
	w.expect(90*time.Second, "^Running$", "get", "pod", lost, "-o", "jsonpath={.status.phase}")
	now := w.kubectl("get", "pod", lost, "-o", "jsonpath={.spec.nodeName}")
	require.NotEqual(w, node, now)
	w.say("the member that was made in its place runs on %s after %.1f s", now, time.Since(again).Seconds())
}

// impatient members are evicted soon after their node is gone.
const impatient = `tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}]`

// worker is a member that is not rank 0, which the others need, on a node that is not the control
// plane.
func (w *world) worker(g gang) string {
	for _, pod := range g.pods()[1:] {
		if w.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}") != w.lab.ControlPlane() {
			return pod
		}
	}
	w.Fatal("all members are on the control plane")
	return ""
}

func rankOf(pod string) (rank int) {
	_, _ = fmt.Sscanf(pod[len(pod)-1:], "%d", &rank)
	return rank
}

// comesBack starts a node that was stopped.
func (w *world) comesBack(node string) {
	ctx := later()
	_, err := w.lab.Docker(ctx, "start", node)
	require.NoError(w, err)
	began := time.Now()
	_, err = w.lab.Kubectl(ctx, "wait", "node", node, "--for=condition=Ready", "--timeout=120s")
	require.NoError(w, err)
	require.NoError(w, w.lab.Connect(ctx))
	w.say("%s is ready %.0f s after its start", node, time.Since(began).Seconds())
}
