package simulate

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// delayedActivator activates pods for plugins in the order of their names, since the queue orders pods of equal priority by arrival.
// A call from the scheduler's goroutine takes effect at once. Any other call takes effect in activateWaiting.
type delayedActivator struct {
	fwk.PodActivator
	gate *gate

	mu      sync.Mutex
	waiting map[string]*v1.Pod
}

// activateWaiting activates the pods of earlier calls of Activate that were delayed. It returns whether there were any.
func (l *delayedActivator) activateWaiting() bool {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = map[string]*v1.Pod{}
	l.mu.Unlock()
	l.inOrder(waiting)
	return len(waiting) > 0
}

// inOrder activates pods, sorted by name.
func (l *delayedActivator) inOrder(pods map[string]*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		l.PodActivator.Activate(klog.Background(), map[string]*v1.Pod{name: pods[name]})
	}
}

// Activate implements fwk.PodActivator.
func (l *delayedActivator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	if l.gate.isScheduler() {
		l.inOrder(pods)
		return
	}
	l.mu.Lock()
	maps.Copy(l.waiting, pods)
	l.mu.Unlock()
}
