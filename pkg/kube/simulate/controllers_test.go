package simulate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneNode has capacity for all pods.
const oneNode = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {rack: r1}}\nstatus: {capacity: {cpu: 100}}\n---\n"

// jobOf is a Job of some pods, with more metadata and spec.
func jobOf(pods int, metadata, spec string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j%s}\n"+
		"spec: {parallelism: %d, %stemplate: {spec: {schedulerName: muster-scheduler, restartPolicy: Never, containers: [{name: c}]}}}\n",
		metadata, pods, spec)
}

// stateful is a StatefulSet of some pods, all at once.
func stateful(pods int) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\n"+
		"spec: {replicas: %d, podManagementPolicy: Parallel, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
		"spec: {schedulerName: muster-scheduler, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}\n", pods)
}

// states runs sets of objects, one after the other, and lists the pods, as "name state".
func states(t *testing.T, o Options, texts ...string) (pods []string) {
	t.Helper()
	var sets []*Set
	for _, text := range texts {
		sets = append(sets, load(t, text))
	}
	r, err := Run(t.Context(), o, sets[0], sets[1:]...)
	require.NoError(t, err)
	for _, p := range r.Pods {
		pods = append(pods, p.Name+" "+string(p.State))
	}
	return pods
}

// lwsOf is a LeaderWorkerSet of one group.
func lwsOf(size int, meta string) string {
	return fmt.Sprintf("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l%s}\n"+
		"spec: {leaderWorkerTemplate: {size: %d, workerTemplate: {spec: {schedulerName: muster-scheduler, containers: [{name: c}]}}}}\n", meta,
		size)
}

// deploymentOf is a Deployment of one pod.
func deploymentOf(meta string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: s" + meta + "}\n" +
		"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}\n"
}

// podOf is a pod with a label, of a controller.
func podOf(label, kind, name string) string {
	return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {" + label + "}, ownerReferences: [{apiVersion: apps/v1, kind: " +
		kind + ", name: " + name +
		", uid: other, controller: true}]}\nspec: {nodeName: n1, containers: [{name: c}]}\n"
}

// TestControllersFollow: what a controller does when its workload is applied once more.
func TestControllersFollow(t *testing.T) {
	const (
		gone    = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, deletionTimestamp: 2026-01-01T00:00:00Z}\n"
		podGone = "apiVersion: v1\nkind: Pod\nmetadata: {name: s-0, deletionTimestamp: 2026-01-01T00:00:00Z}\n"
		mine    = "apiVersion: v1\nkind: Pod\nmetadata: {name: s-1}\nspec: {nodeName: n1, containers: [{name: c}]}\n---\n"
		itsPod  = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: " +
			"u}]}\nspec: {nodeName: n1}\n"
		jobGone  = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, deletionTimestamp: 2026-01-01T00:00:00Z}\n"
		leaves   = "s-0 Bound"
		classes  = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n---\n"
		preempts = "apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {schedulerName: muster-scheduler, priorityClassName: high, " +
			"containers: [{name: c, resources: {requests: {cpu: 100}}}]}\n"
	)
	for name, c := range map[string]struct {
		options Options
		texts   []string
		want    []string
	}{
		"as before":            {texts: []string{oneNode + stateful(2), stateful(2)}, want: []string{"s-0 Bound", "s-1 Bound"}},
		"scaled up":            {texts: []string{oneNode + stateful(1), stateful(2)}, want: []string{"s-0 Bound", "s-1 Bound"}},
		"scaled down":          {texts: []string{oneNode + stateful(3), stateful(1)}, want: []string{"s-0 Bound"}},
		"deleted":              {texts: []string{oneNode + stateful(3), gone}},
		"made again":           {texts: []string{oneNode + stateful(3), gone, stateful(1)}, want: []string{"s-0 Bound"}},
		"a pod has gone":       {texts: []string{oneNode + stateful(2), podGone}, want: []string{"s-1 Bound"}},
		"it comes again":       {texts: []string{oneNode + stateful(2), podGone, stateful(2)}, want: []string{"s-0 Bound", "s-1 Bound"}},
		"another controller's": {texts: []string{oneNode + mine + stateful(2), gone}, want: []string{"s-1 Bound"}},
		"leaving":              {Options{VictimsStay: true}, []string{oneNode + stateful(1), gone}, []string{leaves}},
		"evicted":              {texts: []string{oneNode + classes + stateful(1), preempts}, want: []string{"big Bound", "s-0 Evicted"}},
		"evicted, comes": {
			texts: []string{oneNode + classes + stateful(1), preempts, stateful(1)}, want: []string{"big Bound", "s-0 Evicted", "s-0 Pending"},
		},
		"a Job of no pods": {texts: []string{oneNode + jobOf(0, "", "")}},
		"a Job is resumed": {texts: []string{oneNode + jobOf(1, "", "suspend: true, "), jobOf(1, "", "")}, want: []string{"j-nttg6 Bound"}},
		"a Job is at rest": {texts: []string{oneNode + jobOf(1, "", ""), jobOf(1, "", "suspend: true, ")}},
		"from a cluster":   {texts: []string{oneNode + jobOf(2, ", uid: u", "")}},
		"deleted there":    {texts: []string{oneNode + jobOf(2, ", uid: u", "") + itsPod, jobGone}},
		"listed there":     {texts: []string{oneNode + jobOf(2, ", uid: u", "") + itsPod, jobOf(3, ", uid: u", "")}, want: []string{"p Bound"}},
		"written twice": {
			texts: []string{oneNode + lwsOf(2, "") + "---\n" + lwsOf(3, "")}, want: []string{"l-0 Bound", "l-0-1 Bound", "l-0-2 Bound"},
		},
		"a Job twice": {texts: []string{oneNode + jobOf(2, "", "") + "---\n" + jobOf(1, "", "")}, want: []string{"j-nttg6 Bound"}},
		"more than there": {
			texts: []string{oneNode + lwsOf(2, ", uid: u") + "---\n" + lwsOf(3, "")}, want: []string{"l-0 Bound", "l-0-1 Bound", "l-0-2 Bound"},
		},
		"from that cluster": {texts: []string{oneNode + jobOf(2, ", uid: u", ""), jobOf(3, ", uid: u", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, states(t, c.options, c.texts...))
		})
	}
}

