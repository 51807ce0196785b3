package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// At every event the scheduler's queue passes over all pods that it keeps, also over those that the Gate keeps out, which hear of nothing: with
// 16,000 members that wait that was a quarter of what a change cost, and two fifths of the garbage. The queue asks for fewer
// (PreQueueingHint, SchedulerPreQueueingHints) if there is somebody who knows whom an event may concern: nobody but those that the Gate has let in and
// that were tried since, and came to nothing. Who waits for its turn is tried in any case, and for who is being tried the queue keeps the event.

// listeners are the pods that were tried and came to nothing, and maybe some that have left the queue since.
type listeners struct {
	mu   sync.Mutex
	pods sets.Set[types.NamespacedName]
	most int // where those are swept out that have left
}

// fewListeners are kept without a look at whether they have left.
const fewListeners = 64

// note has a pod be one of them, or not. In a backlog that fits there is nobody. waits says whether a pod of that name may still be in the queue: which goes by names, too, so that one
// that was made again may stand there in place of the other.
func (l *listeners) note(pod *v1.Pod, in bool, waits func(types.NamespacedName) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if !in {
		l.pods.Delete(name)
		return
	}
	if l.pods == nil {
		l.pods, l.most = sets.New[types.NamespacedName](), fewListeners
	}
	if l.pods.Insert(name); len(l.pods) <= l.most {
		return
	}
	for name := range l.pods {
		if !waits(name) {
			l.pods.Delete(name)
		}
	}
	l.most = max(fewListeners, 2*len(l.pods))
}

// list returns them if there are no more than that.
func (l *listeners) list(most int) (names []types.NamespacedName, few bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pods) > most {
		return nil, false
	}
	return l.pods.UnsortedList(), true
}

// knownGates are PreEnqueue plugins that hear of none of the events for which the queue is narrowed, or are not helped by any: a pod that one of them
// has kept out may not have come to the Gate, since they are asked in any order.
var knownGates = sets.New(GateName, Name, names.SchedulingGates, names.DynamicResources, names.DefaultPreemption)

// findPasses finds out whether all pods of the profile that may hear of an event have come through its Gate.
func (p *Plugin) findPasses() {
	p.passes = p.hasGate
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.passes = p.passes && knownGates.Has(pl.Name)
	}
}

// Complete tells of the scheduler, once it is made and before it runs: which profiles it has, and whom it fails to place. Until then, and where pods
// of a profile may come past the Gate, the queue asks everybody: once somebody names some, those are all that it asks, whoever the others belong to.
func (s *Shared) Complete(sched *scheduler.Scheduler) {
	all := true
	for name := range sched.Profiles {
		p := s.Profile(name)
		all = all && p != nil && p.passes
	}
	s.narrows.Store(all)
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominated *fwk.NominatingInfo, began time.Time) {
		s.listeners.note(pod.Pod, true, s.waits) // before the queue has it: an event may come the moment after
		failed(ctx, profile, pod, status, nominated, began)
	}
}

// narrowed is the PreQueueingHint of events of which only listeners hear.
func (s *Shared) narrowed(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	if s.narrows.Load() {
		if pods, few := s.listeners.list(s.Cache.Waiting() / s.options.Narrow); few {
			return fwk.PreQueueingHintResult{Pods: pods}, nil
		}
	}
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// everybody is the PreQueueingHint of events that another plugin narrows, which knows nothing of gangs: a leader may hear of them for the others.
func everybody(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// waits says whether a pod may be in the queue: the informer still has one of that name, and it has no node, or waits there for more of it.
func (s *Shared) waits(name types.NamespacedName) bool {
	pod, err := s.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return false
	}
	_, resizes := podutil.GetPodCondition(&pod.Status, v1.PodResizePending)
	return pod.Spec.NodeName == "" || resizes != nil
}
