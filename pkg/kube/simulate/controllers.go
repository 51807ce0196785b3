package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/muster-scheduler/muster/pkg/kube/workload"
)

// The controllers of workloads act only when a workload is applied. They create its pods, delete unwanted pods, and delete all pods
// with the workload. They recreate an evicted pod only when its workload is applied again. A new template affects only new pods.
//
// A workload with a UID comes from a cluster, where its controller has already made its pods.

// identity names an object of any kind.
type identity struct {
	resource schema.GroupVersionResource
	key      key
}

// identify returns the identity and the metadata of an object.
func identify(o object) (identity, metav1.Object, error) {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return identity{}, nil, err
	}
	return identity{o.kind.resource, key{m.GetNamespace(), m.GetName()}}, m, nil
}

// ownedObjects are the objects that were made for one workload.
type ownedObjects struct {
	uids    map[string]types.UID // the UIDs given so far, by kind and name
	objects []identity
}

// heldObject is an object that is created when its predecessors run.
type heldObject struct {
	object
	id            identity
	predecessors  []string // names of pods
	followedLabel string   // the pod must run on nodes with the first predecessor's value of this label; "" for none
}

// checkWorkload returns an error for a workload of which no valid pods can be made. It adds to s.podNotes why a workload has no pods.
func (s *Set) checkWorkload(o object) error {
	_, m, err := identify(o)
	if err != nil || m.GetUID() != "" || m.GetDeletionTimestamp() != nil {
		return err
	}
	out, err := workload.Expand(o.Object, workload.EmptyAPI)
	for _, n := range out.Notes {
		s.podNotes = append(s.podNotes, o.at.String()+": "+n)
	}
	return cmp.Or(err, checkPods(out.Objects))
}

// unlistedPodNotes returns notes on workloads of a cluster without their pods, and on objects of which no pods can be created here.
func (s *Set) unlistedPodNotes() (notes []string) {
	owners, named := map[types.UID]bool{}, map[string]bool{}
	for _, o := range s.objects {
		_, m, err := identify(o)
		if err != nil {
			continue
		}
		for _, ref := range m.GetOwnerReferences() {
			owners[ref.UID] = true
			named[ref.Kind+" "+m.GetNamespace()+"/"+ref.Name] = true
		}
		if pod, ok := o.Object.(*v1.Pod); ok {
			named[workload.Above(pod)] = true
		}
	}
	for _, o := range s.objects {
		_, m, err := identify(o)
		if err != nil {
			continue
		}
		workloadName := o.GetObjectKind().GroupVersionKind().Kind + " " + m.GetNamespace() + "/" + m.GetName()
		if m.GetUID() == "" && !o.kind.workload && onlyMetadata(o.kind) && !named[workloadName] {
			notes = append(notes,
				fmt.Sprintf("%s: %s: no pods are made of it; give the PodGroup and the pods that its controller makes", o.at, workloadName))
		}
		if !o.kind.workload || m.GetUID() == "" || owners[m.GetUID()] || named[workloadName] || m.GetDeletionTimestamp() != nil {
			continue
		}
		if out, err := workload.Expand(o.Object, workload.EmptyAPI); err == nil && slices.ContainsFunc(out.Objects, isPod) {
			notes = append(notes,
				fmt.Sprintf("%s: %s %s/%s: no pods are made, since it has a metadata.uid: they are in the cluster "+
					"that it comes from, and none of them is in the files",
					o.at, o.kind.resource.Resource, m.GetNamespace(), m.GetName()))
		}
	}
	return notes
}

func isPod(o workload.Object) bool {
	_, ok := o.Object.(*v1.Pod)
	return ok
}

// expandWorkloads returns objects, with each workload followed by the objects that its controller creates or deletes.
func (c *cluster) expandWorkloads(objects []object) (all []object, err error) {
	listed, last := map[identity]types.UID{}, map[identity]int{}
	for i, o := range objects {
		id, m, err := identify(o)
		if err != nil {
			return nil, &InputError{o.at, err}
		}
		listed[id] = cmp.Or(m.GetUID(), listed[id])
		if expands(o, m) {
			last[id] = i
		}
	}
	for i, o := range objects {
		if id, m, err := identify(o); err == nil && expands(o, m) && last[id] != i {
			continue // the workload is written once more, and its pods are made of the last version
		}
		all = append(all, o)
		if !o.kind.workload {
			continue
		}
		more, err := c.applyWorkload(o, objects, listed)
		if err != nil {
			return nil, &InputError{o.at, err}
		}
		all = append(all, more...)
	}
	return all, nil
}