// TestControllersDeep: a workload takes with it what its workloads have made.
func TestControllersDeep(t *testing.T) {
	const lws = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l%s}\n" +
		"spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {schedulerName: muster-scheduler, containers: [{name: c}]}}}}\n"
	there := oneNode + fmt.Sprintf(lws, "")
	require.Equal(t, []string{"l-0 Bound", "l-0-1 Bound"}, states(t, Options{}, there))
	require.Empty(t, states(t, Options{}, there, fmt.Sprintf(lws, ", deletionTimestamp: 2026-01-01T00:00:00Z")))
}

// TestControllersNear: a worker whose leader is on a node without the label is not made.
func TestControllersNear(t *testing.T) {
	lws := func(label string) string {
		return "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n" +
			"metadata: {name: l, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: " + label + "}}\n" +
			"spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {schedulerName: muster-scheduler, containers: [{name: c}]}}}}\n"
	}
	r, err := Run(t.Context(), Options{}, load(t, oneNode+lws("rack")))
	require.NoError(t, err)
	require.Empty(t, r.Held)
	require.Len(t, r.Pods, 2)
	// A StatefulSet's pod may be bound to such a node by hand.
	const leader = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: l-0}\nspec: {nodeName: n1}\n"
	r, err = Run(t.Context(), Options{}, load(t, oneNode+lws("row")+leader))
	require.NoError(t, err)
	require.Equal(t, []HeldPod{{Namespace: "default", Name: "l-0-1", WaitsFor: "label row of node n1", gang: "l-0-5d5f8c6fb8"}}, r.Held)
}

// TestControllersRefuse: a change of a Job from a cluster is rejected, since the affected pods are unknown.
func TestControllersRefuse(t *testing.T) {
	_, err := Run(t.Context(), Options{}, load(t, oneNode+jobOf(2, ", uid: u", "")), load(t, jobOf(3, "", "")))
	require.EqualError(t, err, "in.yaml: document 1, line 1: jobs.batch j is there with pods from another cluster: "+
		"their names have random letters, so the pods that a change creates or deletes are not known")
	var input *InputError
	require.ErrorAs(t, err, &input)
	_, err = Run(t.Context(), Options{}, load(t, oneNode+jobOf(2, ", uid: u", "")+"---\n"+jobOf(3, "", "")))
	require.ErrorContains(t, err, "jobs.batch j is there with pods from another cluster", "in the same files, too")
}

// TestControllersNotes: a workload without pods is reported with the reason, and one whose pods are in the
// files is not.
func TestControllersNotes(t *testing.T) {
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u}]}\n"
	for text, want := range map[string][]string{
		jobOf(1, "", ""):                nil,
		jobOf(1, "", "suspend: true, "): {"in.yaml: document 1, line 1: Job default/j: no pods, since spec.suspend is true"},
		jobOf(1, ", uid: u", ""): {"in.yaml: document 1, line 1: jobs default/j: no pods are made, since it has a metadata.uid: " +
			"they are in the cluster that it comes from, and none of them is in the files"},
		jobOf(0, ", uid: u", ""): nil,
		"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\n": {
			"in.yaml: document 1, line 1: MPIJob default/m: no pods are made of it; give the PodGroup and the pods that its controller makes",
		},
		"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\n---\napiVersion: v1\nkind: Pod\n" +
			"metadata: {name: p, ownerReferences: [{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, name: m, uid: u}]}\n": nil,
		// Their pods have other owners, which are not in the files.
		lwsOf(2, ", uid: u") + podOf("leaderworkerset.sigs.k8s.io/name: l", "StatefulSet", "l"): nil,
		deploymentOf(", uid: u") +
			podOf("pod-template-hash: x1", "ReplicaSet", "s-x1"): nil,
		deploymentOf(", uid: u") + podOf("pod-template-hash: x1", "ReplicaSet", "r-x1"): {
			"in.yaml: document 1, line 1: deployments default/s: no pods are made, since it has a metadata.uid: they are in the cluster that it " +
				"comes from, and none of them is in the files",
		},
		jobOf(1, ", uid: u", "") + pod: nil,
	} {
		require.Equal(t, want, load(t, text).Notes(load(t, oneNode)), text)
	}
}

// TestControllersUnread: unreadable objects are rejected with their position, and unknown fields are
// reported.
func TestControllersUnread(t *testing.T) {
	const set = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\n"
	s := &Set{}
	err := s.Add("in.yaml", []byte(set+"spec: {replicatedJobs: [{name: r, template: {spec: {parallelism: two}}}]}\n"))
	require.EqualError(t, err, `in.yaml: document 1, line 1: JobSet "s": spec.replicatedJobs[0].template.spec.parallelism: "two" is invalid; `+
		"supported values: an integer ≥ 0")

	s = load(t,
		set+"spec: {replicatedJobs: [{name: r, replica: 2, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}], "+
			"ttlSecondsAfterFinished: 3}\n")
	require.Equal(t, []string{`in.yaml: document 1, line 1: ignored in JobSet default/s: unknown field "spec.replicatedJobs[0].replica"`},
		s.Notes())
}
