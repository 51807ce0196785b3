package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Source is from where the cache reads objects.
type Source struct {
	Core     informers.SharedInformerFactory
	Finished toolscache.SharedIndexInformer // pods that succeeded or failed; nil leaves finished members out
	Dynamic  dynamic.Interface
	// Served returns whether the API server serves a custom resource now. The error is ErrNoPermission if it may not be read.
	Served func(schema.GroupVersionResource) (bool, error)
	// Later says that the API server may serve further resources at any time.
	Later bool
}

// ErrNoPermission says that a resource may not be read.
var ErrNoPermission = errors.New("permission is missing")

// customResource is a custom resource to watch, and its handlers.
type customResource struct {
	gvr       schema.GroupVersionResource
	versions  []schema.GroupVersionResource // other versions, one of which is read if this one is not served
	optional  bool
	ownerKind string // the kind of its objects; "" if they own no gangs
	lazy      bool   // watched only if gangs name such owners
	limits    bool   // it declares no gangs, but limits all of them, as quotas do
	trim      func(*unstructured.Unstructured)
	set, drop func(*unstructured.Unstructured)
}

// customResources returns all custom resources to watch: the topology, the objects of all integrations, and ExtraResources.
func (c *Cache) customResources(ctx context.Context) []customResource {
	set, drop := c.topologyHandlers(ctx)
	all := []customResource{{gvr: koordinator.ClusterNetworkTopologies, set: set, drop: drop}}
	for i := range source.All {
		s := &source.All[i]
		if s.Object != nil {
			set, drop := c.objectHandlers(ctx, s)
			all = append(all, customResource{
				gvr: s.Object.Resource, versions: s.Object.Versions()[1:], optional: s.Object.Optional, set: set, drop: drop,
			})
		}
	}
	for _, o := range source.Owners {
		set, drop := c.ownerHandlers(ctx, o)
		all = append(all, customResource{gvr: o.Resource, optional: true, ownerKind: o.Kind, lazy: o.Lazy, trim: o.Trim, set: set, drop: drop})
	}
	for _, b := range c.ExtraResources {
		all = append(all, customResource{gvr: b.Resource, optional: true, limits: true, set: b.Set, drop: b.Drop})
	}
	return all
}

const (
	pollEvery     = 100 * time.Millisecond
	discoverEvery = 5 * time.Second
	lookAgain     = 500 * time.Millisecond // for resources that gangs wait for
	complainEvery = 20 * time.Second
	startWithout  = time.Minute // for the first lists of other APIs
)

// Start registers handlers with the shared informers, which the scheduler starts, and returns at once. In the background it runs informers
// for the custom resources that are served, even if they are installed later. The cache opens after all objects were listed once; the log
// says what is missing.
func (c *Cache) Start(ctx context.Context, src Source) error {
	pods, err := src.Core.Core().V1().Pods().Informer().AddEventHandler(c.podHandler())
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	nodes, err := src.Core.Core().V1().Nodes().Informer().AddEventHandler(
		Handler(c.setNode, func(n *v1.Node) { c.dropNode(n.Name) }))
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	if _, err := src.Core.Core().V1().Namespaces().Informer().AddEventHandler(c.namespaceHandler()); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	c.mu.Lock()
	c.laterServed = src.Later
	c.mu.Unlock()
	w := &watcher{
		cache: c, src: src, customs: c.customResources(ctx), started: map[schema.GroupVersionResource]bool{},
		synced: map[string]func() bool{"pods": pods.HasSynced, "nodes": nodes.HasSynced},
	}
	if src.Finished != nil {
		done, err := src.Finished.AddEventHandler(Handler(c.setFinished, c.dropFinished))
		if err != nil {
			return fmt.Errorf("watching finished pods: %w", err)
		}
		w.synced["finished pods"] = done.HasSynced
		go src.Finished.RunWithContext(ctx)
	}
	go w.run(ctx)
	go c.tick(ctx)
	return nil
}

// Handler returns an event handler that calls set for each added or updated object, and drop for each deleted one.
func Handler[T any](set, drop func(T)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(T)) },
		UpdateFunc: func(_, o any) { set(o.(T)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if t, ok := o.(T); ok {
				drop(t)
			}
		},
	}
}

