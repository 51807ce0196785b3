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

// While requests fail, other pods may free capacity. The profile's Filters decide whether a victim is still needed, and run only in a
// scheduling cycle. So the background asks, has the representative retried, and goes on with the cycle's answer.

// doubt is the question which victims are not needed any more.
type doubt struct {
	bundles [][]*v1.Pod    // each evicted or kept as a whole
	answer  chan []*v1.Pod // pods not needed
}

// AnswerWithin is how long the background waits for a cycle, which may be delayed by more urgent ones.
const AnswerWithin = 2 * time.Second

// stillNeeded spares the victims that are not needed any more, and returns the remaining ones.
func (r *reservation) stillNeeded(ctx context.Context, remaining []*v1.Pod) []*v1.Pod {
	bundles := r.bundles.ByBundle(remaining)
	if len(bundles) == 0 {
		return remaining // of broken bundles
	}
	d := r.Victims.ask(r.Group.Key, r.number, bundles)
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

// ask asks the question; nil if the eviction is over.
func (v *Victims) ask(group gang.Ref, number int, bundles [][]*v1.Pod) *doubt {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	if e == nil || e.number != number {
		return nil
	}
	e.doubt = &doubt{bundles: bundles, answer: make(chan []*v1.Pod, 1)}
	return e.doubt
}

// takeDoubt takes the question about a group; nil if there is none.
func (v *Victims) takeDoubt(group gang.Ref) (d *doubt) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.evictions[group]; e != nil {
		d, e.doubt = e.doubt, nil
	}
	return d
}

// AnswerDoubt finds, in a cycle of a group that waits for victims, victims without an accepted request that are not needed: the nodes and
// the quotas suffice without their eviction.
func (p *Evictor) AnswerDoubt(ctx context.Context, a *place.Attempt) {
	d := p.Victims.takeDoubt(a.Group.Key)
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

// without returns the terminating pods by node, except those of some bundles that are kept.
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

// mostQuestions bounds the questions of Kept.
const mostQuestions = 64

// SparedOf returns the pods of the bundles that may stay, the first rather than the last. fits returns whether some bundles may stay
// together. Kept tries half of the bundles at once while that succeeds, then each by itself.
func SparedOf(bundles [][]*v1.Pod, fits func(stay [][]*v1.Pod) bool) []*v1.Pod {
	var kept [][]*v1.Pod
	remaining := slices.Clone(bundles)
	questions := 0
	for size := len(remaining); size > 0; size /= 2 {
		for i := 0; i < len(remaining) && questions < mostQuestions; questions++ {
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
