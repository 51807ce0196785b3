package elasticquota

import (
	"errors"

	resourceinformers "k8s.io/client-go/informers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/kube/deviceclass"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// watchClasses registers event handlers for ResourceSlices and DeviceClasses. They mark the total capacity as stale.
func (r *Manager) watchClasses(informers resourceinformers.Interface) error {
	r.classes = deviceclass.New(informers.ResourceSlices().Lister(), informers.DeviceClasses().Lister())
	changed := func() {
		if !r.Active() {
			return
		}
		r.mu.Lock()
		names := len(r.classes.Named(r.book.Tree().Resources()))
		if names > 0 {
			r.markTotalsStale()
		}
		r.mu.Unlock()
		if names > 0 {
			r.notifyMayBeAdmitted()
		}
	}
	follow := func(informer toolscache.SharedIndexInformer, changed func()) error {
		_, err := informer.AddEventHandler(watch.Handler(func(any) { changed() }, func(any) { changed() }))
		return err
	}
	return errors.Join(follow(informers.ResourceSlices().Informer(), changed), follow(informers.DeviceClasses().Informer(), func() {
		r.updateExtendedResources()
		changed()
	}))
}

// updateExtendedResources reads which device classes provide extended resources. If that has changed, it counts all pods again.
func (r *Manager) updateExtendedResources() {
	backs, err := r.classes.ReadBacks()
	if err != nil {
		return // an informer's store has no errors
	}
	r.mu.Lock()
	if changed := r.classes.SetBacks(backs); !changed || !r.Active() {
		r.mu.Unlock()
		return
	}
	for _, k := range sortedKeys(r.pods) {
		if r.treeStale {
			r.pods[k].requests = nil // counted with the new tree
		} else {
			r.update(r.pods[k])
		}
	}
	r.markTotalsStale()
	r.mu.Unlock()
	r.notifyMayBeAdmitted()
}