// expands says whether this package makes pods of the object: a workload without a UID that is not being deleted.
func expands(o object, m metav1.Object) bool {
	return o.kind.workload && m.GetUID() == "" && m.GetDeletionTimestamp() == nil
}

// applyWorkload returns the objects that the controller of workload o creates, and the ones that it deletes with a deletion timestamp.
// listed are the UIDs of the objects that are applied together with o.
func (c *cluster) applyWorkload(o object, objects []object, listed map[identity]types.UID) ([]object, error) {
	id, m, err := identify(o)
	if err != nil {
		return nil, err
	}
	own := c.ownedBy[id]
	if m.GetDeletionTimestamp() != nil {
		delete(c.ownedBy, id)
		return c.markDeleted(o, append(own.list(), c.dependents(id)...))
	}
	if m.GetUID() != "" {
		return nil, nil
	}
	if own == nil {
		own = &ownedObjects{uids: map[string]types.UID{}}
	}
	if err := c.assignUID(o, id, m, own, listed[id]); err != nil {
		return nil, err
	}
	out, err := workload.Expand(o.Object, workload.API{
		UID:      func(kind, name string) types.UID { return c.ownedUID(own, id.key.namespace, kind, name) },
		Priority: func(class string) int32 { return c.priorityValue(class, objects) },
	})
	if err != nil {
		return nil, err
	}
	c.ownedBy[id] = own
	return c.reconcileOwned(o, own, out.Objects, listed)
}

// assignUID sets the UID of workload o: that in the cluster, or that in the files (listed), or a new one.
func (c *cluster) assignUID(o object, id identity, m metav1.Object, own *ownedObjects, listed types.UID) error {
	if stored, err := c.get(id.resource, id.key); err == nil {
		old, err := meta.Accessor(stored)
		if err != nil {
			return err
		}
		listed = old.GetUID()
	}
	if listed == "" {
		m.SetUID(c.newUID())
		return nil
	}
	if own.objects == nil && !ordinalNames(o) {
		return fmt.Errorf("%s %s is there with pods from another cluster: their names have random letters, so "+
			"the pods that a change creates or deletes are not known",
			id.resource.GroupResource(), m.GetName())
	}
	m.SetUID(listed)
	return nil
}

// ordinalNames reports whether the names of a workload's pods are predictable.
func ordinalNames(o object) bool {
	r := o.kind.resource.Resource
	return r == "statefulsets" || r == "leaderworkersets"
}

// list returns the objects; nil for a nil own.
func (own *ownedObjects) list() []identity {
	if own == nil {
		return nil
	}
	return own.objects
}

// kindOf returns the kind of an object of Kubernetes' own API. It panics for any other object.
func kindOf(o runtime.Object) *kind {
	gvks, _, err := legacyscheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err) // package workload makes known kinds only
	}
	return kinds()[gvks[0].GroupKind()]
}

// reconcileOwned returns the objects of want that do not exist yet, and the unwanted objects of own with a deletion timestamp. It adds
// an object that waits for pods to c.held instead. own then lists the objects of want.
func (c *cluster) reconcileOwned(
	o object, own *ownedObjects, want []workload.Object, listed map[identity]types.UID,
) (more []object, err error) {
	previous := map[identity]bool{}
	for _, id := range own.objects {
		previous[id] = true
	}
	made := []identity{} // not nil: the workload has been applied
	for _, w := range want {
		one := object{w.Object, kindOf(w.Object), o.at}
		id, _, err := identify(one)
		if err != nil {
			return nil, err
		}
		_, missing := c.get(id.resource, id.key)
		_, inFiles := listed[id]
		waits := slices.ContainsFunc(c.held, func(h heldObject) bool { return h.id == id })
		switch {
		case inFiles || missing == nil && !previous[id]:
			continue // belongs to another owner
		case missing == nil || waits:
		case len(w.After) > 0:
			c.held = append(c.held, heldObject{one, id, w.After, w.Near})
		default:
			more = append(more, one)
		}
		made = append(made, id)
		delete(previous, id)
	}
	var unwanted []identity
	for _, id := range own.objects {
		if previous[id] {
			unwanted = append(unwanted, id)
		}
	}
	own.objects = made
	deletions, err := c.markDeleted(o, unwanted)
	return append(more, deletions...), err
}

