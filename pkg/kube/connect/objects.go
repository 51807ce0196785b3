package connect

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Cluster returns the source of objects for Muster's cache: the scheduler's informers, and a client for custom resources. It first
// checks that kube-scheduler's own gangs are off and that permissions suffice.
func Cluster(ctx context.Context, h fwk.Handle) (cache.Source, error) {
	if err := rejectNativeGangs(utilfeature.DefaultFeatureGate); err != nil {
		return cache.Source{}, err
	}
	if err := CheckPermissions(ctx, h.ClientSet()); err != nil {
		return cache.Source{}, err
	}
	client, err := Custom(h.KubeConfig())
	if err != nil {
		return cache.Source{}, err
	}
	fill, err := WorkloadRefs(ctx, client, Served(h.ClientSet().Discovery()))
	if err != nil {
		return cache.Source{}, err
	}
	src, err := objects(ctx, h, client, fill)
	src.Served, src.Later = Readable(ctx, h.ClientSet()), true
	return src, err
}

// FromClient returns a function like Cluster that checks no permissions. client must serve the resources of Ours(optional).
func FromClient(client dynamic.Interface, optional ...schema.GroupVersionResource) func(context.Context, fwk.Handle) (cache.Source, error) {
	return func(ctx context.Context, h fwk.Handle) (src cache.Source, err error) {
		src, err = objects(ctx, h, client, nil)
		src.Served = Ours(optional...)
		return src, err
	}
}

// objects returns a source with the scheduler's informers, and client for custom resources. fill transforms each pod before the
// informer stores it; nil for none.
func objects(ctx context.Context, h fwk.Handle, client dynamic.Interface, fill toolscache.TransformFunc) (src cache.Source, err error) {
	trimNodes(ctx, h.SharedInformerFactory())
	src = cache.Source{Core: h.SharedInformerFactory(), Dynamic: client}
	if err := FillPods(src.Core.Core().V1().Pods().Informer(), fill); err != nil {
		return src, err
	}
	src.Finished, err = Finished(h.ClientSet(), fill)
	return src, err
}

// Finished returns an informer of pods that have succeeded or failed, which the scheduler's own informer treats as deleted. Pods
// are trimmed (trimPod). fill transforms each pod before; nil for none.
func Finished(client kubernetes.Interface, fill toolscache.TransformFunc) (toolscache.SharedIndexInformer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
	}))
	informer := factory.Core().V1().Pods().Informer()
	return informer, informer.SetTransform(func(object any) (any, error) {
		if fill != nil {
			var err error
			if object, err = fill(object); err != nil {
				return nil, err
			}
		}
		if pod, ok := object.(*v1.Pod); ok {
			return trimPod(pod), nil
		}
		return object, nil
	})
}

// trimPod returns the fields of a finished pod that Muster reads. For a pod without a gang these are fewer.
func trimPod(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp,
		},
		Status: v1.PodStatus{Phase: pod.Status.Phase},
	}
	if end := convert.Ended(pod); end > 0 {
		out.Status.ContainerStatuses = []v1.ContainerStatus{{
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Unix(end, 0)}},
		}}
	}
	if !source.GangOf(pod).IsZero() {
		out.Labels = pod.Labels
		out.Annotations = pod.Annotations
		out.OwnerReferences = pod.OwnerReferences
		out.Spec.NodeName = pod.Spec.NodeName
		out.Spec.SchedulerName = pod.Spec.SchedulerName
		out.Spec.SchedulingGroup = pod.Spec.SchedulingGroup
	}
	return out
}
