package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/controller"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

const labelPodGroup = "pod-group.scheduling.sigs.k8s.io"

// newPreparing is a world without a webhook, so that the controller prepares all pods.
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
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{SchedulerName: "koord-scheduler"},
	}
	change(pod)
	require.NoError(w.t, w.users.Create(w.t.(*testing.T).Context(), pod))
}

// ofGroup has a pod be one of a LeaderWorkerSet's group.
func ofGroup(set string, group, worker int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{
			lws.SetNameLabelKey: set, lws.GroupIndexLabelKey: fmt.Sprint(group), lws.RevisionKey: "aaaa",
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

// TestMissedPods: some pods of a group were created while the webhook was down. Pods without a node get what the webhook would
// have added; pods with a node stay as they are. Then there is nothing to do, and nothing is asked.
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
		require.Equal(t, "x", labels[lws.SetNameLabelKey], "the others stay")
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

// TestMissedWithoutAWebhook: without a webhook configured, pods are not changed, and no permission for it is needed.
func TestMissedWithoutAWebhook(t *testing.T) {
	w := newWorld(t)
	w.lws("x", 1, 2, "aaaa")
	w.pod("x", 0, 0, "aaaa")
	w.settle(&[]string{})
	require.Empty(t, w.thePod("x-0-0").Labels[labelPodGroup])
}

// TestMissedOfOthers: pods that Grove makes for a PodGang, and pods that name a Volcano PodGroup by an annotation.
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

// ofJob has a pod be one of a JobSet.
func ofJob(set, part string, job int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{
			workloads.JobSetName: set, "jobset.sigs.k8s.io/jobset-uid": "uid-" + set,
			"jobset.sigs.k8s.io/replicatedjob-name": part, "jobset.sigs.k8s.io/job-index": fmt.Sprint(job),
		}
	}
}

// TestMissedOfJobSets: which gang a pod of a JobSet is of only the JobSet says: one of all, one of each part where these
// come in turn, or one of each Job with exclusive topology. Pods of a JobSet that had the same name before are of none.
func TestMissedOfJobSets(t *testing.T) {
	exclusive := map[string]any{"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
	for name, c := range map[string]struct {
		config string
		jobs   []map[string]any
		told   func(*corev1.Pod) string
		want   [2]string // driver, the second worker
	}{
		"together": {
			koordinatorLS,
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil)},
			podGroupOf,
			[2]string{"js-driver", "js-workers"},
		},
		"in turn": {
			koordinatorLS,
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil, "driver")},
			podGroupOf,
			[2]string{"js-driver", "js-workers"},
		},
		"exclusive": {
			koordinatorLS,
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, exclusive)},
			podGroupOf,
			[2]string{"js-driver", "js-workers-1"},
		},
		"together for Volcano": {
			volcanoAsKoord,
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil)},
			groupNameOf,
			[2]string{"js", "js"},
		},
		"in turn for Volcano": {
			volcanoAsKoord,
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil, "driver")},
			groupNameOf,
			[2]string{"js-driver", "js-workers"},
		},
		"for readers of PodGangs": {
			"default: podgang\nbackends: [{name: podgang, schedulerNames: [koord-scheduler]}]\n",
			[]map[string]any{jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil)},
			func(pod *corev1.Pod) string {
				return pod.Labels["grove.io/podgang"] + "/" + pod.Labels["grove.io/podclique"]
			},
			[2]string{"js/js-driver", "js/js-workers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPreparing(t, c.config)
			w.jobSet("js", c.jobs...)
			w.late("driver", ofJob("js", "driver", 0))
			w.late("worker", ofJob("js", "workers", 1))
			w.late("old", and(ofJob("js", "workers", 1), labelled("jobset.sigs.k8s.io/jobset-uid", "another")))
			w.late("bound", and(ofJob("js", "workers", 0), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" }))
			w.late("other", ofJob("another", "workers", 1))
			require.NoError(t, w.handle("JobSet", "js"))
			require.Equal(t, c.want, [2]string{c.told(w.thePod("driver")), c.told(w.thePod("worker"))})
			for _, left := range []string{"old", "bound", "other"} {
				require.Empty(t, strings.Trim(c.told(w.thePod(left)), "/"), left)
			}
			require.NoError(t, w.handle("JobSet", "js"))
			w.writes, w.listed = 0, 0
			require.NoError(t, w.handle("JobSet", "js"))
			require.Zero(t, w.writes)
			require.Zero(t, w.listed)
			for pod, gang := range map[string]string{"driver": c.want[0], "worker": c.want[1]} {
				source := w.sources[jobSetKind].Source
				require.Equal(t, "js", source.Pods(w.thePod(pod)), gang)
			}
		})
	}
}

