package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// Pods of Kubernetes 1.35 name their gang in spec.workloadRef. The types of later versions lack that field, so the scheduler's own pod
// informer drops it, and a member would start alone. If Workloads are served, all pods are watched a second time, unstructured:
//
//	pods ----> informer of pods -----> fill ----> scheduler, cache
//	   \                                ^ waits until the pod's workloadRef is known
//	    '----> unstructured pods -------'
//
// Only the UID of each pod and that field are kept.

// WorkloadRefs returns a transform for pod informers that sets spec.schedulingGroup from spec.workloadRef; nil if the API server does
// not serve Workloads. It ignores that isServed reports a missing read permission.
func WorkloadRefs(
	ctx context.Context, client dynamic.Interface, isServed func(schema.GroupVersionResource) (bool, error),
) (toolscache.TransformFunc, error) {
	ok, err := isServed(source.Workloads)
	if err != nil && !errors.Is(err, watch.ErrNoPermission) {
		return nil, fmt.Errorf("asking whether %s is served: %w", source.Workloads.GroupResource(), err)
	}
	if !ok && err == nil {
		return nil, nil
	}
	w := &workloadRefs{ctx: ctx, pods: client.Resource(v1.SchemeGroupVersion.WithResource("pods"))}
	if err := w.watch(client); err != nil {
		return nil, err
	}
	return w.fill, nil
}

// FillPods sets the transform of WorkloadRefs on a pod informer; nil for none.
func FillPods(informer toolscache.SharedIndexInformer, fill toolscache.TransformFunc) error {
	if fill == nil {
		return nil
	}
	return informer.SetTransform(fill)
}

// workloadRefs reads and remembers the workloadRef of each pod.
type workloadRefs struct {
	ctx  context.Context
	pods dynamic.NamespaceableResourceInterface

	refs memo.Map[types.UID, string] // by pod, its workloadRef as one name; "" for none
}

const (
	firstListTimeout = 20 * time.Second // for the first list of pods
	minWait          = time.Millisecond // the first wait for a pod's workloadRef
	maxWait          = time.Second      // the wait doubles up to this, then the API server is asked
	deletedRefTTL    = time.Minute      // refs of deleted pods, which the other informer may see later
)

// watch starts an informer of unstructured pods, and returns when it knows all pods, or after firstListTimeout.
func (w *workloadRefs) watch(client dynamic.Interface) error {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(v1.SchemeGroupVersion.WithResource("pods")).Informer()
	if err := informer.SetTransform(keepRef); err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    w.recordRef,
		UpdateFunc: func(_, object any) { w.recordRef(object) },
		DeleteFunc: w.podDeleted,
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(w.ctx)
	listCtx, cancel := context.WithTimeout(w.ctx, firstListTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(listCtx.Done(), registration.HasSynced) {
		klog.FromContext(w.ctx).Info("The list of pods has not arrived in time; the gang of a pod is known when the list arrives",
			"field", refField, "waited", firstListTimeout)
	}
	return nil
}

const refField = "spec.workloadRef"

// keepRef returns only a pod's identity and its workloadRef, the latter as an annotation.
func keepRef(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec")
	fields, _ := spec.(map[string]any)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		Annotations: map[string]string{refField: source.WorkloadRef(fields)},
	}}, nil
}

// recordRef records the ref of an object that keepRef returned.
func (w *workloadRefs) recordRef(object any) {
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		w.refs.Add(pod.UID, pod.Annotations[refField])
	}
}

// podDeleted calls forget for a deleted pod, or for the tombstone of one.
func (w *workloadRefs) podDeleted(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	w.forget(pod.UID)
}

// forget drops the ref of a deleted pod after deletedRefTTL.
func (w *workloadRefs) forget(pod types.UID) {
	time.AfterFunc(deletedRefTTL, func() { w.refs.Drop(pod) })
}

// fill returns a copy of a pod with its workloadRef in spec.schedulingGroup, where source.GangOf reads it, and without managedFields.
func (w *workloadRefs) fill(object any) (any, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	podCopy := *pod // the caller may still read the original
	podCopy.ManagedFields = nil
	if podCopy.Spec.SchedulingGroup == nil {
		if ref := w.waitForRef(pod); ref != "" {
			podCopy.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &ref}
		}
	}
	return &podCopy, nil
}

// waitForRef blocks until the pod's workloadRef is known, and returns it; "" if the pod has none or w.ctx ends. One watch may be ahead
// of the other, mostly by less than a millisecond.
func (w *workloadRefs) waitForRef(pod *v1.Pod) string {
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		if ref, ok := w.refs.Get(pod.UID); ok {
			return ref
		}
		if wait == maxWait && w.readRef(pod) {
			continue
		}
		select {
		case <-w.ctx.Done():
			return ""
		case <-time.After(wait):
		}
	}
}

// readRef reads a pod from the API server and records its ref; "" for a deleted pod. It returns false if the request failed.
func (w *workloadRefs) readRef(pod *v1.Pod) bool {
	u, err := w.pods.Namespace(pod.Namespace).Get(w.ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && u.GetUID() != pod.UID:
		w.refs.Add(pod.UID, "")
		w.forget(pod.UID)
	case err != nil:
		klog.FromContext(w.ctx).Error(err, "Cannot read the field "+refField+" of a pod", "pod", klog.KObj(pod))
		return false
	default:
		if metadata, _ := keepRef(u); metadata != nil {
			w.recordRef(metadata)
		}
	}
	return true
}