// podHandler returns the event handler for pods. It also detects bindings by another scheduler.
func (c *Cache) podHandler() toolscache.ResourceEventHandler {
	handlers := Handler(c.setPod, c.dropPod)
	set := handlers.UpdateFunc
	handlers.UpdateFunc = func(old, current any) {
		c.podUpdated(old.(*v1.Pod), current.(*v1.Pod))
		set(old, current)
	}
	return handlers
}

// namespaceHandler returns an event handler that reports new namespaces and changes of namespace labels.
func (c *Cache) namespaceHandler() toolscache.ResourceEventHandler {
	changed := func() { c.Do([]gang.Effect{{Verb: NamespaceChanged}}) }
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, now any) {
			old, _ := before.(*v1.Namespace)
			if current, ok := now.(*v1.Namespace); ok && (old == nil || !maps.Equal(old.Labels, current.Labels)) {
				changed()
			}
		},
	}
}

// watcher starts an informer for each custom resource as soon as it is served, and waits for the first lists.
type watcher struct {
	cache      *Cache
	src        Source
	synced     map[string]func() bool // by resource name, whether the first list is complete
	customs    []customResource
	started    map[schema.GroupVersionResource]bool
	starting   map[schema.GroupVersionResource]startedInformer // started informers whose first list is missing
	looked     map[string]bool                                 // kinds of owners for which discovery has searched
	complaints map[string]time.Time
}

// startedInformer is a running informer.
type startedInformer struct {
	gvr    schema.GroupVersionResource // the version that is read
	synced func() bool
	stop   context.CancelFunc
}

func (w *watcher) run(ctx context.Context) {
	poll := w.cache.Clock.NewTicker(pollEvery)
	defer poll.Stop()
	began := w.cache.Clock.Now()
	var discovered time.Time
	for first := true; ; first = false {
		now := w.cache.Clock.Now()
		if first || now.Sub(discovered) >= discoverEvery || w.mustDiscover(now.Sub(discovered)) {
			w.discover(ctx, now)
			discovered = now
		}
		if !w.cache.open.Load() && !w.mustDiscover(0) && w.hasSeen(ctx, now, now.Sub(began)) && w.cache.Leading() {
			w.cache.openCache()
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C():
		}
	}
}

// hasSeen returns whether the cache may open: all first lists are complete, or only lists of optional APIs are missing for long (because of
// a broken conversion webhook, for example). Only the gangs of such an API wait then.
func (w *watcher) hasSeen(ctx context.Context, now time.Time, waited time.Duration) bool {
	missing := w.unsynced()
	switch {
	case len(missing) == 0:
		return true
	case waited >= startWithout && !slices.ContainsFunc(missing, w.needs):
		w.complain(ctx, now, fmt.Sprintf("begins without %s, of which the first list has not come for %s: gangs that it declares wait for it",
			strings.Join(missing, ", "), startWithout))
		return true
	case waited >= complainEvery:
		w.complain(ctx, now, "still waiting for the first list of "+strings.Join(missing, ", ")+"; are list and watch permitted?")
	}
	return false
}

// needs returns whether no pod may be placed until a resource was listed. It is true for quotas: without them too many pods would run.
func (w *watcher) needs(name string) bool {
	return !slices.ContainsFunc(w.customs, func(r customResource) bool {
		read := append([]schema.GroupVersionResource{r.gvr}, r.versions...)
		return r.optional && !r.limits && slices.ContainsFunc(read, func(resource schema.GroupVersionResource) bool {
			return resource.GroupResource().String() == name
		})
	})
}

// mustDiscover returns whether discovery must run now because gangs name owners of a kind that is not found. since is the time since the
// last discovery.
func (w *watcher) mustDiscover(since time.Duration) bool {
	return slices.ContainsFunc(w.customs, func(r customResource) bool {
		wanted, missing := w.cache.kindState(r.ownerKind)
		return r.lazy && !w.looked[r.ownerKind] && wanted || since >= lookAgain && missing
	})
}

