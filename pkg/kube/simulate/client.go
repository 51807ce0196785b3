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

// api answers the requests that a scheduler sends to an API server: lists, watches, status patches, bindings and evictions. It also
// does the work of kubelets: a bound pod runs at once, and a deleted pod disappears.
type api struct {
	*server
	gate *gate // orders concurrent writes
	now  func() time.Time
	// victimsStay true: a deleted pod with a node is kept as a terminating pod, until a second deletion.
	victimsStay bool
	// order numbers pods by creation. The server's lock guards order and evicted.
	order map[types.UID]int
	// evicted are the pods that the scheduler deleted, in their state before the deletion.
	evicted map[types.UID]*v1.Pod
	// intercept, if set, handles each request instead of this API. Tests use it to lose requests and answers.
	intercept func(clienttesting.Action, answer) (runtime.Object, error)
	// failed counts the answers that were errors; generatedNames counts the names made from generateName.
	failed, generatedNames atomic.Int64
}

// answer executes the request that it was made for, and returns the API's answer.
type answer = func() (runtime.Object, error)

// evictedPods returns the pods that the scheduler deleted.
func (a *api) evictedPods() map[types.UID]*v1.Pod {
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

// clients returns clients of this API for a process that ends with ctx. Later requests of that process have no effect.
func (a *api) clients(ctx context.Context) (kubernetes.Interface, dynamic.Interface) {
	react := func(action clienttesting.Action) (handled bool, out runtime.Object, err error) {
		defer func() {
			if err != nil {
				a.failed.Add(1)
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

// listKinds returns the list kinds of the custom resources that the scheduler reads.
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

// untypedWatch converts the objects of a watch to unstructured ones. It ends with the inner watch, or when it is stopped.
type untypedWatch struct {
	watch.Interface
	out  chan watch.Event
	done chan struct{}
	stop sync.Once
}

// newUntypedWatch returns an untypedWatch of w, and starts the goroutine that converts.
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

// untyped returns o as an unstructured object. It returns o itself if o is nil, a *metav1.Status, unstructured already, or not convertible.
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

// typedClient creates a new fake client for each request, and so does customClient: one fake client would serialize requests.
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

// podClient lists pods without the extra copy that the fake client makes.
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

// IsWatchListSemanticsUnSupported returns true, so that informers list before they watch.
func (c customClient) IsWatchListSemanticsUnSupported() bool { return true }

// Resource implements dynamic.Interface.
func (c customClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c().Resource(gvr)
}

// admit blocks until the gate releases the request, and returns the error of ctx. A read of one object is not blocked. A list is: a
// starting scheduler learns all objects from lists, and their order must not be random.
func (a *api) admit(ctx context.Context, action clienttesting.Action) error {
	name, request := "", ""
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		request = action.ListOptions.FieldSelector
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
		name, request = action.Name, string(action.Patch)
	case clienttesting.DeleteActionImpl:
		name = action.Name
	default:
		return ctx.Err()
	}
	resource := action.GetResource().Resource
	return a.gate.pass(ctx, fmt.Sprint(resource, "/", action.GetNamespace(), "/", name, " ", action.GetVerb(), " ", request))
}

// reactWatch answers a watch request. The first result is always true: no other reactor answers it.
func (a *api) reactWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	w, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return true, nil, fmt.Errorf("unexpected %T", action)
	}
	selector, err := fields.ParseSelector(w.ListOptions.FieldSelector)
	if err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	out, err := a.watch(w.Resource, w.Namespace, selector, w.ListOptions.ResourceVersion)
	return true, out, err
}

// react answers any other request, through intercept if that is set. The first result is always true.
func (a *api) react(action clienttesting.Action) (bool, runtime.Object, error) {
	execute := func() (runtime.Object, error) { return a.do(action) }
	if a.intercept != nil {
		out, err := a.intercept(action, execute)
		return true, out, err
	}
	out, err := execute()
	return true, out, err
}

// withName returns a copy of o under the name. An object without a name gets a UID too: the scheduler creates claims with neither.
func withName(o runtime.Object, name string) (runtime.Object, error) {
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

// do executes a request: it reads or changes the objects of the server, and does what controllers do in response.
func (a *api) do(action clienttesting.Action) (runtime.Object, error) {
	gvr := action.GetResource()
	objectKey := func(name string) key { return key{action.GetNamespace(), name} }
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		return a.answerList(action)
	case clienttesting.GetActionImpl:
		o, err := a.get(gvr, objectKey(action.Name))
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
			name = fmt.Sprint(m.GetGenerateName(), a.generatedNames.Add(1))
		}
		return a.write(gvr, objectKey(name), func(old runtime.Object) (runtime.Object, error) {
			if old != nil {
				return nil, apierrors.NewAlreadyExists(gvr.GroupResource(), name)
			}
			return withName(action.Object, name)
		})
	case clienttesting.UpdateActionImpl:
		m, err := meta.Accessor(action.Object)
		if err != nil {
			return nil, err
		}
		out, err := a.write(gvr, objectKey(m.GetName()), existing(gvr, m.GetName(), func(old runtime.Object) (runtime.Object, error) {
			return updated(gvr, old, action)
		}))
		if err != nil {
			return nil, err
		}
		return out, a.bindVolumes(out)
	case clienttesting.PatchActionImpl:
		out, err := a.write(gvr, objectKey(action.Name), existing(gvr, action.Name, func(old runtime.Object) (runtime.Object, error) {
			return patched(gvr, old, action)
		}))
		if err != nil {
			return nil, err
		}
		return out, a.reserveForRunning(out)
	case clienttesting.DeleteActionImpl:
		return nil, a.delete(gvr, objectKey(action.Name), action.DeleteOptions)
	}
	return nil, apierrors.NewMethodNotSupported(gvr.GroupResource(), action.GetVerb())
}

// write stores the result of edit (see server.change) and returns a copy of it.
func (a *api) write(gvr schema.GroupVersionResource, k key, edit func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	o, err := a.change(gvr, k, edit)
	return copied(o), err
}

// editFunc returns the object that replaces the stored object old; see server.change.
type editFunc = func(old runtime.Object) (runtime.Object, error)

// existing returns an editFunc that calls edit, or returns NotFound if the object does not exist.
func existing(gvr schema.GroupVersionResource, name string, edit editFunc) editFunc {
	return func(old runtime.Object) (runtime.Object, error) {
		if old == nil {
			return nil, apierrors.NewNotFound(gvr.GroupResource(), name)
		}
		return edit(old)
	}
}

// copied returns a deep copy of o; nil for nil.
func copied(o runtime.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return o.DeepCopyObject()
}

// answerList answers a list request.
func (a *api) answerList(action clienttesting.ListActionImpl) (runtime.Object, error) {
	selector, err := fields.ParseSelector(action.ListOptions.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	objects, version := a.list(action.Resource, action.Namespace, selector)
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

// emptyList returns an empty list for the items, typed if all items are typed. Some kinds are stored unstructured although Kubernetes
// has a type for them, since an API server need not serve them.
func emptyList(item schema.GroupVersionKind, items []runtime.Object) (runtime.Object, error) {
	kind := item.GroupVersion().WithKind(item.Kind + "List")
	untyped := slices.ContainsFunc(items, func(o runtime.Object) bool { _, ok := o.(*unstructured.Unstructured); return ok })
	if !untyped && scheme.Scheme.Recognizes(kind) {
		return scheme.Scheme.New(kind)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return list, nil
}

// updated returns the object that replaces old, or a conflict if the update names another resource version. For a ResourceClaim,
// the status changes only through the subresource, and an allocation must be removed before another one is set.
func updated(gvr schema.GroupVersionResource, old runtime.Object, action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	previous, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	fresh := action.Object.DeepCopyObject()
	m, err := meta.Accessor(fresh)
	if err != nil {
		return nil, err
	}
	if v := m.GetResourceVersion(); v != "" && v != previous.GetResourceVersion() {
		stale := fmt.Errorf("it is at %s, not at %s", previous.GetResourceVersion(), v)
		return nil, apierrors.NewConflict(gvr.GroupResource(), m.GetName(), stale)
	}
	if claim, ok := fresh.(*resourceapi.ResourceClaim); ok {
		if action.Subresource == "status" {
			out := old.DeepCopyObject().(*resourceapi.ResourceClaim)
			if a, b := out.Status.Allocation, claim.Status.Allocation; a != nil && b != nil && !equality.Semantic.DeepEqual(a, b) {
				immutable := field.Invalid(field.NewPath("status", "allocation"), nil, "field cannot be modified once set")
				groupKind := resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind()
				return nil, apierrors.NewInvalid(groupKind, claim.Name, field.ErrorList{immutable})
			}
			out.Status = claim.Status
			return out, nil
		}
		claim.Status = *old.(*resourceapi.ResourceClaim).Status.DeepCopy()
	}
	return fresh, nil
}

// patched returns old with the patch applied. For subresource status it changes only the status. Another UID in the patch is a conflict.
func patched(gvr schema.GroupVersionResource, old runtime.Object, action clienttesting.PatchActionImpl) (runtime.Object, error) {
	oldJSON, err := json.Marshal(patchable(old, action))
	if err != nil {
		return nil, err
	}
	patchedJSON, err := applyPatch(oldJSON, old, action)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fresh := reflect.New(reflect.TypeOf(old).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(patchedJSON, fresh); err != nil {
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
		stale := fmt.Errorf("its UID is %s, not %s", oldMeta.GetUID(), newMeta.GetUID())
		return nil, apierrors.NewConflict(gvr.GroupResource(), action.Name, stale)
	}
	if action.Subresource != "status" {
		return fresh, nil
	}
	return withStatusOf(old, fresh)
}

// patchable returns the part of old that the patch is applied to. For the status of a pod these are its name, UID and status.
func patchable(old runtime.Object, action clienttesting.PatchActionImpl) runtime.Object {
	pod, ok := old.(*v1.Pod)
	if !ok || action.Subresource != "status" {
		return old
	}
	id := metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
	return &v1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: id, Status: pod.Status}
}

// applyPatch returns the JSON document with the action's patch applied. old only gives the Go type.
func applyPatch(document []byte, old runtime.Object, action clienttesting.PatchActionImpl) ([]byte, error) {
	switch action.PatchType {
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(document, action.Patch, old)
	case types.MergePatchType:
		return jsonpatch.MergePatch(document, action.Patch)
	}
	return nil, fmt.Errorf("patch type %q is not supported", action.PatchType)
}

// withStatusOf returns old with the status of fresh.
func withStatusOf(old, fresh runtime.Object) (runtime.Object, error) {
	out := old.DeepCopyObject()
	switch out := out.(type) {
	case *unstructured.Unstructured:
		out.Object["status"] = fresh.(*unstructured.Unstructured).Object["status"]
	case *v1.Pod:
		out.Status = fresh.(*v1.Pod).Status
	default:
		return fresh, nil
	}
	return out, nil
}

// bind sets the node of the binding's pod, which then runs at once. It returns a conflict if the pod has a node or is being deleted.
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
		a.setRunning(pod, a.now())
		return pod, nil
	}))
	return err
}

