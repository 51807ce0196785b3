package elasticquota

import (
	"errors"

	resourceinformers "k8s.io/client-go/informers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/kube/deviceclass"
)

// hearClasses has the room hear that there are other devices.
func (r *Room) hearClasses(of resourceinformers.Interface) error {
	r.classes = deviceclass.New(of.ResourceSlices().Lister(), of.DeviceClasses().Lister())
	changed := func() {
		if !r.Active() {
			return
		}
		r.mu.Lock()
		names := len(r.classes.Named(r.book.Tree().Resources()))
		if names > 0 {
			r.totals()
		}
		r.mu.Unlock()
		if names > 0 {
			r.changed()
		}
	}
	hear := func(informer toolscache.SharedIndexInformer, changed func()) error {
		_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
		})
		return err
	}
	return errors.Join(hear(of.ResourceSlices().Informer(), changed), hear(of.DeviceClasses().Informer(), func() {
		r.setBacks()
		changed()
	}))
}

// setBacks finds out which classes have extended resources, and counts those pods anew that ask for some.
func (r *Room) setBacks() {
	backs, err := r.classes.ReadBacks()
	if err != nil {
		return // an informer's store has no errors
	}
	r.mu.Lock()
	if changed := r.classes.SetBacks(backs); !changed || !r.Active() {
		r.mu.Unlock()
		return
	}
	for _, k := range sorted(r.pods) {
		if r.wild {
			r.pods[k].asks = nil // it is looked at with the tree
		} else {
			r.put(r.pods[k])
		}
	}
	r.totals()
	r.mu.Unlock()
	r.changed()
}
