package simulate

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// serialFactory is a factory of informers that call their handlers one after the other. client-go runs each handler in its own
// goroutine: then the order in which the scheduler's queue and the plugin see a pod would be random.
type serialFactory struct {
	informers.SharedInformerFactory

	mu      sync.Mutex
	created map[cache.SharedIndexInformer]*serialInformer
}

func newSerialFactory(f informers.SharedInformerFactory) *serialFactory {
	return &serialFactory{SharedInformerFactory: f, created: map[cache.SharedIndexInformer]*serialInformer{}}
}

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (f *serialFactory) InformerFor(o runtime.Object, create internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	informer := f.SharedInformerFactory.InformerFor(o, create)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.created[informer] == nil {
		f.created[informer] = &serialInformer{SharedIndexInformer: informer}
	}
	return f.created[informer]
}

// The API groups that schedulers read, with informers of this factory.

func (f *serialFactory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *serialFactory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *serialFactory) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *serialFactory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *serialFactory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *serialFactory) Storage() storage.Interface       { return storage.New(f, "", nil) }

// serialInformer is an informer with one handler, which calls the added handlers in their order.
type serialInformer struct {
	cache.SharedIndexInformer

	mu           sync.Mutex
	handlers     []cache.ResourceEventHandler
	registration cache.ResourceEventHandlerRegistration
	started      bool
}

// AddEventHandler implements cache.SharedInformer.
func (s *serialInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.SharedInformer. A handler that is added after the first event runs in its own goroutine.
func (s *serialInformer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return s.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	}
	if s.registration == nil {
		first, err := s.SharedIndexInformer.AddEventHandlerWithOptions((*dispatcher)(s), o)
		if err != nil {
			return nil, err
		}
		s.registration = first
	}
	s.handlers = append(s.handlers, h)
	return s.registration, nil
}

// startedHandlers returns the handlers. No handler is added to them from then on.
func (s *serialInformer) startedHandlers() []cache.ResourceEventHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return slices.Clip(s.handlers)
}

// dispatcher is the one handler of a serial informer.
type dispatcher serialInformer

// OnAdd implements cache.ResourceEventHandler.
func (d *dispatcher) OnAdd(o any, first bool) {
	for _, h := range (*serialInformer)(d).startedHandlers() {
		h.OnAdd(o, first)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (d *dispatcher) OnUpdate(old, updated any) {
	for _, h := range (*serialInformer)(d).startedHandlers() {
		h.OnUpdate(old, updated)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (d *dispatcher) OnDelete(o any) {
	for _, h := range (*serialInformer)(d).startedHandlers() {
		h.OnDelete(o)
	}
}
