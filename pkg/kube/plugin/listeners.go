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

// On each event the scheduler's queue visits all its pods, even those kept out by the Gate. With 16,000 waiting
// members that took a quarter of the time of a change. A PreQueueingHint (SchedulerPreQueueingHints) narrows this
// to the pods that the event may concern: the pods that were tried and failed. The queue keeps the event for pods
// that are being tried.

// listeners are the pods that were tried and failed. Some may have left the queue since.
type listeners struct {
	mu    sync.Mutex
	pods  sets.Set[types.NamespacedName]
	limit int // size from which removed pods are swept out
}

// fewListeners is the size below which no sweep happens.
const fewListeners = 64

// note adds a pod or removes it. mayBeQueued says whether a pod of that name may still be in the queue. A recreated
// pod replaces the old one, because the queue goes by name.
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

// list returns the listeners if there are at most limit.
func (l *listeners) list(limit int) (pods []types.NamespacedName, few bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pods) > limit {
		return nil, false
	}
	return l.pods.UnsortedList(), true
}

// knownGates are the PreEnqueue plugins that none of the narrowed events concerns. A pod that another plugin keeps
// out may not have passed the Gate, since their order is arbitrary.
var knownGates = sets.New(GateName, Name, names.SchedulingGates, names.DynamicResources, names.DefaultPreemption)

// findPasses notes whether every pod of the profile that may receive events passed its Gate.
func (p *Plugin) findPasses() {
	p.gateComplete = p.hasGate
	for _, pl := range p.profile.ListPlugins().PreEnqueue.Enabled {
		p.gateComplete = p.gateComplete && knownGates.Has(pl.Name)
	}
}

// Complete enables narrowing if every profile's pods pass a Gate, and records the pods that fail. It is called
// before the scheduler runs. Once one hint names pods, the queue asks only these, whatever profile they belong to.
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

// narrowedHint is the PreQueueingHint of events for listeners.
func (s *Shared) narrowedHint(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	if s.narrowing.Load() {
		if pods, few := s.listeners.list(s.Cache.Waiting() / s.options.ListenerRatio); few {
			return fwk.PreQueueingHintResult{Pods: pods}, nil
		}
	}
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// allPodsHint is the PreQueueingHint of events that another plugin narrows. That plugin does not know that a leader
// stands for other members.
func allPodsHint(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
	return fwk.PreQueueingHintResult{AllPods: true}, nil
}

// mayBeQueued says whether a pod may be in the queue: it exists and has no node, or waits for a resize.
func (s *Shared) mayBeQueued(name types.NamespacedName) bool {
	pod, err := s.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return false
	}
	_, resizes := podutil.GetPodCondition(&pod.Status, v1.PodResizePending)
	return pod.Spec.NodeName == "" || resizes != nil
}
