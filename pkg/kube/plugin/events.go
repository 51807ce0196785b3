package plugin

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/wake"
)

// An unschedulable group is retried when an event may help it. This plugin handles the events that free capacity. For events of another
// plugin that rejected the group, that plugin's own hint decides. Of groups with identical requirements only one, the leader, is retried
// (package wake). Changes of gangs, their objects and the topology retry members by effects of the gang book.
//
// All hints run with the scheduling queue locked and must not call it.

// EventsToRegister implements fwk.EnqueueExtensions.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	first := !p.ownsPreemption // the scheduler asks more than once
	if first {
		p.replacePreemption()
		p.claimReleaser = findClaimReleaser(p.profile)
		p.loadExtensions()
	}
	p.findGate()
	p.checkGates()
	events, err := p.pluginEvents(ctx, first)
	return append([]fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown | fwk.UpdatePodLabel},
			QueueingHintFn: p.hintFreed, PreQueueingHintFn: p.narrowedHint,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, QueueingHintFn: p.hintBound, PreQueueingHintFn: p.narrowedHint},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: p.hintNode, PreQueueingHintFn: p.narrowedHint,
		},
		// Not every update of the pod itself: writing its status must not wake it.
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown | fwk.UpdatePodLabel | fwk.UpdatePodToleration |
			fwk.UpdatePodSchedulingGatesEliminated | fwk.UpdatePodGeneratedResourceClaim}, QueueingHintFn: p.hintPod},
	}, events...), err
}

// pluginEvents returns the events of all plugins of the profile that may reject a member. With listen it also subscribes to them, see
// subscribe.
func (p *Plugin) pluginEvents(ctx context.Context, listen bool) (all []fwk.ClusterEventWithHint, err error) {
	rejecting := sets.New(framework.ExtenderName)
	set := p.profile.ListPlugins()
	for _, pl := range slices.Concat(set.PreFilter.Enabled, set.Filter.Enabled, set.Reserve.Enabled, set.Permit.Enabled, set.PreBind.Enabled) {
		rejecting.Insert(pl.Name)
	}
	for _, pl := range slices.Concat(p.profile.EnqueueExtensions(), p.checkEvents(rejecting)) {
		if !rejecting.Has(pl.Name()) || pl.Name() == Name {
			continue
		}
		events, failed := pl.EventsToRegister(ctx)
		err = errors.Join(err, failed)
		for _, e := range events {
			event := fwk.ClusterEventWithHint{Event: e.Event, QueueingHintFn: p.pluginHint(pl.Name(), e)}
			if e.PreQueueingHintFn != nil {
				event.PreQueueingHintFn = allPodsHint
			}
			all = append(all, event)
			if listen {
				err = errors.Join(err, p.subscribe(pl.Name(), e))
			}
		}
	}
	return all, err
}

// subscribe registers for an event of a plugin. At each event it removes the remembered limits that the plugin's hint says may be outdated,
// and retries their groups.
func (p *Plugin) subscribe(plugin string, e fwk.ClusterEventWithHint) error {
	return fit.ListenBeside(p.profile.SharedInformerFactory(), plugin, e, func(cures func(*v1.Pod) bool) {
		for _, group := range p.planner.RecheckLimits(plugin, cures) {
			p.retryRepresentative(group)
		}
	})
}

// pluginHint returns the hint for an event that another plugin registers. It retries a group if that plugin's own hint does, and the plugin
// has rejected the group, for a pod's event only if an eviction would help. It also retries a group with a reservation that the plugin may
// limit, at an event of an object other than pods and nodes. Such an event ends the limits of the plugin.
func (p *Plugin) pluginHint(plugin string, e fwk.ClusterEventWithHint) fwk.QueueingHintFn {
	podEvent := e.Event.Resource == fwk.Pod || e.Event.Resource == fwk.AssignedPod
	otherObject := !podEvent && e.Event.Resource != fwk.TargetPod && e.Event.Resource != fwk.Node
	return func(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
		// A group that waits for victims also waits for the resources that they release.
		waits := p.retries.WaitsFor(convert.PodKey(pod), plugin) && !(podEvent && !p.retries.HelpedByEviction(convert.PodKey(pod)))
		if !waits && !(otherObject && fit.Limits(plugin) && p.hasReservation(pod)) {
			return fwk.QueueSkip, nil // hintPod handles changes of the pod itself
		}
		if hint, err := p.askHint(e.QueueingHintFn, logger, pod, before, now); err != nil || hint == fwk.QueueSkip {
			return hint, err
		}
		if otherObject { // changes of other objects show on nodes
			p.planner.ForgetLimits(plugin)
		}
		return fwk.Queue, nil
	}
}

