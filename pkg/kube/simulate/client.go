package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	resourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	clienttesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// api answers what the scheduler asks of an API server, as far as a scheduler asks:
// lists, watches, status patches, bindings and evictions. Nodes' kubelets are in it
// too: a bound pod runs, a deleted one is gone.
type api struct {
	*server
	gate *gate // for those who write
	now  func() time.Time
	// victimsStay keeps deleted pods, terminating.
	victimsStay bool
	// order counts pods as they were made. The server's lock guards it, and evicted.
	order map[types.UID]int
	// evicted are the pods that the scheduler deleted, as they were last.
	evicted map[types.UID]*v1.Pod
	// between stands between this API and those who ask, if it is there: requests and
	// answers may be lost on the way.
	between func(clienttesting.Action, answer) (runtime.Object, error)
	// refused counts the answers that were errors, and named the objects that were given a name.
	refused, named atomic.Int64
}

// answer is how this API answers one request.
type answer = func() (runtime.Object, error)

// gone returns the pods that the scheduler deleted.
func (a *api) gone() map[types.UID]*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.evicted)
}

// byAge compares pods by the order in which they were made.
func (a *api) byAge(x, y *v1.Pod) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Compare(a.order[x.UID], a.order[y.UID])
}

// clients returns clients of this API, for a process that ends with ctx: what it asks
// for after that has no effect.
func (a *api) clients(ctx context.Context) (kubernetes.Interface, dynamic.Interface) {
	react := func(action clienttesting.Action) (handled bool, out runtime.Object, err error) {
		defer func() {
			if err != nil {
				a.refused.Add(1)
			}
		}()
		if err := a.admit(ctx, action); err != nil {
			return true, nil, err
		}
		return a.react(action)
	}
	prepare := func(f *clienttesting.Fake) {
		f.PrependReactor("*", "*", react)
		f.PrependWatchReactor("*", a.reactWatch)
	}
	typed := func() *fake.Clientset {
		c := &fake.Clientset{}
		prepare(&c.Fake)
		return c
	}
	lists := listKinds()
	custom := func() *dynamicfake.FakeDynamicClient {
		c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
		c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			_, o, err := react(action)
			return true, untyped(o), err
		})
		c.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			_, w, err := a.reactWatch(action)
			if err != nil {
				return true, nil, err
			}
			return true, newUntypedWatch(w), nil
		})
		return c
	}
	return &typedClient{typed(), typed}, customClient(custom)
}

// listKinds are the lists of what is read as custom resources.
func listKinds() map[schema.GroupVersionResource]string {
	lists := map[schema.GroupVersionResource]string{
		koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList", convert.Devices: "DeviceList",
		convert.ElasticQuotas: "ElasticQuotaList", convert.ElasticQuotasX: "ElasticQuotaList",
	}
	for i := range source.All {
		if o := source.All[i].Object; o != nil {
			for _, version := range o.Versions() {
				lists[version] = o.Kind + "List"
			}
		}
	}
	for _, o := range source.Owners {
		lists[o.Resource] = o.Kind + "List"
	}
	return lists
}

// untypedWatch is a watch whose objects are untyped. It ends with the one behind it, or when it
// is stopped.
type untypedWatch struct {
	watch.Interface
	out  chan watch.Event
	done chan struct{}
	stop sync.Once
}

func newUntypedWatch(w watch.Interface) *untypedWatch {
	u := &untypedWatch{Interface: w, out: make(chan watch.Event), done: make(chan struct{})}
	go func() {
		defer close(u.out)
		for {
			select {
			case <-u.done:
				return
			case e, ok := <-w.ResultChan():
				if !ok {
					return
				}
				e.Object = untyped(e.Object)
				select {
				case u.out <- e:
				case <-u.done:
					return
				}
			}
		}
	}()
	return u
}

// ResultChan implements watch.Interface.
func (u *untypedWatch) ResultChan() <-chan watch.Event { return u.out }

// Stop implements watch.Interface.
func (u *untypedWatch) Stop() {
	u.stop.Do(func() { close(u.done) })
	u.Interface.Stop()
}

// untyped is an object as those read it who do not know its Go type; that of a watch's bookmark
// or error stays.
func untyped(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case nil, *unstructured.Unstructured, *unstructured.UnstructuredList, *metav1.Status:
		return o
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return o
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return o
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvks[0])
	if !u.IsList() {
		return u
	}
	list, err := u.ToList()
	if err != nil {
		return o
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(gvks[0].GroupVersion().WithKind(strings.TrimSuffix(gvks[0].Kind, "List")))
	}
	return list
}

