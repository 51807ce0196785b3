// Package departure evicts chosen pods, and remembers them until they are gone. It knows evictions, their reservations, and what victims
// are told. It chooses no victim: package preempt does. Invariant: once a bundle of pods has lost a pod, the whole bundle is evicted.
//
//	evictor.go      an Evictor evicts for one profile, with one request for a pod at a time
//	departure.go    the victims of one eviction: bundles in steps, failed requests again
//	reservation.go  the eviction for the reservation of a gang, or of a pod without one
//	unneeded.go     victims that need not be evicted any more
//	resume.go       evictions that a previous process has begun
//	victims.go      the pods to evict, by eviction, until they terminate
//	veto.go         pods that the API server does not let Muster evict
//	terminating.go  terminating pods that a reservation waits for
//	message.go      what victims are told
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
	// Victims are those of all profiles.
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

// Limits are what users allow evictions.
type Limits struct {
	// Leave is how long Muster waits for a victim after its grace period.
	Leave time.Duration
	// MaxGrace is the longest grace period of a victim whose node is not the last choice.
	MaxGrace time.Duration
	// Enabled allows evictions.
	Enabled bool
}

// Evictor evicts for one profile.
type Evictor struct {
	Options
	Features feature.Features
	Executor *preemption.Executor // evicts, one pod after the other
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
	p.Executor.PreemptPod = p.inTurn(p.requeueOrEvict(p.withReason(p.Executor.PreemptPod)))
	return p
}

// PreemptPod is how an executor evicts. It returns whether that was in memory only.
type PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error)

// ErrTaken means that the API server has accepted the eviction from another request meanwhile.
var ErrTaken = errors.New("the pod was evicted by another preemption")

// inTurn runs one request for a pod at a time, and none after an accepted one: two preemptors that need the capacity of one pod would evict
// it twice.
func (p *Evictor) inTurn(evict PreemptPod) PreemptPod {
	return func(
		ctx context.Context, candidate preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (bool, error) {
		accepted, done := p.Victims.turn(victim)
		if accepted {
			done(true)
			return false, ErrTaken
		}
		inMemory, err := evict(ctx, candidate, by, victim, plugin)
		done(err == nil && !inMemory)
		return inMemory, err
	}
}

// A member on its way to its node is polled at this interval and for this long.
const (
	lookEvery = 20 * time.Millisecond
	lookFor   = 5 * time.Second
)

// requeueOrEvict keeps an executor from deleting a member that is on its way back to the queue. The first rejected member of a gang at
// Permit has all its members requeued, and the executor would find no waiting pod and delete them.
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
		_ = wait.PollUntilContextTimeout(ctx, lookEvery, lookFor, true, func(context.Context) (bool, error) {
			requeued = !p.Cache.Counted(victim)
			return requeued || p.Cache.Bound(victim) || p.Profile.GetPodInPreBind(victim.UID) != nil, nil
		})
		if requeued {
			return true, nil
		}
		return evict(ctx, candidate, by, victim, plugin)
	}
}

// stopping is held while a waiting pod is stopped: the framework (1.37) writes under a read lock, so that two goroutines that stop one pod
// race.
var stopping sync.Mutex

// Reject requeues a member that waits at Permit.
func Reject(w fwk.WaitingPod, plugin, why string) {
	stopping.Lock()
	defer stopping.Unlock()
	w.Reject(plugin, why)
}

// stop requeues a waiting member that is preempted. It returns false if it was stopped before.
func stop(w fwk.WaitingPod, plugin string) bool {
	stopping.Lock()
	defer stopping.Unlock()
	return w.Preempt(plugin, "preempted")
}

// StillWaits returns whether a preemptor still waits for a node.
func (p *Evictor) StillWaits(by preemption.ExecutorPreemptor) bool {
	pod, err := p.Pods.Pods(by.GetNamespace()).Get(by.GetName())
	obj, ok := by.Obj().(metav1.Object)
	return err == nil && ok && pod.UID == obj.GetUID() && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
}

// Terminates returns whether a pod is gone or terminating already.
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

// wait waits before a request is repeated. It returns false if the process ends.
func (p *Evictor) wait(pause time.Duration) bool {
	select {
	case <-p.Clock.After(pause):
		return true
	case <-p.Ended:
		return false
	}
}
