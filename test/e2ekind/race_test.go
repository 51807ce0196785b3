package e2ekind

import (
	"fmt"
	"time"
)

// lostRace: two schedulers choose the last free capacity of a node at the same time. The API server takes both bindings. The kubelet
// rejects the pod that it sees second: that pod fails, with a reason that names the resource, and does not go back to a queue. An
// extended resource such as a GPU is the same. docs/migrate says so.
func lostRace(w *world) {
	node := w.lab.Workers()[0]
	w.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p",
		`{"status":{"capacity":{"example.com/gpu":"1"},"allocatable":{"example.com/gpu":"1"}}}`)
	for resource, amount := range map[string]string{"cpu": w.ofAWorker(60), "example.com/gpu": "1"} {
		label := map[string]string{"cpu": "cpu", "example.com/gpu": "gpu"}[resource]
		for i := range 2 {
			name := fmt.Sprintf("race-%s-%d", label, i)
			w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {race: %s}}
spec:
  schedulerName: scheduler-%d
  terminationGracePeriodSeconds: 1
  containers:
  - {name: member, image: %q, imagePullPolicy: Never, resources: {requests: {%s: %s}, limits: {%s: %s}}}
`, name, label, i, memberImage, resource, amount, resource, amount))
			w.kubectlWith(fmt.Sprintf(
				`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"apiVersion":"v1","kind":"Node","name":%q}}`, name, node),
				"create", "--raw", "/api/v1/namespaces/default/pods/"+name+"/binding", "-f", "-")
		}
		w.expect(60*time.Second, `^OutOf`+resource+`$`, "get", "pods", "-l", "race="+label, "--field-selector=status.phase=Failed",
			"-o", "jsonpath={.items[*].status.reason}")
		w.say("%s: of two pods bound to the last capacity of a node, the kubelet rejects one", resource)
	}
}
