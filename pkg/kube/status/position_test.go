package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// position is a PodGroup's place in the queue; 0 if none is told.
func (w *world) position(name string) int64 { return w.positionOf(sigs.PodGroups, name) }

func (w *world) positionOf(gvr schema.GroupVersionResource, name string) int64 {
	u, err := w.custom.Resource(gvr).Namespace("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	at, _, err := unstructured.NestedInt64(u.Object, "status", "position")
	require.NoError(w.t, err)
	return at
}

// bind gives a pod a node.
func (w *world) bind(name string) {
	p, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	p.Spec.NodeName = "n"
	_, err = w.client.CoreV1().Pods("ns").Update(w.t.Context(), p, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

// TestPositions: the PodGroup of a gang shows its place in the queue half a minute after a change. The write that
// says that the gang starts removes it. An unchanged place is not written.
func TestPositions(t *testing.T) {
	inWorld(t, func(w *world) {
		for i, name := range []string{"last", "middle", "first"} {
			w.gang(name, 1)
			w.pod(name, name+"-0", "", priority(int32(i)))
		}
		w.gang("half", 2)
		w.pod("half", "half-0", "", priority(9))
		w.pass(29 * time.Second)
		require.Equal(t, [3]int64{}, [3]int64{w.position("first"), w.position("middle"), w.position("last")},
			"gangs that start at once get no place")
		w.written()
		w.pass(2 * time.Second)
		require.Equal(t, "first/status last/status middle/status", w.written())
		require.Equal(t, [3]int64{1, 2, 3}, [3]int64{w.position("first"), w.position("middle"), w.position("last")})
		require.Zero(t, w.position("half"), "it is not in the queue")
		w.pass(time.Hour)
		require.Empty(t, w.written())

		w.bind("first-0")
		w.pass(time.Second)
		require.Equal(t, "first/status", w.written(), "one write")
		require.Equal(t, "Scheduled: the gang is bound", w.condition("first"))
		require.Zero(t, w.position("first"))
		require.EqualValues(t, 2, w.position("middle"))
		w.pass(30 * time.Second)
		require.Equal(t, "last/status middle/status", w.written())
		require.Equal(t, [2]int64{1, 2}, [2]int64{w.position("middle"), w.position("last")})

		w.cache.Handle(gang.Planned{
			Group: gang.Ref{Source: "podgroup", Namespace: "ns", Name: "middle"}, Places: []gang.Assignment{{Pod: "ns/middle-0", Node: "n"}},
		})
		w.pass(time.Second)
		require.Equal(t, "Binding: the members are being bound to nodes", w.condition("middle"))
		require.Zero(t, w.position("middle"))

		w.without("last")
		require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "last-0", metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.gang("last", 1)
		w.pod("last", "last-0", "")
		w.pass(time.Second)
		require.Equal(t, "Ready: all members exist", w.condition("last"))
		require.Zero(t, w.position("last"), "another gang of that name")
	})
}

// TestPositionsOfTheFirst: of a thousand gangs that wait a hundred are told, and however much changes each of
// them is written once in half a minute.
func TestPositionsOfTheFirst(t *testing.T) {
	const gangs = 1000
	inWorld(t, func(w *world) {
		name := func(i int) string { return fmt.Sprint("g", i) }
		for i := range gangs {
			w.gang(name(i), 1)
			w.pod(name(i), name(i)+"-0", "")
			w.pass(10 * time.Millisecond) // a fake watch has room for a hundred events
		}
		w.pass(time.Minute)
		require.Equal(t, [4]int64{1, 99, 100, 0}, [4]int64{w.position("g0"), w.position("g98"), w.position("g99"), w.position("g100")})
		require.Zero(t, w.position("g999"))
		w.written()
		for i := range 20 {
			w.bind(name(i) + "-0")
			w.pass(time.Second)
		}
		w.pass(30 * time.Second)
		writes := strings.Fields(w.written())
		require.Len(t, writes, 20+100, "the started gangs, and the first hundred waiting gangs once")
		require.Equal(t, [3]int64{1, 100, 0}, [3]int64{w.position("g20"), w.position("g119"), w.position("g120")})
		w.pass(time.Hour)
		require.Empty(t, w.written())
		w.pod("g999", "g999-1", "", priority(1)) // it waits for g999-0, which is tried for the gang
		w.pass(time.Minute)
		require.Empty(t, w.written())
		w.pod("g999", "first", "", priority(1))
		w.pass(time.Minute)
		require.Len(t, strings.Fields(w.written()), 101, "a hundred are told another place, and one that it has none now")
		require.Equal(t, [3]int64{1, 2, 0}, [3]int64{w.position("g999"), w.position("g20"), w.position("g119")})
	})
}

// TestPositionsOfTheProcessBefore: what a process before this one has told stays until this one knows better.
func TestPositionsOfTheProcessBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, of := range []struct {
			gvr  schema.GroupVersionResource
			name string
			at   int64
		}{{sigs.PodGroups, "right", 1}, {source.PodGroupsX, "wrong", 7}, {sigs.PodGroups, "runs", 3}} {
			w.create(of.gvr, "ns", map[string]any{
				"apiVersion": of.gvr.GroupVersion().String(), "kind": "PodGroup", "metadata": map[string]any{"name": of.name, "namespace": "ns"},
				"spec": map[string]any{"minMember": int64(1)}, "status": map[string]any{"position": of.at},
			})
		}
		w.pod("right", "right-0", "", priority(1))
		w.pod("", "wrong-0", "", func(p *v1.Pod) { p.Labels = map[string]string{scheduling.LabelPodGroupX: "wrong"} })
		w.pod("runs", "runs-0", "n")
		w.pass(10 * time.Second)
		require.Equal(t, "right/status runs/status wrong/status", w.written())
		require.Equal(t, [3]int64{1, 7, 0}, [3]int64{w.position("right"), w.positionOf(source.PodGroupsX, "wrong"), w.position("runs")})
		w.pass(time.Minute)
		require.Equal(t, "wrong/status", w.written())
		require.EqualValues(t, 2, w.positionOf(source.PodGroupsX, "wrong"))
	})
}
