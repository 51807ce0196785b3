// Package watch runs an informer for each custom resource as soon as the API server serves it, and says when all first lists are complete.
//
//	discovery ──► Discovered ──► informer ──► Set, Drop
//	                                 └──► first list ──► Listed
//
// It knows resources, discovery and informers. It must not know gangs or what the objects declare. One goroutine uses a Watcher.
// Invariant: Listed is called only when no resource that limits or declares Muster's own gangs lacks its first list.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// ErrNoPermission says that a resource may not be read.
var ErrNoPermission = errors.New("permission is missing")

// Resource is a custom resource to watch, and its handlers.
type Resource struct {
	GVR       schema.GroupVersionResource
	Versions  []schema.GroupVersionResource // other versions, one of which is read if this one is not served
	Optional  bool
	OwnerKind string // the kind of its objects; "" if they own no gangs
	Lazy      bool   // watched only if gangs name such owners
	Limits    bool   // it declares no gangs, but limits all of them, as quotas do
	Trim      func(*unstructured.Unstructured)
	Set, Drop func(*unstructured.Unstructured)
}

const (
	pollEvery     = 100 * time.Millisecond
	discoverEvery = 5 * time.Second
	lookAgain     = 500 * time.Millisecond // for resources that gangs wait for
	complainEvery = 20 * time.Second
)

// StartWithout is how long the first lists of other APIs may be missing before the cache opens without them.
const StartWithout = time.Minute

// Finding is what discovery found of a resource.
type Finding int

// Findings: the API server does not serve the resource, permission to read it is missing, or its informer is about to start.
const (
	Absent Finding = iota
	Denied
	Served
)

// Cache is the user of the objects.
type Cache interface {
	// KindState returns whether gangs name owners of a kind (wanted), and whether discovery must search for the kind (missing).
	KindState(kind string) (wanted, missing bool)
	// Discovered is called after each discovery of a resource. kind is its OwnerKind.
	Discovered(resource schema.GroupVersionResource, kind string, found Finding)
	// Listed is called when the cache may open, until Open returns true.
	Listed()
	Open() bool
}

// Options are the dependencies of a Watcher.
type Options struct {
	Cache     Cache
	Clock     clock.WithTicker
	Dynamic   dynamic.Interface
	Resources []Resource
	// Served returns whether the API server serves a custom resource now. The error is ErrNoPermission if it may not be read.
	Served func(schema.GroupVersionResource) (bool, error)
}

// Watcher starts an informer for each custom resource as soon as it is served, and waits for the first lists.
type Watcher struct {
	Options
	synced     map[string]func() bool // by resource name, whether the first list is complete
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

// New returns a Watcher that has started no informer.
func New(o Options) *Watcher {
	return &Watcher{
		Options: o, synced: map[string]func() bool{}, started: map[schema.GroupVersionResource]bool{},
		starting: map[schema.GroupVersionResource]startedInformer{}, looked: map[string]bool{}, complaints: map[string]time.Time{},
	}
}

// Await makes the Watcher wait for a further first list, of another informer.
func (w *Watcher) Await(name string, synced func() bool) { w.synced[name] = synced }

// Run discovers and waits until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	poll := w.Clock.NewTicker(pollEvery)
	defer poll.Stop()
	began := w.Clock.Now()
	var discovered time.Time
	for first := true; ; first = false {
		now := w.Clock.Now()
		if first || now.Sub(discovered) >= discoverEvery || w.MustDiscover(now.Sub(discovered)) {
			w.Discover(ctx, now)
			discovered = now
		}
		if !w.Cache.Open() && !w.MustDiscover(0) && w.HasSeen(ctx, now, now.Sub(began)) {
			w.Cache.Listed()
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C():
		}
	}
}

// HasSeen returns whether the cache may open: all first lists are complete, or only lists of optional APIs are missing for long (because of
// a broken conversion webhook, for example). Only the gangs of such an API wait then.
func (w *Watcher) HasSeen(ctx context.Context, now time.Time, waited time.Duration) bool {
	missing := w.Unsynced()
	switch {
	case len(missing) == 0:
		return true
	case waited >= StartWithout && !slices.ContainsFunc(missing, w.needs):
		w.complain(ctx, now, fmt.Sprintf("begins without %s, of which the first list has not come for %s: gangs that it declares wait for it",
			strings.Join(missing, ", "), StartWithout))
		return true
	case waited >= complainEvery:
		w.complain(ctx, now, "still waiting for the first list of "+strings.Join(missing, ", ")+"; are list and watch permitted?")
	}
	return false
}

