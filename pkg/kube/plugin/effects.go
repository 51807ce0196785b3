package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// do carries out the book's effects. No lock of the cache is held here.
func (s *Shared) do(effects []gang.Effect) {
	logger := klog.Background()
	wake := map[string]*v1.Pod{}
	for _, e := range effects {
		switch e.Verb {
		case gang.Wake:
			if pod := s.Cache.Pod(e.Pod); pod != nil {
				wake[e.Pod] = pod
			}
		case gang.Allow:
			s.waiting(e.Pod, func(w fwk.WaitingPod) { w.Allow(Name) })
		case gang.Reject:
			s.reject(e.Pod, e.Why)
		case gang.Clear:
			s.clearNomination(e.Pod)
		case gang.Report:
			s.report(e.Gang, s.options.Clock.Now().Add(longestBusy))
		case gang.Expire:
			s.sayGang(e.Gang, true, "ScheduleTimeout", e.Why)
		case gang.Overdue:
			s.victims.overdue(e.Gang)
		case gang.GoOn:
			s.goOn()
		case cache.TopologyChanged:
			s.Writer.DoAfter("topology", s.options.Settle, s.writeTopology)
		}
	}
	if len(wake) > 0 {
		s.handle.Activate(logger, wake)
	}
}

// longestBusy is how long the status of a gang waits for bindings, which are more urgent.
const longestBusy = 5 * time.Second

// report has a gang's status written when no bindings are under way, or by that time.
func (s *Shared) report(name string, by time.Time) {
	s.Writer.DoAfter("gang "+name, s.options.Settle, func(ctx context.Context) error {
		if s.options.Busy() && s.options.Clock.Now().Before(by) {
			s.report(name, by)
			return nil
		}
		return s.writeGang(ctx, name)
	})
}

// delayed are the pods that were kept back while half-bound gangs were to be tried.
type delayed struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

func (d *delayed) add(pod *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods == nil {
		d.pods = map[string]*v1.Pod{}
	}
	d.pods[convert.PodKey(pod)] = pod
}

// goOn lets the pods in that were kept back, if nothing keeps them any longer.
func (s *Shared) goOn() {
	s.delayed.mu.Lock()
	pods := s.delayed.pods
	if len(pods) == 0 || s.Cache.Resuming() {
		s.delayed.mu.Unlock()
		return
	}
	s.delayed.pods = nil
	s.delayed.mu.Unlock()
	s.handle.Activate(klog.Background(), pods)
	// Once more for one that was on its way back to the queue just now.
	s.Writer.DoAfter("delayed pods", time.Second, func(context.Context) error {
		s.handle.Activate(klog.Background(), pods)
		return nil
	})
}

// free has a pod tried that has left its gang. The queue may not know that yet, and would
// keep it out: so it is told again.
func (s *Shared) free(pod *v1.Pod) {
	activate := func(context.Context) error {
		s.handle.Activate(klog.Background(), map[string]*v1.Pod{convert.PodKey(pod): pod})
		return nil
	}
	s.Writer.Do("free "+convert.PodKey(pod), activate)
	s.Writer.DoAfter("free again "+convert.PodKey(pod), time.Second, activate)
}

// waiting calls do with a pod that waits in Permit, and says whether it does.
func (s *Shared) waiting(key string, do func(fwk.WaitingPod)) bool {
	pod := s.Cache.Pod(key)
	if pod == nil {
		return false
	}
	w := s.handle.GetWaitingPod(pod.UID)
	if w != nil {
		do(w)
	}
	return w != nil
}

// reject sends a pod that waits in Permit back. The scheduler files it as waiting
// just after Permit has answered; a rejection that comes between is said once more.
func (s *Shared) reject(key, why string) {
	no := func(w fwk.WaitingPod) { w.Reject(Name, why) }
	if !s.waiting(key, no) {
		s.Writer.DoAfter("reject "+key, 200*time.Millisecond, func(context.Context) error {
			s.waiting(key, no)
			return nil
		})
	}
}

