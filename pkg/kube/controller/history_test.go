package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/events"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/controller"
	_ "github.com/muster-scheduler/muster/test/seed"
)

type groupVersionKind = schema.GroupVersionKind

var (
	podGangKind   = schema.GroupVersionKind{Group: "scheduler.grove.io", Version: "v1alpha1", Kind: "PodGang"}
	cliqueSetKind = schema.GroupVersionKind{Group: "grove.io", Version: "v1alpha1", Kind: "PodCliqueSet"}
	lwsKind       = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	podGroupKind  = schema.GroupVersionKind{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "PodGroup"}
	volcanoKind   = schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}
	workloadKind  = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "Workload"}
	nativeKind    = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"}
	jobSetKind    = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}
	setKind       = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
)

// errKilled is what a process hears that does not live any more.
var errKilled = errors.New("killed")

// world is an API server, and a controller that may die at any of its writes.
type world struct {
	t       require.TestingT
	users   client.WithWatch // what people and other controllers do
	sources map[schema.GroupVersionKind]*controller.Reconciler
	events  *events.FakeRecorder
	writes  int
	left    int  // how many more writes before it dies; negative is never
	after   bool // it dies when the write has been done, not before
	lives   int
	fail    func(verb, name string) error // says which writes fail; nil is none
	config  string                        // of the backends
	cluster backend.Cluster
	listed  int // how often the API server was asked for a list, and not the cache
}

func newWorld(t require.TestingT) *world {
	s := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(s))
	require.NoError(t, metav1.AddMetaToScheme(s))
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		podGangKind, cliqueSetKind, lwsKind, jobSetKind, podGroupKind, setKind, volcanoKind,
		workloadKind, nativeKind, corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
		if kind.Group != "" {
			s.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			s.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		}
	}
	w := &world{t: t, left: -1, config: "default: koordinator\nbackends: [{name: koordinator}]\n"}
	w.users = fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithReturnManagedFields().
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeName).
		WithIndex(ofKind(podGroupKind), backend.IndexOwner, backend.OwnerUID).Build()
	w.start()
	return w
}

func ofKind(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// nodeName is by what the API server can select pods.
func nodeName(o client.Object) []string {
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err) // a pod
	}
	name, _, _ := unstructured.NestedString(pod, "spec", "nodeName")
	return []string{name}
}

// start has a new process: nothing of the last one is left but what it has written.
func (w *world) start() {
	w.lives++
	w.events = events.NewFakeRecorder(1000)
	own := interceptor.NewClient(w.users, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write("create", o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.write("update", o.GetName(), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return w.write("apply", applied(o), func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	live := interceptor.NewClient(w.users, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.listed++
			return c.List(ctx, list, opts...)
		},
	})
	config, err := backend.ReadConfig([]byte(w.config))
	require.NoError(w.t, err)
	registry, _, err := controller.Backends(config, backend.Options{
		Client: own, Cluster: func(context.Context) (backend.Cluster, error) { return w.cluster, nil },
		ByOwner: func(kind schema.GroupVersionKind) bool { return kind == podGroupKind },
	})
	require.NoError(w.t, err)
	w.sources = map[schema.GroupVersionKind]*controller.Reconciler{}
	for _, s := range controller.Sources {
		w.sources[s.Object] = &controller.Reconciler{
			Source: s, Adapter: &backend.Adapter{Registry: registry}, Client: own, Live: live, Teller: controller.NewTeller(w.events),
		}
	}
}

// applied is the name of what is applied.
func applied(o runtime.ApplyConfiguration) string {
	if named, ok := o.(interface{ GetName() string }); ok {
		return named.GetName()
	}
	return ""
}

func (w *world) write(verb, name string, do func() error) error {
	if w.fail != nil {
		if err := w.fail(verb, name); err != nil {
			return err
		}
	}
	if w.left == 0 && !w.after {
		return errKilled
	}
	w.writes++
	err := do()
	if w.left == 0 {
		return errKilled
	}
	if w.left > 0 {
		w.left--
	}
	return err
}

// look has a controller handle all that it finds, and again what has failed: an object of one that is gone is in the way
// of one of its name until it is gone, too. It reports whether the controller has died on the way.
func (w *world) look() (died bool) {
	var err error
	for range 5 {
		if died, err = w.pass(); died || err == nil {
			return died
		}
	}
	require.NoError(w.t, err)
	return false
}

// pass handles what a controller which starts finds: the objects of its sources, and the owners of what was written.
func (w *world) pass() (died bool, failed error) {
	seen := map[string]bool{}
	handle := func(kind schema.GroupVersionKind, namespace, name string, uid types.UID) {
		req := controller.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, UID: uid}
		if r := w.sources[kind]; r != nil && !seen[req.String()+string(uid)] && !died {
			seen[req.String()+string(uid)] = true
			_, err := r.Reconcile(context.Background(), req)
			died = errors.Is(err, errKilled)
			failed = errors.Join(failed, err)
		}
	}
	for _, kind := range []schema.GroupVersionKind{podGangKind, lwsKind} {
		for _, o := range w.list(kind) {
			handle(kind, o.GetNamespace(), o.GetName(), o.GetUID())
		}
	}
	for _, o := range w.list(podGroupKind) {
		if owner := metav1.GetControllerOf(&o); owner != nil {
			handle(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), o.GetNamespace(), owner.Name, owner.UID)
		}
	}
	return died, failed
}

