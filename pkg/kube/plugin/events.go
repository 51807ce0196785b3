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

// A group that was refused is tried again when something happens that may cure it. There are
// two kinds of that: what this plugin knows makes room, and what a plugin that has refused it
// has registered for, which that plugin's own hint is asked about. Of groups that ask for the
// same one is tried (package wake). Gangs, PodGroups and the topology wake members themselves.
//
// All hints run with the queue locked and must not call it.

// EventsToRegister implements fwk.EnqueueExtensions.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	// The profile is complete now.
	first := !p.tookOver // the scheduler asks more than once
	if first {
		p.takeOver()
		p.idler = idlerOf(p.profile)
		p.extend()
	}
	p.findGate()
	p.findPasses()
	others, err := p.othersEvents(ctx, first)
	return append([]fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown | fwk.UpdatePodLabel}, QueueingHintFn: p.worthTrying, PreQueueingHintFn: p.narrowed},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, QueueingHintFn: p.worthEvicting, PreQueueingHintFn: p.narrowed},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.otherNode, PreQueueingHintFn: p.narrowed},
		// Not every update of the pod itself: what is written about it must not wake it.
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown | fwk.UpdatePodLabel | fwk.UpdatePodToleration |
			fwk.UpdatePodSchedulingGatesEliminated | fwk.UpdatePodGeneratedResourceClaim}, QueueingHintFn: p.otherPod},
	}, others...), err
}

// othersEvents are those of the profile's plugins that may refuse a member. With listen they are
// heard here, too.
func (p *Plugin) othersEvents(ctx context.Context, listen bool) (all []fwk.ClusterEventWithHint, err error) {
	may := sets.New(framework.ExtenderName)
	of := p.profile.ListPlugins()
	for _, pl := range slices.Concat(of.PreFilter.Enabled, of.Filter.Enabled, of.Reserve.Enabled, of.Permit.Enabled, of.PreBind.Enabled) {
		may.Insert(pl.Name)
	}
	for _, of := range slices.Concat(p.profile.EnqueueExtensions(), p.checksEvents(may)) {
		if !may.Has(of.Name()) || of.Name() == Name {
			continue
		}
		events, failed := of.EventsToRegister(ctx)
		err = errors.Join(err, failed)
		for _, e := range events {
			heard := fwk.ClusterEventWithHint{Event: e.Event, QueueingHintFn: p.delegated(of.Name(), e)}
			if e.PreQueueingHintFn != nil {
				heard.PreQueueingHintFn = everybody
			}
			all = append(all, heard)
			if listen {
				err = errors.Join(err, p.listen(of.Name(), e))
			}
		}
	}
	return all, err
}

// listen ends what a plugin's refusals have told of nodes (place.Planner) as soon as its hint says,
// about members that it has refused, that it may no longer be true.
func (p *Plugin) listen(plugin string, e fwk.ClusterEventWithHint) error {
	return fit.ListenBeside(p.profile.SharedInformerFactory(), plugin, e, func(cures func(*v1.Pod) bool) {
		for _, group := range p.planner.Heard(plugin, cures) {
			p.callSpeaker(group)
		}
	})
}

// delegated asks a plugin's own hint whether the plugin, which has refused a group, may let it
// pass now.
func (p *Plugin) delegated(plugin string, e fwk.ClusterEventWithHint) fwk.QueueingHintFn {
	ofPods := e.Event.Resource == fwk.Pod || e.Event.Resource == fwk.AssignedPod
	beside := e.Event.Resource != fwk.Pod && e.Event.Resource != fwk.AssignedPod && e.Event.Resource != fwk.TargetPod && e.Event.Resource != fwk.Node
	return func(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
		// Whoever waits for victims waits for what they had to be given back, too.
		waits := p.refused.WaitsFor(convert.PodKey(pod), plugin) && !(ofPods && !p.refused.Hopes(convert.PodKey(pod)))
		if !waits && !(beside && fit.Limits(plugin) && p.reserved(pod)) {
			return fwk.QueueSkip, nil // what becomes of the pod itself otherPod hears
		}
		if hint, err := p.hint(e.QueueingHintFn, logger, pod, before, now); err != nil || hint == fwk.QueueSkip {
			return hint, err
		}
		if beside { // nodes show what else changes
			p.planner.Cured(plugin)
		}
		return fwk.Queue, nil
	}
}

// hint asks a plugin's hint about the members that a leader stands for, one of each kind: the
// plugin may have refused any of them.
func (p *Plugin) hint(ask fwk.QueueingHintFn, logger klog.Logger, leader *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	if ask == nil {
		return fwk.Queue, nil
	}
	hint, err := ask(logger, leader, before, now)
	for _, key := range p.refused.Kinds(convert.PodKey(leader)) {
		if err != nil || hint != fwk.QueueSkip {
			break
		}
		if pod := p.Cache.Pod(key); pod != nil {
			hint, err = ask(logger, pod, before, now)
		}
	}
	return hint, err
}

// worthTrying lets a group try again that leads its class, unless no place helps it, or nobody who leaves; or whose
// places wait for victims to leave. Pods without a gang wait for places that are held.
func (p *Plugin) worthTrying(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.worth(pod, func(pod string) bool { return p.refused.Hopes(pod) && p.refused.Roams(pod) })
}

