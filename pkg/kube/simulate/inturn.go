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

// inTurn is a factory of informers of which each tells its handlers of a change one after
// the other. client-go gives each handler a goroutine: whether the scheduler's queue or
// the plugin hears of a pod first would be left to chance.
type inTurn struct {
	informers.SharedInformerFactory

	mu   sync.Mutex
	made map[cache.SharedIndexInformer]*serial
}

func newInTurn(f informers.SharedInformerFactory) *inTurn {
	return &inTurn{SharedInformerFactory: f, made: map[cache.SharedIndexInformer]*serial{}}
}

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (f *inTurn) InformerFor(o runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	informer := f.SharedInformerFactory.InformerFor(o, make)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made[informer] == nil {
		f.made[informer] = &serial{SharedIndexInformer: informer}
	}
	return f.made[informer]
}

// The groups that schedulers read, with informers of this factory.

func (f *inTurn) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *inTurn) Core() core.Interface             { return core.New(f, "", nil) }
func (f *inTurn) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *inTurn) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *inTurn) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *inTurn) Storage() storage.Interface       { return storage.New(f, "", nil) }

// serial is an informer with one handler, which calls those that were added in their order.
type serial struct {
	cache.SharedIndexInformer

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	first    cache.ResourceEventHandlerRegistration
	began    bool
}

// AddEventHandler implements cache.SharedInformer.
func (s *serial) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.SharedInformer. Who comes when others have
// been told already is told by client-go of what there is.
func (s *serial) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began {
		return s.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	}
	if s.first == nil {
		first, err := s.SharedIndexInformer.AddEventHandlerWithOptions((*dispatcher)(s), o)
		if err != nil {
			return nil, err
		}
		s.first = first
	}
	s.handlers = append(s.handlers, h)
	return s.first, nil
}

// all returns the handlers, which are all that will be.
func (s *serial) all() []cache.ResourceEventHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = true
	return slices.Clip(s.handlers)
}

// dispatcher is the handler of a serial informer.
type dispatcher serial

// OnAdd implements cache.ResourceEventHandler.
func (d *dispatcher) OnAdd(o any, first bool) {
	for _, h := range (*serial)(d).all() {
		h.OnAdd(o, first)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (d *dispatcher) OnUpdate(was, is any) {
	for _, h := range (*serial)(d).all() {
		h.OnUpdate(was, is)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (d *dispatcher) OnDelete(o any) {
	for _, h := range (*serial)(d).all() {
		h.OnDelete(o)
	}
}
