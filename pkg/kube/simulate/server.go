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

// server holds the objects of the make-believe cluster and tells watchers of every
// change, in order, one watcher at a time and when it is told to. A stored object is never changed, only replaced, so that readers
// and watchers may share it.
//
// client-go's own object tracker would do, but it loses the order in which objects
// were made, which is what makes equal input give equal output, and it panics when a
// watcher falls 100 events behind.
type server struct {
	mu      sync.Mutex
	version int64
	tables  map[schema.GroupVersionResource]*table
	begun   int // watches
}

type table struct {
	rows     map[key]*row
	watchers map[*watcher]struct{}
	deleted  int64 // version of the last deletion
}

type key struct{ namespace, name string }

type row struct {
	object runtime.Object
	made   int64 // version at which the object was made: the order of lists
}

func newServer() *server {
	return &server{tables: map[schema.GroupVersionResource]*table{}}
}

// tell delivers to one watcher what has changed since it was last told, and says whether
// there was one to tell. Two of them would run side by side with it.
func (s *server) tell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *watcher
	for _, t := range s.tables {
		for w := range t.watchers {
			if len(w.untold) > 0 && (first == nil || w.before(first)) {
				first = w
			}
		}
	}
	if first == nil {
		return false
	}
	for _, e := range first.untold {
		first.deliver(e)
	}
	first.untold = nil
	return true
}

// table returns a resource's table. s.mu is held.
func (s *server) table(gvr schema.GroupVersionResource) *table {
	t := s.tables[gvr]
	if t == nil {
		t = &table{rows: map[key]*row{}, watchers: map[*watcher]struct{}{}}
		s.tables[gvr] = t
	}
	return t
}

// any says whether there are objects of a resource.
func (s *server) any(gvr schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.table(gvr).rows) > 0
}

// changes counts every change so far.
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

// list returns objects in the order in which they were made, and the version at which
// that is so. The objects must not be changed.
func (s *server) list(gvr schema.GroupVersionResource, namespace string, where fields.Selector) ([]runtime.Object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table(gvr).list(namespace, where), s.version
}

func (t *table) list(namespace string, where fields.Selector) []runtime.Object {
	var rows []*row
	for k, r := range t.rows {
		if (namespace == "" || k.namespace == namespace) && matches(r.object, where) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.made, b.made) })
	out := make([]runtime.Object, len(rows))
	for i, r := range rows {
		out[i] = r.object
	}
	return out
}

// change replaces an object by what edit makes of it and tells watchers; nil stands
// for no object, before and after. What edit is given must not be changed; what it
// returns belongs to the server. Returning the same object changes nothing.
func (s *server) change(gvr schema.GroupVersionResource, k key, edit func(old runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvr)
	r := t.rows[k]
	var old runtime.Object
	if r != nil {
		old = r.object
	}
	is, err := edit(old)
	if err != nil || is == old {
		return is, err
	}
	s.version++
	switch {
	case is == nil:
		delete(t.rows, k)
		t.deleted = s.version
	case r == nil:
		t.rows[k] = &row{object: is, made: s.version}
	default:
		r.object = is
	}
	if is != nil {
		m, err := meta.Accessor(is)
		if err != nil {
			return nil, err
		}
		m.SetResourceVersion(strconv.FormatInt(s.version, 10))
	}
	for w := range t.watchers {
		w.note(old, is)
	}
	return is, nil
}

// watch delivers every change after a version that list returned. What was changed
// before the watch began is delivered as an addition, which informers take for an
// update.
func (s *server) watch(gvr schema.GroupVersionResource, namespace string, where fields.Selector, since string) (watch.Interface, error) {
	from, err := strconv.ParseInt(cmp.Or(since, "0"), 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q", since))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(gvr)
	s.begun++
	w := &watcher{
		name: fmt.Sprint(gvr, namespace, where), number: s.begun,
		namespace: namespace, where: where, events: make(chan watch.Event, 1024), done: make(chan struct{}),
		leave: func(w *watcher) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(t.watchers, w)
		},
	}
	t.watchers[w] = struct{}{}
	var late []watch.Event
	for _, o := range t.list(namespace, where) {
		if m, err := meta.Accessor(o); err == nil {
			if v, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64); err == nil && v > from {
				late = append(late, watch.Event{Type: watch.Added, Object: o})
			}
		}
	}
	if len(late) > cap(w.events) || t.deleted > from {
		delete(t.watchers, w)
		return nil, apierrors.NewResourceExpired("the watch began too late")
	}
	for _, e := range late {
		w.events <- e
	}
	return w, nil
}

// watcher is one watch.
type watcher struct {
	name      string // what it watches
	number    int    // by age, which is left to chance when a scheduler begins
	untold    []watch.Event
	namespace string
	where     fields.Selector
	events    chan watch.Event
	done      chan struct{}
	once      sync.Once
	leave     func(*watcher)
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.done)
		go w.leave(w) // a change may be waiting for this watcher with the server locked
	})
}

// before is the order in which watchers are told.
func (w *watcher) before(other *watcher) bool {
	return cmp.Or(cmp.Compare(w.name, other.name), cmp.Compare(w.number, other.number)) < 0
}

// note keeps a change if the watch is about the object. An object that begins or ceases
// to match is made or deleted to those who watch.
func (w *watcher) note(old, is runtime.Object) {
	was, now := w.about(old), w.about(is)
	e := watch.Event{Object: is}
	switch {
	case was && now:
		e.Type = watch.Modified
	case now:
		e.Type = watch.Added
	case was:
		e.Type, e.Object = watch.Deleted, old
		if is != nil {
			e.Object = is
		}
	default:
		return
	}
	w.untold = append(w.untold, e)
}

func (w *watcher) deliver(e watch.Event) {
	select {
	case w.events <- e:
	case <-w.done:
	}
}

func (w *watcher) about(o runtime.Object) bool {
	if o == nil {
		return false
	}
	m, err := meta.Accessor(o)
	return err == nil && (w.namespace == "" || m.GetNamespace() == w.namespace) && matches(o, w.where)
}

// matches evaluates a field selector as the API server does for pods; other resources
// are selected by name only.
func matches(o runtime.Object, where fields.Selector) bool {
	if where == nil || where.Empty() {
		return true
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return false
	}
	pod, _ := o.(*v1.Pod)
	return where.Matches(selected{m, pod})
}

// selected is an object as field selectors see it; pod is nil of other kinds.
type selected struct {
	metav1.Object
	pod *v1.Pod
}

// Has implements fields.Fields.
func (s selected) Has(field string) bool {
	_, ok := s.field(field)
	return ok
}

// Get implements fields.Fields.
func (s selected) Get(field string) string {
	value, _ := s.field(field)
	return value
}

func (s selected) field(name string) (value string, ok bool) {
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
