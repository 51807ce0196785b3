package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// history remembers which pods were evicted, also pods that are long gone, and how gangs began.
type history struct {
	pods    corev1.PodInterface
	watcher watch.Interface

	mu     sync.Mutex
	gone   map[types.UID]string // evicted pods' names
	rules  []*gangRule
	marks  map[types.UID]bool // deleted pods
	closed bool
}

func newHistory(ctx context.Context, client kubernetes.Interface) (*history, error) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	watcher, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	h := &history{pods: pods, watcher: watcher, gone: map[types.UID]string{}, marks: map[types.UID]bool{}}
	go h.follow()
	return h, nil
}

func (h *history) stop() { h.watcher.Stop() }

func (h *history) follow() {
	for event := range h.watcher.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			break
		}
		h.mu.Lock()
		if evicted(pod) {
			h.gone[pod.UID] = pod.Name
		}
		if event.Type == watch.Deleted {
			h.marks[pod.UID] = true
		}
		for _, r := range h.rules {
			r.see(pod, event.Type == watch.Deleted, time.Now())
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// evicted says whether the scheduler has asked a pod to leave.
func evicted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// evicted returns the names of the pods that were evicted until now.
func (h *history) evicted(ctx context.Context) ([]string, error) {
	var names []string
	err := h.now(ctx, func() {
		for _, name := range h.gone {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("what was evicted: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// now calls look when all has been seen that has happened until now. A pod that comes and goes
// marks what "now" is in the stream of events.
func (h *history) now(ctx context.Context, look func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	mark, err := h.pods.Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "mark-"},
		Spec: v1.PodSpec{
			SchedulerName: "nobody",
			Containers:    []v1.Container{{Name: "mark", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	zero := int64(0)
	if err := h.pods.Delete(ctx, mark.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.marks[mark.UID] {
			if h.closed {
				return false, errors.New("the watch of pods has ended")
			}
			return false, nil
		}
		look()
		return true, nil
	})
}