// clearNomination takes a nominated node back, in the scheduler and in the API.
func (s *Shared) clearNomination(key string) {
	pod := s.Cache.Pod(key)
	if pod == nil {
		return
	}
	s.handle.DeleteNominatedPodIfExists(pod)
	s.writePod(key, status.Waiting{Node: new(string)})
}

// writePod has a waiting pod's status written as it is when its turn comes.
func (s *Shared) writePod(key string, say status.Waiting) {
	s.Writer.Do("pod "+key, func(ctx context.Context) error {
		pod := s.Cache.Pod(key)
		if pod == nil || pod.Spec.NodeName != "" {
			return nil
		}
		if node, _ := s.Cache.Place(pod); node != "" {
			say.Node = &node // the node of the reservation, whatever was said meanwhile
		}
		return s.Writer.Pod(ctx, pod, say)
	})
}

// tellSiblings writes to the other pending members why they wait. Only a gang for
// which victims leave costs a write for each member: they get a nominated node anyway.
func (p *Plugin) tellSiblings(speaker *v1.Pod, a *attempt, why, preemption string) {
	group, err := p.Cache.Group(speaker)
	if err != nil || len(group.Places) == 0 {
		return
	}
	for _, m := range group.Pending {
		if m.Pod == convert.PodKey(speaker) {
			continue
		}
		p.writePod(m.Pod, status.Waiting{Message: Sibling(m.Gang, speaker, why, preemption, group.Held)})
	}
}

// Sibling is what a member is told of which another one was tried for the whole gang.
func Sibling(gangName string, speaker *v1.Pod, why, preemption string, held int) string {
	key := convert.PodKey(speaker)
	tail := fmt.Sprintf("\", alreadyWaitForBound: %d.", held)
	if preemption != "" {
		tail += fmt.Sprintf(" %spreemption already attempted by %s with message %s.", preemptPrefix, key, preemption)
	}
	head := fmt.Sprintf("GangGroup %q gets rejected due to member Pod %q is unschedulable with reason \"", gangName, key)
	if room := status.Limit - len(head) - len(tail); len(why) > room {
		why = why[:max(0, room-4)] + " ..."
	}
	return head + why + tail
}

// told remembers what was said last about an object, so that it is said once.
type told struct {
	mu   sync.Mutex
	last map[string]string
}

// news says whether this differs from what was said before.
func (t *told) news(about, message string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]string{}
	}
	if t.last[about] == message {
		return false
	}
	t.last[about] = message
	return true
}

func (t *told) forget(about string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, about)
}

// writeGang brings a PodGroup's status up to date and tells about a change.
func (s *Shared) writeGang(ctx context.Context, name string) error {
	r, ok := s.Cache.Report(name)
	if !ok {
		s.told.forget(name)
		s.told.forget("members of " + name)
		s.calm.forget(name)
		return nil
	}
	if !s.Cache.Open() {
		return nil // what is known is not the whole truth yet, or another process leads
	}
	c := status.Condition(r.State, r.Domain)
	switch c.Reason {
	case status.ReasonScheduled, status.ReasonBinding, status.ReasonReady, status.ReasonPreempting:
		s.sayGang(name, false, c.Reason, c.Message)
	default:
		s.sayGang(name, true, c.Reason, c.Message)
	}
	if members := "members of " + name; s.options.Settle >= 0 && s.told.news(members, gatedNow(r)) {
		s.Writer.DoAfter(members, memberSettle*s.options.Settle, func(context.Context) error { s.tellGated(name); return nil })
	}
	if r.PodGroup == nil {
		return nil
	}
	n := status.Counts{Bound: r.Bound, Running: r.Running, Succeeded: r.Succeeded, Failed: r.Failed, Owners: r.Owners, Domain: r.Domain}
	is := status.PodGroup(r.PodGroup.Status, r.State, n, metav1.NewTime(s.options.Clock.Now()))
	return s.Writer.Custom(ctx, r.Resource, r.PodGroup, r.PodGroup.Status, is)
}

