// Package departure evicts pods that package preempt has chosen, and remembers them until they are gone. It makes the reservations and
// writes the messages of victims. Invariant: once a victim bundle (pods that are evicted together or not at all) has lost a pod, the whole
// bundle is evicted.
//
//	evictor.go      an Evictor evicts for one profile, with one request for a pod at a time
//	departure.go    the victims of one eviction: bundles in steps, repeated requests
//	reservation.go  the eviction for the reservation of a gang, or of a pod without one
//	unneeded.go     victims that need not be evicted any more
//	resume.go       evictions that a previous process has begun
//	victims.go      the pods to evict, by eviction, until they terminate
//	veto.go         pods whose eviction the API server rejects
//	terminating.go  terminating pods that a reservation waits for
//	message.go      the condition and the event of a victim
package departure

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Options are what an Evictor needs.
type Options struct {
	Profile framework.Framework
	Cache   *cache.Cache
	Teller  *status.Reporter
	Meter   *status.Meter
	// Victims are the pods to evict, of all profiles.
	Victims *Victims
	Clock   clock.Clock
	// Ended is closed when the process ends; nil means that it does not.
	Ended <-chan struct{}
	// Writers is the number of parallel requests of an eviction.
	Writers int
	// Limits returns the present limits: they may change while the scheduler runs.
	Limits func() Limits
	// Quotas decide which pods may be evicted, besides priorities; nil if there are none.
	Quotas eligible.Quotas
}

// Limits are the settings of evictions.
type Limits struct {
	// Leave is how long after a victim's grace period Muster waits for its end.
	Leave time.Duration
	// MaxGrace is the longest grace period of victims that are considered first. Other victims are considered only if these do not suffice.
	MaxGrace time.Duration
	// Enabled allows evictions. Swap allows evictions of equal priority for the replacement of a lost member.
	Enabled, Swap bool
	// EvictOverdue allows the eviction of pods that have outlived their declared end, for a gang whose promised start has come.
	EvictOverdue bool
	// ForceFit allows evictions of equal priority for a gang that waited for long.
	ForceFit config.ForceFit
}

// Evictor evicts for one profile.
type Evictor struct {
	Options
	Features feature.Features
	Executor *preemption.Executor // kube-scheduler's executor of preemptions
	Pods     corelisters.PodLister
}

// New returns the Evictor of a profile.
func New(o Options) *Evictor {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	p := &Evictor{
		Options:  o,
		Features: features,
		Executor: preemption.NewExecutor(o.Profile, features),
		Pods:     o.Profile.SharedInformerFactory().Core().V1().Pods().Lister(),
	}
	p.Executor.PreemptPod = p.onePerPod(p.requeueOrEvict(p.withReason(p.Executor.PreemptPod)))
	return p
}

// PreemptPod is the type of an executor's function that evicts a pod. It returns whether the pod was only requeued, in memory.
type PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error)

// ErrTaken means that the API server has accepted the eviction from another request meanwhile.
var ErrTaken = errors.New("the pod was evicted by another preemption")

// onePerPod returns evict with at most one request for a pod at a time, and none after an accepted one. Otherwise two preemptors that need
// the capacity of one pod would evict it twice.
func (p *Evictor) onePerPod(evict PreemptPod) PreemptPod {
	return func(
		ctx context.Context, candidate preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (bool, error) {
		accepted, done := p.Victims.lockRequest(victim)
		if accepted {
			done(true)
			return false, ErrTaken
		}
		inMemory, err := evict(ctx, candidate, by, victim, plugin)
		done(err == nil && !inMemory)
		return inMemory, err
	}
}

// A member that is neither at Permit nor bound is polled every pollEvery, for at most pollFor.
const (
	pollEvery = 20 * time.Millisecond
	pollFor   = 5 * time.Second
)

// requeueOrEvict returns evict, changed for members of gangs that are not bound: it requeues a member at Permit, and waits for a member
// that is being requeued, without evict. (The first rejected member of a gang at Permit has all members requeued; the executor would delete
// these.)
func (p *Evictor) requeueOrEvict(evict PreemptPod) PreemptPod {
	return func(
		ctx context.Context, candidate preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (bool, error) {
		if source.GangOf(victim).IsZero() || p.Cache.Bound(victim) {
			return evict(ctx, candidate, by, victim, plugin)
		}
		if w := p.Profile.GetWaitingPod(victim.UID); w != nil && stop(w, plugin) {
			p.Profile.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, reasons.Preempted, "Preempting",
				"Preempted by %s %v on node %v (in kube-scheduler memory).", by.Type(), by.UID(), candidate.Name())
			return true, nil
		}
		requeued := false
		p.Victims.polls.Add(1)
		defer p.Victims.polls.Add(-1)
		_ = wait.PollUntilContextTimeout(ctx, pollEvery, pollFor, true, func(context.Context) (bool, error) {
			requeued = !p.Cache.Counted(victim)
			return requeued || p.Cache.Bound(victim) || p.Profile.GetPodInPreBind(victim.UID) != nil, nil
		})
		if requeued {
			return true, nil
		}
		return evict(ctx, candidate, by, victim, plugin)
	}
}

// stopping is locked while a pod at Permit is stopped. In Kubernetes 1.37 two goroutines that stop one pod have a data race.
var stopping sync.Mutex

// Reject requeues a member that waits at Permit.
func Reject(w fwk.WaitingPod, plugin, why string) {
	stopping.Lock()
	defer stopping.Unlock()
	w.Reject(plugin, why)
}

// stop requeues a member that waits at Permit because it is preempted. It returns false if the member was stopped before.
func stop(w fwk.WaitingPod, plugin string) bool {
	stopping.Lock()
	defer stopping.Unlock()
	return w.Preempt(plugin, "preempted")
}

// StillWaits returns whether a preemptor's pod exists and has no node.
func (p *Evictor) StillWaits(by preemption.ExecutorPreemptor) bool {
	pod, err := p.Pods.Pods(by.GetNamespace()).Get(by.GetName())
	obj, ok := by.Obj().(metav1.Object)
	return err == nil && ok && pod.UID == obj.GetUID() && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
}

// Terminates returns whether a pod is gone or terminates.
func (p *Evictor) Terminates(victim *v1.Pod) bool {
	pod, err := p.Pods.Pods(victim.Namespace).Get(victim.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != victim.UID || pod.DeletionTimestamp != nil
}

// activate retries the pods of a preemptor.
func (p *Evictor) activate(ctx context.Context, by preemption.ExecutorPreemptor) {
	p.Profile.Activate(klog.FromContext(ctx), by.Pods())
}

// wait waits for the duration pause. It returns false if the process ends.
func (p *Evictor) wait(pause time.Duration) bool {
	select {
	case <-p.Clock.After(pause):
		return true
	case <-p.Ended:
		return false
	}
}
