package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	systemclasses "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// cluster is the API, and what admission, kubelets and controllers add to the objects that users write and schedulers read.
type cluster struct {
	*api
	youngest   time.Time                  // creation time of the youngest object
	setStart   time.Time                  // the new objects of the last set are younger than this
	uidCount   int                        // the number of UIDs that newUID has returned
	keepStatus bool                       // initialize keeps the status that objects have in the input
	ranBefore  map[types.UID]bool         // pods that came with a node
	ownedBy    map[identity]*ownedObjects // by workload
	positions  map[string]Position        // where objects were read, by the object names in events
	reported   map[Event]reportedWarning  // without Times and At
	held       []heldObject               // objects that are created only when certain pods run
	pairs      pairs
	unlisted   func(string) bool // reports whether objects of a kind, such as pods, could not be listed
}

// epoch is the start time of a cluster whose objects have no creation time.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// apply stores the objects of a set in the cluster: referenced objects before the objects that name them, then the oldest first. It
// replaces an object that exists, and deletes one with a deletion timestamp. It also creates the pods of workloads.
//
// It does not store new pods without a node, but returns them, the oldest first: the caller adds them one by one (addPods).
func (c *cluster) apply(set *Set) (newPods []object, err error) {
	objects := slices.Clone(set.objects)
	for i := range objects {
		if !set.mutable {
			objects[i].Object = objects[i].DeepCopyObject()
		}
	}
	if objects, err = c.expandWorkloads(objects); err != nil {
		return nil, err
	}
	fresh := c.setCreationTimes(objects)
	slices.SortStableFunc(objects, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.kind.order, b.kind.order), creationTime(a).Compare(creationTime(b)))
	})
	for _, o := range objects {
		if pod, ok := o.Object.(*v1.Pod); ok && fresh[pod] && pod.Spec.NodeName == "" {
			newPods = append(newPods, o)
			continue
		}
		if err := c.put(o); err != nil {
			return nil, &InputError{o.at, err}
		}
	}
	return newPods, nil
}

func creationTime(o object) time.Time {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return time.Time{}
	}
	return m.GetCreationTimestamp().Time
}

// setCreationTimes sets the creation time of each object that has none: later than all others, one millisecond apart, in the order
// of objects. It returns these objects as a set, and sets c.setStart to the latest time before them.
func (c *cluster) setCreationTimes(objects []object) (fresh map[metav1.Object]bool) {
	if now := c.now(); now.After(c.youngest) {
		c.youngest = now
	}
	fresh = map[metav1.Object]bool{}
	var inOrder []metav1.Object
	for _, o := range objects {
		m, err := meta.Accessor(o.Object)
		if err != nil {
			continue
		}
		if t := m.GetCreationTimestamp(); !t.IsZero() {
			if t.After(c.youngest) {
				c.youngest = t.Time
			}
			continue
		}
		fresh[m] = true
		inOrder = append(inOrder, m)
	}
	c.setStart = c.youngest
	for _, m := range inOrder {
		c.youngest = c.youngest.Add(time.Millisecond)
		if u, ok := m.(*unstructured.Unstructured); ok {
			// SetCreationTimestamp would cut the time to seconds.
			_ = unstructured.SetNestedField(u.Object, c.youngest.Format(time.RFC3339Nano), "metadata", "creationTimestamp")
			continue
		}
		m.SetCreationTimestamp(metav1.Time{Time: c.youngest})
	}
	return fresh
}

