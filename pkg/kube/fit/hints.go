package fit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// besideNodes returns the informers of objects that nodes do not show, by the resource that plugins register for.
// Some plugins keep state beside the nodes. Their queueing hints tell when a rejection may be outdated.
// The scheduler asks the hints only about queued pods, but not in a cycle or in backoff. So they are asked here too.
var besideNodes = map[fwk.EventResource]func(informers.SharedInformerFactory) cache.SharedIndexInformer{
	fwk.CSINode: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Storage().V1().CSINodes().Informer()
	},
	fwk.CSIDriver: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Storage().V1().CSIDrivers().Informer()
	},
	fwk.CSIStorageCapacity: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Storage().V1().CSIStorageCapacities().Informer()
	},
	fwk.StorageClass: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Storage().V1().StorageClasses().Informer()
	},
	fwk.VolumeAttachment: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Storage().V1().VolumeAttachments().Informer()
	},
	fwk.PersistentVolume: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().PersistentVolumes().Informer()
	},
	fwk.PersistentVolumeClaim: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().PersistentVolumeClaims().Informer()
	},
	fwk.ResourceClaim: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Resource().V1().ResourceClaims().Informer()
	},
	fwk.ResourceSlice: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Resource().V1().ResourceSlices().Informer()
	},
	fwk.DeviceClass: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Resource().V1().DeviceClasses().Informer()
	},
}

// ListenBeside calls heard for each event beside the nodes for which a plugin has registered, if its rejections are limits (Limits).
// heard gets a function that returns whether the event may cure a rejected pod. Other plugins and resources are ignored.
// It returns an error if the informer takes no more handlers.
func ListenBeside(
	f informers.SharedInformerFactory, plugin string, e fwk.ClusterEventWithHint, heard func(cures func(refused *v1.Pod) bool),
) error {
	informer := besideNodes[e.Event.Resource]
	if informer == nil || !Limits(plugin) {
		return nil
	}
	logger := klog.Background()
	notify := func(action fwk.ActionType, oldObject, newObject any) {
		if e.Event.ActionType&action == 0 {
			return
		}
		heard(func(refused *v1.Pod) bool {
			if e.QueueingHintFn == nil {
				return true
			}
			hint, err := e.QueueingHintFn(logger, refused, oldObject, newObject)
			return err != nil || hint == fwk.Queue
		})
	}
	_, err := informer(f).AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { notify(fwk.Add, nil, o) },
		UpdateFunc: func(oldObject, newObject any) { notify(fwk.Update, oldObject, newObject) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			notify(fwk.Delete, o, nil)
		},
	})
	return err
}
