package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
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
				s.refused.Call(s.Cache.GroupKey(pod), e.Pod)
				wake[e.Pod] = pod
			}
		case gang.Again:
			if pod := cmp.Or(s.Cache.Pod(e.Pod), s.Cache.Alone(e.Pod)); pod != nil {
				s.refused.Call(s.Cache.GroupKey(pod), e.Pod)
				s.letIn("pods with places on a node that takes no pods any more", map[string]*v1.Pod{e.Pod: pod})
			}
		case gang.Allow:
			s.answer(e, []gang.Step{gang.PastBarrier}, func(w fwk.WaitingPod) { w.Allow(Name) })
		case gang.Reject:
			s.answer(e, []gang.Step{gang.SentBack, gang.Away}, func(w fwk.WaitingPod) { departure.Reject(w, Name, e.Why) })
		case gang.Clear:
			s.clearNomination(e.Pod)
		case gang.Report:
			s.review(e.Gang)
			s.teller.Report(e.Gang)
			s.Meter.Gang(e.Gang)
			s.victims.Tidy(s.Cache, e.Gang)
			s.quotas.Review(e.Gang, s.Cache.Starves(e.Gang))
			if s.quotas.Active() && s.Cache.Waits(e.Gang) {
				s.quotas.PassedGangs([]gang.Ref{e.Gang}, true) // it is reported of each gang of a group
			}
		case gang.Expire:
			s.teller.Expired(e.Gang, e.Why)
		case gang.Overdue:
			s.victims.Overdue(e.Gang)
		case gang.GoOn:
			s.goOn()
			s.goOnEvicting()
		case gang.Moved:
			s.quotas.Look(e.Pod)
		case gang.Freed:
			s.try(s.refused.Leaders())
			s.letIn("pods without a gang", s.keptOff.TakeAll())
		case cache.MemberChanged:
			s.callSpeaker(e.Gang)
		case cache.TopologyChanged:
			s.teller.Topology()
		case cache.NamespaceChanged:
			s.try(s.refused.LeadersFor(fit.ReadsNamespaces))
		}
	}
	if len(wake) > 0 {
		s.handle.Activate(logger, wake)
	}
	s.reviewAllotted()
}

// goOnEvicting takes up what a process before this one has begun.
func (s *Shared) goOnEvicting() {
	if !s.Cache.Open() {
		return
	}
	s.resumed.Do(func() {
		for _, resume := range s.resume {
			resume()
		}
		s.quotas.Resume() // last: who leaves is known now
	})
}

// goOn lets the pods in that were kept back for gangs that were partially bound when this
// process began, if nothing keeps them any longer.
func (s *Shared) goOn() {
	if !s.Cache.Resuming() {
		s.letIn("delayed pods", s.resumes.TakeAll())
	}
}

// letIn has delayed pods tried.
func (s *Shared) letIn(what string, pods map[string]*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	s.handle.Activate(klog.Background(), pods)
	// Once more for one that was on its way back to the queue just now.
	s.Writer.DoAfter(what+" "+slices.Min(slices.Collect(maps.Keys(pods))), time.Second, func(context.Context) error {
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

// answerAgain is how long an answer to a pod that does not wait yet takes to be said again; it
// is said answers times, each after twice as long.
const (
	answerAgain = 200 * time.Millisecond
	answers     = 3
)

// answer tells a pod that waits in Permit what became of it. The scheduler files it as waiting
// just after Permit has said so; an answer that comes between is given again as long as the member
// is at one of these steps: it may have lost its node meanwhile, and wait with a place of another plan.
func (s *Shared) answer(e gang.Effect, steps []gang.Step, do func(fwk.WaitingPod)) {
	var try func(left int, later time.Duration)
	try = func(left int, later time.Duration) {
		if w := s.handle.GetWaitingPod(types.UID(e.UID)); w != nil {
			do(w)
			return
		}
		if left == 0 {
			return
		}
		s.Writer.DoAfter(string(e.Verb)+" "+e.Pod+" "+e.UID, later, func(context.Context) error {
			if slices.Contains(steps, s.Cache.Step(e.Pod, e.UID)) {
				try(left-1, 2*later)
			}
			return nil
		})
	}
	try(answers, answerAgain)
}

// clearNomination takes a nominated node back, in the scheduler and in the API.
func (s *Shared) clearNomination(key string) {
	pod := s.Cache.Pod(key)
	if pod == nil {
		return
	}
	s.handle.DeleteNominatedPodIfExists(pod)
	s.teller.Pod(key, status.Waiting{Node: new(string)})
}

// unnominate takes the nominated node back that a member has lost, unless the scheduler has. It
// writes the node when a member waits in Permit, and clears it in one request when the member
// comes back; if that request fails, nobody asks again, and a member that is not tried again
// would keep others from a free node for good. It looks twice: a watch may be late.
func (s *Shared) unnominate(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	for _, times := range []int{1, 10} {
		s.Writer.DoAfter(fmt.Sprintf("nomination of %s %d", key, times), time.Duration(times)*max(0, s.options.Settle), func(context.Context) error {
			is := s.Cache.Pod(key)
			if is == nil || is.UID != pod.UID || is.Status.NominatedNodeName != node || s.Cache.Counted(is) {
				return nil
			}
			if place, _ := s.Cache.Place(is); place == "" {
				s.clearNomination(key)
			}
			return nil
		})
	}
}