// needs returns whether no pod may be placed until a resource was listed. It is true for quotas: without them too many pods would run.
func (w *Watcher) needs(name string) bool {
	return !slices.ContainsFunc(w.Resources, func(r Resource) bool {
		read := append([]schema.GroupVersionResource{r.GVR}, r.Versions...)
		return r.Optional && !r.Limits && slices.ContainsFunc(read, func(resource schema.GroupVersionResource) bool {
			return resource.GroupResource().String() == name
		})
	})
}

// MustDiscover returns whether discovery must run now because gangs name owners of a kind that is not found. since is the time since the
// last discovery.
func (w *Watcher) MustDiscover(since time.Duration) bool {
	return slices.ContainsFunc(w.Resources, func(r Resource) bool {
		wanted, missing := w.Cache.KindState(r.OwnerKind)
		return r.Lazy && !w.looked[r.OwnerKind] && wanted || since >= lookAgain && missing
	})
}

// Discover starts an informer for each custom resource that is served and has none.
func (w *Watcher) Discover(ctx context.Context, now time.Time) {
	w.stopMissing()
	for _, r := range w.Resources {
		if wanted, _ := w.Cache.KindState(r.OwnerKind); w.started[r.GVR] || r.Lazy && !wanted {
			continue
		}
		w.looked[r.OwnerKind] = true
		name := r.GVR.GroupResource().String()
		served, err := w.Served(r.GVR)
		key := r.GVR
		for i := 0; i < len(r.Versions) && err == nil && !served; i++ {
			r.GVR = r.Versions[i]
			served, err = w.Served(r.GVR)
		}
		switch {
		case errors.Is(err, ErrNoPermission):
			w.Cache.Discovered(r.GVR, r.OwnerKind, Denied)
			w.complain(ctx, now, err.Error())
		case err != nil:
			w.complain(ctx, now, fmt.Sprintf("cannot find out whether %s is served: %v", name, err))
		case served:
			w.started[key] = true
			w.Cache.Discovered(r.GVR, r.OwnerKind, Served)
			w.start(ctx, key, r)
		case !r.Optional:
			w.complain(ctx, now, fmt.Sprintf("CustomResourceDefinition %s (%s) is not installed: apply manifests/crd",
				name, r.GVR.Version))
		default:
			w.Cache.Discovered(r.GVR, r.OwnerKind, Absent)
		}
	}
}

// stopMissing stops informers without a complete first list whose resource is not served any more. They start again if it is served again.
func (w *Watcher) stopMissing() {
	for key, b := range w.starting {
		if w.Cache.Open() || b.synced() {
			delete(w.starting, key)
			continue
		}
		if served, err := w.Served(b.gvr); served || err != nil {
			continue
		}
		b.stop()
		delete(w.starting, key)
		delete(w.started, key)
		delete(w.synced, b.gvr.GroupResource().String())
	}
}

// complain logs a message as an error, an equal message at most once in complainEvery.
func (w *Watcher) complain(ctx context.Context, now time.Time, message string) {
	if last, ok := w.complaints[message]; ok && now.Sub(last) < complainEvery {
		return
	}
	w.complaints[message] = now
	klog.FromContext(ctx).Error(nil, message)
}

// Unsynced returns the names of the resources whose first list is missing, sorted.
func (w *Watcher) Unsynced() (names []string) {
	for name, synced := range w.synced {
		if !synced() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// start runs an informer for a resource. key is the first version of the resource; r.GVR is the version to read.
func (w *Watcher) start(ctx context.Context, key schema.GroupVersionResource, r Resource) {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(w.Dynamic, 0).ForResource(r.GVR).Informer()
	name := r.GVR.GroupResource().String()
	_ = informer.SetTransform(func(object any) (any, error) { return withoutHistory(object, r.Trim) })
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "permission is missing: list and watch", "resource", name)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	registration, err := informer.AddEventHandler(Handler(r.Set, r.Drop))
	if err != nil {
		klog.FromContext(ctx).Error(err, "cannot watch", "resource", name)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	if !w.Cache.Open() {
		w.synced[name] = registration.HasSynced
		w.starting[key] = startedInformer{r.GVR, registration.HasSynced, stop}
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
