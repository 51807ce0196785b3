package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/kube/controller"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// These are the acceptance cases of kind "controller", by their ids.

// names returns the names of the PodGroups, sorted.
func (w *world) names() (out []string) {
	for _, o := range w.list(podGroupKind) {
		out = append(out, o.GetName())
	}
	slices.Sort(out)
	return out
}

// handle is one request for an object of a source that exists.
func (w *world) handle(kind string, name string) error {
	_, err := w.reconcile(kind, name)
	return err
}

func (w *world) reconcile(kind string, name string) (reconcile.Result, error) {
	for gvk, r := range w.sources {
		if gvk.Kind == kind {
			o := w.get(gvk, name)
			require.NotNil(w.t, o)
			return r.Reconcile(context.Background(),
				controller.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}, UID: o.GetUID()})
		}
	}
	return reconcile.Result{}, fmt.Errorf("no source of %s", kind)
}

// gone is one request for an object of a source that has gone.
func (w *world) gone(kind string, owner metav1.OwnerReference) error {
	for gvk, r := range w.sources {
		if gvk.Kind == kind {
			_, err := r.Reconcile(context.Background(),
				controller.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: owner.Name}, UID: owner.UID})
			return err
		}
	}
	return fmt.Errorf("no source of %s", kind)
}

func (w *world) podGang(name string, groups ...any) {
	w.put(podGangKind, name, "uid-"+name, map[string]string{"grove.io/scheduler-name": "koord-scheduler"}, map[string]any{"podgroups": groups})
}

func part(name string, least int) map[string]any {
	return map[string]any{"name": name, "minReplicas": int64(least), "podReferences": []any{}}
}

// lws writes a LeaderWorkerSet and the StatefulSet of its leaders.
func (w *world) lws(name string, replicas, size int, revision string) {
	w.lwsOf(name, replicas, size, revision, "koord-scheduler")
}

func (w *world) lwsOf(name string, replicas, size int, revision, scheduler string) {
	template := map[string]any{"spec": map[string]any{
		"schedulerName": scheduler,
		"containers":    []any{map[string]any{"name": "c", "image": "i"}},
	}}
	w.put(lwsKind, name, "uid-"+name, nil, map[string]any{
		"replicas": int64(replicas), "leaderWorkerTemplate": map[string]any{"size": int64(size), "workerTemplate": template},
	})
	w.put(setKind, name, "set-"+name, map[string]string{lws.SetNameLabelKey: name, lws.RevisionKey: revision}, map[string]any{})
}

// TestRollingUpdate is S000-10: the new revision has its own PodGroup, the old one goes after its pods.
func TestRollingUpdate(t *testing.T) {
	w := newWorld(t)
	w.lws("x", 1, 4, "aaaa")
	w.pod("x", 0, 0, "aaaa")
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa"}, w.names())
	w.lws("x", 1, 4, "bbbb")
	w.pod("x", 1, 0, "bbbb") // maxSurge
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa", "x-1-bbbb"}, w.names())
	w.removePods("x", func(p corev1.Pod) bool { return p.Labels[lws.RevisionKey] == "aaaa" })
	w.pod("x", 0, 0, "bbbb")
	w.removePods("x", func(p corev1.Pod) bool { return p.Labels[lws.GroupIndexLabelKey] == "1" })
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-bbbb"}, w.names())
}

// TestScaleDown is S000-11: exactly the groups that left go.
func TestScaleDown(t *testing.T) {
	w := newWorld(t)
	w.lws("x", 3, 2, "aaaa")
	for i := range 3 {
		w.pod("x", i, 0, "aaaa")
	}
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa", "x-1-aaaa", "x-2-aaaa"}, w.names())
	w.lws("x", 1, 2, "aaaa")
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa", "x-1-aaaa", "x-2-aaaa"}, w.names(), "their pods have not gone yet")
	w.removePods("x", func(p corev1.Pod) bool { return p.Labels[lws.GroupIndexLabelKey] != "0" })
	w.settle(&[]string{})
	require.Equal(t, []string{"x-0-aaaa"}, w.names())
}

// TestPodCliqueSetScaledDown is S002-05: of three replicas one stays, and so does its gang.
func TestPodCliqueSetScaledDown(t *testing.T) {
	w := newWorld(t)
	spec := func(replicas int) map[string]any {
		return map[string]any{"replicas": int64(replicas), "template": map[string]any{"cliques": []any{map[string]any{
			"name": "model-server", "spec": map[string]any{"replicas": int64(2), "podSpec": map[string]any{"schedulerName": "koord-scheduler"}},
		}}}}
	}
	w.put(cliqueSetKind, "ml-inference", "uid", nil, spec(3))
	require.NoError(t, w.handle("PodCliqueSet", "ml-inference"))
	require.Equal(t, []string{"ml-inference-0-model-server", "ml-inference-1-model-server", "ml-inference-2-model-server"}, w.names())
	w.put(cliqueSetKind, "ml-inference", "uid", nil, spec(1))
	require.NoError(t, w.handle("PodCliqueSet", "ml-inference"))
	require.Equal(t, []string{"ml-inference-0-model-server"}, w.names())
}

