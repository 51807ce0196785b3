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

// EventsToRegister implements fwk.EnqueueExtensions. It is called when the profile is complete. Device objects are not
// registered: at its start the scheduler waits for all registered kinds, and clusters may lack this one. Room.Changed reports
// them.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if err := p.bindsFirst(); err != nil {
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
				QueueingHintFn: p.countsItself,
			},
			fwk.ClusterEventWithHint{
				Event:          fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update | fwk.Delete},
				QueueingHintFn: p.classChanged,
			})
	}
	return all, nil
}

// bindsFirst returns an error if another plugin would bind pods with devices without writing their devices.
func (p *Plugin) bindsFirst() error {
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

// devicesFreed queues a pod after a pod with devices was deleted.
func (p *Plugin) devicesFreed(_ klog.Logger, pod *v1.Pod, before, _ any) (fwk.QueueingHint, error) {
	if deleted, ok := before.(*v1.Pod); ok && !convert.WantsDevices(deleted) && deleted.Annotations[convert.DeviceAllocated] == "" {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// nodeChanged queues a pod after a node was added, or its labels declare another partition policy, model or isolation provider.
func (p *Plugin) nodeChanged(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Node)
	current, _ := now.(*v1.Node)
	if former != nil && current != nil && !convert.OtherDevices(former.Labels, current.Labels) {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// requestChanged queues a pod with a changed request, which may be valid now.
func (p *Plugin) requestChanged(_ klog.Logger, _ *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Pod)
	current, _ := now.(*v1.Pod)
	if former != nil && current != nil && !convert.OtherDeviceWords(former, current) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// countsItself queues a pod after a node has begun to count a resource that was offered twice there.
func (p *Plugin) countsItself(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	former, _ := before.(*v1.Node)
	current, _ := now.(*v1.Node)
	if former == nil || current == nil {
		return p.mayFit(pod)
	}
	for _, name := range convert.DeviceNames(pod) {
		had, has := former.Status.Allocatable[name], current.Status.Allocatable[name]
		if had.IsZero() && !has.IsZero() && p.byClass(name) {
			return p.mayFit(pod)
		}
	}
	return fwk.QueueSkip, nil
}

// classChanged queues a pod after a DeviceClass was changed, which may offer the resource no longer.
func (p *Plugin) classChanged(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if len(convert.DeviceNames(pod)) == 0 {
		return fwk.QueueSkip, nil
	}
	return p.mayFit(pod)
}

// mayFit queues a pod unless its request is invalid.
func (p *Plugin) mayFit(pod *v1.Pod) (fwk.QueueingHint, error) {
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

// Waiting returns the unschedulable pods with devices; they are retried when Changed is called.
func (r *Room) Waiting() map[string]*v1.Pod {
	return r.waiting.All()
}
