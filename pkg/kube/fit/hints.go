package fit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// besideNodes has the informers of objects that plugins read besides nodes and pods, by the resource of the events that plugins register
// for. A plugin's queueing hint says whether an event may outdate a rejection. The scheduler calls hints only for certain pods in its
// queue, so that ListenBeside calls them for remembered rejections.
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

// ListenBeside calls report at each event e of an object in besideNodes, if the plugin's rejections are remembered (Limits). The argument
// of report is a function that returns whether the event may let the plugin accept a pod that it rejected. For other plugins and resources
// ListenBeside does nothing. It returns an error if the informer accepts no handler.
func ListenBeside(
	f informers.SharedInformerFactory, plugin string, e fwk.ClusterEventWithHint, report func(cures func(refused *v1.Pod) bool),
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
		report(func(refused *v1.Pod) bool {
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
