package deviceshare

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// EventsToRegister implements fwk.EnqueueExtensions. It is asked when the profile is complete. Device objects are not among them: the scheduler waits at its start
// for whatever is registered, and clusters need not serve them. Room.Changed tells of them.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if err := p.bindsFirst(); err != nil {
		return nil, err
	}
	all := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.givenBack},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: p.otherNode},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.otherWords},
	}
	if p.byClass != nil { // then the scheduler reads them in any case
		all = append(all,
			fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, QueueingHintFn: p.countsItself},
			fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update | fwk.Delete}, QueueingHintFn: p.otherClass})
	}
	return all, nil
}

// bindsFirst returns an error if somebody else would bind pods with devices, and nobody write which they have.
func (p *Plugin) bindsFirst() error {
	profile, ok := p.handle.(framework.Framework)
	if !ok {
		return nil
	}
	of := profile.ListPlugins()
	named := func(name string) func(schedulerconfig.Plugin) bool {
		return func(pl schedulerconfig.Plugin) bool { return pl.Name == name }
	}
	if !slices.ContainsFunc(of.Filter.Enabled, named(Name)) {
		return nil
	}
	own, stock := slices.IndexFunc(of.Bind.Enabled, named(Name)), slices.IndexFunc(of.Bind.Enabled, named(names.DefaultBinder))
	if own < 0 || stock >= 0 && stock < own || !slices.ContainsFunc(of.Reserve.Enabled, named(Name)) {
		return fmt.Errorf("profile %s: plugin %s must be enabled at reserve, and at bind before %s: pods with devices would be bound without them", profile.ProfileName(), Name, names.DefaultBinder)
	}
	return nil
}

// givenBack: somebody has left who had devices.
func (p *Plugin) givenBack(_ klog.Logger, pod *v1.Pod, before, _ any) (fwk.QueueingHint, error) {
	if gone, ok := before.(*v1.Pod); ok && !convert.WantsDevices(gone) && gone.Annotations[convert.DeviceAllocated] == "" {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// otherNode: a node has come, or its labels say another partition policy, model or provider of isolation.
func (p *Plugin) otherNode(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	was, _ := before.(*v1.Node)
	is, _ := now.(*v1.Node)
	if was != nil && is != nil && !convert.OtherDevices(was.Labels, is.Labels) {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// otherWords: the pod asks in other words, which may be ones that can be meant.
func (p *Plugin) otherWords(_ klog.Logger, _ *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	was, _ := before.(*v1.Pod)
	is, _ := now.(*v1.Pod)
	if was != nil && is != nil && !convert.OtherDeviceWords(was, is) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// countsItself: a node counts a resource itself that may have been offered twice there.
func (p *Plugin) countsItself(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	was, _ := before.(*v1.Node)
	is, _ := now.(*v1.Node)
	if was == nil || is == nil {
		return p.mayFit(pod)
	}
	for _, name := range convert.DeviceNames(pod) {
		had, has := was.Status.Allocatable[name], is.Status.Allocatable[name]
		if had.IsZero() && !has.IsZero() && p.byClass(name) {
			return p.mayFit(pod)
		}
	}
	return fwk.QueueSkip, nil
}

// otherClass: a DeviceClass may offer a resource no longer.
func (p *Plugin) otherClass(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if len(convert.DeviceNames(pod)) == 0 {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// mayFit says whether anything helps a pod: what cannot be meant is refused whatever happens.
func (p *Plugin) mayFit(pod *v1.Pod) (fwk.QueueingHint, error) {
	if p.Hopeless(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// Hopeless says that a pod asks for devices in a way that cannot be meant.
func (r *Room) Hopeless(pod *v1.Pod) bool {
	w := r.readPod(pod)
	return w != nil && w.bad != nil
}

// Waiting are the pods with devices that were tried and have no node yet; they are to be tried again when Changed is
// called.
func (r *Room) Waiting() map[string]*v1.Pod {
	return r.waiting.All()
}
