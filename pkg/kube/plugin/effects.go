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

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// carryOut carries out the effects that the gang book has returned. The caller must not have locked the cache.
func (s *Shared) carryOut(effects []gang.Effect) {
	logger := klog.Background()
	wake := map[string]*v1.Pod{}
	for _, e := range effects {
		switch e.Verb {
		case gang.Wake:
			if pod := s.Cache.Pod(e.Pod); pod != nil {
				s.retries.Call(s.Cache.GroupKey(pod), e.Pod)
				wake[e.Pod] = pod
			}
		case gang.WakeLater:
			if pod := cmp.Or(s.Cache.Pod(e.Pod), s.Cache.SinglePod(e.Pod)); pod != nil {
				s.retries.Call(s.Cache.GroupKey(pod), e.Pod)
				s.activateTwice("pods with places on a node that takes no pods any more", map[string]*v1.Pod{e.Pod: pod})
			}
		case gang.Allow:
			s.answerWaiting(e, []gang.Step{gang.PastBarrier}, func(w fwk.WaitingPod) { w.Allow(Name) })
		case gang.Reject:
			s.answerWaiting(e, []gang.Step{gang.SentBack, gang.NotAssumed}, func(w fwk.WaitingPod) { departure.Reject(w, Name, e.Why) })
		case gang.Clear:
			s.clearNomination(e.Pod)
		case gang.Report:
			s.reviewRefusal(e.Gang)
			s.teller.Report(e.Gang)
			s.Meter.Gang(e.Gang)
			s.victims.Tidy(s.Cache, e.Gang)
			s.quotas.Review(e.Gang, s.Cache.Starves(e.Gang))
			if s.quotas.Active() && !slices.Contains(s.Cache.StartTogether(e.Gang), e.Gang) {
				s.quotas.RecordPassedOverGangs([]gang.Ref{e.Gang}, true) // it is reported for each gang of a group
			}
		case gang.Expire:
			s.teller.Gang(e.Gang, status.Warning, reasons.ScheduleTimeout, e.Why)
		case gang.Overdue:
			s.victims.Overdue(e.Gang)
		case gang.ResumeOthers:
			s.activateDelayed()
			s.resumeEvictions()
		case gang.Moved:
			s.quotas.UpdatePod(e.Pod)
		case gang.Freed:
			s.retryKeptOff()
		case cache.MemberChanged:
			s.retryRepresentative(e.Gang)
		case cache.TopologyChanged:
			s.teller.Topology()
		case cache.NamespaceChanged:
			s.retry(s.retries.LeadersFor(fit.ReadsNamespaces))
		}
	}
	if len(wake) > 0 {
		s.handle.Activate(logger, wake)
	}
	s.reviewAllocations()
}

// retryKeptOff retries unschedulable groups, and the pods without a gang that were kept off nodes.
func (s *Shared) retryKeptOff() {
	s.retry(s.retries.Leaders())
	s.activateTwice("pods without a gang", s.podsKeptOffNodes.TakeAll())
}

// resumeEvictions continues, once, the evictions that an earlier process has begun. It does nothing until the cache is open.
func (s *Shared) resumeEvictions() {
	if !s.Cache.Open() {
		return
	}
	s.resumeOnce.Do(func() {
		for _, resume := range s.resumeFuncs {
			resume()
		}
		s.quotas.Resume() // last: the terminating pods are known now
	})
}

// activateDelayed retries the pods that waited for groups partially bound at the start, if there is no such group any more.
func (s *Shared) activateDelayed() {
	if !s.Cache.Resuming() {
		s.activateTwice("delayed pods", s.delayed.TakeAll())
	}
}

// activateTwice retries pods now and again a second later. what names the pods in the key of the second retry.
func (s *Shared) activateTwice(what string, pods map[string]*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	s.handle.Activate(klog.Background(), pods)
	// A pod that was just returning to the queue misses the first call.
	s.Writer.DoAfter(what+" "+slices.Min(slices.Collect(maps.Keys(pods))), time.Second, func(context.Context) error {
		s.handle.Activate(klog.Background(), pods)
		return nil
	})
}

// retryPodsOf retries the pods without a gang of an object that were kept off nodes.
func (s *Shared) retryPodsOf(owner source.OwnerKey) {
	pods := map[string]*v1.Pod{}
	for key, pod := range s.podsKeptOffNodes.All() {
		if made, ok := source.JobOf(pod); ok && made == owner {
			pods[key] = pod
		}
	}
	s.activateTwice("pods of "+owner.Namespace+"/"+owner.Name, pods)
}

// retryFreed retries a pod without a gang, now and again a second later, because the queue may learn late of what has changed.
func (s *Shared) retryFreed(pod *v1.Pod) {
	activate := func(context.Context) error {
		s.handle.Activate(klog.Background(), map[string]*v1.Pod{convert.PodKey(pod): pod})
		return nil
	}
	s.Writer.Do("free "+convert.PodKey(pod), activate)
	s.Writer.DoAfter("free again "+convert.PodKey(pod), time.Second, activate)
}

// An answer to a pod that does not wait at Permit yet is repeated: at most answers times, first after answerAgain, then each after twice
// the delay.
const (
	answerAgain = 200 * time.Millisecond
	answers     = 3
)

// answerWaiting calls do with the effect's pod, which waits at Permit, to allow or reject it. The scheduler registers a waiting pod only
// after Permit returns. So a call that finds no waiting pod is repeated as long as the member is at one of the steps.
func (s *Shared) answerWaiting(e gang.Effect, steps []gang.Step, do func(fwk.WaitingPod)) {
	var attempt func(remaining int, delay time.Duration)
	attempt = func(remaining int, delay time.Duration) {
		if w := s.handle.GetWaitingPod(types.UID(e.UID)); w != nil {
			do(w)
			return
		}
		if remaining == 0 {
			return
		}
		s.Writer.DoAfter(string(e.Verb)+" "+e.Pod+" "+e.UID, delay, func(context.Context) error {
			if slices.Contains(steps, s.Cache.Step(e.Pod, e.UID)) {
				attempt(remaining-1, 2*delay)
			}
			return nil
		})
	}
	attempt(answers, answerAgain)
}

// clearNomination removes the nominated node of a pod in the scheduler's memory and in the pod's status.
func (s *Shared) clearNomination(key string) {
	pod := s.Cache.Pod(key)
	if pod == nil {
		return
	}
	s.handle.DeleteNominatedPodIfExists(pod)
	s.teller.Pod(key, status.Waiting{Node: new(string)})
}

// clearLostNomination removes a member's nominated node after the member lost that node, unless the scheduler has removed it. The scheduler
// sends only one request for that, and a stale nomination would keep other pods off the node. It checks twice, because a watch may be late.
func (s *Shared) clearLostNomination(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	for _, times := range []int{1, 10} {
		delay := time.Duration(times) * max(0, s.options.Settle)
		s.Writer.DoAfter(fmt.Sprintf("nomination of %s %d", key, times), delay, func(context.Context) error {
			current := s.Cache.Pod(key)
			if current == nil || current.UID != pod.UID || current.Status.NominatedNodeName != node || s.Cache.Counted(current) {
				return nil
			}
			if place, _ := s.Cache.Place(current); place == "" {
				s.clearNomination(key)
			}
			return nil
		})
	}
}
