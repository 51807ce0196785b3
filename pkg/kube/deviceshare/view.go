package deviceshare

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// view is the state of a node with its pods. It is shared and must not be changed.
type view struct {
	state     *device.State     // nil without a Device object, or
	invalid   bool              // with an invalid one
	uncounted bool              // without an object, though a pod holds devices that only this plugin counts
	open      []*device.Request // of pods without a choice: hypothetical, nominated, bound by another scheduler
	pods      map[types.UID]bool
}

// stamp is all that a view depends on. The scheduler numbers each version of each node.
type stamp struct {
	generation, devices, holdings int64
	node                          *device.Node
}

// view returns the state of a node with its pods.
func (r *Room) view(node fwk.NodeInfo) *view {
	name := node.Node().Name
	has, number, invalid := r.devices.of(node.Node())
	now := stamp{generation: node.GetGeneration(), devices: number, holdings: r.holdings.versionOn(name), node: has}
	if v, ok := r.views.Get(name, now); ok && now.generation != 0 {
		return v
	}
	v := &view{invalid: invalid, pods: map[types.UID]bool{}}
	if has != nil {
		v.state = device.NewState(has)
	}
	for _, info := range node.GetPods() {
		switch pod := info.GetPod(); {
		case has != nil:
			r.addPod(v, pod, name)
		case pod.Annotations[convert.DeviceAllocated] != "" && convert.NamesKoordinator(pod):
			v.uncounted = true
		}
	}
	r.views.Put(name, now, v)
	return v
}

// addPod adds one pod of a node.
func (r *Room) addPod(v *view, pod *v1.Pod, node string) {
	w := r.readPod(pod)
	if w == nil {
		return
	}
	switch h := r.holdings.of(pod, node); {
	case h != nil:
		v.state.Take(h.allocation)
	case pod.Spec.NodeName != "" && w.holds != nil:
		v.state.Take(w.holds)
	case w.minimum != nil:
		v.open = append(v.open, w.minimum)
		return
	}
	v.pods[pod.UID] = true
}

// never returns why a node never fits a request, with any pods; nil if it may. Without a Device object, another plugin counts
// the devices.
func (r *Room) never(w *podDevices, v *view, node fwk.NodeInfo) *device.Refusal {
	switch {
	case v.invalid:
		return device.Unreadable(w.request)
	case v.uncounted:
		return &device.Refusal{Reason: device.MissingDevice, Type: w.request.Types()[0], Lasting: true}
	case v.state == nil:
		return device.Missing(w.request)
	case r.byClass == nil:
		return nil
	}
	for _, name := range w.names {
		if node.GetAllocatable().GetScalarResources()[name] == 0 && r.byClass(name) {
			return device.OfferedTwiceRefusal(w.request, string(name))
		}
	}
	return nil
}

// podDevices is the request and the devices in a pod's spec and annotations.
type podDevices struct {
	request *device.Request   // nil if there is none, or it is invalid
	invalid error             // why it is invalid
	minimum *device.Request   // the request, or its valid part, which the pod takes in any case where it runs
	names   []v1.ResourceName // the requested resources
	holds   device.Allocation
}

// readPod reads a pod's request and devices, once; nil for a pod without either.
func (r *Room) readPod(pod *v1.Pod) *podDevices {
	_, holds := pod.Annotations[convert.DeviceAllocated]
	if !holds && !convert.WantsDevices(pod) {
		return nil
	}
	if read, ok := r.requests.Get(pod.UID, pod); ok {
		return read
	}
	read := &podDevices{}
	read.names = convert.DeviceNames(pod)
	read.request, read.invalid = convert.DeviceRequest(pod)
	if read.minimum = read.request; read.invalid != nil {
		read.minimum = convert.DeviceResources(pod)
	}
	if holds {
		var err error
		if read.holds, err = convert.DeviceAllocation(pod); err != nil {
			klog.Background().Error(err, "Cannot read which devices a pod uses; all that match its request stay reserved", "pod", klog.KObj(pod))
		}
	}
	r.requests.Put(pod.UID, pod, read)
	return read
}
