package deviceshare

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// view has the devices of a node and their use by its pods. It is shared and must not be changed.
type view struct {
	state     *device.State      // nil without a valid Device object
	invalid   bool               // the Device object is invalid
	uncounted bool               // no Device object, but pods have devices only counted here
	open      []*device.Request  // requests of pods without chosen devices: hypothetical, nominated, or bound by another scheduler
	pods      map[types.UID]bool // pods with devices in state, or with a request that needs none
}

// stamp identifies all that a view depends on: the versions of the node, its Device object and its holdings.
type stamp struct {
	generation, devices, holdings int64
	node                          *device.Node
}

// view returns the view of a node, which is remembered as long as its stamp does not change.
func (r *Room) view(node fwk.NodeInfo) *view {
	name := node.Node().Name
	has, number, invalid := r.devices.onNode(node.Node())
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

// addPod adds a pod of the node to a view: the chosen devices, or the ones in its annotation, or its request.
func (r *Room) addPod(v *view, pod *v1.Pod, node string) {
	w := r.readPod(pod)
	if w == nil {
		return
	}
	switch h := r.holdings.choiceFor(pod, node); {
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

// neverFits returns why no eviction makes a node fit a request; nil if the node may fit it. A node without a Device object may fit a
// request for only a vendor's GPUs: there plugin NodeResourcesFit counts these.
func (r *Room) neverFits(w *podDevices, v *view, node fwk.NodeInfo) *device.Refusal {
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
		// The node has the resource only by its DeviceClass: the DRA plugin would give out devices that are in use here.
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
	minimum *device.Request   // the request, or the valid part of an invalid one: what the pod takes if it runs
	names   []v1.ResourceName // the requested resources
	holds   device.Allocation // the devices in the pod's annotation
}

// readPod returns a pod's request and devices; nil for a pod with neither. It remembers the result.
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
