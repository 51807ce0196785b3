package simulate

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// pause lets a time pass. Meanwhile the scheduler works, held pods are created, and pods end whose activeDeadlineSeconds are over.
func (w *World) pause(ctx context.Context, d time.Duration) error {
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		if err := w.endPods(); err != nil {
			return err
		}
		due := w.clock.Now().Add(timeStep)
		if err := w.Settle(ctx, func() bool { return !w.clock.Now().Before(due) }); err != nil {
			return err
		}
		if w.clock.Now().Before(due) { // nothing was left to do
			w.clock.Step(timeStep)
		}
	}
	return w.endPods()
}

// endPods sets the pods to Failed whose activeDeadlineSeconds are over, as their kubelets do.
func (w *World) endPods() error {
	for _, pod := range w.Pods() {
		seconds := pod.Spec.ActiveDeadlineSeconds
		_, bound := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
		if seconds == nil || pod.Spec.NodeName == "" || convert.Finished(pod) || bound == nil ||
			w.clock.Now().Before(bound.LastTransitionTime.Add(time.Duration(*seconds)*time.Second)) {
			continue
		}
		finished := func(old runtime.Object) (runtime.Object, error) {
			pod := old.DeepCopyObject().(*v1.Pod)
			pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "DeadlineExceeded"
			return pod, nil
		}
		if _, err := w.cluster.change(pods, key{pod.Namespace, pod.Name}, existing(pods, pod.Name, finished)); err != nil {
			return err
		}
	}
	return nil
}
