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

	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/workload"
)

// The controllers of workloads, as far as somebody sees them who applies files: what they make
// of a workload comes with it, what it does not want any more goes, and with the workload goes
// all. They do nothing between two files: an evicted pod is not made anew before its workload is
// applied again, and a template that has changed is that of the pods that are made from then on.
//
// A workload with a UID comes from a cluster, where its controller has made its pods.

// identity names an object of any kind.
type identity struct {
	resource schema.GroupVersionResource
	key      key
}

func identify(o object) (identity, metav1.Object, error) {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return identity{}, nil, err
	}
	return identity{o.kind.resource, key{m.GetNamespace(), m.GetName()}}, m, nil
}

// owned is what was made of one workload.
type owned struct {
	uids map[string]types.UID // by kind and name
	made []identity
}

// held is an object that waits for pods.
type held struct {
	object
	id    identity
	after []string
	near  string
}

// promise refuses a workload that nobody could make pods of, and notes why one has none.
func (s *Set) promise(o object) error {
	_, m, err := identify(o)
	if err != nil || m.GetUID() != "" || m.GetDeletionTimestamp() != nil {
		return err
	}
	out, err := workload.Expand(o.Object, workload.Nobody)
	for _, n := range out.Notes {
		s.podless = append(s.podless, o.at.String()+": "+n)
	}
	return err
}

// unlisted notes the workloads from a cluster of which the files hold no pod, and those of which nobody here knows
// which pods they have.
func (s *Set) unlisted() (notes []string) {
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
		is := o.GetObjectKind().GroupVersionKind().Kind + " " + m.GetNamespace() + "/" + m.GetName()
		if m.GetUID() == "" && makesPods(o) && !named[is] {
			notes = append(notes, fmt.Sprintf("%s: %s: no pods are made of it; give the PodGroup and the pods that its controller makes", o.at, is))
		}
		if !o.kind.workload || m.GetUID() == "" || owners[m.GetUID()] || named[is] || m.GetDeletionTimestamp() != nil {
			continue
		}
		if out, err := workload.Expand(o.Object, workload.Nobody); err == nil && slices.ContainsFunc(out.Objects, isPod) {
			notes = append(notes, fmt.Sprintf("%s: %s %s/%s: no pods are made, since it has a metadata.uid: they are in the cluster that it comes from, and none of them is in the files",
				o.at, o.kind.resource.Resource, m.GetNamespace(), m.GetName()))
		}
	}
	return notes
}

// makesPods says whether an object is of another project, whose controller makes pods of it that nobody here knows.
func makesPods(o object) bool {
	return !o.kind.workload && slices.ContainsFunc(source.Owners, func(of *source.Owner) bool { return of.Resource == o.kind.resource && of.Read == nil })
}

func isPod(o workload.Object) bool {
	_, ok := o.Object.(*v1.Pod)
	return ok
}

// control adds to the objects of a set what controllers make of them, and what they delete.
func (c *cluster) control(objects []object) (all []object, err error) {
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
			continue // it is written once more, and pods are made of that
		}
		all = append(all, o)
		if !o.kind.workload {
			continue
		}
		more, err := c.follow(o, objects, listed)
		if err != nil {
			return nil, &InputError{o.at, err}
		}
		all = append(all, more...)
	}
	return all, nil
}

// expands says whether an object is a workload of which pods are made here.
func expands(o object, m metav1.Object) bool {
	return o.kind.workload && m.GetUID() == "" && m.GetDeletionTimestamp() == nil
}

// follow does what the controller of one workload does when somebody applies it.
func (c *cluster) follow(o object, objects []object, listed map[identity]types.UID) ([]object, error) {
	id, m, err := identify(o)
	if err != nil {
		return nil, err
	}
	own := c.owned[id]
	if m.GetDeletionTimestamp() != nil {
		delete(c.owned, id)
		return c.remove(o, append(own.all(), c.garbage(id)...))
	}
	if m.GetUID() != "" {
		return nil, nil
	}
	if own == nil {
		own = &owned{uids: map[string]types.UID{}}
	}
	if err := c.name(o, id, m, own, listed[id]); err != nil {
		return nil, err
	}
	out, err := workload.Expand(o.Object, workload.API{
		UID:      func(kind, name string) types.UID { return c.uid(own, id.key.namespace, kind, name) },
		Priority: func(class string) int32 { return c.value(class, objects) },
	})
	if err != nil {
		return nil, err
	}
	c.owned[id] = own
	return c.bring(o, own, out.Objects, listed)
}

// name gives a workload the UID that it has in the cluster, or in the files that say what is in a cluster, or its first.
func (c *cluster) name(o object, id identity, m metav1.Object, own *owned, listed types.UID) error {
	if was, err := c.get(id.resource, id.key); err == nil {
		old, err := meta.Accessor(was)
		if err != nil {
			return err
		}
		listed = old.GetUID()
	}
	if listed == "" {
		m.SetUID(c.newUID())
		return nil
	}
	if own.made == nil && !ordinal(o) {
		return fmt.Errorf("%s %s is there with pods from another cluster: their names have random letters, so the pods that a change creates or deletes are not known",
			id.resource.GroupResource(), m.GetName())
	}
	m.SetUID(listed)
	return nil
}

