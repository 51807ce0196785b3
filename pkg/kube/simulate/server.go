package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// server stores the objects of the simulated cluster. It delivers changes only in deliverNext: in order, to one watcher at a time.
//
// Invariant: a stored object never changes, it is only replaced. So readers and watchers may share it.
//
// client-go's object tracker does not fit. It loses the order in which objects were created: equal input would not produce equal output.
// It also panics when a watcher is 100 events behind.
type server struct {
	mu      sync.Mutex
	version int64
	tables  map[schema.GroupVersionResource]*table
	watches int // number of watches so far
}

// table has the objects of one resource.
type table struct {
	rows         map[key]*row
	watchers     map[*watcher]struct{}
	lastDeletion int64 // version of the last deletion
}

type key struct{ namespace, name string }

// row is a stored object.
type row struct {
	object  runtime.Object
	version int64 // the server's version when the object was created: the order of lists
}

func newServer() *server {
	return &server{tables: map[schema.GroupVersionResource]*table{}}
}

// deliverNext delivers all pending changes to one watcher. It returns false if no watcher has any.
func (s *server) deliverNext() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *watcher
	for _, t := range s.tables {
		for w := range t.watchers {
			if len(w.undelivered) > 0 && (first == nil || w.less(first)) {
				first = w
			}
		}
	}
	if first == nil {
		return false
	}
	for _, e := range first.undelivered {
		first.deliver(e)
	}
	first.undelivered = nil
	return true
}

// table returns a resource's table, a new one if there is none. s.mu is held.
func (s *server) table(gvr schema.GroupVersionResource) *table {
	t := s.tables[gvr]
	if t == nil {
		t = &table{rows: map[key]*row{}, watchers: map[*watcher]struct{}{}}
		s.tables[gvr] = t
	}
	return t
}

// hasObjects reports whether there are objects of a resource.
func (s *server) hasObjects(gvr schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.table(gvr).rows) > 0
}

// changes returns the number of changes so far.
func (s *server) changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// get returns an object, which must not be changed.
func (s *server) get(gvr schema.GroupVersionResource, k key) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.table(gvr).rows[k]; r != nil {
		return r.object, nil
	}
	return nil, apierrors.NewNotFound(gvr.GroupResource(), k.name)
}

// list returns objects in the order of creation, and the current version. The objects must not be changed.
func (s *server) list(gvr schema.GroupVersionResource, namespace string, selector fields.Selector) ([]runtime.Object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table(gvr).list(namespace, selector), s.version
}

// list returns the selected objects in the order of creation; namespace "" is all.
func (t *table) list(namespace string, selector fields.Selector) []runtime.Object {
	var rows []*row
	for k, r := range t.rows {
		if (namespace == "" || k.namespace == namespace) && matches(r.object, selector) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.version, b.version) })
	out := make([]runtime.Object, len(rows))
	for i, r := range rows {
		out[i] = r.object
	}
	return out
}

// change stores the result of edit in place of object k, and queues the change for watchers. edit gets the stored object, nil if there
// is none; its result nil deletes the object, and the same object means no change. edit must not change its argument. The result
// belongs to the server.
func (s *server) change(gvr schema.GroupVersionResource, k key, edit editFunc) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvr)
	r := t.rows[k]
	var old runtime.Object
	if r != nil {
		old = r.object
	}
	changed, err := edit(old)
	if err != nil || changed == old {
		return changed, err
	}
	s.version++
	switch {
	case changed == nil:
		delete(t.rows, k)
		t.lastDeletion = s.version
	case r == nil:
		t.rows[k] = &row{object: changed, version: s.version}
	default:
		r.object = changed
	}
	if changed != nil {
		m, err := meta.Accessor(changed)
		if err != nil {
			return nil, err
		}
		m.SetResourceVersion(strconv.FormatInt(s.version, 10))
	}
	for w := range t.watchers {
		w.addEvent(old, changed)
	}
	return changed, nil
}