func (p *Plugin) worth(pod *v1.Pod, leads func(pod string) bool) (fwk.QueueingHint, error) {
	key := convert.PodKey(pod)
	if source.Of(pod).IsZero() || leads(key) {
		return fwk.Queue, nil
	}
	// A pod that was tried for its group, and of which nothing is filed, has no leader that is tried in its place.
	if group, tried, reserved := p.Cache.Tried(pod); tried && (reserved || p.refused.Filed(group) != key) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// reserved says whether a pod was tried for a group that has its places reserved.
func (p *Plugin) reserved(pod *v1.Pod) bool {
	_, tried, reserved := p.Cache.Tried(pod)
	return tried && reserved
}

// worthEvicting lets a group try again when a pod was bound: a member of a less important
// gang, which was no victim as long as it was on its way, or somebody more important who
// has taken one of the places that the group waits for.
func (p *Plugin) worthEvicting(logger klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	other, ok := now.(*v1.Pod)
	if !ok || source.Of(pod).IsZero() {
		return fwk.QueueSkip, nil
	}
	if less := p.Cache.Priority(other) < p.Cache.Priority(pod); less && source.Of(other).IsZero() || !less && !p.Cache.Reserves(other.Spec.NodeName, pod) {
		return fwk.QueueSkip, nil
	}
	return p.worthTrying(logger, pod, before, now)
}

// otherNode lets a group try again when a node comes, or stands elsewhere in the tree, unless it is refused wherever
// it might go; and if nobody knows which plugin has refused it, or if it waits for places on the node, when
// anything about the node changes. The rest is for the plugins to know.
func (p *Plugin) otherNode(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
	was, _ := before.(*v1.Node)
	is, _ := now.(*v1.Node)
	if source.Of(pod).IsZero() || was == nil || is == nil || !maps.Equal(was.Labels, is.Labels) {
		return p.worth(pod, p.refused.Roams)
	}
	if p.refused.WaitsFor(convert.PodKey(pod), Name) || p.reserved(pod) && p.Cache.Reserves(is.Name, pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// otherPod lets the member that was tried for its group try again when it changes itself.
func (p *Plugin) otherPod(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if source.Of(pod).IsZero() {
		return fwk.Queue, nil
	}
	group, tried, _ := p.Cache.Tried(pod)
	if !tried {
		return fwk.QueueSkip, nil
	}
	p.refused.Call(group, convert.PodKey(pod))
	return fwk.Queue, nil
}

// callSpeaker has the member tried that was tried for its group, or is being tried, since
// something has changed that its attempt may not have seen.
func (s *Shared) callSpeaker(group gang.Ref) {
	if speaker := s.refused.Speaker(group); speaker != "" {
		s.refused.Call(group, speaker)
		s.try([]string{speaker})
	}
}

// file notes that a group was refused, and tries whoever need not wait for it any longer.
func (p *Plugin) file(c *refused, speaker *v1.Pod, why gang.Refusal) {
	a := c.attempt
	f := wake.Filing{
		Group: a.Group.Key, Class: a.Class(), Speaker: convert.PodKey(speaker), UID: string(speaker.UID),
		Created: p.Cache.Order(speaker).Created, Plugins: why.Plugins, Since: p.options.Clock.Now(),
		Never: why.Never || ofQuotas(why), Template: why.By == gang.Template || why.By == gang.Veto,
	}
	for _, o := range append([]*place.Attempt{a}, c.others...) {
		f.Kinds = append(f.Kinds, o.OneOfEach(speaker)...)
	}
	slices.Sort(f.Kinds)
	f.Kinds = slices.Compact(f.Kinds)
	switch {
	case ofQuotas(why): // what it waits for shows on no node, and is its own
		f.Class = "quota of " + a.Group.Key.ID()
	case why.By == gang.Veto: // it may know gangs apart that ask for the same
		f.Class = "check of " + a.Group.Key.ID()
	case f.Class == "":
		f.Plugins = nil // what is remembered of nodes ends with any change
	case why.By == gang.Quota:
		f.Class, f.Plugins = "", nil
	case c.several != nil: // each choice may lack something else
		f.Class, f.Limits = "", c.several.limits
	default:
		f.Class += p.quotas.Class(a.Group)
	}
	try := p.refused.File(f)
	if p.follows(speaker) {
		try = append(try, f.Speaker) // to be kept out when its cycle has ended
	}
	p.try(try)
}

// ofQuotas says whether a gang waits for its quotas alone: these say when it is to be tried again, and no place that becomes free helps.
func ofQuotas(why gang.Refusal) bool { return why.By == gang.Quota && !why.Evictable }

// follows says whether a member need not hear of anything: another gang is tried for its own.
func (p *Plugin) follows(pod *v1.Pod) bool {
	return p.refused.Follows(p.Cache.GroupKey(pod), convert.PodKey(pod), string(pod.UID), p.options.Clock.Now())
}

// leave notes that a group is not refused any more, or is another one now.
func (s *Shared) leave(group gang.Ref) { s.try(s.refused.Leave(group)) }

// review has a group leave that can no longer be tried by the pod that was.
func (s *Shared) review(group gang.Ref) {
	speaker := s.refused.Filed(group)
	if speaker == "" {
		return
	}
	pod := s.Cache.Pod(speaker)
	if pod == nil || s.Cache.GroupKey(pod) != group { // it speaks for another group now
		s.leave(group)
	} else if ok, _ := s.Cache.Admit(pod); !ok {
		s.leave(group)
	}
}

// try lets pods enter the scheduler. The queue must not be locked.
func (s *Shared) try(keys []string) {
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