// typedClient is a client for each request that may write, and so is customClient: one for
// all answers a request only when the one before it has its answer, and those who write
// wait for one another here already.
type typedClient struct {
	*fake.Clientset
	fresh func() *fake.Clientset
}

// CoreV1 implements kubernetes.Interface.
func (c *typedClient) CoreV1() corev1.CoreV1Interface {
	fresh := c.fresh()
	return coreClient{fresh.CoreV1(), &fresh.Fake}
}

type coreClient struct {
	corev1.CoreV1Interface
	fake *clienttesting.Fake
}

// Pods implements corev1.CoreV1Interface.
func (c coreClient) Pods(namespace string) corev1.PodInterface {
	return podClient{c.CoreV1Interface.Pods(namespace), c.fake, namespace}
}

// podClient has the list of pods that the API answers. The client that it is would copy all of them once more.
type podClient struct {
	corev1.PodInterface
	fake      *clienttesting.Fake
	namespace string
}

// List implements corev1.PodInterface.
func (c podClient) List(_ context.Context, o metav1.ListOptions) (*v1.PodList, error) {
	out, err := c.fake.Invokes(clienttesting.NewListActionWithOptions(pods, podKind, c.namespace, o), &v1.PodList{})
	if list, ok := out.(*v1.PodList); ok {
		return list, err
	}
	return &v1.PodList{}, err
}

// ResourceV1 implements kubernetes.Interface.
func (c *typedClient) ResourceV1() resourcev1.ResourceV1Interface { return c.fresh().ResourceV1() }

type customClient func() *dynamicfake.FakeDynamicClient

// IsWatchListSemanticsUnSupported tells informers to list before they watch.
func (c customClient) IsWatchListSemanticsUnSupported() bool { return true }

// Resource implements dynamic.Interface.
func (c customClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c().Resource(gvr)
}

// admit returns when a request's turn has come: at once if it reads one object. Lists wait
// too: with them a scheduler that begins hears of everything there is.
func (a *api) admit(ctx context.Context, action clienttesting.Action) error {
	name, what := "", ""
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		what = action.ListOptions.FieldSelector
	case clienttesting.CreateActionImpl:
		name = action.Name
		if m, err := meta.Accessor(action.Object); err == nil {
			name = m.GetName()
		}
	case clienttesting.UpdateActionImpl:
		if m, err := meta.Accessor(action.Object); err == nil {
			name = m.GetName()
		}
	case clienttesting.PatchActionImpl:
		name, what = action.Name, string(action.Patch)
	case clienttesting.DeleteActionImpl:
		name = action.Name
	default:
		return ctx.Err()
	}
	return a.gate.pass(ctx, fmt.Sprint(action.GetResource().Resource, "/", action.GetNamespace(), "/", name, " ", action.GetVerb(), " ", what))
}

func (a *api) reactWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	w, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return true, nil, fmt.Errorf("unexpected %T", action)
	}
	where, err := fields.ParseSelector(w.ListOptions.FieldSelector)
	if err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	out, err := a.watch(w.Resource, w.Namespace, where, w.ListOptions.ResourceVersion)
	return true, out, err
}

func (a *api) react(action clienttesting.Action) (bool, runtime.Object, error) {
	ask := func() (runtime.Object, error) { return a.do(action) }
	if a.between != nil {
		out, err := a.between(action, ask)
		return true, out, err
	}
	out, err := ask()
	return true, out, err
}

// named is an object that is made under a name, with a UID of its own if it has none: the scheduler makes
// claims of which it gives neither.
func named(o runtime.Object, name string) (runtime.Object, error) {
	o = o.DeepCopyObject()
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	if m.GetName() == "" {
		m.SetName(name)
		m.SetUID(types.UID(m.GetNamespace() + "/" + name))
	}
	return o, nil
}

