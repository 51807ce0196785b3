package deviceshare

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// holdings are the devices chosen for pods whose annotation does not have them yet.
//
//	Reserve ──► chosen ──Bind──► written into the pod, and seen there: removed
//	               └──Unreserve, or the pod is deleted: removed
//
// Invariant: a choice is recorded before the pod counts on its node, until the scheduler sees the annotation. So no device is given to two
// pods.
type holdings struct {
	mu      sync.Mutex
	byPod   map[types.UID]*holding
	version map[string]int64 // by node, the number of its last change
	last    int64            // the last number
}

// holding is the choice for one pod.
type holding struct {
	node       string
	allocation device.Allocation
	before     string // the pod's annotation when the devices were chosen
}

func (h *holdings) put(pod *v1.Pod, node string, a device.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byPod == nil {
		h.byPod, h.version = map[types.UID]*holding{}, map[string]int64{}
	}
	h.byPod[pod.UID] = &holding{node, a, pod.Annotations[convert.DeviceAllocated]}
	h.newVersion(node)
}

func (h *holdings) drop(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byPod[uid]; held != nil {
		delete(h.byPod, uid)
		h.newVersion(held.node)
	}
}

// newVersion gives a node a new version. h.mu is locked.
func (h *holdings) newVersion(node string) {
	h.last++
	h.version[node] = h.last
}

// versionOn returns the version of a node's holdings.
func (h *holdings) versionOn(node string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version[node]
}

// choiceFor returns the choice for a pod on a node; nil if there is none. If the pod's annotation has changed since, it removes the choice.
func (h *holdings) choiceFor(pod *v1.Pod, node string) *holding {
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

// allocationsOn returns the chosen devices of a node, without the ones of the pods in except.
func (h *holdings) allocationsOn(node string, except map[types.UID]bool) (all []device.Allocation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, held := range h.byPod {
		if held.node == node && !except[uid] {
			all = append(all, held.allocation)
		}
	}
	return all
}
