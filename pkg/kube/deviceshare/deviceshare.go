// Package deviceshare is the plugin DeviceShare: which GPUs, NICs and FPGAs of its node a pod gets, in the words of
// Koordinator's plugin of that name. What fits is computed by pkg/device; here is who has what:
//
//	Device objects ──► devices.go    what each node has
//	pods of a node ──► view.go       what of it is taken, and who wants more
//	                   holdings.go   what was chosen, until the pod itself says it
//
//	plugin.go   PreFilter, Filter: does a pod fit beside those who are there
//	reserve.go  Reserve: the choice, for all of a gang's members on the node; Bind: it is written with the node's name
//	events.go   what may cure a refusal
//	ledger.go   the same for members that are only planned (fit.Ledger)
//
// The package knows the scheduler's framework and pods; it knows neither gangs nor plans, nor who watches objects.
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

// Room is what the profiles of one process share. The zero value is an empty one.
type Room struct {
	// Expected are the pods that will be on a node beside those that are there, and that a pod which
	// goes there now must leave room for: the members of its own gang, itself among them, in the order
	// of their plan, and those of others. nil means nobody else.
	Expected func(pod *v1.Pod, node string) (own, others []*v1.Pod)
	// Changed is called when there may be more devices than before.
	Changed  func()
	devices  devices
	holdings holdings
	views    memo.Memo[string, stamp, *view]        // by node
	wants    memo.Memo[types.UID, *v1.Pod, *wanted] // by pod
	waiting  memo.Map[string, *v1.Pod]              // pods that were tried and have no node yet, by name
	solvers  sync.Pool

	mu     sync.Mutex // of what follows
	begun  bool
	packed bool

	// byClass says whether a DeviceClass offers a resource, on nodes that do not count it themselves; nil if none
	// can. It is set before anybody asks.
	byClass func(v1.ResourceName) bool
}

// Resource is what the room reads of the cluster.
func (r *Room) Resource() cache.Beside {
	changed := func(is bool) {
		if is && r.Changed != nil {
			r.Changed()
		}
	}
	return cache.Beside{
		Resource: convert.Devices,
		Set:      func(u object) { changed(r.devices.set(u)) },
		Drop: func(u object) {
			changed(r.devices.drop(u.GetName()))
			r.views.Drop(u.GetName())
		},
	}
}

// gone forgets a pod that has been deleted.
func (r *Room) gone(pod *v1.Pod) {
	r.holdings.drop(pod.UID)
	r.wants.Drop(pod.UID)
	r.waiting.Drop(convert.PodKey(pod))
}

// solve lends a solver to somebody who asks once.
func (r *Room) solve(ask func(*device.Solver)) {
	s, ok := r.solvers.Get().(*device.Solver)
	if !ok {
		s = &device.Solver{Packed: r.packed}
	}
	ask(s)
	r.solvers.Put(s)
}

// refused is a refusal as the framework has it. Where nobody who leaves helps, nobody need be evicted.
func refused(why *device.Refusal) *fwk.Status {
	code := fwk.Unschedulable
	if why.Lasting {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, why.Text()).WithPlugin(Name)
}