// ordinal says whether the names of a workload's pods are certain.
func ordinal(o object) bool {
	r := o.kind.resource.Resource
	return r == "statefulsets" || r == "leaderworkersets"
}

func (own *owned) all() []identity {
	if own == nil {
		return nil
	}
	return own.made
}

// kindOf is for what controllers make, all of it of Kubernetes' own kinds.
func kindOf(o runtime.Object) *kind {
	gvks, _, err := legacyscheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err) // package workload makes what nobody knows
	}
	return kinds()[gvks[0].GroupKind()]
}

// bring returns what is not there yet, and what is there and not wanted any more. What waits
// for pods is held back.
func (c *cluster) bring(o object, own *owned, want []workload.Object, listed map[identity]types.UID) (more []object, err error) {
	were := map[identity]bool{}
	for _, id := range own.made {
		were[id] = true
	}
	made := []identity{} // not nil: the workload has been here
	for _, w := range want {
		one := object{w.Object, kindOf(w.Object), o.at}
		id, _, err := identify(one)
		if err != nil {
			return nil, err
		}
		_, missing := c.get(id.resource, id.key)
		_, given := listed[id]
		waits := slices.ContainsFunc(c.held, func(h held) bool { return h.id == id })
		switch {
		case given || missing == nil && !were[id]:
			continue // somebody else's
		case missing == nil || waits:
		case len(w.After) > 0:
			c.held = append(c.held, held{one, id, w.After, w.Near})
		default:
			more = append(more, one)
		}
		made = append(made, id)
		delete(were, id)
	}
	var gone []identity
	for _, id := range own.made {
		if were[id] {
			gone = append(gone, id)
		}
	}
	own.made = made
	leave, err := c.remove(o, gone)
	return append(more, leave...), err
}

// remove returns objects as they are when they are deleted. Claims of volumes stay.
func (c *cluster) remove(o object, ids []identity) (leave []object, err error) {
	done := map[identity]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		c.held = slices.DeleteFunc(c.held, func(h held) bool { return h.id == id })
		is, err := c.get(id.resource, id.key)
		if err != nil || id.resource == claims {
			continue
		}
		is = is.DeepCopyObject()
		m, err := meta.Accessor(is)
		if err != nil {
			return nil, err
		}
		m.SetDeletionTimestamp(&metav1.Time{Time: c.now()})
		leave = append(leave, object{is, kindOf(is), o.at})
	}
	return leave, nil
}

// garbage lists what a workload of the cluster owns, and what that owns in turn.
func (c *cluster) garbage(id identity) (all []identity) {
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
		of, _ := c.list(k.resource, id.key.namespace, nil)
		for _, o := range of {
			owned, _, err := identify(object{Object: o, kind: k})
			if err == nil && isOwner(m.GetUID(), o) {
				all = append(append(all, owned), c.garbage(owned)...)
			}
		}
	}
	return all
}

func isOwner(uid types.UID, of runtime.Object) bool {
	m, err := meta.Accessor(of)
	return err == nil && slices.ContainsFunc(m.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// uid is that of an object which was made of a workload, or will be. A pod that has gone has
// a successor.
func (c *cluster) uid(own *owned, namespace, kind, name string) types.UID {
	k := kind + "/" + name
	if uid, ok := own.uids[k]; ok {
		if _, err := c.get(pods, key{namespace, name}); kind != "Pod" || err == nil {
			return uid
		}
	}
	own.uids[k] = c.newUID()
	return own.uids[k]
}

// value is a PriorityClass's, of the objects that come or of those that are there.
func (c *cluster) value(name string, objects []object) int32 {
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

// due returns the pods that have waited for others, which run now.
func (c *cluster) due() (come []object) {
	var still []held
	for _, h := range c.held {
		where, why := c.missing(h)
		if why != "" {
			still = append(still, h)
			continue
		}
		if h.near != "" {
			pod := h.Object.(*v1.Pod)
			if pod.Spec.NodeSelector == nil {
				pod.Spec.NodeSelector = map[string]string{}
			}
			pod.Spec.NodeSelector[h.near] = where
		}
		come = append(come, h.object)
	}
	c.held = still
	c.date(come)
	return come
}

// missing says what a pod that is held back waits for; "" if for nothing. Then where is the
// value of the label that it follows the first of the others to.
func (c *cluster) missing(h held) (where, why string) {
	for _, name := range slices.Backward(h.after) { // who comes last is most likely to miss
		if c.running(key{h.id.key.namespace, name}) == nil {
			return "", "pod " + name
		}
	}
	if h.near == "" {
		return "", ""
	}
	name := c.running(key{h.id.key.namespace, h.after[0]}).Spec.NodeName
	node, err := c.get(nodes, key{name: name})
	if err != nil {
		return "", "node " + name
	}
	where, ok := node.(*v1.Node).Labels[h.near]
	if !ok {
		return "", "label " + h.near + " of node " + name
	}
	return where, ""
}

// running returns a pod that runs, or has run; nil if it does not.
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
