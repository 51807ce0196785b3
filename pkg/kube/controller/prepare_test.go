package controller_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

const labelPodGroup = "pod-group.scheduling.sigs.k8s.io"

// newPreparing is a world whose controller prepares pods that the webhook has missed: all of them, for there is none.
func newPreparing(t *testing.T, config string) *world {
	w := newWorld(t)
	w.config = config
	w.start()
	for _, r := range w.sources {
		r.Prepare = true
	}
	return w
}

// late is a pod that is created while the webhook is away.
func (w *world) late(name string, change func(*corev1.Pod)) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{SchedulerName: "koord-scheduler"}}
	change(pod)
	require.NoError(w.t, w.users.Create(w.t.(*testing.T).Context(), pod))
}

// ofGroup has a pod be one of a LeaderWorkerSet's group.
func ofGroup(set string, group, worker int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{
			podgang.LabelLWS: set, podgang.LabelLWSGroup: fmt.Sprint(group), podgang.LabelLWSRevision: "aaaa",
			"leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(worker),
		}
	}
}

func and(all ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, one := range all {
			one(pod)
		}
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func (w *world) thePod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	require.NoError(w.t, w.users.Get(w.t.(*testing.T).Context(), client.ObjectKey{Namespace: "default", Name: name}, pod))
	return pod
}

// said are the events until now.
func (w *world) said() (out []string) {
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

const koordinatorLS = "default: koordinator\nbackends: [{name: koordinator, defaultQoSClass: LS}]\n"

// TestMissedPods: of a group some pods were created while the webhook was away. Those that have no node are told their
// gang, and what the webhook would have told them; those that have one are left alone. Then there is nothing to do, and
// nothing is asked.
func TestMissedPods(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	w.lws("x", 2, 3, "aaaa")
	w.late("x-0", and(ofGroup("x", 0, 0), labelled(labelPodGroup, "x-0-aaaa"), labelled("koordinator.sh/qosClass", "BE")))
	w.late("x-0-1", ofGroup("x", 0, 1))
	w.late("x-0-2", and(ofGroup("x", 0, 2), labelled("koordinator.sh/qosClass", "LSR")))
	w.late("x-1", and(ofGroup("x", 1, 0), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" }))
	w.late("x-1-1", ofGroup("x", 1, 1))
	w.settle(&[]string{})
	for name, want := range map[string]map[string]string{
		"x-0":   {labelPodGroup: "x-0-aaaa", "koordinator.sh/qosClass": "BE"},
		"x-0-1": {labelPodGroup: "x-0-aaaa", "koordinator.sh/qosClass": "LS"},
		"x-0-2": {labelPodGroup: "x-0-aaaa", "koordinator.sh/qosClass": "LSR"},
		"x-1":   {labelPodGroup: "", "koordinator.sh/qosClass": ""},
		"x-1-1": {labelPodGroup: "x-1-aaaa", "koordinator.sh/qosClass": "LS"},
	} {
		labels := w.thePod(name).Labels
		for key, value := range want {
			require.Equal(t, value, labels[key], "%s of %s", key, name)
		}
		require.Equal(t, "x", labels[podgang.LabelLWS], "the others stay")
	}
	require.Empty(t, w.said())
	w.settle(&[]string{})
	w.writes, w.listed = 0, 0
	w.settle(&[]string{})
	require.Zero(t, w.writes)
	require.Zero(t, w.listed, "the API server is asked of pods once")

	w.late("x-1-2", ofGroup("x", 1, 2))
	w.settle(&[]string{})
	require.Equal(t, "x-1-aaaa", w.thePod("x-1-2").Labels[labelPodGroup])
}

// TestMissedWithoutAWebhook: who has no webhook has not asked for pods to be changed, and has not permitted it.
func TestMissedWithoutAWebhook(t *testing.T) {
	w := newWorld(t)
	w.lws("x", 1, 2, "aaaa")
	w.pod("x", 0, 0, "aaaa")
	w.settle(&[]string{})
	require.Empty(t, w.thePod("x-0-0").Labels[labelPodGroup])
}

// TestMissedOfOthers: pods that Grove makes of a PodGang, and those that name a Volcano PodGroup by an annotation.
func TestMissedOfOthers(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	w.podGang("demo-0", part("demo-0-a", 1))
	w.put(volcanoKind, "job", "uid-job", nil, map[string]any{"minMember": int64(1)})
	w.late("demo-0-a-x", func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"grove.io/podgang": "demo-0", "grove.io/podclique": "demo-0-a"}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: podgang.GroveGate}}
	})
	w.late("job-0", func(pod *corev1.Pod) { pod.Annotations = map[string]string{"scheduling.k8s.io/group-name": "job"} })
	w.late("lone", func(*corev1.Pod) {})
	require.NoError(t, w.handle("PodGang", "demo-0"))
	require.NoError(t, w.handle("PodGroup", "job"))
	require.Equal(t, "demo-0-a", w.thePod("demo-0-a-x").Labels[labelPodGroup])
	require.Len(t, w.thePod("demo-0-a-x").Spec.SchedulingGates, 1)
	require.Equal(t, "job", w.thePod("job-0").Labels[labelPodGroup])
	require.Empty(t, w.thePod("lone").Labels[labelPodGroup])
}