func (w *world) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(w.t, w.users.List(context.Background(), list))
	return list.Items
}

// state is what was written, without what differs from run to run.
func (w *world) state() string {
	var out []string
	for _, o := range w.list(podGroupKind) {
		owner := ""
		if c := metav1.GetControllerOf(&o); c != nil {
			owner = c.Kind + "/" + c.Name
		}
		text, err := json.Marshal(map[string]any{
			"name": o.GetName(), "labels": o.GetLabels(), "annotations": o.GetAnnotations(), "owner": owner,
			"spec": o.Object["spec"],
		})
		require.NoError(w.t, err)
		out = append(out, string(text))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// orphans are objects without their owner.
func (w *world) orphans() (out []string) {
	alive := map[types.UID]bool{}
	for _, kind := range []schema.GroupVersionKind{podGangKind, lwsKind} {
		for _, o := range w.list(kind) {
			alive[o.GetUID()] = true
		}
	}
	for _, o := range w.list(podGroupKind) {
		if c := metav1.GetControllerOf(&o); c == nil || !alive[c.UID] {
			out = append(out, o.GetName())
		}
	}
	return out
}

// A step is something that people or other controllers do. It is the same in both runs.
type step struct {
	what    string
	settled bool // only after the controller has seen all until then
	do      func(w *world, at int)
}

func (w *world) get(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if err := w.users.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, o); apierrors.IsNotFound(err) {
		return nil
	} else {
		require.NoError(w.t, err)
	}
	return o
}

func (w *world) put(kind schema.GroupVersionKind, name, uid string, labels map[string]string, spec map[string]any) {
	if o := w.get(kind, name); o != nil {
		o.Object["spec"] = spec
		o.SetLabels(labels)
		require.NoError(w.t, w.users.Update(context.Background(), o))
		return
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace("default")
	o.SetName(name)
	o.SetUID(types.UID(uid))
	o.SetLabels(labels)
	require.NoError(w.t, w.users.Create(context.Background(), o))
}

func (w *world) remove(kind schema.GroupVersionKind, name string) {
	if o := w.get(kind, name); o != nil {
		require.NoError(w.t, w.users.Delete(context.Background(), o))
	}
}

// group is one podgroup of a PodGang.
func group(gang string, i, least int, pods int) map[string]any {
	refs := []any{}
	for p := range pods {
		refs = append(refs, map[string]any{"namespace": "default", "name": fmt.Sprintf("%s-g%d-%d", gang, i, p)})
	}
	return map[string]any{"name": fmt.Sprintf("%s-g%d", gang, i), "minReplicas": int64(least), "podReferences": refs}
}

func podGangStep(t *rapid.T) step {
	name := rapid.SampledFrom([]string{"a-0", "b-0", "b-0-x-0"}).Draw(t, "gang")
	labels := map[string]string{"grove.io/scheduler-name": "koord-scheduler"}
	verb := rapid.SampledFrom([]string{"write", "write", "release", "delete"}).Draw(t, "verb")
	if verb == "delete" {
		return step{what: "delete " + name, do: func(w *world, _ int) { w.remove(podGangKind, name) }}
	}
	if verb == "release" {
		return step{what: "release " + name, settled: true, do: func(w *world, at int) {
			o := w.get(podGangKind, name)
			if o == nil {
				return
			}
			groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "podgroups")
			for i := range groups {
				groups[i].(map[string]any)["minReplicas"] = int64(0)
			}
			w.put(podGangKind, name, "", labels, map[string]any{"podgroups": groups})
		}}
	}
	var groups []any
	for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
		if i > 0 && rapid.Bool().Draw(t, "skip") {
			continue
		}
		groups = append(groups, group(name, i, rapid.IntRange(1, 4).Draw(t, "least"), rapid.IntRange(0, 5).Draw(t, "pods")))
	}
	return step{what: fmt.Sprintf("%s has %d groups", name, len(groups)), do: func(w *world, at int) {
		w.put(podGangKind, name, fmt.Sprintf("%s-%d", name, at), labels, map[string]any{"podgroups": groups})
	}}
}

