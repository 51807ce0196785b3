package cache

import (
	"context"
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
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Source is where the objects come from.
type Source struct {
	Core     informers.SharedInformerFactory
	Finished toolscache.SharedIndexInformer // see NewFinished; nil leaves finished members out
	Dynamic  dynamic.Interface
	// Served says whether the API server serves a custom resource now.
	Served func(schema.GroupVersionResource) (bool, error)
}

// custom are the resources that may or may not be installed.
var custom = []struct {
	gvr      schema.GroupVersionResource
	optional bool
}{
	{koordinator.ClusterNetworkTopologies, false},
	{sigs.PodGroups, false},
	{x.PodGroups, true},
}

const (
	pollEvery     = 100 * time.Millisecond
	discoverEvery = 5 * time.Second
	complainEvery = 20 * time.Second
)

// Start registers with the shared informers, which the scheduler starts, and in the
// background runs informers of its own for the custom resources that are served, also
// when they are installed later. It returns at once; until everything has been seen
// once no gang enters the scheduler, and what is missing is said in the log.
func (c *Cache) Start(ctx context.Context, src Source) error {
	pods, err := src.Core.Core().V1().Pods().Informer().AddEventHandler(handler(c.setPod, c.dropPod))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	nodes, err := src.Core.Core().V1().Nodes().Informer().AddEventHandler(
		handler(c.setNode, func(n *v1.Node) { c.dropNode(n.Name) }))
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	w := &watcher{cache: c, src: src, synced: map[string]func() bool{"pods": pods.HasSynced, "nodes": nodes.HasSynced}}
	if src.Finished != nil {
		done, err := src.Finished.AddEventHandler(handler(c.setDone, c.dropDone))
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

// handler calls set for every object that exists and drop for every one that goes.
func handler[T any](set, drop func(T)) toolscache.ResourceEventHandler {
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

// watcher starts informers as their resources appear and waits for the first sync.
type watcher struct {
	cache   *Cache
	src     Source
	synced  map[string]func() bool // what must have been seen once, by name
	started [3]bool
	said    map[string]time.Time
}

func (w *watcher) run(ctx context.Context) {
	poll := w.cache.Clock.NewTicker(pollEvery)
	defer poll.Stop()
	began := w.cache.Clock.Now()
	var discovered time.Time
	for first := true; ; first = false {
		now := w.cache.Clock.Now()
		if first || now.Sub(discovered) >= discoverEvery {
			w.discover(ctx, now)
			discovered = now
		}
		if !w.cache.open.Load() {
			if missing := w.unsynced(); len(missing) == 0 {
				if w.cache.Leading() {
					w.cache.ready()
				}
			} else if now.Sub(began) >= complainEvery {
				w.complain(ctx, now, "still waiting for the first list of "+strings.Join(missing, ", ")+
					"; is get, list and watch permitted?")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C():
		}
	}
}

// discover starts an informer for each resource that is served and has none.
func (w *watcher) discover(ctx context.Context, now time.Time) {
	for i, r := range custom {
		if w.started[i] {
			continue
		}
		name := r.gvr.GroupResource().String()
		served, err := w.src.Served(r.gvr)
		switch {
		case err != nil:
			w.complain(ctx, now, fmt.Sprintf("cannot find out whether %s is served: %v", name, err))
		case served:
			w.started[i] = true
			w.start(ctx, r.gvr)
		case !r.optional:
			w.complain(ctx, now, fmt.Sprintf("CustomResourceDefinition %s (%s) is not installed: apply manifests/crd",
				name, r.gvr.Version))
		}
	}
}

// complain logs an error, the same one not more often than every 20 seconds.
func (w *watcher) complain(ctx context.Context, now time.Time, message string) {
	if w.said == nil {
		w.said = map[string]time.Time{}
	}
	if last, ok := w.said[message]; ok && now.Sub(last) < complainEvery {
		return
	}
	w.said[message] = now
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

func (w *watcher) start(ctx context.Context, gvr schema.GroupVersionResource) {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(w.src.Dynamic, 0).ForResource(gvr).Informer()
	name := gvr.GroupResource().String()
	_ = informer.SetTransform(withoutHistory)
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "permission is missing: get, list and watch", "resource", name)
			return
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	})
	set, drop := w.cache.topologyHandlers(ctx)
	if gvr != koordinator.ClusterNetworkTopologies {
		set, drop = w.cache.podGroupHandlers(ctx, gvr)
	}
	registration, err := informer.AddEventHandler(handler(set, drop))
	if err != nil {
		klog.FromContext(ctx).Error(err, "cannot watch", "resource", name)
		return
	}
	if !w.cache.open.Load() {
		w.synced[name] = registration.HasSynced
	}
	go informer.RunWithContext(ctx)
}

// withoutHistory drops who wrote which field when, which nobody here reads and which is
// often larger than the object. It may not fail: then there would be no object.
func withoutHistory(object any) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok || len(o.GetManagedFields()) == 0 {
		return object, nil
	}
	own := o.DeepCopy() // whoever gave it may still read it
	own.SetManagedFields(nil)
	return own, nil
}

func (c *Cache) topologyHandlers(ctx context.Context) (set, drop func(*unstructured.Unstructured)) {
	set = func(u *unstructured.Unstructured) {
		if u.GetName() != scheduling.TopologyName {
			return
		}
		t := &koordinator.ClusterNetworkTopology{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t); err != nil {
			klog.FromContext(ctx).Error(err, "cannot read ClusterNetworkTopology", "name", u.GetName())
			return
		}
		c.setTopology(t)
	}
	drop = func(u *unstructured.Unstructured) {
		if u.GetName() == scheduling.TopologyName {
			c.setTopology(nil)
		}
	}
	return set, drop
}

func (c *Cache) podGroupHandlers(ctx context.Context, gvr schema.GroupVersionResource) (set, drop func(*unstructured.Unstructured)) {
	set = func(u *unstructured.Unstructured) {
		pg := &sigs.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pg); err != nil {
			klog.FromContext(ctx).Error(err, "cannot read PodGroup", "podGroup", klog.KObj(u))
			return
		}
		c.setPodGroup(gvr, convert.Key(u.GetNamespace(), u.GetName()), pg)
	}
	drop = func(u *unstructured.Unstructured) {
		c.setPodGroup(gvr, convert.Key(u.GetNamespace(), u.GetName()), nil)
	}
	return set, drop
}

// ready is called once, when everything that exists has been seen and this process
// leads: reservations are taken up again and gangs may enter.
func (c *Cache) ready() {
	c.open.Store(true)
	c.mu.Lock()
	c.book.Resume(c.Clock.Now())
	effects := c.restore()
	for _, name := range c.book.Gangs() {
		effects = append(effects, c.book.Review(name)...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.pods), topology.CompareNames) {
		effects = append(effects, c.voidNomination(c.pods[key])...)
	}
	effects = append(effects, gang.Effect{Verb: gang.GoOn})
	notes := c.allNotes()
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
	c.topologyChanged()
}

// restore takes up the reservations that status.nominatedNodeName holds: those of
// groups of which enough pending members have one. c.mu is held.
func (c *Cache) restore() (effects []gang.Effect) {
	done := map[string]bool{}
	for _, name := range c.book.Gangs() {
		for key := range c.gangs[name].podsOrNil() {
			group, ok := c.book.GroupKey(key)
			if !ok || done[group] {
				continue
			}
			done[group] = true
			g, ok := c.book.Group(key)
			if !ok {
				continue
			}
			var places []gang.Place
			for _, m := range g.Pending {
				if node := c.pods[m.Pod].Status.NominatedNodeName; node != "" {
					places = append(places, gang.Place{Pod: m.Pod, Node: node})
				}
			}
			if len(places) > 0 && len(places) >= g.Need() {
				now := c.Clock.Now()
				ev := gang.Planned{Group: g.Key, Places: places, Reserved: true, Restored: true, Until: now.Add(c.Leave)}
				effects = append(effects, c.book.Apply(ev, now)...)
				// Nothing need happen any more: the victims may have left meanwhile.
				effects = append(effects, gang.Effect{Verb: gang.Wake, Pod: g.Pending[0].Pod})
			}
		}
	}
	return effects
}

func (r *record) podsOrNil() map[string]*v1.Pod {
	if r == nil {
		return nil
	}
	return r.pods
}

// Open says whether everything that exists has been seen once and this process leads:
// before that it must neither plan nor write.
func (c *Cache) Open() bool { return c.open.Load() }