// askHint returns the result of a plugin's hint for a group's leader. If that is QueueSkip, it calls the hint for one member of each other
// kind in the group: the plugin may have rejected any of them. A nil hint means Queue.
func (p *Plugin) askHint(ask fwk.QueueingHintFn, logger klog.Logger, leader *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	if ask == nil {
		return fwk.Queue, nil
	}
	hint, err := ask(logger, leader, before, now)
	for _, key := range p.retries.Kinds(convert.PodKey(leader)) {
		if err != nil || hint != fwk.QueueSkip {
			break
		}
		if pod := p.Cache.Pod(key); pod != nil {
			hint, err = ask(logger, pod, before, now)
		}
	}
	return hint, err
}

// hintFreed is the hint for freed capacity. It retries a group that is the leader of its class, unless neither evictions nor new nodes help
// it. It also retries groups with a reservation, and pods without a gang.
func (p *Plugin) hintFreed(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hintLeader(pod, func(pod string) bool { return p.retries.HelpedByEviction(pod) && p.retries.HelpedByNodes(pod) })
}

// hintLeader retries a pod without a gang, and a member for which isLeader returns true. It also retries a member that was tried for a
// group with a reservation, or for a group whose recorded refusal is of another member.
func (p *Plugin) hintLeader(pod *v1.Pod, isLeader func(pod string) bool) (fwk.QueueingHint, error) {
	key := convert.PodKey(pod)
	if source.GangOf(pod).IsZero() || isLeader(key) {
		return fwk.Queue, nil
	}
	// A tried pod without a recorded refusal has no leader that is tried in its place.
	if group, tried, reserved := p.Cache.Tried(pod); tried && (reserved || p.retries.RecordedPod(group) != key) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// hasReservation returns whether the pod was tried for a group that has a reservation.
func (p *Plugin) hasReservation(pod *v1.Pod) bool {
	_, tried, reserved := p.Cache.Tried(pod)
	return tried && reserved
}

// hintBound is the hint for a bound pod. It retries a group for which the bound pod may now be a victim, because it is of lower priority.
// It also retries a group for which the pod's node is reserved.
func (p *Plugin) hintBound(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	other, ok := now.(*v1.Pod)
	if !ok || source.GangOf(pod).IsZero() {
		return fwk.QueueSkip, nil
	}
	lower := p.Cache.Priority(other) < p.Cache.Priority(pod)
	if lower && source.GangOf(other).IsZero() || !lower && !p.Cache.Reserves(other.Spec.NodeName, pod) {
		return fwk.QueueSkip, nil
	}
	return p.hintFreed(logger, pod, before, now)
}

// hintNode is the hint for nodes. It retries a leader if a node is added or its labels change, unless no node helps the group. Other
// changes of a node retry a group if the rejecting plugin is unknown, or if the node is reserved for the group.
func (p *Plugin) hintNode(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	old, _ := before.(*v1.Node)
	node, _ := now.(*v1.Node)
	if source.GangOf(pod).IsZero() || old == nil || node == nil || !maps.Equal(old.Labels, node.Labels) {
		return p.hintLeader(pod, p.retries.HelpedByNodes)
	}
	if p.retries.WaitsFor(convert.PodKey(pod), Name) || p.hasReservation(pod) && p.Cache.Reserves(node.Name, pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// hintPod is the hint for changes of the pod itself. It retries a pod without a gang, and a member that was tried for its group.
func (p *Plugin) hintPod(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if source.GangOf(pod).IsZero() {
		return fwk.Queue, nil
	}
	group, tried, _ := p.Cache.Tried(pod)
	if !tried {
		return fwk.QueueSkip, nil
	}
	p.retries.Call(group, convert.PodKey(pod))
	return fwk.Queue, nil
}

// retryRepresentative retries the member that was tried for a group, if there is one, after a change that may help the group.
func (s *Shared) retryRepresentative(group gang.Ref) {
	if representative := s.retries.TriedPod(group); representative != "" {
		s.retries.Call(group, representative)
		s.retry([]string{representative})
	}
}

// recordRefusal records that a group is unschedulable and why, so that events retry it. It retries groups that need not wait behind it any
// more.
func (p *Plugin) recordRefusal(c *unschedulable, representative *v1.Pod, why gang.Obstacle) {
	a := c.attempt
	f := wake.Entry{
		Group: a.Group.Key, Class: a.Class(), TriedPod: convert.PodKey(representative), UID: string(representative.UID),
		Created: p.Cache.Order(representative).Created, Plugins: why.Plugins, Since: p.options.Clock.Now(),
		Never: why.NeverEvictable || quotaOnly(why), Template: why.By == gang.Template || why.By == gang.Veto,
	}
	for _, o := range append([]*place.Attempt{a}, c.others...) {
		f.Kinds = append(f.Kinds, o.OneOfEach(representative)...)
	}
	slices.Sort(f.Kinds)
	f.Kinds = slices.Compact(f.Kinds)
	switch {
	case quotaOnly(why): // no other group waits for the same: its quotas differ
		f.Class = "quota of " + a.Group.Key.ID()
	case why.By == gang.Veto: // a check may treat identical requirements differently
		f.Class = "check of " + a.Group.Key.ID()
	case f.Class == "":
		f.Plugins = nil // remembered rejections end with any change
	case why.By == gang.Quota:
		f.Class, f.Plugins = "", nil
	case c.alternatives != nil: // each choice may lack something else
		f.Class, f.Limits = "", c.alternatives.limits
	default:
		f.Class += p.quotas.Class(a.Group)
	}
	retries := p.retries.Record(f)
	if p.follows(representative) {
		retries = append(retries, f.TriedPod) // to be kept out when its cycle ends
	}
	p.retry(retries)
}

// quotaOnly returns whether only quotas prevent a gang, so that evictions do not help. The quotas then retry it.
func quotaOnly(why gang.Obstacle) bool { return why.By == gang.Quota && !why.Evictable }

// follows returns whether a member waits behind another gang with identical requirements, which is tried instead.
func (p *Plugin) follows(pod *v1.Pod) bool {
	return p.retries.Follows(p.Cache.GroupKey(pod), convert.PodKey(pod), string(pod.UID), p.options.Clock.Now())
}

// forgetRefusal removes the recorded refusal of a group, and retries the groups that waited behind this group.
func (s *Shared) forgetRefusal(group gang.Ref) { s.retry(s.retries.Leave(group)) }

// reviewRefusal removes the recorded refusal of a group if its tried member was deleted, changed its group, or may not enter the queue.
func (s *Shared) reviewRefusal(group gang.Ref) {
	representative := s.retries.RecordedPod(group)
	if representative == "" {
		return
	}
	pod := s.Cache.Pod(representative)
	if pod == nil || s.Cache.GroupKey(pod) != group { // it belongs to another group now
		s.forgetRefusal(group)
	} else if ok, _ := s.Cache.Admit(pod); !ok {
		s.forgetRefusal(group)
	}
}

// retry has the scheduler retry the members with these keys. The queue must not be locked.
func (s *Shared) retry(keys []string) {
	pods := map[string]*v1.Pod{}
	for _, key := range keys {
		if pod := s.Cache.Pod(key); pod != nil {
			pods[key] = pod
		}
	}
	if len(pods) > 0 {
		s.handle.Activate(klog.Background(), pods)
	}
}