func (a *api) do(action clienttesting.Action) (runtime.Object, error) {
	gvr := action.GetResource()
	at := func(name string) key { return key{action.GetNamespace(), name} }
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		return a.answerList(action)
	case clienttesting.GetActionImpl:
		o, err := a.get(gvr, at(action.Name))
		return copied(o), err
	case clienttesting.CreateActionImpl:
		if b, ok := action.Object.(*v1.Binding); ok {
			return b, a.bind(gvr, b)
		}
		m, err := meta.Accessor(action.Object)
		if err != nil {
			return nil, err
		}
		name := m.GetName()
		if name == "" && m.GetGenerateName() != "" {
			name = fmt.Sprint(m.GetGenerateName(), a.named.Add(1))
		}
		return a.write(gvr, at(name), func(old runtime.Object) (runtime.Object, error) {
			if old != nil {
				return nil, apierrors.NewAlreadyExists(gvr.GroupResource(), name)
			}
			return named(action.Object, name)
		})
	case clienttesting.UpdateActionImpl:
		m, err := meta.Accessor(action.Object)
		if err != nil {
			return nil, err
		}
		out, err := a.write(gvr, at(m.GetName()), existing(gvr, m.GetName(), func(old runtime.Object) (runtime.Object, error) {
			return updated(gvr, old, action)
		}))
		if err != nil {
			return nil, err
		}
		return out, a.bindVolumes(out)
	case clienttesting.PatchActionImpl:
		out, err := a.write(gvr, at(action.Name), existing(gvr, action.Name, func(old runtime.Object) (runtime.Object, error) {
			return patched(gvr, old, action)
		}))
		if err != nil {
			return nil, err
		}
		return out, a.reserve(out)
	case clienttesting.DeleteActionImpl:
		return nil, a.delete(gvr, at(action.Name), action.DeleteOptions)
	}
	return nil, apierrors.NewMethodNotSupported(gvr.GroupResource(), action.GetVerb())
}

// write changes an object and returns a copy of what is there then.
func (a *api) write(gvr schema.GroupVersionResource, k key, edit func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	o, err := a.change(gvr, k, edit)
	return copied(o), err
}

// existing is edit for an object that must exist.
func existing(gvr schema.GroupVersionResource, name string, edit func(runtime.Object) (runtime.Object, error)) func(runtime.Object) (runtime.Object, error) {
	return func(old runtime.Object) (runtime.Object, error) {
		if old == nil {
			return nil, apierrors.NewNotFound(gvr.GroupResource(), name)
		}
		return edit(old)
	}
}

func copied(o runtime.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return o.DeepCopyObject()
}

func (a *api) answerList(action clienttesting.ListActionImpl) (runtime.Object, error) {
	where, err := fields.ParseSelector(action.ListOptions.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	objects, version := a.list(action.Resource, action.Namespace, where)
	list, err := emptyList(action.Kind, objects)
	if err != nil {
		return nil, err
	}
	if err := meta.SetList(list, objects); err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(strconv.FormatInt(version, 10))
	return list, nil
}

// emptyList is a list for some objects: typed if they are. Kubernetes knows types of some that
// are held unstructured here, since its API server need not serve them.
func emptyList(item schema.GroupVersionKind, of []runtime.Object) (runtime.Object, error) {
	kind := item.GroupVersion().WithKind(item.Kind + "List")
	untyped := slices.ContainsFunc(of, func(o runtime.Object) bool { _, is := o.(*unstructured.Unstructured); return is })
	if !untyped && scheme.Scheme.Recognizes(kind) {
		return scheme.Scheme.New(kind)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return list, nil
}

// updated replaces an object, unless it has changed since whoever asks has seen it. Of a claim the status changes with the
// subresource only, and nothing else does; what it has is given back before it has something else.
func updated(gvr schema.GroupVersionResource, old runtime.Object, action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	was, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	is := action.Object.DeepCopyObject()
	m, err := meta.Accessor(is)
	if err != nil {
		return nil, err
	}
	if v := m.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(gvr.GroupResource(), m.GetName(), fmt.Errorf("it is at %s, not at %s", was.GetResourceVersion(), v))
	}
	if claim, ok := is.(*resourceapi.ResourceClaim); ok {
		if action.Subresource == "status" {
			out := old.DeepCopyObject().(*resourceapi.ResourceClaim)
			if a, b := out.Status.Allocation, claim.Status.Allocation; a != nil && b != nil && !equality.Semantic.DeepEqual(a, b) {
				immutable := field.Invalid(field.NewPath("status", "allocation"), nil, "field cannot be modified once set")
				return nil, apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), claim.Name, field.ErrorList{immutable})
			}
			out.Status = claim.Status
			return out, nil
		}
		claim.Status = *old.(*resourceapi.ResourceClaim).Status.DeepCopy()
	}
	return is, nil
}

