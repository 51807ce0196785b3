package cache

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// NewFinished returns an informer of pods that have succeeded or failed: the scheduler's
// own leaves them out, and they are deleted as far as it can tell. Of pods without a
// gang hardly anything is kept.
func NewFinished(client kubernetes.Interface) (toolscache.SharedIndexInformer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
	}))
	informer := factory.Core().V1().Pods().Informer()
	return informer, informer.SetTransform(func(object any) (any, error) {
		if pod, ok := object.(*v1.Pod); ok {
			return slim(pod), nil
		}
		return object, nil
	})
}

// slim leaves what is said of finished members.
func slim(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Status:     v1.PodStatus{Phase: pod.Status.Phase},
	}
	if convert.GangOf(pod) != "" {
		out.Labels, out.Annotations, out.OwnerReferences = pod.Labels, pod.Annotations, pod.OwnerReferences
		out.Spec.NodeName = pod.Spec.NodeName
	}
	return out
}

// setDone notes that a member has succeeded or failed.
func (c *Cache) setDone(pod *v1.Pod) {
	name := convert.GangOf(pod)
	if name == "" || !convert.Finished(pod) {
		return
	}
	c.mu.Lock()
	c.record(name).done[convert.PodKey(pod)] = pod
	effects := c.book.Apply(gang.Left{Pod: convert.PodKey(pod), UID: string(pod.UID)}, c.Clock.Now())
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: name})
	c.mu.Unlock()
	c.do(effects)
}

// dropDone notes that a finished member is gone.
func (c *Cache) dropDone(pod *v1.Pod) {
	name := convert.GangOf(pod)
	if name == "" {
		return
	}
	key := convert.PodKey(pod)
	c.mu.Lock()
	r := c.record(name)
	if p := r.done[key]; p != nil && p.UID == pod.UID {
		delete(r.done, key)
	}
	c.tidy(name, r)
	effects := []gang.Effect{{Verb: gang.Report, Gang: name}}
	c.mu.Unlock()
	c.do(effects)
}