// TestTwice is S002-08 with a real backend: a second look writes nothing, and what goes takes all with it.
func TestTwice(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 1), part("demo-0-b", 3))
	w.settle(&[]string{})
	require.Positive(t, w.writes)
	w.writes = 0
	w.settle(&[]string{})
	require.Zero(t, w.writes)
	w.remove(podGangKind, "demo-0")
	w.settle(&[]string{})
	require.Empty(t, w.names())
}

// TestCreateThenPrune is S004-13: nothing goes before what is new is there.
func TestCreateThenPrune(t *testing.T) {
	w := newWorld(t)
	w.podGang("g", part("g-a", 1), part("g-b", 1))
	w.settle(&[]string{})
	w.podGang("g", part("g-a", 1), part("g-c", 1))
	w.fail = func(verb, name string) error {
		if name == "g-c" {
			return errors.New("etcd is slow")
		}
		return nil
	}
	require.ErrorContains(t, w.handle("PodGang", "g"), "etcd is slow")
	require.Equal(t, []string{"g-a", "g-b"}, w.names())
	w.fail = nil
	w.settle(&[]string{})
	require.Equal(t, []string{"g-a", "g-c"}, w.names())
}

// TestForeignPodGroupStays is S004-14: a PodGroup that another object controls stays as it is, and so does one without a
// controller.
func TestForeignPodGroupStays(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"another's":       {{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u9", Controller: new(bool)}},
		"no controller's": nil,
	} {
		t.Run(name, func(t *testing.T) {
			for i := range owners {
				*owners[i].Controller = true
			}
			w := newWorld(t)
			theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(7)}}}
			theirs.SetGroupVersionKind(podGroupKind)
			theirs.SetNamespace("default")
			theirs.SetName("demo-0-a")
			theirs.SetOwnerReferences(owners)
			require.NoError(t, w.users.Create(t.Context(), theirs))
			w.podGang("demo-0", part("demo-0-a", 1), part("demo-0-b", 1))
			w.writes = 0
			require.ErrorContains(t, w.handle("PodGang", "demo-0"), "demo-0-a exists")
			require.Zero(t, w.writes)
			require.Contains(t, <-w.events.Events, "PodGroupConflict")
			require.Error(t, w.handle("PodGang", "demo-0"))
			require.Empty(t, w.events.Events, "it is said once")
			w.remove(podGangKind, "demo-0")
			w.settle(&[]string{})
			require.Equal(t, []string{"demo-0-a"}, w.names())
		})
	}
}

// TestForeignWordsStay is S004-15: additions of other controllers survive Muster's changes.
func TestForeignWordsStay(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 1))
	w.settle(&[]string{})
	theirs := w.get(podGroupKind, "demo-0-a")
	annotations := theirs.GetAnnotations()
	annotations["team"] = "x"
	theirs.SetAnnotations(annotations)
	theirs.SetFinalizers([]string{"example.com/theirs"})
	require.NoError(t, w.users.Update(t.Context(), theirs, client.FieldOwner("somebody")))
	w.writes = 0
	w.settle(&[]string{})
	require.Zero(t, w.writes, "that is no reason to write")
	w.podGang("demo-0", part("demo-0-a", 2))
	w.settle(&[]string{})
	is := w.get(podGroupKind, "demo-0-a")
	least, _, _ := unstructured.NestedInt64(is.Object, "spec", "minMember")
	require.EqualValues(t, 2, least)
	require.Equal(t, "x", is.GetAnnotations()["team"])
	require.Equal(t, []string{"example.com/theirs"}, is.GetFinalizers())
}

// TestReleasedMinimum is S004-16: minReplicas 0 after placement keeps what was written before.
func TestReleasedMinimum(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 3))
	w.settle(&[]string{})
	w.podGang("demo-0", part("demo-0-a", 0))
	w.start()
	w.settle(&[]string{})
	least, _, _ := unstructured.NestedInt64(w.get(podGroupKind, "demo-0-a").Object, "spec", "minMember")
	require.EqualValues(t, 3, least)
}

