// Package deviceshare is the plugin DeviceShare: it gives pods GPUs, NICs and FPGAs of their node, by the annotations of
// Koordinator's plugin of that name. pkg/device computes what fits; this package tracks which pod holds which devices:
//
//	Device objects ──► devices.go   the devices of each node
//	pods of a node ──► view.go      devices in use, and pending requests
//	                   holdings.go  chosen devices that are not written into the pod yet
//
//	plugin.go   PreFilter, Filter: whether a pod fits beside the pods of the node
//	reserve.go  Reserve: the choice, for all of a gang's members on the node; Bind: node and devices in one request
//	events.go   events that may make a pod schedulable
//	ledger.go   the same for planned members (fit.Ledger)
//
// The package uses the scheduler's framework and pods, but no gangs, no plans, and no watches of objects. Invariant: no device is given
// to two pods, even between Reserve and the write of the pod's annotation.
package deviceshare

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = config.DevicesName

// Room is the state of the plugin that the profiles of one process share. The zero value is ready to use.
type Room struct {
	// Expected returns the pods that are planned for a node in addition to its present pods: the members of pod's gang in plan order, with
	// pod itself, and other pods. Devices must remain for them. nil means no such pods.
	Expected func(pod *v1.Pod, node string) (own, others []*v1.Pod)
	// Changed is called when more devices may be free than before.
	Changed  func()
	devices  devices
	holdings holdings
	views    memo.Memo[string, stamp, *view]            // by node
	requests memo.Memo[types.UID, *v1.Pod, *podDevices] // by pod
	waiting  memo.Map[string, *v1.Pod]                  // unschedulable pods, by name
	solvers  sync.Pool

	mu          sync.Mutex // protects the fields below
	initialized bool
	packed      bool

	// byClass returns whether a DeviceClass provides an extended resource; nil without DeviceClasses. It is set before the first cycle.
	byClass func(v1.ResourceName) bool
}

// Resource returns the Device objects as a resource to watch, with its handlers.
func (r *Room) Resource() cache.ExtraResource {
	changed := func(more bool) {
		if more && r.Changed != nil {
			r.Changed()
		}
	}
	return cache.ExtraResource{
		Resource: convert.Devices,
		Set:      func(u object) { changed(r.devices.set(u)) },
		Drop: func(u object) {
			changed(r.devices.drop(u.GetName()))
			r.views.Drop(u.GetName())
		},
	}
}

// deleted removes all records of a deleted pod.
func (r *Room) deleted(pod *v1.Pod) {
	r.holdings.drop(pod.UID)
	r.requests.Drop(pod.UID)
	r.waiting.Drop(convert.PodKey(pod))
}

// solve calls ask with a solver from the pool r.solvers.
func (r *Room) solve(ask func(*device.Solver)) {
	s, ok := r.solvers.Get().(*device.Solver)
	if !ok {
		s = &device.Solver{Packed: r.packed}
	}
	ask(s)
	r.solvers.Put(s)
}

// unschedulable returns the status for a refusal. It is UnschedulableAndUnresolvable if evictions do not help.
func unschedulable(why *device.Refusal) *fwk.Status {
	code := fwk.Unschedulable
	if why.Lasting {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, why.Text()).WithPlugin(Name)
}
