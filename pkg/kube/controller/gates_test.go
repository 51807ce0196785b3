package controller_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
)

const ourGate = "scheduling.koordinator.sh/gang"

// newGating is a world with a controller that removes gates from pods.
func newGating(t *testing.T) *world {
	w := newWorld(t)
	for _, r := range w.sources {
		r.Gates = true
	}
	return w
}

// gates returns the gates of a pod.
func (w *world) gates(pod string) (out []string) {
	for _, g := range w.thePod(pod).Spec.SchedulingGates {
		out = append(out, g.Name)
	}
	return out
}

// TestGatesOfEachGroup: a group without pods does not block the pods of the next one, nor does one that is not whole yet.
func TestGatesOfEachGroup(t *testing.T) {
	w := newGating(t)
	w.lws("x", 3, 2, "aaaa")
	w.pod("x", 0, 0, "aaaa")
	w.pod("x", 0, 1, "aaaa")
	w.pod("x", 1, 0, "aaaa", ourGate)
	w.pod("x", 2, 0, "aaaa", ourGate)
	w.pod("x", 2, 1, "aaaa", ourGate)
	w.settle(&[]string{})
	require.Equal(t, []string{ourGate}, w.gates("x-1-0"), "one of two is there")
	require.Empty(t, w.gates("x-2-0"))
	require.Empty(t, w.gates("x-2-1"))
}

// TestGatesBesideAFailure: a group that cannot be written waits alone; the pods of the other groups lose their gates, and are
// labelled with their gang.
func TestGatesBesideAFailure(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	for _, r := range w.sources {
		r.Gates = true
	}
	theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(7)}}}
	theirs.SetGroupVersionKind(podGroupKind)
	theirs.SetNamespace("default")
	theirs.SetName("x-0-aaaa")
	require.NoError(t, w.users.Create(t.Context(), theirs))
	w.lws("x", 2, 1, "aaaa")
	w.pod("x", 0, 0, "aaaa", ourGate)
	w.pod("x", 1, 0, "aaaa", ourGate)
	require.ErrorContains(t, w.handle("LeaderWorkerSet", "x"), "x-0-aaaa exists")
	require.Equal(t, []string{ourGate}, w.gates("x-0-0"))
	require.Empty(t, w.thePod("x-0-0").Labels[labelPodGroup])
	require.Empty(t, w.gates("x-1-0"))
	require.Equal(t, "x-1-aaaa", w.thePod("x-1-0").Labels[labelPodGroup])
}

// TestGateThatStays: a pod that cannot be changed does not block the gates of further pods.
func TestGateThatStays(t *testing.T) {
	w := newGating(t)
	w.lws("x", 2, 1, "aaaa")
	w.pod("x", 0, 0, "aaaa", ourGate)
	w.pod("x", 1, 0, "aaaa", ourGate)
	w.fail = func(verb, name string) error {
		if verb == "patch" && name == "x-0-0" {
			return errors.New("refused by somebody's webhook")
		}
		return nil
	}
	require.ErrorContains(t, w.handle("LeaderWorkerSet", "x"), "somebody's webhook")
	require.Empty(t, w.gates("x-1-0"))
}

// TestGateOfAnotherPod: a pod is recreated under its name while its gate is removed. The new pod keeps its own gate
// until its gang is ready.
func TestGateOfAnotherPod(t *testing.T) {
	w := newGating(t)
	w.lws("x", 1, 1, "aaaa")
	gated := func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: ourGate}} }
	w.late("x-0", and(ofGroup("x", 0, 0), gated))
	again := 0
	w.fail = func(verb, name string) error {
		if verb == "patch" && again == 0 {
			again++
			require.NoError(t, w.users.Delete(t.Context(), w.thePod("x-0")))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x-0", UID: types.UID(fmt.Sprint("again-", again))}}
			ofGroup("x", 7, 0)(pod)
			gated(pod)
			require.NoError(t, w.users.Create(t.Context(), pod))
			pod.Annotations = map[string]string{"a": "b"} // or it would have the version of the one before, here
			return w.users.Update(t.Context(), pod)
		}
		return nil
	}
	result, err := w.reconcile("LeaderWorkerSet", "x")
	require.NoError(t, err)
	require.Positive(t, result.RequeueAfter, "it is looked at again")
	require.Equal(t, 1, again)
	require.Equal(t, []string{ourGate}, w.gates("x-0"))
	require.Equal(t, "x", w.thePod("x-0").Labels[lws.SetNameLabelKey])
}

// TestOnePodRefused: a pod that cannot be changed does not block the labels of further pods.
func TestOnePodRefused(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	w.lws("x", 2, 3, "aaaa")
	for group := range 2 {
		for worker := range 3 {
			w.late(fmt.Sprintf("x-%d-%d", group, worker), ofGroup("x", group, worker))
		}
	}
	w.fail = func(verb, name string) error {
		if verb == "patch" && name == "x-0-0" {
			return errors.New("refused by somebody's webhook")
		}
		return nil
	}
	require.ErrorContains(t, w.handle("LeaderWorkerSet", "x"), "somebody's webhook")
	for _, name := range []string{"x-0-1", "x-0-2", "x-1-0", "x-1-1", "x-1-2"} {
		require.NotEmpty(t, w.thePod(name).Labels[labelPodGroup], name)
	}
}