// put creates, replaces or (with a deletion timestamp) deletes one object. The caller must not change o.Object afterwards.
func (c *cluster) put(o object) error {
	obj := o.Object
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if o.kind.namespaced {
		if err := c.namespace(m.GetNamespace()); err != nil {
			return err
		}
	}
	c.positions[o.about()] = o.at
	if pod, ok := obj.(*v1.Pod); ok {
		if err := c.prioritize(pod); err != nil {
			return err
		}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && slices.Contains(nativeGroups, o.kind.resource.GroupResource()) {
		c.prioritizeGroup(u)
	}
	fromCluster := m.GetUID() != "" // an API server has set the UID
	var previous runtime.Object
	stored, err := c.change(o.kind.resource, key{m.GetNamespace(), m.GetName()}, func(old runtime.Object) (runtime.Object, error) {
		previous = old
		if old == nil && m.GetUID() == "" {
			m.SetUID(c.newUID())
		}
		if m.GetDeletionTimestamp() != nil {
			return c.terminate(old, obj), nil
		}
		if old == nil {
			c.initialize(obj)
			return obj, nil
		}
		previous, err := meta.Accessor(old)
		if err != nil {
			return nil, err
		}
		m.SetUID(previous.GetUID())
		c.keepImmutable(old, obj)
		return obj, nil
	})
	switch pod, ok := stored.(*v1.Pod); {
	case err != nil:
		return err
	case stored == nil:
		return c.releaseClaims(previous)
	case ok && previous == nil:
		if err := c.makeVolumeClaims(pod); err != nil {
			return err
		}
		return c.makeClaims(pod, fromCluster)
	}
	return c.bindPair(stored)
}

// newUID returns a UID that it has not returned before.
func (c *cluster) newUID() types.UID {
	c.uidCount++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.uidCount))
}

// terminate returns the object that replaces old when obj, with a deletion timestamp, is applied; nil if none remains. With
// victimsStay, a pod with a node remains as a terminating pod until a second deletion.
func (c *cluster) terminate(old, obj runtime.Object) runtime.Object {
	pod, ok := obj.(*v1.Pod)
	if !ok || !c.victimsStay {
		return nil
	}
	if old != nil {
		if previous := old.(*v1.Pod); previous.Spec.NodeName != "" && previous.DeletionTimestamp == nil {
			return terminating(previous, c.now())
		}
		return nil
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	c.initialize(pod)
	return pod
}

// initialize sets the fields of a new object that kubelets and controllers would set. Unless keepStatus is set, it removes the status
// of gangs and of waiting pods, which the scheduler writes again. It keeps promised starts, which the scheduler reads.
func (c *cluster) initialize(o runtime.Object) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		if !statusIsInput(o) && !c.keepStatus {
			keepPromise(o)
		}
	case *v1.Node:
		register(o)
	case *v1.PersistentVolume:
		setVolumePhase(o)
	case *v1.Pod:
		c.order[o.UID] = len(c.order) + 1
		if o.Spec.NodeName != "" {
			c.setRunning(o, o.CreationTimestamp.Time)
			c.ranBefore[o.UID] = true
			return
		}
		o.Status.Phase = cmp.Or(o.Status.Phase, v1.PodPending)
		if c.keepStatus {
			return
		}
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	}
}

// keepPromise removes the status of a gang's object, except the condition StartPromised, which the scheduler reads.
func keepPromise(o *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	delete(o.Object, "status")
	promise := slices.DeleteFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] != scheduling.ConditionStartPromised
	})
	if len(promise) > 0 {
		_ = unstructured.SetNestedSlice(o.Object, promise, "status", "conditions")
	}
}

// statusIsInput reports whether the status of an object comes from its controller. No controller in the simulation writes it.
func statusIsInput(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind() == workloads.JobSetKind || o.GroupVersionKind() == workloads.LeaderWorkerSetKind
}

// keepImmutable copies from old into obj what an update by a user does not change: creation time, status, and a pod's node.
func (c *cluster) keepImmutable(old, obj runtime.Object) {
	if previous, err := meta.Accessor(old); err == nil {
		if m, err := meta.Accessor(obj); err == nil {
			m.SetCreationTimestamp(previous.GetCreationTimestamp())
		}
	}
	switch fresh := obj.(type) {
	case *unstructured.Unstructured:
		previous := old.(*unstructured.Unstructured)
		if fresh.Object["status"] == nil || !statusIsInput(fresh) {
			fresh.Object["status"] = runtime.DeepCopyJSONValue(previous.Object["status"])
		}
		if created, ok, _ := unstructured.NestedString(previous.Object, "metadata", "creationTimestamp"); ok {
			_ = unstructured.SetNestedField(fresh.Object, created, "metadata", "creationTimestamp")
		}
	case *v1.Node:
		if len(fresh.Status.Capacity) == 0 && len(fresh.Status.Allocatable) == 0 {
			fresh.Status = *old.(*v1.Node).Status.DeepCopy()
		}
		register(fresh)
	case *v1.Pod:
		previous, phase := old.(*v1.Pod), fresh.Status.Phase
		fresh.Status = *previous.Status.DeepCopy()
		if phase == v1.PodSucceeded || phase == v1.PodFailed { // the pod has finished since
			fresh.Status.Phase = phase
		}
		if previous.Spec.NodeName != "" {
			fresh.Spec.NodeName = previous.Spec.NodeName
		} else if fresh.Spec.NodeName != "" {
			c.setRunning(fresh, c.now())
		}
	}
}

