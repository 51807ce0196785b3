package preempt

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Force fit (argument forceFit): a gang that was unschedulable for long may evict gangs of equal priority that were created after it. That
// is tried if the usual search found no victims.
//
// Two gangs never evict each other in turn: an evicted gang that is recreated was still created after the first one. One wait allows one
// eviction, since a reservation ends the wait.
//
// A gang does not evict shortly before a promised start: as long as that start is at most forceFit.after away, the gang waits for it.

// ForceFitIn returns after what time from now the attempt's gang may evict gangs of equal priority: not above 0 if it may already. ok is
// false if it never may.
func (p *Preemptor) ForceFitIn(a *place.Attempt) (remaining time.Duration, ok bool) {
	arg := p.Limits().ForceFit
	if arg.IsZero() || a.Group.Alone || p.forbidden(a) != Evicts || needed(a) == nil || p.Cache.Priority(a.Lowest()) < arg.MinPriority {
		return 0, false
	}
	remaining = arg.After.Duration - p.unschedulableFor(a)
	if promise := a.Group.Promise; promise.Exists() {
		if start := promise.At.Sub(p.Clock.Now()); start <= arg.After.Duration {
			remaining = max(remaining, max(start, 0)+afterPromise)
		}
	}
	return remaining, true
}

// afterPromise is how long after a promised start the gang is tried again, if it has neither started nor another promise then.
const afterPromise = 10 * time.Second

// unschedulableFor returns how long the attempt's gang has been unschedulable.
func (p *Preemptor) unschedulableFor(a *place.Attempt) time.Duration {
	if since := a.Group.UnschedulableSince; !since.IsZero() {
		return p.Clock.Since(since)
	}
	return 0
}

// findForceFit returns the attempt with the cheapest victims, these, and how pods of equal priority among the victims are explained. The
// victims may include pods that the usual search allows. It returns a nil solution if the gang may not force-fit, or if no victims suffice.
func (p *Preemptor) findForceFit(ctx context.Context, attempts []*place.Attempt) (*place.Attempt, *solution, departure.ForceFit) {
	none := departure.ForceFit{}
	if remaining, ok := p.ForceFitIn(attempts[0]); !ok || remaining > 0 {
		return nil, nil, none
	}
	equal := p.youngerGangs(attempts[0])
	if len(equal) == 0 {
		return nil, nil, none
	}
	a, found, _ := p.overChoices(ctx, attempts, func(ctx context.Context, a *place.Attempt) (*solution, Verdict) {
		p.countSearched(a)
		found, verdict, _ := p.choose(ctx, a, victimLimits{equal: equal})
		return found, verdict
	})
	return a, found, departure.ForceFit{Victims: equal, Waited: p.unschedulableFor(attempts[0]).Truncate(time.Second)}
}

// youngerGangs returns the UIDs of pods on the attempt's nodes. They have the priority of its lowest member, and their gangs were created
// after the attempt's group.
func (p *Preemptor) youngerGangs(a *place.Attempt) map[types.UID]bool {
	priority := p.Cache.Priority(a.Lowest())
	pods, younger := map[types.UID]bool{}, map[gang.Ref]bool{}
	for _, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			ref := source.GangOf(pod)
			if ref.IsZero() || p.Cache.Priority(pod) != priority {
				continue
			}
			isYounger, known := younger[ref]
			if !known {
				isYounger = p.Cache.CreatedAfter(ref, a.Group.Key)
				younger[ref] = isYounger
			}
			if isYounger {
				pods[pod.UID] = true
			}
		}
	}
	return pods
}