// discover starts an informer for each custom resource that is served and has none.
func (w *watcher) discover(ctx context.Context, now time.Time) {
	w.stopMissing()
	for _, r := range w.customs {
		if wanted, _ := w.cache.kindState(r.ownerKind); w.started[r.gvr] || r.lazy && !wanted {
			continue
		}
		if w.looked == nil {
			w.looked = map[string]bool{}
		}
		w.looked[r.ownerKind] = true
		name := r.gvr.GroupResource().String()
		served, err := w.src.Served(r.gvr)
		key := r.gvr
		for i := 0; i < len(r.versions) && err == nil && !served; i++ {
			r.gvr = r.versions[i]
			served, err = w.src.Served(r.gvr)
		}
		switch {
		case errors.Is(err, ErrNoPermission):
			w.cache.setDenied(r.gvr, true)
			w.cache.recordDiscovery(r.ownerKind, false)
			w.complain(ctx, now, err.Error())
		case err != nil:
			w.complain(ctx, now, fmt.Sprintf("cannot find out whether %s is served: %v", name, err))
		case served:
			w.started[key] = true
			w.cache.setDenied(r.gvr, false)
			w.start(ctx, key, r)
			if r.ownerKind != "" {
				w.cache.recordDiscovery(r.ownerKind, true)
			}
		case !r.optional:
			w.complain(ctx, now, fmt.Sprintf("CustomResourceDefinition %s (%s) is not installed: apply manifests/crd",
				name, r.gvr.Version))
		default:
			w.cache.recordDiscovery(r.ownerKind, false)
		}
	}
}

// stopMissing stops informers without a complete first list whose resource is not served any more. They start again if it is served again.
func (w *watcher) stopMissing() {
	for key, b := range w.starting {
		if w.cache.open.Load() || b.synced() {
			delete(w.starting, key)
			continue
		}
		if served, err := w.src.Served(b.gvr); served || err != nil {
			continue
		}
		b.stop()
		delete(w.starting, key)
		delete(w.started, key)
		delete(w.synced, b.gvr.GroupResource().String())
	}
}

// complain logs a message as an error, an equal message at most once in complainEvery.
func (w *watcher) complain(ctx context.Context, now time.Time, message string) {
	if w.complaints == nil {
		w.complaints = map[string]time.Time{}
	}
	if last, ok := w.complaints[message]; ok && now.Sub(last) < complainEvery {
		return
	}
	w.complaints[message] = now
	klog.FromContext(ctx).Error(nil, message)
}

func (w *watcher) unsynced() (names []string) {
	for name, synced := range w.synced {
		if !synced() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// start runs an informer for a resource. key is the first version of the resource; r.gvr is the version to read.
func (w *watcher) start(ctx context.Context, key schema.GroupVersionResource, r customResource) {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(w.src.Dynamic, 0).ForResource(r.gvr).Informer()
	name := r.gvr.GroupResource().String()
	_ = informer.SetTransform(func(object any) (any, error) { return withoutHistory(object, r.trim) })
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "permission is missing: list and watch", "resource", name)
			return
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	})
	registration, err := informer.AddEventHandler(Handler(r.set, r.drop))
	if err != nil {
		klog.FromContext(ctx).Error(err, "cannot watch", "resource", name)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	if !w.cache.open.Load() {
		w.synced[name] = registration.HasSynced
		if w.starting == nil {
			w.starting = map[schema.GroupVersionResource]startedInformer{}
		}
		w.starting[key] = startedInformer{r.gvr, registration.HasSynced, stop}
	}
	go func() {
		defer stop()
		informer.RunWithContext(ctx)
	}()
}

// withoutHistory returns an object without managed fields, which are often large, and without what trim removes (nil is nothing). It never
// returns an error: the informer would lose the object.
func withoutHistory(object any, trim func(*unstructured.Unstructured)) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok || len(o.GetManagedFields()) == 0 && trim == nil {
		return object, nil
	}
	trimmed := o.DeepCopy() // the informer may still read the original
	trimmed.SetManagedFields(nil)
	if trim != nil {
		trim(trimmed)
	}
	return trimmed, nil
}

func (c *Cache) topologyHandlers(ctx context.Context) (set, drop func(*unstructured.Unstructured)) {
	set = func(u *unstructured.Unstructured) {
		t := &koordinator.ClusterNetworkTopology{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t); err != nil {
			klog.FromContext(ctx).Error(err, "cannot read ClusterNetworkTopology", "name", u.GetName())
			return
		}
		if t.Name != scheduling.TopologyName {
			c.setUnused(t.Name, t)
			return
		}
		c.setTopology(t)
	}
	drop = func(u *unstructured.Unstructured) {
		if u.GetName() != scheduling.TopologyName {
			c.setUnused(u.GetName(), nil)
			return
		}
		c.setTopology(nil)
	}
	return set, drop
}

