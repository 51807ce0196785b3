package simulate

import (
	"bytes"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// late activates pods for plugins: at once if the scheduler itself is calling, and after
// its turn if others are.
type late struct {
	fwk.PodActivator

	mu        sync.Mutex
	scheduler string // its goroutine
	held      bool
	waiting   []func()
}

// own says which goroutine is the scheduler's.
func (l *late) own(goroutine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scheduler = goroutine
}

func (l *late) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

func (l *late) release() {
	l.mu.Lock()
	waiting := l.waiting
	l.held, l.waiting = false, nil
	l.mu.Unlock()
	for _, activate := range waiting {
		activate()
	}
}

// Activate implements fwk.PodActivator.
func (l *late) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	l.mu.Lock()
	wait := l.held && goroutine() != l.scheduler
	if wait {
		l.waiting = append(l.waiting, func() { l.PodActivator.Activate(logger, pods) })
	}
	l.mu.Unlock()
	if !wait {
		l.PodActivator.Activate(logger, pods)
	}
}

// goroutine names the calling goroutine.
func goroutine() string {
	var buffer [64]byte
	head := buffer[:runtime.Stack(buffer[:], false)]
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	return string(head)
}
