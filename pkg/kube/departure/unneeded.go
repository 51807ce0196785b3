package departure

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// While requests fail, other pods may free capacity. Whether a victim is still needed is decided by the profile's Filters, which run only
// in a scheduling cycle. So the eviction's goroutine records a question, has the representative retried, and waits for the cycle's answer.

// question asks which victims are not needed any more.
type question struct {
	bundles [][]*v1.Pod    // each is evicted or spared as a whole
	answer  chan []*v1.Pod // receives the pods that are not needed
}

// AnswerWithin is how long the eviction's goroutine waits for an answer. Other cycles may delay the one that answers.
const AnswerWithin = 2 * time.Second

// stillNeeded returns the victims that are still needed, and spares the others. Without an answer in time it returns all.
func (r *reservation) stillNeeded(ctx context.Context, remaining []*v1.Pod) []*v1.Pod {
	bundles := r.bundles.ByBundle(remaining)
	if len(bundles) == 0 {
		return remaining // of broken bundles
	}
	d := r.Victims.askUnneeded(r.Group.Key, r.number, bundles)
	if d == nil {
		return remaining
	}
	r.wake(ctx)
	var spared []*v1.Pod
	select {
	case spared = <-d.answer:
	case <-r.Clock.After(AnswerWithin):
	case <-r.Ended:
	}
	r.spare(spared)
	return slices.DeleteFunc(slices.Clone(remaining), func(p *v1.Pod) bool { return slices.Contains(spared, p) })
}

// askUnneeded records and returns a question: which of these bundles are not needed? It returns nil if the eviction has ended.
func (v *Victims) askUnneeded(group gang.Ref, number int, bundles [][]*v1.Pod) *question {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	if e == nil || e.number != number {
		return nil
	}
	e.question = &question{bundles: bundles, answer: make(chan []*v1.Pod, 1)}
	return e.question
}

// takeQuestion removes and returns the open question of a group's eviction; nil if there is none.
func (v *Victims) takeQuestion(group gang.Ref) (d *question) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.evictions[group]; e != nil {
		d, e.question = e.question, nil
	}
	return d
}

// AnswerDoubt answers the open question of a group's eviction, if there is one, in the group's scheduling cycle. A victim is not needed if
// the reserved nodes and the quotas suffice without its eviction.
func (p *Evictor) AnswerDoubt(ctx context.Context, a *place.Attempt) {
	d := p.Victims.takeQuestion(a.Group.Key)
	if d == nil {
		return
	}
	gone, _ := p.Victims.Leaving(a, p.Clock.Now()).Fit(ctx, a)
	isVictim := p.Victims.TerminatesFor(a.Group.Key, p.Clock.Now())
	d.answer <- SparedOf(d.bundles, func(kept [][]*v1.Pod) bool {
		if _, why := a.PlacesFit(ctx, without(gone, kept)); why != "" {
			return false
		}
		isKept := eligible.UIDs(kept)
		return p.Quotas == nil || p.Quotas.Fits(a.Group, func(pod *v1.Pod) bool {
			return pod.DeletionTimestamp != nil || !isKept[pod.UID] && isVictim(pod)
		})
	})
}

// without returns the pods by node index, except pods of the bundles kept that do not terminate already.
func without(pods [][]*v1.Pod, kept [][]*v1.Pod) [][]*v1.Pod {
	out := slices.Clone(pods)
	isKept := eligible.UIDs(kept)
	for i, onNode := range out {
		if len(onNode) > 0 {
			out[i] = slices.DeleteFunc(slices.Clone(onNode), func(p *v1.Pod) bool { return p.DeletionTimestamp == nil && isKept[p.UID] })
		}
	}
	return out
}

// mostFitsCalls bounds the calls of fits in SparedOf.
const mostFitsCalls = 64

// SparedOf returns the pods of the bundles that need not be evicted, preferring the first bundles. fits returns whether the given bundles
// may stay together. SparedOf tries all bundles at once, then halves, quarters and so on, and at last each alone.
func SparedOf(bundles [][]*v1.Pod, fits func(stay [][]*v1.Pod) bool) []*v1.Pod {
	var kept [][]*v1.Pod
	remaining := slices.Clone(bundles)
	calls := 0
	for size := len(remaining); size > 0; size /= 2 {
		for i := 0; i < len(remaining) && calls < mostFitsCalls; calls++ {
			end := min(i+size, len(remaining))
			if candidate := slices.Concat(kept, remaining[i:end]); fits(candidate) {
				kept = candidate
				remaining = slices.Delete(remaining, i, end)
			} else {
				i += size
			}
		}
	}
	return slices.Concat(kept...)
}
