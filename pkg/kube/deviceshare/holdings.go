package deviceshare

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// holdings are what was chosen for pods that do not say it themselves yet, by pod.
//
//	Reserve ──► chosen ──Bind──► written in the pod, and seen there: forgotten
//	               └──Unreserve, or the pod is deleted: forgotten
//
// A choice is known from before the pod is counted on its node until the scheduler has seen it written, so no device is
// given twice.
type holdings struct {
	mu      sync.Mutex
	byPod   map[types.UID]*holding
	version map[string]int64 // by node
	last    int64
}

// holding is what one pod was given.
type holding struct {
	node       string
	allocation device.Allocation
	before     string // what the pod said when this was chosen
}

func (h *holdings) put(pod *v1.Pod, node string, a device.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byPod == nil {
		h.byPod, h.version = map[types.UID]*holding{}, map[string]int64{}
	}
	h.byPod[pod.UID] = &holding{node, a, pod.Annotations[convert.DeviceAllocated]}
	h.changed(node)
}

func (h *holdings) drop(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if is := h.byPod[uid]; is != nil {
		delete(h.byPod, uid)
		h.changed(is.node)
	}
}

// changed notes that what is known of a node is another. h.mu is held.
func (h *holdings) changed(node string) {
	h.last++
	h.version[node] = h.last
}

// on is the version of what is held on a node.
func (h *holdings) on(node string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version[node]
}

// of is what was chosen for a pod on a node, nil if nothing was, or if the pod says so itself now.
func (h *holdings) of(pod *v1.Pod, node string) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.byPod[pod.UID]
	if is == nil || is.node != node {
		return nil
	}
	if pod.Annotations[convert.DeviceAllocated] != is.before {
		delete(h.byPod, pod.UID)
		return nil
	}
	return is
}

// others are the choices for a node of pods that are not among some.
func (h *holdings) others(node string, some map[types.UID]bool) (all []device.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, is := range h.byPod {
		if is.node == node && !some[uid] {
			all = append(all, is.allocation)
		}
	}
	return all
}
