package deviceshare

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// holdings are the choices for pods that are not written in the pod yet, by pod.
//
// \tReserve ──► chosen ──Bind──► written in the pod, and seen there: forgotten
// \t └──Unreserve, or the pod is deleted: forgotten
//
// Invariant: a choice is known from before the pod counts on its node until the scheduler sees it written, so no device is
// given twice.
type holdings struct {
	mu      sync.Mutex
	byPod   map[types.UID]*holding
	version map[string]int64 // by node
	last    int64
}

// holding is the choice for one pod.
type holding struct {
	node       string
	allocation device.Allocation
	before     string // the pod's annotation when this was chosen
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
	if held := h.byPod[uid]; held != nil {
		delete(h.byPod, uid)
		h.changed(held.node)
	}
}

// changed gives a node a new version. The caller holds h.mu.
func (h *holdings) changed(node string) {
	h.last++
	h.version[node] = h.last
}

// versionOn returns the version of a node's holdings.
func (h *holdings) versionOn(node string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version[node]
}

// of returns the choice for a pod on a node, nil if there is none, or if the pod's annotation has it now.
func (h *holdings) of(pod *v1.Pod, node string) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.byPod[pod.UID]
	if held == nil || held.node != node {
		return nil
	}
	if pod.Annotations[convert.DeviceAllocated] != held.before {
		delete(h.byPod, pod.UID)
		return nil
	}
	return held
}

// others returns the choices for a node, except for the pods in except.
func (h *holdings) others(node string, except map[types.UID]bool) (all []device.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, held := range h.byPod {
		if held.node == node && !except[uid] {
			all = append(all, held.allocation)
		}
	}
	return all
}
