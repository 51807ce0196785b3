package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// These are valid or unvalidated objects that few users write.

// jobSet writes a JobSet of some ReplicatedJobs, with the annotations of each.
func (w *world) jobSet(name string, jobs ...map[string]any) {
	all := []any{}
	for _, j := range jobs {
		all = append(all, j)
	}
	w.put(jobSetKind, name, "uid-"+name, nil, map[string]any{"replicatedJobs": all})
}

// jobs is a ReplicatedJob.
func jobs(name string, replicas, pods int, annotations map[string]any, dependsOn ...string) map[string]any {
	on := []any{}
	for _, other := range dependsOn {
		on = append(on, map[string]any{"name": other, "status": "Ready"})
	}
	return map[string]any{"name": name, "replicas": int64(replicas), "dependsOn": on, "template": map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec": map[string]any{
			"parallelism": int64(pods), "completions": int64(pods),
			"template": map[string]any{"spec": map[string]any{"schedulerName": "koord-scheduler"}},
		},
	}}
}

// TestAnotherAttempt: a JobSet that starts again is a gang again, also for Koordinator, to which it was satisfied once and for
// all: when the first pods of the new attempt are there, and not before. A restarted controller finds it again.
func TestAnotherAttempt(t *testing.T) {
	w := newWorld(t)
	attempt := func(n int) func(*corev1.Pod) { return labelled("jobset.sigs.k8s.io/restart-attempt", fmt.Sprint(n)) }
	w.jobSet("js", jobs("w", 1, 2, nil))
	require.NoError(t, w.handle("JobSet", "js"))
	w.late("w-0", and(ofJob("js", "w", 0), attempt(0)))
	w.late("w-1", and(ofJob("js", "w", 0), attempt(0)))
	w.writes = 0
	handle := func() {
		w.start()
		require.NoError(t, w.handle("JobSet", "js"))
	}
	handle()
	require.Zero(t, w.writes, "pods of the first attempt are no news")
	js := w.get(jobSetKind, "js")
	require.NoError(t, unstructured.SetNestedField(js.Object, int64(1), "status", "restarts"))
	require.NoError(t, w.users.Update(t.Context(), js))
	handle()
	require.NoError(t, w.users.Delete(t.Context(), w.thePod("w-0")))
	handle()
	require.Zero(t, w.writes, "there is a pod of the last attempt, and none of another")
	w.late("w-2", and(ofJob("js", "w", 0), attempt(1)))
	handle()
	require.Equal(t, 2, w.writes, "it is deleted, and made again")
	handle()
	require.NoError(t, w.users.Delete(t.Context(), w.thePod("w-1")))
	require.NoError(t, w.users.Delete(t.Context(), w.thePod("w-2")))
	handle()
	require.Equal(t, 2, w.writes)
}

// TestRefusedWrites: users can fix rejected writes, but they see the object and not the log: a quota, missing permission, a
// webhook. One event is written, and the write is retried.
func TestRefusedWrites(t *testing.T) {
	resource := schema.GroupResource{Group: "scheduling.sigs.k8s.io", Resource: "podgroups"}
	for name, c := range map[string]struct {
		err  error
		says []string
	}{
		"forbidden": {
			apierrors.NewForbidden(resource, "demo-0-a", errors.New("exceeded quota: groups")),
			[]string{`Warning NotWritten podgroups.scheduling.sigs.k8s.io "demo-0-a" is forbidden: exceeded quota: groups`},
		},
		"invalid": {
			apierrors.NewInvalid(podGroupKind.GroupKind(), "demo-0-a", nil),
			[]string{`Warning NotWritten PodGroup.scheduling.sigs.k8s.io "demo-0-a" is invalid`},
		},
		"away": {apierrors.NewServiceUnavailable("etcd is slow"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.podGang("demo-0", part("demo-0-a", 1))
			w.fail = func(verb, _ string) error { return c.err }
			require.ErrorIs(t, w.handle("PodGang", "demo-0"), c.err)
			require.Equal(t, c.says, w.said())
			require.NotErrorIs(t, w.handle("PodGang", "demo-0"), reconcile.TerminalError(nil))
			require.Empty(t, w.said(), "it is said once")
		})
	}
}

// TestLabelsTaken: removing the labels of a written object removes nothing else: the object is the gang's by its owner, and is
// put right.
func TestLabelsTaken(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 1))
	require.NoError(t, w.handle("PodGang", "demo-0"))
	o := w.get(podGroupKind, "demo-0-a")
	labels := o.GetLabels()
	o.SetLabels(nil)
	require.NoError(t, w.users.Update(t.Context(), o))
	require.NoError(t, w.handle("PodGang", "demo-0"))
	require.Equal(t, labels, w.get(podGroupKind, "demo-0-a").GetLabels())
	w.remove(podGangKind, "demo-0")
	require.NoError(t, w.gone("PodGang", metav1.OwnerReference{Name: "demo-0", UID: "uid-demo-0"}))
	require.Empty(t, w.names())
}