// register sets what a kubelet reports about its node if it is missing: the hostname label and the allocatable resources.
func register(n *v1.Node) {
	if n.Labels[v1.LabelHostname] == "" {
		metav1.SetMetaDataLabel(&n.ObjectMeta, v1.LabelHostname, n.Name)
	}
	if len(n.Status.Allocatable) == 0 {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = v1.ResourceList{}
	}
	if _, ok := n.Status.Allocatable[v1.ResourcePods]; !ok {
		n.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	}
}

// namespace creates a namespace that an object names, unless it exists.
func (c *cluster) namespace(name string) error {
	_, err := c.change(namespaces, key{name: name}, func(old runtime.Object) (runtime.Object, error) {
		if old != nil {
			return old, nil
		}
		return &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{v1.LabelMetadataName: name}, CreationTimestamp: metav1.Time{Time: epoch},
			},
			Status: v1.NamespaceStatus{Phase: v1.NamespaceActive},
		}, nil
	})
	return err
}

// nativeGroups are Kubernetes' own PodGroups and CompositePodGroups.
var nativeGroups = []schema.GroupResource{
	{Group: schedulingv1.GroupName, Resource: "podgroups"}, {Group: schedulingv1.GroupName, Resource: "compositepodgroups"},
}

// prioritizeGroup sets the priority of a PodGroup or CompositePodGroup from its PriorityClass, as admission does, if that is known.
func (c *cluster) prioritizeGroup(u *unstructured.Unstructured) {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "priorityClassName")
	if _, known, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "priority"); name == "" || known {
		return
	}
	if class, err := c.class(name); err == nil && class != nil {
		_ = unstructured.SetNestedField(u.Object, int64(class.Value), "spec", "priority")
	}
}

// prioritize sets a pod's class, priority and preemption policy where they are missing, as the admission plugin Priority does.
func (c *cluster) prioritize(pod *v1.Pod) error {
	class, err := c.class(pod.Spec.PriorityClassName)
	if err != nil && pod.Spec.Priority == nil {
		return fmt.Errorf("Pod %s: spec.priorityClassName: %w", convert.PodKey(pod), err)
	}
	if class == nil {
		class = &schedulingv1.PriorityClass{}
	}
	pod.Spec.PriorityClassName = cmp.Or(pod.Spec.PriorityClassName, class.Name)
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = &class.Value
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = new(v1.PreemptLowerPriority)
	}
	return nil
}

// class returns the PriorityClass name. For "" it returns the global default, nil if there is none.
func (c *cluster) class(name string) (*schedulingv1.PriorityClass, error) {
	all, _ := c.list(priorityClasses, "", nil)
	var byDefault *schedulingv1.PriorityClass
	for _, o := range all {
		class := o.(*schedulingv1.PriorityClass)
		if name != "" && class.Name == name {
			return class, nil
		}
		if class.GlobalDefault && (byDefault == nil || class.Value < byDefault.Value) {
			byDefault = class
		}
	}
	if name == "" {
		return byDefault, nil
	}
	for _, class := range systemclasses.SystemPriorityClasses() {
		if class.Name == name {
			return class, nil
		}
	}
	if kind := priorityClasses.GroupResource().String(); c.unlisted(kind) {
		return nil, fmt.Errorf("the value of PriorityClass %s is not known: no permission to list %s", name, kind)
	}
	return nil, errors.New("no PriorityClass with name " + name + " was found")
}