// patched applies a patch. With the status subresource only the status changes, and a
// patch that names another UID is for another object.
func patched(gvr schema.GroupVersionResource, old runtime.Object, action clienttesting.PatchActionImpl) (runtime.Object, error) {
	was, err := json.Marshal(patchable(old, action))
	if err != nil {
		return nil, err
	}
	is, err := applyPatch(was, old, action)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fresh := reflect.New(reflect.TypeOf(old).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(is, fresh); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	oldMeta, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	newMeta, err := meta.Accessor(fresh)
	if err != nil {
		return nil, err
	}
	if oldMeta.GetUID() != newMeta.GetUID() {
		return nil, apierrors.NewConflict(gvr.GroupResource(), action.Name, fmt.Errorf("its UID is %s, not %s", oldMeta.GetUID(), newMeta.GetUID()))
	}
	if action.Subresource != "status" {
		return fresh, nil
	}
	return withStatusOf(old, fresh)
}

// patchable is an object as far as a patch is read against it: of a pod whose status changes the rest stays as it is, but
// for the UID that the patch may name.
func patchable(old runtime.Object, action clienttesting.PatchActionImpl) runtime.Object {
	pod, ok := old.(*v1.Pod)
	if !ok || action.Subresource != "status" {
		return old
	}
	return &v1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}, Status: pod.Status}
}

func applyPatch(was []byte, old runtime.Object, action clienttesting.PatchActionImpl) ([]byte, error) {
	switch action.PatchType {
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(was, action.Patch, old)
	case types.MergePatchType:
		return jsonpatch.MergePatch(was, action.Patch)
	}
	return nil, fmt.Errorf("patch type %q is not supported", action.PatchType)
}

// withStatusOf returns old with the status of is.
func withStatusOf(old, is runtime.Object) (runtime.Object, error) {
	out := old.DeepCopyObject()
	switch out := out.(type) {
	case *unstructured.Unstructured:
		out.Object["status"] = is.(*unstructured.Unstructured).Object["status"]
	case *v1.Pod:
		out.Status = is.(*v1.Pod).Status
	default:
		return is, nil
	}
	return out, nil
}

// bind gives a pod its node, and there it runs.
func (a *api) bind(gvr schema.GroupVersionResource, b *v1.Binding) error {
	_, err := a.change(gvr, key{b.Namespace, b.Name}, existing(gvr, b.Name, func(old runtime.Object) (runtime.Object, error) {
		pod := old.DeepCopyObject().(*v1.Pod)
		switch {
		case b.UID != "" && b.UID != pod.UID:
			return nil, apierrors.NewConflict(gvr.GroupResource(), b.Name, fmt.Errorf("its UID is %s, not %s", pod.UID, b.UID))
		case pod.Spec.NodeName != "":
			return nil, apierrors.NewConflict(gvr.GroupResource(), b.Name, fmt.Errorf("it is already assigned to node %s", pod.Spec.NodeName))
		case pod.DeletionTimestamp != nil:
			return nil, apierrors.NewConflict(gvr.GroupResource(), b.Name, fmt.Errorf("it is being deleted"))
		}
		for k, v := range b.Annotations {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
		}
		pod.Spec.NodeName = b.Target.Name
		pod.Status.NominatedNodeName = ""
		a.run(pod, a.now())
		return pod, nil
	}))
	return err
}

// run is what the kubelet says of a pod that it has started. When that was, as far as it is said, stays: a
// cluster tells seconds, and of victims of one age names decide. No two others start at the same time.
func (a *api) run(pod *v1.Pod, now time.Time) {
	if pod.Status.Phase == "" || pod.Status.Phase == v1.PodPending {
		pod.Status.Phase = v1.PodRunning
	}
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &metav1.Time{Time: now.Add(time.Duration(a.order[pod.UID]))}
	}
	podutil.UpdatePodCondition(&pod.Status, &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
}

// delete takes an object away. A pod may stay, terminating; a pod without a node has
// nothing to stay for.
func (a *api) delete(gvr schema.GroupVersionResource, k key, o metav1.DeleteOptions) error {
	var was runtime.Object
	is, err := a.change(gvr, k, existing(gvr, k.name, func(old runtime.Object) (runtime.Object, error) {
		was = old
		m, err := meta.Accessor(old)
		if err != nil {
			return nil, err
		}
		if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != m.GetUID() {
			return nil, apierrors.NewConflict(gvr.GroupResource(), k.name, fmt.Errorf("its UID is %s, not %s", m.GetUID(), *p.UID))
		}
		pod, ok := old.(*v1.Pod)
		if !ok {
			return nil, nil
		}
		if a.evicted[pod.UID] == nil {
			a.evicted[pod.UID] = pod
		}
		if !a.victimsStay || pod.Spec.NodeName == "" {
			return nil, nil
		}
		return terminating(pod, a.now()), nil
	}))
	if err == nil && is == nil {
		err = a.unclaim(was)
	}
	return err
}

// terminating returns the pod as it is after a request to delete it.
func terminating(pod *v1.Pod, now time.Time) *v1.Pod {
	if pod.DeletionTimestamp != nil {
		return pod
	}
	grace := int64(30)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Duration(grace) * time.Second)}
	out.DeletionGracePeriodSeconds = &grace
	return out
}
