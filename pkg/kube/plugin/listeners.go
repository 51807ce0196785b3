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

// On each event the scheduler's queue visits all its pods, even the ones that the Gate rejected. With 16,000 waiting members this took a
// quarter of the time. A PreQueueingHint (SchedulerPreQueueingHints) restricts the visit to the pods that an event may concern: pods whose
// cycle failed. For pods in a cycle the queue records the event.

// listeners are the pods whose scheduling cycle failed. Some of them may not be in the queue any more.
type listeners struct {
	mu    sync.Mutex
	pods  sets.Set[types.NamespacedName]
	limit int // above this size, pods that are not in the queue any more are removed
}

// fewListeners is the smallest value of listeners.limit.
const fewListeners = 64

// note adds a pod (listens is true) or removes it. Pods are identified by name, as in the queue. If there are too many pods, it removes the
// ones for which mayBeQueued returns false.
func (l *listeners) note(pod *v1.Pod, listens bool, mayBeQueued func(types.NamespacedName) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if !listens {
		l.pods.Delete(name)
		return
	}
	if l.pods == nil {
		l.pods, l.limit = sets.New[types.NamespacedName](), fewListeners
	}
	if l.pods.Insert(name); len(l.pods) <= l.limit {
		return
	}
	for name := range l.pods {
		if !mayBeQueued(name) {
			l.pods.Delete(name)
		}
	}
	l.limit = max(fewListeners, 2*len(l.pods))
}

// list returns the listeners and true if there are at most limit, else false.
func (l *listeners) list(limit int) (pods []types.NamespacedName, few bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pods) > limit {
		return nil, false
	}
	return l.pods.UnsortedList(), true
}

// knownGates are the PreEnqueue plugins for which the events with narrowedHint do not matter. With another PreEnqueue plugin, a pod that it
// rejects may need the event although it is no listener.
var knownGates = sets.New(GateName, Name, names.SchedulingGates, names.DynamicResources, names.DefaultPreemption)

// checkGates sets p.gateComplete: whether the profile runs the Gate and no PreEnqueue plugin except knownGates.
func (p *Plugin) checkGates() {
	p.gateComplete = p.hasGate
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.gateComplete = p.gateComplete && knownGates.Has(pl.Name)
	}
}

// Complete enables narrowing if gateComplete is true for all profiles: if one hint names pods, the queue visits only these, whatever their
// profile. It also makes the scheduler's FailureHandler record listeners. It is called before the scheduler runs.
func (s *Shared) Complete(sched *scheduler.Scheduler) {
	allGated := true
	for name := range sched.Profiles {
		p := s.Profile(name)
		allGated = allGated && p != nil && p.gateComplete
	}
	s.narrowing.Store(allGated)
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo,
		status *fwk.Status, nominated *fwk.NominatingInfo, began time.Time,
	) {
		s.listeners.note(pod.Pod, true, s.mayBeQueued) // before the queue has it: an event may come right after
		failed(ctx, profile, pod, status, nominated, began)
	}
}

// narrowedHint is a PreQueueingHint that names the listeners. It names all pods if narrowing is disabled or there are many listeners.
func (s *Shared) narrowedHint(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	if s.narrowing.Load() {
		if pods, few := s.listeners.list(s.Cache.Waiting() / s.options.ListenerRatio); few {
			return fwk.PreQueueingHintResult{Pods: pods}, nil
		}
	}
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// allPodsHint is a PreQueueingHint that names all pods. It replaces the PreQueueingHint of another plugin, which does not know that a
// leader stands for other pods.
func allPodsHint(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// mayBeQueued returns whether a pod may be in the queue: it exists and has no node, or waits for a resize.
func (s *Shared) mayBeQueued(name types.NamespacedName) bool {
	pod, err := s.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return false
	}
	_, resizes := podutil.GetPodCondition(&pod.Status, v1.PodResizePending)
	return pod.Spec.NodeName == "" || resizes != nil
}