func lwsStep(t *rapid.T) step {
	name := rapid.SampledFrom([]string{"m", "n"}).Draw(t, "set")
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		return step{what: "delete " + name, do: func(w *world, _ int) {
			w.remove(lwsKind, name)
			w.remove(setKind, name)
			w.removePods(name, func(corev1.Pod) bool { return true })
		}}
	}
	replicas, size := rapid.IntRange(0, 3).Draw(t, "replicas"), rapid.IntRange(1, 3).Draw(t, "size")
	revision := rapid.SampledFrom([]string{"rev1", "rev2"}).Draw(t, "revision")
	stale := rapid.IntRange(0, 3).Draw(t, "stale") // groups that still run the other revision, or are beyond replicas
	return step{what: fmt.Sprintf("%s is %d x %d of %s, but %d", name, replicas, size, revision, stale), do: func(w *world, at int) {
		template := map[string]any{"spec": map[string]any{
			"schedulerName": "koord-scheduler",
			"containers":    []any{map[string]any{"name": "c", "image": "i"}},
		}}
		w.put(lwsKind, name, fmt.Sprintf("%s-%d", name, at), nil, map[string]any{
			"replicas": int64(replicas), "startupPolicy": "LeaderCreated",
			"leaderWorkerTemplate": map[string]any{"size": int64(size), "workerTemplate": template},
		})
		w.put(setKind, name, fmt.Sprintf("set-%s-%d", name, at), map[string]string{
			"leaderworkerset.sigs.k8s.io/name":                   name,
			"leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
		}, map[string]any{})
		w.removePods(name, func(p corev1.Pod) bool {
			return fmt.Sprint(stale) <= p.Labels["leaderworkerset.sigs.k8s.io/group-index"]
		})
		for i := range replicas {
			if i >= stale {
				w.pod(name, i, 0, revision)
			}
		}
	}}
}

func (w *world) pod(set string, group, worker int, revision string, gates ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("%s-%d-%d", set, group, worker),
		Labels: map[string]string{
			"leaderworkerset.sigs.k8s.io/name": set, "leaderworkerset.sigs.k8s.io/group-index": fmt.Sprint(group),
			"leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(worker), "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
		},
	}, Spec: corev1.PodSpec{SchedulerName: "koord-scheduler"}}
	for _, gate := range gates {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	require.NoError(w.t, client.IgnoreAlreadyExists(w.users.Create(context.Background(), pod)))
}

func (w *world) removePods(set string, which func(corev1.Pod) bool) {
	var pods corev1.PodList
	require.NoError(w.t, w.users.List(context.Background(), &pods, client.MatchingLabels{"leaderworkerset.sigs.k8s.io/name": set}))
	for i := range pods.Items {
		if which(pods.Items[i]) {
			require.NoError(w.t, w.users.Delete(context.Background(), &pods.Items[i]))
		}
	}
}

// settle has a controller that lives see all there is.
func (w *world) settle(history *[]string) {
	w.left = -1
	if w.look() {
		panic("it ended without being killed")
	}
	*history = append(*history, "  settled")
}

// TestKilled: a controller is killed before or after any of its writes and started again, also after changes that it
// has not seen. It leaves the same objects as a controller that is never killed.
func TestKilled(t *testing.T) {
	kills := 0
	rapid.Check(t, func(t *rapid.T) {
		calm, wild := newWorld(t), newWorld(t)
		var history []string
		for at := range rapid.IntRange(1, 12).Draw(t, "steps") {
			s := rapid.OneOf(rapid.Custom(podGangStep), rapid.Custom(lwsStep)).Draw(t, "step")
			if s.settled {
				wild.settle(&history)
			}
			history = append(history, s.what)
			s.do(calm, at)
			calm.settle(&[]string{})
			s.do(wild, at)
			switch rapid.IntRange(0, 3).Draw(t, "meanwhile") {
			case 0: // it does not live
			case 1:
				wild.settle(&history)
			default:
				wild.left, wild.after = rapid.IntRange(0, 4).Draw(t, "write"), rapid.Bool().Draw(t, "after")
				died := wild.look()
				history = append(history, fmt.Sprintf("  killed: %v", died))
				if died {
					kills++
				}
				wild.start()
			}
		}
		wild.start()
		wild.settle(&history)
		require.Equal(t, calm.state(), wild.state(), strings.Join(history, "\n"))
		require.Empty(t, wild.orphans(), strings.Join(history, "\n"))
		wild.writes = 0
		wild.start()
		wild.settle(&history)
		require.Zero(t, wild.writes, "nothing has changed\n%s", strings.Join(history, "\n"))
	})
	t.Logf("killed %d times", kills)
}