// markDeleted returns copies of the objects with a deletion timestamp, except volume claims. It removes held objects from c.held.
func (c *cluster) markDeleted(o object, ids []identity) (deletions []object, err error) {
	done := map[identity]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		c.held = slices.DeleteFunc(c.held, func(h heldObject) bool { return h.id == id })
		obj, err := c.get(id.resource, id.key)
		if err != nil || id.resource == claims {
			continue
		}
		obj = obj.DeepCopyObject()
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		m.SetDeletionTimestamp(&metav1.Time{Time: c.now()})
		deletions = append(deletions, object{obj, kindOf(obj), o.at})
	}
	return deletions, nil
}

// dependents lists the pods and workloads that object id owns, and what these own, recursively.
func (c *cluster) dependents(id identity) (all []identity) {
	o, err := c.get(id.resource, id.key)
	if err != nil {
		return nil
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return nil
	}
	inOrder := slices.SortedFunc(maps.Values(kinds()), func(a, b *kind) int { return cmp.Compare(a.order, b.order) })
	for _, k := range inOrder {
		if !k.workload && k.resource != pods {
			continue
		}
		objects, _ := c.list(k.resource, id.key.namespace, nil)
		for _, o := range objects {
			dependent, _, err := identify(object{Object: o, kind: k})
			if err == nil && isOwner(m.GetUID(), o) {
				all = append(append(all, dependent), c.dependents(dependent)...)
			}
		}
	}
	return all
}

// isOwner says whether the object with this UID owns obj.
func isOwner(uid types.UID, obj runtime.Object) bool {
	m, err := meta.Accessor(obj)
	return err == nil && slices.ContainsFunc(m.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// ownedUID returns the UID of an object made of a workload: the one given before, or a new one if a pod was deleted.
func (c *cluster) ownedUID(own *ownedObjects, namespace, kind, name string) types.UID {
	k := kind + "/" + name
	if uid, ok := own.uids[k]; ok {
		if _, err := c.get(pods, key{namespace, name}); kind != "Pod" || err == nil {
			return uid
		}
	}
	own.uids[k] = c.newUID()
	return own.uids[k]
}

// priorityValue returns the value of a PriorityClass in objects or in the cluster; 0 if it is unknown. name "" is the default class.
func (c *cluster) priorityValue(name string, objects []object) int32 {
	for _, o := range objects {
		if class, ok := o.Object.(*schedulingv1.PriorityClass); ok && (class.Name == name || name == "" && class.GlobalDefault) {
			return class.Value
		}
	}
	if class, err := c.class(name); err == nil && class != nil {
		return class.Value
	}
	return 0
}

// releaseHeld removes from c.held the objects whose predecessors now run, and returns them.
func (c *cluster) releaseHeld() (released []object) {
	var stillHeld []heldObject
	for _, h := range c.held {
		value, why := c.waitsFor(h)
		if why != "" {
			stillHeld = append(stillHeld, h)
			continue
		}
		if h.followedLabel != "" {
			pod := h.Object.(*v1.Pod)
			if pod.Spec.NodeSelector == nil {
				pod.Spec.NodeSelector = map[string]string{}
			}
			pod.Spec.NodeSelector[h.followedLabel] = value
		}
		released = append(released, h.object)
	}
	c.held = stillHeld
	c.setCreationTimes(released)
	return released
}

// waitsFor returns in why what a held object waits for; "" if nothing. Then value is that of followedLabel on the predecessor's node.
func (c *cluster) waitsFor(h heldObject) (value, why string) {
	for _, name := range slices.Backward(h.predecessors) { // the last predecessor is most likely to be missing
		if c.running(key{h.id.key.namespace, name}) == nil {
			return "", "pod " + name
		}
	}
	if h.followedLabel == "" {
		return "", ""
	}
	name := c.running(key{h.id.key.namespace, h.predecessors[0]}).Spec.NodeName
	node, err := c.get(nodes, key{name: name})
	if err != nil {
		return "", "node " + name
	}
	value, ok := node.(*v1.Node).Labels[h.followedLabel]
	if !ok {
		return "", "label " + h.followedLabel + " of node " + name
	}
	return value, ""
}

// running returns the pod k if it runs or has succeeded; else nil.
func (c *cluster) running(k key) *v1.Pod {
	o, err := c.get(pods, k)
	if err != nil {
		return nil
	}
	pod := o.(*v1.Pod)
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodRunning && pod.Status.Phase != v1.PodSucceeded {
		return nil
	}
	return pod
}
