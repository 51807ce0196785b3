package preempt

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// held are the groups that leave whole for pods without a gang, by pod. Such a pod has no reservation: when the first of
// a group has left it would go there, and a process that begins then would not know for whom the rest is to leave. The
// executor keeps it from being tried, but only until the first requests have failed and nobody has left. Whoever
// leaves later parts a group as well.
type held struct {
	mu sync.Mutex
	by map[types.UID]map[*wholes]bool
}

// Holds says whether a pod without a gang goes nowhere yet: of a group that leaves for it some have left, and others
// are waited for.
func (p *Preemptor) Holds(pod *v1.Pod) bool {
	p.held.mu.Lock()
	defer p.held.mu.Unlock()
	for groups := range p.held.by[pod.UID] {
		if groups.parted() {
			return true
		}
	}
	return false
}

// add notes groups that leave for a pod, until drop is called.
func (h *held) add(by types.UID, groups *wholes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[types.UID]map[*wholes]bool{}
	}
	if h.by[by] == nil {
		h.by[by] = map[*wholes]bool{}
	}
	h.by[by][groups] = true
}

func (h *held) drop(by types.UID, groups *wholes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.by[by], groups); len(h.by[by]) == 0 {
		delete(h.by, by)
	}
}