// gatedNow is what the members of a gang are to be told, and how many there are: one more
// must be told, too.
func gatedNow(r cache.Report) string {
	if r.Waiting == "" {
		return ""
	}
	return fmt.Sprint(r.Waiting, " ", r.Members)
}

// memberSettle is how many times longer than its gang's status that of a gated member
// waits for further changes: while members come one by one, nothing is said to each.
const memberSettle = 10

// tellGated writes to the members of a gang that cannot be planned what they wait for,
// and once it can be, to those that were told so whom they wait for now. What comes of
// the attempts is not written to each: that is on the one that is tried, and on the
// PodGroup.
func (s *Shared) tellGated(name string) {
	r, ok := s.Cache.Report(name)
	if !ok || !s.Cache.Open() {
		return
	}
	for _, pod := range s.Cache.Pending(name) {
		if len(pod.Spec.SchedulingGates) > 0 || !s.Cache.Serves(pod) || r.Waiting == "" && !saysGated(pod) {
			continue
		}
		if ok, why := s.Cache.Admit(pod); !ok {
			s.writePod(convert.PodKey(pod), status.Waiting{Message: why, Gated: true})
		}
	}
}

func saysGated(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Reason == v1.PodReasonSchedulingGated
	})
}

// sayGang records an event on the PodGroup, or on a member of a gang without one.
func (s *Shared) sayGang(name string, warning bool, reason, message string) {
	r, ok := s.Cache.Report(name)
	if !ok {
		return
	}
	var about runtime.Object
	var uid types.UID
	switch pg := s.podGroup(name); {
	case pg != nil:
		about, uid = pg, pg.UID
	case r.Speaker != nil:
		about, uid = r.Speaker, r.Speaker.UID
	default:
		return
	}
	if !s.told.news(name, string(uid)+reason+message) || reason == status.ReasonReady || reason == status.ReasonBinding {
		return
	}
	if reason == status.ReasonUnschedulable && s.options.Settle >= 0 && s.calm.heard(name, string(uid)+reason, s.options.Clock.Now()) {
		return // the condition says it
	}
	s.note(cache.Note{About: about, Warning: warning, Reason: reason, Message: message})
}

// podGroup returns the PodGroup of a gang as events need it; nil if it has none.
func (s *Shared) podGroup(name string) *sigs.PodGroup {
	r, ok := s.Cache.Report(name)
	if !ok || r.PodGroup == nil {
		return nil
	}
	pg := r.PodGroup.DeepCopy()
	pg.APIVersion, pg.Kind = r.Resource.GroupVersion().String(), "PodGroup"
	return pg
}

// note records an event.
func (s *Shared) note(n cache.Note) {
	if !s.Cache.Open() {
		return
	}
	kind := v1.EventTypeNormal
	if n.Warning {
		kind = v1.EventTypeWarning
	}
	s.handle.EventRecorder().Eventf(n.About, nil, kind, n.Reason, "Scheduling", "%s", status.Clip(n.Message))
}

// writeTopology brings the ClusterNetworkTopology's status up to date.
func (s *Shared) writeTopology(ctx context.Context) error {
	if m := s.options.TopologyManager; m != nil && !*m || !s.Cache.Open() {
		return nil
	}
	t := s.Cache.Topology()
	if t.Object == nil {
		s.told.forget("topology")
		return nil
	}
	is := status.Topology(t.Object, t.Tree, t.Problem, metav1.NewTime(s.options.Clock.Now()))
	if t.Problem != "" && s.told.news("topology", t.Problem) {
		about := t.Object.DeepCopy()
		about.APIVersion, about.Kind = koordinator.GroupVersion.String(), "ClusterNetworkTopology"
		s.note(cache.Note{About: about, Warning: true, Reason: status.ReasonInvalidSpec, Message: t.Problem})
	}
	return s.Writer.Custom(ctx, koordinator.ClusterNetworkTopologies, t.Object, t.Object.Status, is)
}
