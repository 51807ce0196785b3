package watch

import "k8s.io/client-go/tools/cache"

// Handler returns an event handler that calls set for each added or updated object, and drop for each deleted one.
func Handler[T any](set, drop func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(T)) },
		UpdateFunc: func(_, o any) { set(o.(T)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if t, ok := o.(T); ok {
				drop(t)
			}
		},
	}
}
