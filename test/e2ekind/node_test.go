package e2ekind

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// refused: a kubelet rejects a member for a setting of the kernel that it does not allow, which the scheduler cannot
// know. The others do not start without it. When the rejected member is recreated, all of them start together.
func refused(w *world) {
	g := gang{name: "refused", members: 3, cpu: "50m"}
	const allowed = "seccompProfile: {type: RuntimeDefault}}"
	const forbidden = "seccompProfile: {type: RuntimeDefault}, sysctls: [{name: kernel.msgmax, value: \"65536\"}]}"
	last := g.pod(2)
	w.apply(strings.Replace(g.objects(), last, strings.Replace(last, allowed, forbidden, 1), 1))
	w.expect(60*time.Second, "^Failed SysctlForbidden$", "get", "pod", "refused-2", "-o", "jsonpath={.status.phase} {.status.reason}")
	w.said(gang{name: g.name, members: 2}, "up", 30*time.Second)
	w.kubectl("delete", "pod", "refused-2", "--wait")
	began := time.Now()
	w.kubectlWith(last, "apply", "--server-side", "-f", "-")
	started := w.said(g, "started", 60*time.Second)
	w.say("the kubelet refused refused-2; with the one in its place all work after %.1f s, starts within %s", time.Since(began).Seconds(),
		spread(started).Round(time.Microsecond))
}

// nodeStops: the machine under a member is gone. The others go on; the member that is made in its place,
// as a Job's controller makes it, comes to a node that lives.
func nodeStops(w *world) {
	g := gang{name: "outage", members: 2, cpu: w.ofAWorker(60), spec: impatient} // each on a worker, and one is free
	w.apply(g.objects())
	w.said(g, "started", 60*time.Second)
	const lost = "outage-1" // not rank 0, which the others need
	node := w.kubectl("get", "pod", lost, "-o", "jsonpath={.spec.nodeName}")
	began := time.Now()
	_, err := w.lab.Docker(w.Context(), "stop", "--time=0", node)
	require.NoError(w, err)
	w.Cleanup(func() { w.comeBack(node) })
	ready := `jsonpath={.status.conditions[?(@.type=="Ready")].status}`
	w.expect(120*time.Second, "^Unknown$", "get", "node", node, "-o", ready)
	w.say("%s was stopped under %s: not ready after %.0f s", node, lost, time.Since(began).Seconds())
	w.expect(60*time.Second, ".", "get", "pod", lost, "-o", "jsonpath={.metadata.deletionTimestamp}")

	again := time.Now()
	w.kubectl("delete", "pod", lost, "--force", "--grace-period=0")
	w.kubectlWith(g.pod(1), "apply", "--server-side", "-f", "-")
	w.expect(90*time.Second, "^Running$", "get", "pod", lost, "-o", "jsonpath={.status.phase}")
	now := w.kubectl("get", "pod", lost, "-o", "jsonpath={.spec.nodeName}")
	require.NotEqual(w, node, now)
	w.say("the member that was made in its place runs on %s after %.1f s", now, time.Since(again).Seconds())
}

// impatient members are evicted soon after their node is gone.
const impatient = `tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}]`

// comeBack starts nodes that were stopped. Routes are restored when all of them run.
func (w *world) comeBack(nodes ...string) {
	ctx := later()
	began := time.Now()
	for _, node := range nodes {
		_, err := w.lab.Docker(ctx, "start", node)
		require.NoError(w, err)
	}
	for _, node := range nodes {
		_, err := w.lab.Kubectl(ctx, "wait", "node", node, "--for=condition=Ready", "--timeout=120s")
		require.NoError(w, err)
	}
	require.NoError(w, w.lab.Connect(ctx))
	w.say("%s: ready %.0f s after the start", strings.Join(nodes, " and "), time.Since(began).Seconds())
}