// TestMadeAgain: a recreated object is another one. Objects written for the former are deleted, even if its deletion was
// missed.
func TestMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 1), part("demo-0-b", 1))
	w.settle(&[]string{})
	w.remove(podGangKind, "demo-0")
	w.put(podGangKind, "demo-0", "another", map[string]string{"grove.io/scheduler-name": "koord-scheduler"},
		map[string]any{"podgroups": []any{part("demo-0-a", 2)}})
	w.start()
	w.settle(&[]string{})
	require.Equal(t, []string{"demo-0-a"}, w.names())
	require.Empty(t, w.orphans())
}

// TestUnknownScheduler: a gang of a scheduler that no backend serves is not the default's, which would write what that
// scheduler does not read. Its owner hears which field says so, what it says, and what it may say; nothing is written, and
// nothing tried again: only another object, or another configuration, changes that.
func TestUnknownScheduler(t *testing.T) {
	w := newWorld(t)
	put := func(scheduler string) {
		w.put(podGangKind, "demo-0", "uid-demo-0", map[string]string{"grove.io/scheduler-name": scheduler},
			map[string]any{"podgroups": []any{part("demo-0-a", 1)}})
	}
	put("kai-scheduler")
	w.writes = 0
	err := w.handle("PodGang", "demo-0")
	require.ErrorContains(t, err, "no backend")
	require.ErrorIs(t, err, reconcile.TerminalError(nil))
	require.Zero(t, w.writes)
	require.Equal(t, `Warning NoBackend metadata.labels[grove.io/scheduler-name]: no backend for schedulerName "kai-scheduler"; `+
		`supported values: "koord-scheduler", any that contains "koord" (backend koordinator), none (default koordinator); `+
		`nothing is written for gang demo-0`, <-w.events.Events)
	require.Error(t, w.handle("PodGang", "demo-0"))
	require.Empty(t, w.events.Events, "it is said once")
	for _, known := range []string{"", "default-scheduler", "my-koord"} {
		put(known)
		require.NoError(t, w.handle("PodGang", "demo-0"), known)
	}
	require.Equal(t, []string{"demo-0-a"}, w.names())
}

// TestLeavingStays: of an object that is on its way out nothing is written or deleted: its pods still run.
func TestLeavingStays(t *testing.T) {
	w := newWorld(t)
	w.podGang("demo-0", part("demo-0-a", 1))
	held := w.get(podGangKind, "demo-0")
	held.SetFinalizers([]string{"grove.io/held"})
	require.NoError(t, w.users.Update(t.Context(), held))
	w.settle(&[]string{})
	w.remove(podGangKind, "demo-0")
	w.writes = 0
	w.settle(&[]string{})
	require.Zero(t, w.writes)
	require.Equal(t, []string{"demo-0-a"}, w.names())
}

// TestGates: pods of a LeaderWorkerSet lose the backend's gate when the gang is ready, and no other gate.
func TestGates(t *testing.T) {
	w := newWorld(t)
	for _, r := range w.sources {
		r.Gates = true
	}
	w.lws("x", 1, 2, "aaaa")
	const ours, other = "scheduling.koordinator.sh/gang", "example.com/other"
	gates := func(name string) (out []string) {
		var pod corev1.Pod
		require.NoError(t, w.users.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &pod))
		for _, g := range pod.Spec.SchedulingGates {
			out = append(out, g.Name)
		}
		return out
	}
	w.pod("x", 0, 0, "aaaa", ours, other)
	w.settle(&[]string{})
	require.Equal(t, []string{ours, other}, gates("x-0-0"), "one of two is there")
	w.pod("x", 0, 1, "aaaa", ours)
	w.settle(&[]string{})
	require.Equal(t, []string{other}, gates("x-0-0"))
	require.Empty(t, gates("x-0-1"))

	grove := newWorld(t)
	for _, r := range grove.sources {
		r.Gates = true
	}
	grove.podGang("g", part("g-a", 1))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p",
			Labels: map[string]string{"grove.io/podgang": "g", "grove.io/podclique": "g-a"},
		},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: podgang.GroveGate}, {Name: ours}}},
	}
	require.NoError(t, grove.users.Create(t.Context(), pod))
	grove.settle(&[]string{})
	require.NoError(t, grove.users.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Len(t, pod.Spec.SchedulingGates, 2, "Grove's pods are Grove's")
}

// TestUnknownSource: the error for an unknown source lists the known ones.
func TestUnknownSource(t *testing.T) {
	_, err := controller.SourcesOf([]string{"podgang", "pods"})
	require.EqualError(t, err, `there is no source "pods"; supported values: `+strings.Join(controller.SourceNames(), ", "))
	all, err := controller.SourcesOf([]string{"podgang", "volcano", "podgang"})
	require.NoError(t, err)
	require.Len(t, all, 2)
}
