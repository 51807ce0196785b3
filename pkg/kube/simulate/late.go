package simulate

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// late activates pods for plugins, in the order of their names: the queue tries pods of equal priority in the order in which they come. If
// the scheduler itself is calling it does so at once, and if other goroutines are, when nothing moves any more.
type late struct {
	fwk.PodActivator
	gate *gate

	mu      sync.Mutex
	waiting map[string]*v1.Pod
}

// next activates the pods that have waited, and returns whether there were any.
func (l *late) next() bool {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = map[string]*v1.Pod{}
	l.mu.Unlock()
	l.inOrder(waiting)
	return len(waiting) > 0
}

func (l *late) inOrder(pods map[string]*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		l.PodActivator.Activate(klog.Background(), map[string]*v1.Pod{name: pods[name]})
	}
}

// Activate implements fwk.PodActivator.
func (l *late) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	if l.gate.isScheduler() {
		l.inOrder(pods)
		return
	}
	l.mu.Lock()
	maps.Copy(l.waiting, pods)
	l.mu.Unlock()
}
