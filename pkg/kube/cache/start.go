package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Source is from where the cache reads objects.
type Source struct {
	Core     informers.SharedInformerFactory
	Finished toolscache.SharedIndexInformer // pods that succeeded or failed; nil leaves finished members out
	Dynamic  dynamic.Interface
	// Served returns whether the API server serves a custom resource now. The error is watch.ErrNoPermission if it may not be read.
	Served func(schema.GroupVersionResource) (bool, error)
	// Later says that the API server may serve further resources at any time.
	Later bool
}

// customResources returns all custom resources to watch: the topology, the objects of all integrations, and ExtraResources.
func (c *Cache) customResources(ctx context.Context) []watch.Resource {
	set, drop := c.topologyHandlers(ctx)
	all := []watch.Resource{{GVR: koordinator.ClusterNetworkTopologies, Set: set, Drop: drop}}
	for i := range source.All {
		s := &source.All[i]
		if s.Object != nil {
			set, drop := c.objectHandlers(ctx, s)
			all = append(all, watch.Resource{
				GVR: s.Object.Resource, Versions: s.Object.Versions()[1:], Optional: s.Object.Optional, Set: set, Drop: drop,
			})
		}
	}
	for _, o := range source.Owners {
		set, drop := c.ownerHandlers(ctx, o)
		all = append(all, watch.Resource{GVR: o.Resource, Optional: true, OwnerKind: o.Kind, Lazy: o.Lazy, Trim: o.Trim, Set: set, Drop: drop})
	}
	for _, b := range c.ExtraResources {
		all = append(all, watch.Resource{GVR: b.Resource, Optional: true, Limits: true, Set: b.Set, Drop: b.Drop})
	}
	return all
}

// Start registers handlers with the shared informers, which the scheduler starts, and returns at once. In the background it runs informers
// for the custom resources that are served, even if they are installed later. The cache opens after all objects were listed once; the log
// says what is missing.
func (c *Cache) Start(ctx context.Context, src Source) error {
	pods, err := src.Core.Core().V1().Pods().Informer().AddEventHandler(c.podHandler())
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	nodes, err := src.Core.Core().V1().Nodes().Informer().AddEventHandler(
		watch.Handler(c.setNode, func(n *v1.Node) { c.dropNode(n.Name) }))
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	if _, err := src.Core.Core().V1().Namespaces().Informer().AddEventHandler(c.namespaceHandler()); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	c.mu.Lock()
	c.laterServed = src.Later
	c.mu.Unlock()
	w := c.watcher(ctx, src)
	w.Await("pods", pods.HasSynced)
	w.Await("nodes", nodes.HasSynced)
	if src.Finished != nil {
		done, err := src.Finished.AddEventHandler(watch.Handler(c.setFinished, c.dropFinished))
		if err != nil {
			return fmt.Errorf("watching finished pods: %w", err)
		}
		w.Await("finished pods", done.HasSynced)
		go src.Finished.RunWithContext(ctx)
	}
	go w.Run(ctx)
	go c.tick(ctx)
	return nil
}

// watcher returns a watcher of all custom resources.
func (c *Cache) watcher(ctx context.Context, src Source) *watch.Watcher {
	return watch.New(watch.Options{
		Cache: watched{c}, Clock: c.Clock, Dynamic: src.Dynamic, Served: src.Served, Resources: c.customResources(ctx),
	})
}

// podHandler returns the event handler for pods. It also detects bindings by another scheduler.
func (c *Cache) podHandler() toolscache.ResourceEventHandler {
	handlers := watch.Handler(c.setPod, c.dropPod)
	set := handlers.UpdateFunc
	handlers.UpdateFunc = func(old, current any) {
		c.podUpdated(old.(*v1.Pod), current.(*v1.Pod))
		set(old, current)
		c.endUpdated(old.(*v1.Pod), current.(*v1.Pod))
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

// watched is a Cache as its watcher sees it.
type watched struct{ *Cache }

// KindState implements watch.Cache.
func (c watched) KindState(kind string) (wanted, missing bool) { return c.kindState(kind) }

// Discovered implements watch.Cache.
func (c watched) Discovered(resource schema.GroupVersionResource, kind string, found watch.Finding) {
	if found != watch.Absent {
		c.setDenied(resource, found == watch.Denied)
	}
	if kind != "" {
		c.recordDiscovery(kind, found == watch.Served)
	}
}

// Listed implements watch.Cache. It opens the cache if this process is the leader.
func (c watched) Listed() {
	if c.Leading() {
		c.openCache()
	}
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
	effects = append(effects, c.restorePromises()...)
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