// TestCannotBePrepared: what can only be set at creation is said on the object of whose gang the pods are, with the field
// and what is legal; such pods are not changed.
func TestCannotBePrepared(t *testing.T) {
	for name, c := range map[string]struct {
		config, scheduler string
		pod               string // its scheduler
		says              string
	}{
		"another scheduler": {
			config: koordinatorLS, scheduler: "koord-scheduler", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: spec.schedulerName is "default-scheduler", which cannot be changed any more; ` +
				`legal: "koord-scheduler", any that contains "koord" (backend koordinator); delete them, and those that come instead are prepared`,
		},
		"no scheduler, where the default is another's": {
			config: koordinatorLS, scheduler: "", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: spec.schedulerName is "default-scheduler", which cannot be changed any more; ` +
				`legal: "koord-scheduler", any that contains "koord" (backend koordinator); delete them, and those that come instead are prepared`,
		},
		"a field": {
			config: "backends: [{name: workload}]", scheduler: "default-scheduler", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: spec.schedulingGroup can only be set when a pod is created; ` +
				`legal: what the webhook of muster-controller sets there; delete them, and those that come instead are prepared`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPreparing(t, c.config)
			w.cluster = backend.Cluster{Native: backend.Native37}
			w.lwsOf("x", 1, 6, "aaaa", c.scheduler)
			w.late("x-0", and(ofGroup("x", 0, 0), func(pod *corev1.Pod) { pod.Spec.SchedulerName = c.pod }))
			for i := 1; i < 6; i++ {
				w.late(fmt.Sprintf("x-0-%d", i), and(ofGroup("x", 0, i), func(pod *corev1.Pod) { pod.Spec.SchedulerName = c.pod }))
			}
			require.NoError(t, w.handle("LeaderWorkerSet", "x"))
			require.Contains(t, w.said(), c.says)
			require.Empty(t, w.thePod("x-0").Labels[labelPodGroup])
			w.writes, w.listed = 0, 0
			require.NoError(t, w.handle("LeaderWorkerSet", "x"))
			require.Zero(t, w.writes)
			require.Zero(t, w.listed)
			require.Empty(t, w.said(), "it is said once")
		})
	}
}

// TestMissedGate: a gate cannot be added any more. The pod is told its gang, and its owner that it does not wait.
func TestMissedGate(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	for _, r := range w.sources {
		r.Gates = true
	}
	w.lws("x", 1, 2, "aaaa")
	w.late("x-0", ofGroup("x", 0, 0))
	w.settle(&[]string{})
	require.Equal(t, "x-0-aaaa", w.thePod("x-0").Labels[labelPodGroup])
	require.Equal(t, []string{`Warning PodNotPrepared gang x-0-aaaa, pods x-0: spec.schedulingGates can only have scheduling.koordinator.sh/gang from when a pod is created: ` +
		`it does not wait for its gang to be written; delete them, and those that come instead are prepared`}, w.said())
}

// TestNotPermitted: who may not change pods, as with the rights of a version before, says so; pods that wait for their gang go
// all the same.
func TestNotPermitted(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	for _, r := range w.sources {
		r.Gates = true
	}
	w.lws("x", 1, 2, "aaaa")
	gated := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "scheduling.koordinator.sh/gang"}}
	}
	w.late("x-0", and(ofGroup("x", 0, 0), labelled(labelPodGroup, "x-0-aaaa"), labelled("koordinator.sh/qosClass", "LS"), gated))
	w.late("x-0-1", ofGroup("x", 0, 1))
	w.fail = func(verb, name string) error {
		if verb == "patch" && name == "x-0-1" {
			return errors.New("pods is forbidden")
		}
		return nil
	}
	require.ErrorContains(t, w.handle("LeaderWorkerSet", "x"), "pods is forbidden")
	require.Empty(t, w.thePod("x-0").Spec.SchedulingGates)
}

// TestMissedAndBound: a pod that gets its node while it is looked at is left alone.
func TestMissedAndBound(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	w.lws("x", 1, 2, "aaaa")
	w.settle(&[]string{})
	w.late("x-0", ofGroup("x", 0, 0))
	w.fail = func(verb, name string) error {
		if verb != "patch" {
			return nil
		}
		require.Equal(t, "x-0", name)
		pod := w.thePod("x-0")
		pod.Spec.NodeName = "n1"
		return w.users.Update(t.Context(), pod)
	}
	result, err := w.reconcile("LeaderWorkerSet", "x")
	require.NoError(t, err)
	require.Positive(t, result.RequeueAfter, "it is looked at again")
	require.NoError(t, w.handle("LeaderWorkerSet", "x"))
	require.Empty(t, w.thePod("x-0").Labels[labelPodGroup])
}

// TestNotWritten: of a gang that is not written pods are told nothing.
func TestNotWritten(t *testing.T) {
	w := newPreparing(t, koordinatorLS)
	w.podGang("demo-0", part("demo-0-a", 1))
	w.fail = func(string, string) error { return errors.New("etcd is slow") }
	w.late("demo-0-a-x", func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"grove.io/podgang": "demo-0", "grove.io/podclique": "demo-0-a"}
	})
	require.Error(t, w.handle("PodGang", "demo-0"))
	require.Empty(t, w.thePod("demo-0-a-x").Labels[labelPodGroup])
}
