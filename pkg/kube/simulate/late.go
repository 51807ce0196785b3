package simulate

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// late activates pods for plugins: at once if the scheduler itself is calling, and when
// nothing moves any more if others are.
type late struct {
	fwk.PodActivator
	gate *gate

	mu      sync.Mutex
	waiting []func()
}

// next activates what has waited, and says whether anything has.
func (l *late) next() bool {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, activate := range waiting {
		activate()
	}
	return len(waiting) > 0
}

// Activate implements fwk.PodActivator.
func (l *late) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	if l.gate.isScheduler() {
		l.PodActivator.Activate(logger, pods)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, func() { l.PodActivator.Activate(logger, pods) })
}
