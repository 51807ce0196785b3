package connect

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
)

// trimNodes leaves out of all nodes who wrote which field when: nobody here reads it, and
// it is a sixth of what a scheduler keeps of a large cluster. kube-scheduler does so for
// pods.
func trimNodes(ctx context.Context, f informers.SharedInformerFactory) {
	err := f.Core().V1().Nodes().Informer().SetTransform(func(object any) (any, error) {
		node, ok := object.(*v1.Node)
		if !ok || len(node.ManagedFields) == 0 {
			return object, nil
		}
		own := *node // whoever gave it may still read it
		own.ManagedFields = nil
		return &own, nil
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Nodes are kept whole", "err", err)
	}
}
