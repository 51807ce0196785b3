package fit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Some plugins keep what pods have taken beside the nodes. Their hints tell when a refusal may no
// longer be true. The scheduler's queue asks them only about pods that wait, though: not about one
// that is tried just now, or that is to be tried after a while, which would find what was true
// before. So they can be asked here as well.

// informers of what nodes do not show, by the name that plugins register for it with.
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

// ListenBeside calls heard whenever something happens beside the nodes that a plugin whose refusals are
// limits (Limits) has registered for. Heard gets a question: whether that may cure a pod which the
// plugin has refused. For other plugins and for what nodes show nothing happens. It returns an error
// if the informer takes no more handlers.
func ListenBeside(f informers.SharedInformerFactory, plugin string, e fwk.ClusterEventWithHint, heard func(cures func(refused *v1.Pod) bool)) error {
	informer := besideNodes[e.Event.Resource]
	if informer == nil || !Limits(plugin) {
		return nil
	}
	logger := klog.Background()
	hear := func(action fwk.ActionType, before, now any) {
		if e.Event.ActionType&action == 0 {
			return
		}
		heard(func(refused *v1.Pod) bool {
			if e.QueueingHintFn == nil {
				return true
			}
			hint, err := e.QueueingHintFn(logger, refused, before, now)
			return err != nil || hint == fwk.Queue
		})
	}
	_, err := informer(f).AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { hear(fwk.Add, nil, o) },
		UpdateFunc: func(before, now any) { hear(fwk.Update, before, now) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			hear(fwk.Delete, o, nil)
		},
	})
	return err
}
