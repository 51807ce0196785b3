package preempt

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// PreemptPod is how an executor evicts. It says whether that was in memory only.
type PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error)

// A member on its way to its node is asked how far it is so often, and for so long.
const (
	lookEvery = 20 * time.Millisecond
	lookFor   = 5 * time.Second
)

// stopping is held while a waiting pod is stopped: the framework (1.37) notes that it was under a lock
// for readers, so that two who do it at once race, whichever profile they are of.
var stopping sync.Mutex

// Reject sends a member that waits in Permit back to the queue.
func Reject(w fwk.WaitingPod, plugin, why string) {
	stopping.Lock()
	defer stopping.Unlock()
	w.Reject(plugin, why)
}

// stop is Reject for one that is preempted. It returns false if somebody else was first.
func stop(w fwk.WaitingPod, plugin string) bool {
	stopping.Lock()
	defer stopping.Unlock()
	return w.Preempt(plugin, "preempted")
}

// errTaken is what comes of asking somebody whose leaving the API server has taken meanwhile.
var errTaken = errors.New("somebody else has evicted the pod")

// inTurn has one ask for a pod at a time, and nobody after the API server has taken its leaving: two who need the room
// of a pod would evict it twice.
func (p *Preemptor) inTurn(evict PreemptPod) PreemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		taken, done := p.Victims.turn(victim)
		if taken {
			done(true)
			return false, errTaken
		}
		inMemory, err := evict(ctx, to, by, victim, plugin)
		done(err == nil && !inMemory)
		return inMemory, err
	}
}

// gently makes an executor delete no member that is on its way back to the queue. The first
// that leaves the barrier takes the others along; an executor that comes for them then
// would find nobody who waits and have them deleted, though none of them runs.
func (p *Preemptor) gently(evict PreemptPod) PreemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		if source.Of(victim).IsZero() || p.Cache.Bound(victim) {
			return evict(ctx, to, by, victim, plugin)
		}
		if w := p.Profile.GetWaitingPod(victim.UID); w != nil && stop(w, plugin) {
			p.Profile.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, "Preempted", "Preempting",
				"Preempted by %s %v on node %v (in kube-scheduler memory).", by.Type(), by.UID(), to.Name())
			return true, nil
		}
		back := false
		p.Victims.looks.Add(1)
		defer p.Victims.looks.Add(-1)
		_ = wait.PollUntilContextTimeout(ctx, lookEvery, lookFor, true, func(context.Context) (bool, error) {
			back = !p.Cache.Counted(victim)
			return back || p.Cache.Bound(victim) || p.Profile.GetPodInPreBind(victim.UID) != nil, nil
		})
		if back {
			return true, nil
		}
		return evict(ctx, to, by, victim, plugin)
	}
}