// watch returns a watch of every change after version since, which list returned. A change between since and this call is delivered as
// an addition, which informers treat as an update.
func (s *server) watch(gvr schema.GroupVersionResource, namespace string, selector fields.Selector, since string) (watch.Interface, error) {
	from, err := strconv.ParseInt(cmp.Or(since, "0"), 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q", since))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvr)
	s.watches++
	w := &watcher{
		name: fmt.Sprint(gvr, namespace, selector), number: s.watches,
		namespace: namespace, selector: selector, events: make(chan watch.Event, 1024), done: make(chan struct{}),
		unregister: func(w *watcher) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(t.watchers, w)
		},
	}
	t.watchers[w] = struct{}{}
	var missed []watch.Event
	for _, o := range t.list(namespace, selector) {
		if m, err := meta.Accessor(o); err == nil {
			if v, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64); err == nil && v > from {
				missed = append(missed, watch.Event{Type: watch.Added, Object: o})
			}
		}
	}
	if len(missed) > cap(w.events) || t.lastDeletion > from {
		delete(t.watchers, w)
		return nil, apierrors.NewResourceExpired("the watch began too late")
	}
	for _, e := range missed {
		w.events <- e
	}
	return w, nil
}

// watcher is one watch.
type watcher struct {
	name        string // the resource, namespace and selector
	number      int    // the order of creation, which is random when a scheduler starts
	undelivered []watch.Event
	namespace   string
	selector    fields.Selector
	events      chan watch.Event
	done        chan struct{}
	once        sync.Once
	unregister  func(*watcher)
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.done)
		go w.unregister(w) // a change may be waiting for this watcher with the server locked
	})
}

// less orders the watchers for delivery.
func (w *watcher) less(other *watcher) bool {
	return cmp.Or(cmp.Compare(w.name, other.name), cmp.Compare(w.number, other.number)) < 0
}

// addEvent queues a change from old to current if the watch selects one of them. An object that it selects no longer is a deletion.
func (w *watcher) addEvent(old, current runtime.Object) {
	selectedBefore, selectedNow := w.selects(old), w.selects(current)
	e := watch.Event{Object: current}
	switch {
	case selectedBefore && selectedNow:
		e.Type = watch.Modified
	case selectedNow:
		e.Type = watch.Added
	case selectedBefore:
		e.Type, e.Object = watch.Deleted, old
		if current != nil {
			e.Object = current
		}
	default:
		return
	}
	w.undelivered = append(w.undelivered, e)
}

// deliver sends an event, or returns when the watch is stopped.
func (w *watcher) deliver(e watch.Event) {
	select {
	case w.events <- e:
	case <-w.done:
	}
}

// selects says whether the watch covers o; false for nil.
func (w *watcher) selects(o runtime.Object) bool {
	if o == nil {
		return false
	}
	m, err := meta.Accessor(o)
	return err == nil && (w.namespace == "" || m.GetNamespace() == w.namespace) && matches(o, w.selector)
}

// matches says whether a field selector selects o. It supports a pod's fields as the API server does; of other kinds only the name.
func matches(o runtime.Object, selector fields.Selector) bool {
	if selector == nil || selector.Empty() {
		return true
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return false
	}
	pod, _ := o.(*v1.Pod)
	return selector.Matches(selectableFields{m, pod})
}

// selectableFields are the fields of an object that selectors can use; pod is nil for other kinds.
type selectableFields struct {
	metav1.Object
	pod *v1.Pod
}

// Has implements fields.Fields.
func (s selectableFields) Has(field string) bool {
	_, ok := s.field(field)
	return ok
}

// Get implements fields.Fields.
func (s selectableFields) Get(field string) string {
	value, _ := s.field(field)
	return value
}

// field returns the value of a field; false if selectors cannot use the field.
func (s selectableFields) field(name string) (value string, ok bool) {
	switch name {
	case metav1.ObjectNameField:
		return s.GetName(), true
	case "metadata.namespace":
		return s.GetNamespace(), true
	}
	if s.pod == nil {
		return "", false
	}
	switch name {
	case "spec.nodeName":
		return s.pod.Spec.NodeName, true
	case "spec.schedulerName":
		return s.pod.Spec.SchedulerName, true
	case "status.phase":
		return string(s.pod.Status.Phase), true
	case "status.nominatedNodeName":
		return s.pod.Status.NominatedNodeName, true
	}
	return "", false
}
