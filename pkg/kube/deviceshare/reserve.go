package deviceshare

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Reserve chooses and records the pod's devices. It chooses for all planned members of the pod's gang on the node without devices, in plan
// order, but records only the pod's own. Reserve of the next member makes the same choice as long as the other members' devices are free.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.waiting.Drop(convert.PodKey(pod))
	w := p.wanted(pod)
	if w == nil || w.request == nil {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	v := p.view(info)
	if why := p.neverFits(w, v, info); why != nil {
		return unschedulable(why) // the Device object has changed since Filter
	}
	if v.state == nil {
		return nil // a vendor's GPU that another plugin counts
	}
	a, why := p.choose(pod, w.request, v, node)
	if why != nil {
		return unschedulable(why)
	}
	p.holdings.put(pod, node, a)
	return nil
}

// choose returns a pod's devices on a node, so that devices also remain for the expected pods: planned members of its gang and other
// planned pods. If there are too few, it ignores the other pods, and then also the members.
func (r *Room) choose(pod *v1.Pod, request *device.Request, v *view, node string) (a device.Allocation, why *device.Refusal) {
	own, others := []*v1.Pod{pod}, []*v1.Pod(nil)
	if r.Expected != nil {
		own, others = r.Expected(pod, node)
	}
	st := v.state.Clone()
	for _, held := range r.holdings.allocationsOn(node, v.pods) {
		st.Take(held) // a pod may be gone from the snapshot and still hold its devices
	}
	siblings, at := []*device.Request(nil), 0
	for _, p := range own {
		if p.UID == pod.UID {
			at = len(siblings)
		}
		siblings = r.appendRequest(siblings, p, v)
	}
	all := siblings
	for _, p := range others {
		all = r.appendRequest(slices.Clip(all), p, v)
	}
	r.solve(func(s *device.Solver) {
		for _, members := range [][]*device.Request{all, siblings} {
			before := device.Concerned(v.open, members)
			if got, ok, _ := s.Choose(st, slices.Concat(before, members)); ok {
				a = got[len(before)+at]
				return
			}
		}
		alone := append(device.Concerned(v.open, []*device.Request{request}), request)
		if got, ok, _ := s.Choose(st, alone); ok {
			a = got[len(alone)-1]
			return
		}
		why = whyNot(s, st, alone)
	})
	return a, why
}

// appendRequest returns all with a pod's request, if the pod has one and no devices in v yet.
func (r *Room) appendRequest(all []*device.Request, pod *v1.Pod, v *view) []*device.Request {
	if w := r.readPod(pod); w != nil && w.request != nil && !v.pods[pod.UID] {
		return append(all, w.request)
	}
	return all
}

// Unreserve removes the recorded choice for the pod.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.holdings.drop(pod.UID)
}

// PreBindPreFlight returns Skip: PreBind does nothing. Configurations of Koordinator name the plugin there.
func (*Plugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreBind implements fwk.PreBindPlugin.
func (*Plugin) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Bind writes a pod's node and its devices in one request. It returns Skip for a pod without devices, which the next plugin binds.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	h := p.holdings.choiceFor(pod, node)
	if h == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{convert.DeviceAllocated: convert.DeviceAnnotation(h.allocation)},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: node},
	}
	if c := p.handle.APICacher(); c != nil {
		done, err := c.BindPod(binding)
		if err == nil {
			err = c.WaitOnFinish(ctx, done)
		}
		return fwk.AsStatus(err)
	}
	klog.FromContext(ctx).V(3).Info("Attempting to bind pod to node", "pod", klog.KObj(pod), "node", klog.KRef("", node))
	return fwk.AsStatus(schedutil.BindPod(ctx, p.handle.ClientSet(), binding))
}