// setRunning sets the status of a pod that its kubelet has started. It keeps an existing start time. Otherwise it sets now plus some
// nanoseconds, so that no two pods start at the same time.
func (a *api) setRunning(pod *v1.Pod, now time.Time) {
	if pod.Status.Phase == "" || pod.Status.Phase == v1.PodPending {
		pod.Status.Phase = v1.PodRunning
	}
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &metav1.Time{Time: now.Add(time.Duration(a.order[pod.UID]))}
	}
	scheduled := &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}
	if podutil.UpdatePodCondition(&pod.Status, scheduled) { // at the real time
		_, scheduled = podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
		scheduled.LastTransitionTime = *pod.Status.StartTime
	}
}

// delete deletes an object. With victimsStay, a pod with a node gets a deletion timestamp instead.
func (a *api) delete(gvr schema.GroupVersionResource, k key, o metav1.DeleteOptions) error {
	var previous runtime.Object
	remaining, err := a.change(gvr, k, existing(gvr, k.name, func(old runtime.Object) (runtime.Object, error) {
		previous = old
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
	if err == nil && remaining == nil {
		err = a.releaseClaims(previous)
	}
	return err
}

// terminating returns the pod with a deletion timestamp: now plus its grace period. A pod that has one is returned unchanged.
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