// TestEqualNames: two gangs of one name would be written in turn for ever, each in place of the other. It is said, and
// neither is.
func TestEqualNames(t *testing.T) {
	w := newWorld(t)
	w.jobSet("js", jobs("a", 1, 2, map[string]any{"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}), jobs("a-0", 1, 3, nil, "a"))
	require.ErrorContains(t, w.handle("JobSet", "js"), `two gangs have the name "js-a-0"`)
	require.Empty(t, w.names())
	require.Contains(t, w.said(),
		`Warning InvalidGang JobSet default/js: two gangs have the name "js-a-0"; rename one. `+
			`Nothing is written for them`)
	w.jobSet("js", jobs("a", 1, 2, map[string]any{"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}), jobs("b", 1, 3, nil, "a"))
	require.NoError(t, w.handle("JobSet", "js"))
	require.Equal(t, []string{"js-a-0", "js-b"}, w.names())
}

// TestFewerJobs: no gang waits for a group without pods. A PodGang's groups are waited for: Grove releases them.
func TestFewerJobs(t *testing.T) {
	w := newWorld(t)
	w.jobSet("js", jobs("driver", 1, 1, nil), jobs("workers", 2, 2, nil))
	require.NoError(t, w.handle("JobSet", "js"))
	const groups = "gang.scheduling.koordinator.sh/groups"
	require.Equal(t, `["default/js-driver","default/js-workers"]`, w.get(podGroupKind, "js-driver").GetAnnotations()[groups])
	w.jobSet("js", jobs("driver", 1, 1, nil), jobs("workers", 2, 0, nil))
	require.NoError(t, w.handle("JobSet", "js"))
	require.Equal(t, `["default/js-driver"]`, w.get(podGroupKind, "js-driver").GetAnnotations()[groups])
}

// TestNoGroups: no backend writes an empty gang: some API would reject it, again and again.
func TestNoGroups(t *testing.T) {
	for config, kind := range map[string]string{
		"default: workload\nbackends: [{name: workload}]":               "Workload",
		"default: volcano\nbackends: [{name: volcano}]":                 "PodGroup",
		"default: podgang\nbackends: [{name: podgang}]":                 "PodGang",
		"default: koordinator\nbackends: [{name: koordinator}]":         "PodGroup",
		"default: muster\nbackends: [{name: muster}, {name: workload}]": "PodGroup",
	} {
		w := newWorld(t)
		w.config, w.cluster = config, backend.Cluster{Native: backend.Native37}
		w.start()
		spec := func(replicas int) map[string]any {
			return map[string]any{"replicas": int64(1), "template": map[string]any{"cliques": []any{
				map[string]any{"name": "m", "spec": map[string]any{"replicas": int64(replicas), "podSpec": map[string]any{}}},
			}}}
		}
		written := func() (out []string) {
			for _, gvk := range append([]groupVersionKind{podGroupKind, volcanoKind, nativeKind, workloadKind}, podGangKind) {
				for _, o := range w.list(gvk) {
					out = append(out, gvk.Kind+" "+o.GetName())
				}
			}
			return out
		}
		w.put(cliqueSetKind, "p", "uid", nil, spec(0))
		require.NoError(t, w.handle("PodCliqueSet", "p"), config)
		require.Empty(t, written(), config)
		w.put(cliqueSetKind, "p", "uid", nil, spec(2))
		require.NoError(t, w.handle("PodCliqueSet", "p"), config)
		require.Contains(t, strings.Join(written(), ","), kind+" ", config)
		w.put(cliqueSetKind, "p", "uid", nil, spec(0))
		require.NoError(t, w.handle("PodCliqueSet", "p"), config)
		require.Empty(t, written(), config)
	}
}

// TestTopologyIsInvalid: an invalid ClusterNetworkTopology is reported by the gangs that need its layers. Other gangs
// are written and deleted, and their pods are labelled.
func TestTopologyIsInvalid(t *testing.T) {
	w := newPreparing(t, "default: koordinator\nbackends: [{name: koordinator}]\n")
	w.cluster.Topology = podgang.Topology{NotLegal: errors.New("ClusterNetworkTopology default: layer a is its own parent")}
	w.lws("x", 1, 2, "aaaa")
	w.late("x-0", ofGroup("x", 0, 0))
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa"}, w.names())
	require.Equal(t, "x-0-aaaa", w.thePod("x-0").Labels[labelPodGroup])
	near := w.get(lwsKind, "x")
	near.SetName("near")
	near.SetUID("uid-near")
	near.SetResourceVersion("")
	require.NoError(t,
		unstructured.SetNestedMap(near.Object, map[string]any{"mode": "hard", "highestTierAllowed": int64(1)}, "spec", "networkTopology"))
	require.NoError(t, w.users.Create(t.Context(), near))
	w.put(setKind, "near", "set-near", map[string]string{lws.SetNameLabelKey: "near", lws.RevisionKey: "aaaa"}, map[string]any{})
	require.ErrorContains(t, w.handle("LeaderWorkerSet", "near"), "layer a is its own parent")
	require.Contains(t, strings.Join(w.said(), "\n"),
		"Warning InvalidTopology spec.networkTopology: ClusterNetworkTopology default: layer a is its own parent; nothing is written for the "+
			"gang")
	w.remove(lwsKind, "x")
	w.remove(setKind, "x")
	for _, o := range w.list(podGroupKind) {
		require.NoError(t, w.gone("LeaderWorkerSet", o.GetOwnerReferences()[0]))
	}
	require.Empty(t, w.names())
}
