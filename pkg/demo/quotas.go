package demo

import (
	"context"
	"strings"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

const (
	quotasBefore = `
NAME           READY   STATUS    RESTARTS   AGE   IP            NODE      NOMINATED NODE
first-pod-0    1/1     Running   0          9s    10.244.5.10   node-5    <none>
first-pod-1    1/1     Running   0          9s    10.244.6.10   node-6    <none>
first-pod-2    1/1     Running   0          9s    10.244.7.10   node-7    <none>
first-pod-3    1/1     Running   0          9s    10.244.8.10   node-8    <none>
second-pod-0   1/1     Running   0          5s    10.244.0.10   node-0    <none>
second-pod-1   1/1     Running   0          5s    10.244.1.10   node-1    <none>
second-pod-2   1/1     Running   0          5s    10.244.2.10   node-2    <none>
second-pod-3   1/1     Running   0          5s    10.244.3.10   node-3    <none>
`
	quotasAfter = `
NAME          READY   STATUS    RESTARTS   AGE   IP            NODE      NOMINATED NODE
first-pod-0   1/1     Running   0          29s   10.244.5.10   node-5    <none>
first-pod-1   1/1     Running   0          29s   10.244.6.10   node-6    <none>
first-pod-2   1/1     Running   0          29s   10.244.7.10   node-7    <none>
first-pod-3   1/1     Running   0          29s   10.244.8.10   node-8    <none>
model-pod-0   1/1     Running   0          9s    10.244.0.11   node-0    <none>
model-pod-1   1/1     Running   0          9s    10.244.1.11   node-1    <none>
model-pod-2   1/1     Running   0          9s    10.244.2.11   node-2    <none>
model-pod-3   1/1     Running   0          9s    10.244.3.11   node-3    <none>
`
	quotasBorrowed = `
NAME       MIN   MAX   USED
research   32    96    64
serving    64    96    0
`
	quotasTakenBack = `
NAME       MIN   MAX   USED
research   32    96    32
serving    64    96    32
`
)

// example4 returns the steps of an example with two teams that share a cluster by quotas.
func example4(c *localcluster.Cluster) []step {
	var before, after objects
	file := func(name string) string { return example("quotas/" + name) }
	quotas := func(what, want string) step {
		return runChecked(rows(what, want, "NAME", "MIN", "MAX", "USED"), "get", "elasticquotas.scheduling.sigs.k8s.io")
	}
	pods := []string{"get", "pods", "-o", "wide"}
	return []step{
		title("Example 4: two teams, one borrows"),
		say("The pods and the nodes with GPUs go."),
		runHidden("delete", "pods,podgroups.scheduling.sigs.k8s.io", "--all", "--force"),
		runHidden("delete", "nodes", "gpu-0", "gpu-1"),
		runHidden("apply", "-f", file("crd.yaml")),
		runHidden("wait", "crd/elasticquotas.scheduling.sigs.k8s.io", "--for=condition=Established", "--timeout=60s"),
		say("The 96 CPUs of the twelve nodes are shared by two quotas: 32 are sure for research, 64 for serving."),
		runShown("apply", "-f", file("quotas.yaml")),
		awaitQuotas,
		say("Serving uses nothing. Research starts two gangs of 4 nodes each, and borrows for the second one:"),
		runShown("apply", "-f", file("first.yaml")),
		runHidden("wait", "pods", "-l", "pod-group.scheduling.sigs.k8s.io=first", "--for=condition=Ready", "--timeout=60s"),
		runShown("apply", "-f", file("second.yaml")),
		runChecked(rows("both run, each in one spine", quotasBefore, podsSettled...), pods...),
		quotas("research has 32 CPUs more than its min", quotasBorrowed),
		before.read,
		say("Now serving needs 4 nodes in one spine. 4 are free, but not in one. " +
			"What it asks for is within its min, so quotas that borrow must give back:"),
		runShown("apply", "-f", file("model.yaml")),
		runChecked(rows("the gang that borrowed is evicted whole; the other one runs on; the spine belongs to serving",
			quotasAfter, columnsWhenBound(c)...), pods...),
		quotas("each has what is sure for it", quotasTakenBack),
		say("The tree now:"),
		draw(&after),
	}
}

// awaitQuotas waits until the scheduler has written the status of the quotas.
func awaitQuotas(ctx context.Context, d *demo) error {
	_, _, err := d.await(ctx, func(out string) []check {
		return []check{{what: "the scheduler has read the quotas", ok: strings.Count(out, "runtime") == 2}}
	}, "get", "elasticquotas.scheduling.sigs.k8s.io", "-o", "jsonpath={.items[*].metadata.annotations}")
	return err
}
