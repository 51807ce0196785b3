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

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// cluster is the API with what admission plugins, kubelets and controllers add to the
// objects that users write, as far as a scheduler can see it.
type cluster struct {
	*api
	born   time.Time           // when the youngest object was made
	fresh  time.Time           // after this the new objects of the last set were made
	number int                 // of objects made
	live   bool                // objects come with a status that counts
	ran    map[types.UID]bool  // pods that came with a node
	owned  map[identity]*owned // by workload
	from   map[string]Position // where objects were read, as events name these
	told   map[Event]warned    // without Times and At
	held   []held              // what waits for pods
	pairs  pairs
	missed func(string) bool // whether objects of a kind, such as pods, could not be listed
}

// epoch is when a cluster begins whose objects do not say.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// apply brings a set of objects into the cluster, the oldest first, and what others name
// before those: objects that exist are replaced, those that are being deleted leave. With
// workloads come their pods, as their controllers make them.
//
// New pods that wait for a node are returned instead, the oldest first: that they come,
// and when, is what a scheduler goes by.
func (c *cluster) apply(set *Set) (come []object, err error) {
	objects := slices.Clone(set.objects)
	for i := range objects {
		if !set.given {
			objects[i].Object = objects[i].DeepCopyObject()
		}
	}
	if objects, err = c.control(objects); err != nil {
		return nil, err
	}
	fresh := c.date(objects)
	slices.SortStableFunc(objects, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.kind.order, b.kind.order), made(a).Compare(made(b)))
	})
	for _, o := range objects {
		if pod, ok := o.Object.(*v1.Pod); ok && fresh[pod] && pod.Spec.NodeName == "" {
			come = append(come, o)
			continue
		}
		if err := c.put(o); err != nil {
			return nil, &InputError{o.at, err}
		}
	}
	return come, nil
}

func made(o object) time.Time {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return time.Time{}
	}
	return m.GetCreationTimestamp().Time
}

// date gives the objects that do not say when they were made a time after all others,
// in the order in which they were read: that is what "created first" means between
// them. It returns these objects.
func (c *cluster) date(objects []object) (fresh map[metav1.Object]bool) {
	if now := c.now(); now.After(c.born) {
		c.born = now
	}
	fresh = map[metav1.Object]bool{}
	var inOrder []metav1.Object
	for _, o := range objects {
		m, err := meta.Accessor(o.Object)
		if err != nil {
			continue
		}
		if t := m.GetCreationTimestamp(); !t.IsZero() {
			if t.After(c.born) {
				c.born = t.Time
			}
			continue
		}
		fresh[m] = true
		inOrder = append(inOrder, m)
	}
	c.fresh = c.born
	for _, m := range inOrder {
		c.born = c.born.Add(time.Millisecond)
		if u, ok := m.(*unstructured.Unstructured); ok {
			// SetCreationTimestamp would cut the time to seconds.
			_ = unstructured.SetNestedField(u.Object, c.born.Format(time.RFC3339Nano), "metadata", "creationTimestamp")
			continue
		}
		m.SetCreationTimestamp(metav1.Time{Time: c.born})
	}
	return fresh
}

// put makes one object or replaces it. The object belongs to the cluster then.
func (c *cluster) put(o object) error {
	is := o.Object
	m, err := meta.Accessor(is)
	if err != nil {
		return err
	}
	if o.kind.namespaced {
		if err := c.namespace(m.GetNamespace()); err != nil {
			return err
		}
	}
	about := o.kind.name + " " + m.GetName()
	if o.kind.namespaced {
		about = o.kind.name + " " + m.GetNamespace() + "/" + m.GetName()
	}
	c.from[about] = o.at
	if pod, ok := is.(*v1.Pod); ok {
		if err := c.prioritize(pod); err != nil {
			return err
		}
	}
	if u, ok := is.(*unstructured.Unstructured); ok && slices.Contains(nativeGroups, o.kind.resource.GroupResource()) {
		c.prioritizeGroup(u)
	}
	lives := m.GetUID() != "" // an API server has given it one
	var was runtime.Object
	now, err := c.change(o.kind.resource, key{m.GetNamespace(), m.GetName()}, func(old runtime.Object) (runtime.Object, error) {
		was = old
		if old == nil && m.GetUID() == "" {
			m.SetUID(c.newUID())
		}
		if m.GetDeletionTimestamp() != nil {
			return c.leave(old, is), nil
		}
		if old == nil {
			c.begin(is)
			return is, nil
		}
		was, err := meta.Accessor(old)
		if err != nil {
			return nil, err
		}
		m.SetUID(was.GetUID())
		c.keep(old, is)
		return is, nil
	})
	switch pod, ok := now.(*v1.Pod); {
	case err != nil:
		return err
	case now == nil:
		return c.unclaim(was)
	case ok && was == nil:
		if err := c.claimVolumes(pod); err != nil {
			return err
		}
		return c.claim(pod, lives)
	}
	return c.pair(now)
}

