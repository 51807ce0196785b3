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

// An unschedulable group is retried when an event may help it. This plugin knows the events that free capacity.
// Every other plugin that rejected the group is asked through its own hint. Of groups with identical requirements
// one is retried (package wake). Gangs, PodGroups and the topology wake members themselves.
//
// All hints run with the queue locked and must not call it.

// EventsToRegister implements fwk.EnqueueExtensions.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	first := !p.ownsPreemption // the scheduler asks more than once
	if first {
		p.replacePreemption()
		p.claimReleaser = findClaimReleaser(p.profile)
		p.loadExtensions()
	}
	p.findGate()
	p.findPasses()
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

// pluginEvents returns the events of the profile's plugins that may reject a member. With listen it also subscribes
// to them.
func (p *Plugin) pluginEvents(ctx context.Context, listen bool) (all []fwk.ClusterEventWithHint, err error) {
	may := sets.New(framework.ExtenderName)
	set := p.profile.ListPlugins()
	for _, pl := range slices.Concat(set.PreFilter.Enabled, set.Filter.Enabled, set.Reserve.Enabled, set.Permit.Enabled, set.PreBind.Enabled) {
		may.Insert(pl.Name)
	}
	for _, pl := range slices.Concat(p.profile.EnqueueExtensions(), p.checkEvents(may)) {
		if !may.Has(pl.Name()) || pl.Name() == Name {
			continue
		}
		events, failed := pl.EventsToRegister(ctx)
		err = errors.Join(err, failed)
		for _, e := range events {
			heard := fwk.ClusterEventWithHint{Event: e.Event, QueueingHintFn: p.pluginHint(pl.Name(), e)}
			if e.PreQueueingHintFn != nil {
				heard.PreQueueingHintFn = allPodsHint
			}
			all = append(all, heard)
			if listen {
				err = errors.Join(err, p.listen(pl.Name(), e))
			}
		}
	}
	return all, err
}

// listen invalidates what the planner remembers of a plugin's rejections, as soon as the plugin's hint says so.
func (p *Plugin) listen(plugin string, e fwk.ClusterEventWithHint) error {
	return fit.ListenBeside(p.profile.SharedInformerFactory(), plugin, e, func(cures func(*v1.Pod) bool) {
		for _, group := range p.planner.RecheckLimits(plugin, cures) {
			p.retryRepresentative(group)
		}
	})
}

// pluginHint asks a plugin's own hint whether the plugin, which rejected a group, may accept it now.
func (p *Plugin) pluginHint(plugin string, e fwk.ClusterEventWithHint) fwk.QueueingHintFn {
	ofPods := e.Event.Resource == fwk.Pod || e.Event.Resource == fwk.AssignedPod
	otherObject := !ofPods && e.Event.Resource != fwk.TargetPod && e.Event.Resource != fwk.Node
	return func(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
		// A group that waits for victims also waits for the resources that they release.
		waits := p.retries.WaitsFor(convert.PodKey(pod), plugin) && !(ofPods && !p.retries.HelpedByEviction(convert.PodKey(pod)))
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

// askHint asks a hint about a leader and one member of each kind that it stands for: the plugin may have rejected
// any of them.
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

// hintFreed retries a group that leads its class when capacity was freed, unless no node and no eviction helps it.
// Groups with a reservation and pods without a gang are retried too.
func (p *Plugin) hintFreed(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hintLeader(pod, func(pod string) bool { return p.retries.HelpedByEviction(pod) && p.retries.HelpedByNodes(pod) })
}

func (p *Plugin) hintLeader(pod *v1.Pod, leads func(pod string) bool) (fwk.QueueingHint, error) {
	key := convert.PodKey(pod)
	if source.GangOf(pod).IsZero() || leads(key) {
		return fwk.Queue, nil
	}
	// A tried pod without a recorded refusal has no leader that is tried in its place.
	if group, tried, reserved := p.Cache.Tried(pod); tried && (reserved || p.retries.RecordedPod(group) != key) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// hasReservation says whether the pod was tried for a group that has a reservation.
func (p *Plugin) hasReservation(pod *v1.Pod) bool {
	_, tried, reserved := p.Cache.Tried(pod)
	return tried && reserved
}

// hintBound retries a group when a pod was bound. The pod may be a victim only now, or may have taken a node that
// is reserved for the group.
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

// hintNode retries a group when a node is added or moves in the tree, unless no node helps it. Other node changes
// retry it if the rejecting plugin is unknown, or if it has a reservation there.
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

// hintPod retries the tried member of a group when the member itself changes.
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

// retryRepresentative retries the tried member of a group after a change that its attempt may have missed.
func (s *Shared) retryRepresentative(group gang.Ref) {
	if representative := s.retries.TriedPod(group); representative != "" {
		s.retries.Call(group, representative)
		s.retry([]string{representative})
	}
}

// recordRefusal records that a group is unschedulable, and retries the groups that need not wait for it any more.
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
	case quotaOnly(why): // its quota shows on no node and is its own
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

// quotaOnly says whether a gang waits for quotas only. The quotas then retry it, and free capacity does not help.
func quotaOnly(why gang.Obstacle) bool { return why.By == gang.Quota && !why.Evictable }

// follows says whether events do not concern a member, because another gang is tried for its class.
func (p *Plugin) follows(pod *v1.Pod) bool {
	return p.retries.Follows(p.Cache.GroupKey(pod), convert.PodKey(pod), string(pod.UID), p.options.Clock.Now())
}

// forgetRefusal records that a group is not unschedulable any more, or changed.
func (s *Shared) forgetRefusal(group gang.Ref) { s.retry(s.retries.Leave(group)) }

// reviewRefusal forgets a refusal whose tried pod cannot be tried for the group any more.
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

// retry lets pods enter the scheduler. The queue must not be locked.
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
