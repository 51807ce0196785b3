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

// EventsToRegister implements fwk.EnqueueExtensions. It is called when the profile is complete. Device objects are not registered, because
// the scheduler would wait at its start for this kind, which clusters may lack. Instead, Room.Changed is called.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if err := p.checkBindOrder(); err != nil {
		return nil, err
	}
	all := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.devicesFreed},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: p.nodeChanged},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.requestChanged},
	}
	if p.byClass != nil { // then the scheduler reads DeviceClasses in any case
		all = append(all,
			fwk.ClusterEventWithHint{
				Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable},
				QueueingHintFn: p.nodeCountsResource,
			},
			fwk.ClusterEventWithHint{
				Event:          fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update | fwk.Delete},
				QueueingHintFn: p.classChanged,
			})
	}
	return all, nil
}

// checkBindOrder returns an error if the profile would bind pods with devices by another plugin, without writing their devices.
func (p *Plugin) checkBindOrder() error {
	profile, ok := p.handle.(framework.Framework)
	if !ok {
		return nil
	}
	plugins := profile.ListPlugins()
	named := func(name string) func(schedulerconfig.Plugin) bool {
		return func(pl schedulerconfig.Plugin) bool { return pl.Name == name }
	}
	if !slices.ContainsFunc(plugins.Filter.Enabled, named(Name)) {
		return nil
	}
	own, stock := slices.IndexFunc(plugins.Bind.Enabled, named(Name)), slices.IndexFunc(plugins.Bind.Enabled, named(names.DefaultBinder))
	if own < 0 || stock >= 0 && stock < own || !slices.ContainsFunc(plugins.Reserve.Enabled, named(Name)) {
		return fmt.Errorf(
			"profile %s: plugin %s must be enabled at reserve, and at bind before %s: pods with devices would be bound without them",
			profile.ProfileName(), Name, names.DefaultBinder)
	}
	return nil
}

// devicesFreed is a hint: it queues a pod after a pod with devices was deleted.
func (p *Plugin) devicesFreed(_ klog.Logger, pod *v1.Pod, before, _ any) (fwk.QueueingHint, error) {
	if deleted, ok := before.(*v1.Pod); ok && !convert.WantsDevices(deleted) && deleted.Annotations[convert.DeviceAllocated] == "" {
		return fwk.QueueSkip, nil
	}
	return p.queueIfValid(pod)
}

// nodeChanged is a hint: it queues a pod after a node was added, or after a change of the node labels that matter for devices.
func (p *Plugin) nodeChanged(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Node)
	current, _ := now.(*v1.Node)
	if former != nil && current != nil && !convert.OtherDevices(former.Labels, current.Labels) {
		return fwk.QueueSkip, nil
	}
	return p.queueIfValid(pod)
}

// requestChanged is a hint: it queues a pod after its request for devices changed, which may be valid now.
func (p *Plugin) requestChanged(_ klog.Logger, _ *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Pod)
	current, _ := now.(*v1.Pod)
	if former != nil && current != nil && !convert.OtherDeviceWords(former, current) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// nodeCountsResource is a hint: it queues a pod after a node's allocatable has got a requested resource that a DeviceClass also offers.
// Such a resource is not offered twice on the node any more.
func (p *Plugin) nodeCountsResource(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Node)
	current, _ := now.(*v1.Node)
	if former == nil || current == nil {
		return p.queueIfValid(pod)
	}
	for _, name := range convert.DeviceNames(pod) {
		had, has := former.Status.Allocatable[name], current.Status.Allocatable[name]
		if had.IsZero() && !has.IsZero() && p.byClass(name) {
			return p.queueIfValid(pod)
		}
	}
	return fwk.QueueSkip, nil
}

// classChanged is a hint: it queues a pod after a DeviceClass was changed or deleted. The class may not offer the pod's resource any more.
func (p *Plugin) classChanged(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if len(convert.DeviceNames(pod)) == 0 {
		return fwk.QueueSkip, nil
	}
	return p.queueIfValid(pod)
}

// queueIfValid returns the hint to queue a pod, or to skip it if its request is invalid.
func (p *Plugin) queueIfValid(pod *v1.Pod) (fwk.QueueingHint, error) {
	if p.Hopeless(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// Hopeless returns whether a pod's request for devices is invalid.
func (r *Room) Hopeless(pod *v1.Pod) bool {
	w := r.readPod(pod)
	return w != nil && w.invalid != nil
}

// Waiting returns the pods with devices that have passed PreFilter and have no node yet, by key. The caller retries them at Changed.
func (r *Room) Waiting() map[string]*v1.Pod {
	return r.waiting.All()
}