func (c *cluster) newUID() types.UID {
	c.number++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.number))
}

// leave returns what is left of an object that is being deleted. Pods may stay, if they
// run: terminating, until they are deleted once more.
func (c *cluster) leave(old, is runtime.Object) runtime.Object {
	pod, ok := is.(*v1.Pod)
	if !ok || !c.victimsStay {
		return nil
	}
	if old != nil {
		if was := old.(*v1.Pod); was.Spec.NodeName != "" && was.DeletionTimestamp == nil {
			return terminating(was, c.now())
		}
		return nil
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	c.begin(pod)
	return pod
}

// begin completes an object that is new in the cluster. Status is what the scheduler
// makes of it now, so what a dump says of gangs and of waiting pods is dropped, unless it is the
// moment of a restart.
func (c *cluster) begin(o runtime.Object) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		if !othersStatus(o) && !c.live {
			delete(o.Object, "status")
		}
	case *v1.Node:
		register(o)
	case *v1.PersistentVolume:
		offer(o)
	case *v1.Pod:
		c.order[o.UID] = len(c.order) + 1
		if o.Spec.NodeName != "" {
			c.run(o, o.CreationTimestamp.Time)
			c.ran[o.UID] = true
			return
		}
		o.Status.Phase = cmp.Or(o.Status.Phase, v1.PodPending)
		if c.live {
			return
		}
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	}
}

// othersStatus says whether the status of an object is what its controller has seen, and so what
// is given: nobody here makes one of it.
func othersStatus(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind() == workloads.JobSetKind || o.GroupVersionKind() == workloads.LeaderWorkerSetKind
}

// keep takes over what the API server does not let users change: creation, and status
// where they do not write it.
func (c *cluster) keep(old, is runtime.Object) {
	if was, err := meta.Accessor(old); err == nil {
		if m, err := meta.Accessor(is); err == nil {
			m.SetCreationTimestamp(was.GetCreationTimestamp())
		}
	}
	switch is := is.(type) {
	case *unstructured.Unstructured:
		was := old.(*unstructured.Unstructured)
		if is.Object["status"] == nil || !othersStatus(is) {
			is.Object["status"] = runtime.DeepCopyJSONValue(was.Object["status"])
		}
		if made, ok, _ := unstructured.NestedString(was.Object, "metadata", "creationTimestamp"); ok {
			_ = unstructured.SetNestedField(is.Object, made, "metadata", "creationTimestamp")
		}
	case *v1.Node:
		if len(is.Status.Capacity) == 0 && len(is.Status.Allocatable) == 0 {
			is.Status = *old.(*v1.Node).Status.DeepCopy()
		}
		register(is)
	case *v1.Pod:
		was, phase := old.(*v1.Pod), is.Status.Phase
		is.Status = *was.Status.DeepCopy()
		if phase == v1.PodSucceeded || phase == v1.PodFailed { // it has finished meanwhile
			is.Status.Phase = phase
		}
		if was.Spec.NodeName != "" {
			is.Spec.NodeName = was.Spec.NodeName
		} else if is.Spec.NodeName != "" {
			c.run(is, c.now())
		}
	}
}

// register adds what every kubelet says of its node.
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

// namespace makes a namespace that is only named.
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

// prioritizeGroup does what the admission plugin Priority does to a PodGroup or CompositePodGroup that names a class, if the class is known.
func (c *cluster) prioritizeGroup(u *unstructured.Unstructured) {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "priorityClassName")
	if _, known, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "priority"); name == "" || known {
		return
	}
	if class, err := c.class(name); err == nil && class != nil {
		_ = unstructured.SetNestedField(u.Object, int64(class.Value), "spec", "priority")
	}
}

// prioritize does what the admission plugin Priority does.
func (c *cluster) prioritize(pod *v1.Pod) error {
	class, err := c.class(pod.Spec.PriorityClassName)
	if err != nil && pod.Spec.Priority == nil {
		return err
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

// class returns a PriorityClass by name; without a name the global default, nil if
// there is none.
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
	if kind := priorityClasses.GroupResource().String(); c.missed(kind) {
		return nil, fmt.Errorf("the value of PriorityClass %s is not known: %s may not be listed with your permissions", name, kind)
	}
	return nil, errors.New("no PriorityClass with name " + name + " was found")
}
