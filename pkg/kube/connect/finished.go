package connect

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Finished returns an informer of pods that have succeeded or failed: the scheduler's
// own leaves them out, and they are deleted as far as it can tell. Of pods without a
// gang hardly anything is kept. fill is done with each before; nil is nothing.
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
			return slim(pod), nil
		}
		return object, nil
	})
}

// slim leaves what is said of finished members.
func slim(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp},
		Status:     v1.PodStatus{Phase: pod.Status.Phase},
	}
	if at := convert.Ended(pod); at > 0 {
		out.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Unix(at, 0)}}}}
	}
	if !source.Of(pod).IsZero() {
		out.Labels, out.Annotations, out.OwnerReferences = pod.Labels, pod.Annotations, pod.OwnerReferences
		out.Spec.NodeName, out.Spec.SchedulerName, out.Spec.SchedulingGroup = pod.Spec.NodeName, pod.Spec.SchedulerName, pod.Spec.SchedulingGroup
	}
	return out
}