func (c *Cache) objectHandlers(ctx context.Context, from *source.Source) (set, drop func(*unstructured.Unstructured)) {
	set = func(u *unstructured.Unstructured) {
		pg, more, err := from.ReadObject(u)
		if err != nil {
			klog.FromContext(ctx).Error(err, "cannot read "+from.Object.Kind, "object", klog.KObj(u))
		}
		c.setObject(from.Ref(u), pg, more)
	}
	drop = func(u *unstructured.Unstructured) { c.setObject(from.Ref(u), nil, source.More{}) }
	return set, drop
}

func (c *Cache) ownerHandlers(ctx context.Context, kind *source.Owner) (set, drop func(*unstructured.Unstructured)) {
	set = func(u *unstructured.Unstructured) {
		owned, err := kind.ReadOwner(u)
		if err != nil {
			klog.FromContext(ctx).Error(err, "cannot read "+kind.Kind, "object", klog.KObj(u))
		}
		c.setOwner(owned)
	}
	drop = func(u *unstructured.Unstructured) {
		c.dropOwner(source.OwnerKey{Kind: kind.Kind, Namespace: u.GetNamespace(), Name: u.GetName()})
	}
	return set, drop
}

// openCache opens the cache, so that gangs may be scheduled, and restores reservations. It is called once, after all objects were listed
// and this process became the leader.
func (c *Cache) openCache() {
	c.open.Store(true)
	c.mu.Lock()
	c.rivals.since = c.Clock.Now()
	effects := c.markReached()
	c.book.Resume(c.Clock.Now())
	c.absent = append(c.leadersWithoutMembers(), c.incompleteGangs()...)
	effects = append(effects, c.restore()...)
	for _, ref := range c.book.Gangs() {
		effects = append(effects, c.book.Review(ref)...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.pods), topology.CompareNames) {
		effects = append(effects, c.clearStaleNomination(c.pods[key])...)
	}
	effects = append(effects, gang.Effect{Verb: gang.ResumeOthers})
	notes := c.allNotes()
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
	c.topologyChanged()
}

// markReached records in the book the gangs that were complete once, according to the status of their objects. c.mu is locked.
func (c *Cache) markReached() (effects []gang.Effect) {
	for _, ref := range c.refs() {
		if r := c.gangs[ref]; r.Object != nil && source.Reached(r.Object) {
			effects = append(effects, c.book.Apply(gang.WasComplete{Gang: ref}, c.Clock.Now())...)
		}
	}
	return effects
}

// restore makes reservations from status.nominatedNodeName of pending members, for groups that have enough such members. c.mu is locked.
func (c *Cache) restore() (effects []gang.Effect) {
	seen := map[gang.Ref]bool{}
	for _, ref := range c.book.Gangs() {
		r := c.gangs[ref]
		if r == nil {
			continue
		}
		for key := range r.Pods {
			group, ok := c.book.GroupKey(key)
			if !ok || seen[group] {
				continue
			}
			seen[group] = true
			g, ok := c.book.Group(key)
			if !ok {
				continue
			}
			var places []gang.Assignment
			for _, m := range g.Pending {
				if node := c.pods[m.Pod].Status.NominatedNodeName; node != "" {
					places = append(places, gang.Assignment{Pod: m.Pod, Node: node})
				}
			}
			if len(places) > 0 && len(places) >= g.Need() {
				now := c.Clock.Now()
				ev := gang.Planned{Group: g.Key, Places: places, Reserved: true, Restored: true, Until: now.Add(c.Leave)}
				effects = append(effects, c.book.Apply(ev, now)...)
				// the victims may be gone already, so that no further event retries the group
				effects = append(effects, gang.Effect{Verb: gang.Wake, Pod: g.Pending[0].Pod})
			}
		}
	}
	return effects
}

// Open returns whether all objects were listed once and this process is the leader. Until then it must neither plan nor write.
func (c *Cache) Open() bool { return c.open.Load() }
