package deviceshare

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// view is a node as those who are on it leave it. It is shared, and not to be changed.
type view struct {
	state *device.State     // nil if nobody says what the node has, or
	bad   bool              // in a way that cannot be
	lost  bool              // nobody says it, though somebody holds some of it that only this plugin counts
	open  []*device.Request // of those who have chosen nothing yet: hypothetical, nominated, bound by others
	pods  map[types.UID]bool
}

// stamp is all that the view of a node depends on. The scheduler gives each state of each node a number of its own.
type stamp struct {
	generation, devices, holdings int64
	node                          *device.Node
}

// view is how pods leave a node.
func (r *Room) view(node fwk.NodeInfo) *view {
	name := node.Node().Name
	has, number, bad := r.devices.of(node.Node())
	now := stamp{generation: node.GetGeneration(), devices: number, holdings: r.holdings.on(name), node: has}
	if v, ok := r.views.Get(name, now); ok && now.generation != 0 {
		return v
	}
	v := &view{bad: bad, pods: map[types.UID]bool{}}
	if has != nil {
		v.state = device.NewState(has)
	}
	for _, info := range node.GetPods() {
		switch pod := info.GetPod(); {
		case has != nil:
			r.look(v, pod, name)
		case pod.Annotations[convert.DeviceAllocated] != "" && convert.NamesKoordinator(pod):
			v.lost = true
		}
	}
	r.views.Put(name, now, v)
	return v
}

// look counts one pod of a node.
func (r *Room) look(v *view, pod *v1.Pod, node string) {
	w := r.readPod(pod)
	if w == nil {
		return
	}
	switch h := r.holdings.of(pod, node); {
	case h != nil:
		v.state.Take(h.allocation)
	case pod.Spec.NodeName != "" && w.holds != nil:
		v.state.Take(w.holds)
	case w.least != nil:
		v.open = append(v.open, w.least)
		return
	}
	v.pods[pod.UID] = true
}

// never says why a node is none for a pod that wants something, whoever is there; nil if it may be one. Where nobody
// says what the node has, somebody else counts it then.
func (r *Room) never(w *wanted, v *view, node fwk.NodeInfo) *device.Refusal {
	switch {
	case v.bad:
		return device.Unreadable(w.request)
	case v.lost:
		return &device.Refusal{Reason: device.MissingDevice, Type: w.request.Types()[0], Lasting: true}
	case v.state == nil:
		return device.Missing(w.request)
	case r.byClass == nil:
		return nil
	}
	for _, name := range w.names {
		if node.GetAllocatable().GetScalarResources()[name] == 0 && r.byClass(name) {
			return device.Twice(w.request, string(name))
		}
	}
	return nil
}

// wanted is what is written in a pod.
type wanted struct {
	request *device.Request   // nil if it wants none, or what cannot be meant
	bad     error             // which is that
	least   *device.Request   // what it takes in any case where it is: the request, or that without what cannot be meant of it
	names   []v1.ResourceName // by which it asks
	holds   device.Allocation
}

// readPod reads what is written in a pod, once; nil if the pod has nothing to do with devices.
func (r *Room) readPod(pod *v1.Pod) *wanted {
	_, holds := pod.Annotations[convert.DeviceAllocated]
	if !holds && !convert.WantsDevices(pod) {
		return nil
	}
	if is, ok := r.wants.Get(pod.UID, pod); ok {
		return is
	}
	is := &wanted{}
	is.names = convert.DeviceNames(pod)
	is.request, is.bad = convert.DeviceRequest(pod)
	if is.least = is.request; is.bad != nil {
		is.least = convert.DeviceResources(pod)
	}
	if holds {
		var err error
		if is.holds, err = convert.DeviceAllocation(pod); err != nil {
			klog.Background().Error(err, "Cannot read which devices a pod has: some that it might want are kept for it", "pod", klog.KObj(pod))
		}
	}
	r.wants.Put(pod.UID, pod, is)
	return is
}