const volcanoAsKoord = "default: volcano\nbackends: [{name: volcano, schedulerNames: [koord-scheduler]}]\n"

func podGroupOf(pod *corev1.Pod) string  { return pod.Labels[labelPodGroup] }
func groupNameOf(pod *corev1.Pod) string { return pod.Annotations["scheduling.k8s.io/group-name"] }

// TestAsk: the webhook asks the JobSet, in the cache, or the API server if the cache is behind. A source that cannot answer is
// not waited for.
func TestAsk(t *testing.T) {
	w := newWorld(t)
	w.jobSet("js", jobs("driver", 1, 1, nil), jobs("workers", 2, 1, nil, "driver"))
	behind := interceptor.NewClient(w.users, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "jobsets"}, key.Name)
		},
	})
	never := interceptor.NewClient(w.users, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			<-ctx.Done()
			return ctx.Err()
		},
	})
	ask := func(cache client.Reader, pod *unstructured.Unstructured) (podgang.PodKey, bool, error) {
		c := controller.Controller{Sources: controller.Sources, Client: cache, Live: w.users}
		return c.Ask(t.Context(), pod)
	}
	pod := ofKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.SetNamespace("default")
	typed := &corev1.Pod{}
	ofJob("js", "workers", 1)(typed)
	pod.SetLabels(typed.Labels)
	for name, cache := range map[string]client.Reader{"cached": w.users, "behind": behind} {
		key, ok, err := ask(cache, pod)
		require.NoError(t, err, name)
		require.True(t, ok, name)
		require.Equal(t, podgang.PodKey{Kind: podgang.JobSet, Gang: "js-workers", Group: "js-workers"}, key, name)
	}
	synctest.Test(t, func(t *testing.T) {
		c := controller.Controller{Sources: controller.Sources, Client: never, Live: w.users}
		_, ok, err := c.Ask(t.Context(), pod)
		require.False(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "JobSet default/js")
	})

	ofJob("gone", "workers", 1)(typed)
	pod.SetLabels(typed.Labels)
	_, ok, err := ask(w.users, pod)
	require.NoError(t, err)
	require.False(t, ok)
	pod.SetLabels(map[string]string{lws.SetNameLabelKey: "x"})
	_, ok, err = ask(never, pod)
	require.NoError(t, err, "other pods cause no request")
	require.False(t, ok)
}

// TestCannotBePrepared: an invalid field that can only be set at creation is reported on the owner of the gang, with
// the supported values. The pods are not changed.
func TestCannotBePrepared(t *testing.T) {
	for name, c := range map[string]struct {
		config, scheduler string
		pod               string // its scheduler
		says              string
	}{
		"another scheduler": {
			config: koordinatorLS, scheduler: "koord-scheduler", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: ` +
				`spec.schedulerName is "default-scheduler", which cannot be changed any more; ` +
				`supported values: "koord-scheduler", any that contains "koord" (backend koordinator); delete them; ` +
				`the pods that replace them are prepared`,
		},
		"no scheduler, where the default is another's": {
			config: koordinatorLS, scheduler: "", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: ` +
				`spec.schedulerName is "default-scheduler", which cannot be changed any more; ` +
				`supported values: "koord-scheduler", any that contains "koord" (backend koordinator); delete them; ` +
				`the pods that replace them are prepared`,
		},
		"a field": {
			config: "backends: [{name: workload}]", scheduler: "default-scheduler", pod: "default-scheduler",
			says: `Warning PodNotPrepared gang x-0-aaaa, pods x-0, x-0-1, x-0-2, x-0-3, x-0-4 and 1 more: ` +
				`spec.schedulingGroup can only be set when a pod is created, ` +
				`by the webhook of muster-controller; delete them; the pods that replace them are prepared`,
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
	require.Equal(t,
		[]string{`Warning PodNotPrepared gang x-0-aaaa, pods x-0: ` +
			`spec.schedulingGates can only have scheduling.koordinator.sh/gang from when a pod is created: ` +
			`it does not wait for its gang to be written; delete them; the pods that replace them are prepared`}, w.said())
}

// TestNotPermitted: without permission to change pods, as with the rights of an older version, an event is written; pods that
// wait for their gang go all the same.
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
