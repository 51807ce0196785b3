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

// Between a request that failed and the next one room may come: others leave by themselves.
// Whether somebody need not leave therefore is for the profile's Filters to say, and they can
// be asked in a scheduling cycle only. So the background asks, has the speaker tried, and goes
// on when its cycle has answered.

// doubt is the question who need not leave any more.
type doubt struct {
	units  [][]*v1.Pod    // who leaves, or stays, together
	answer chan []*v1.Pod // who may stay
}

// AnswerWithin is how long the background waits for a cycle: a scheduler that has more urgent
// things to do is not waited for.
const AnswerWithin = 2 * time.Second

// stillNeeded spares, and leaves out, the victims that need not be evicted any more.
func (r *reservation) stillNeeded(ctx context.Context, left []*v1.Pod) []*v1.Pod {
	units := r.bundles.Units(left)
	if len(units) == 0 {
		return left // of broken bundles
	}
	d := r.Victims.ask(r.Group.Key, r.number, units)
	if d == nil {
		return left
	}
	r.wake(ctx)
	var kept []*v1.Pod
	select {
	case kept = <-d.answer:
	case <-r.Clock.After(AnswerWithin):
	case <-r.Ended:
	}
	r.spare(kept)
	return slices.DeleteFunc(slices.Clone(left), func(p *v1.Pod) bool { return slices.Contains(kept, p) })
}

// ask puts the question; nil if the eviction is over.
func (v *Victims) ask(group gang.Ref, number int, units [][]*v1.Pod) *doubt {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	if e == nil || e.number != number {
		return nil
	}
	e.doubt = &doubt{units: units, answer: make(chan []*v1.Pod, 1)}
	return e.doubt
}

// doubted takes the question that is asked about a group; nil if there is none.
func (v *Victims) doubted(group gang.Ref) (d *doubt) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.asked[group]; e != nil {
		d, e.doubt = e.doubt, nil
	}
	return d
}

// Answer says, in a cycle of a group that waits for victims, who of those that the API server
// has not let go yet need not leave: the group's places fit without that, and its quotas have enough.
func (p *Evictor) Answer(ctx context.Context, a *place.Attempt) {
	d := p.Victims.doubted(a.Group.Key)
	if d == nil {
		return
	}
	gone, _ := p.Victims.Leaving(a, p.Clock.Now()).Fit(ctx, a)
	leaves := p.Victims.LeavesFor(a.Group.Key, p.Clock.Now())
	d.answer <- Kept(d.units, func(some [][]*v1.Pod) bool {
		if _, why := a.PlacesFit(ctx, without(gone, some)); why != "" {
			return false
		}
		stays := eligible.UIDs(some)
		return p.Quotas == nil || p.Quotas.Fits(a.Group, func(pod *v1.Pod) bool {
			return pod.DeletionTimestamp != nil || !stays[pod.UID] && leaves(pod)
		})
	})
}

// without leaves out of those who leave, by node, some who do not.
func without(gone [][]*v1.Pod, units [][]*v1.Pod) [][]*v1.Pod {
	out := slices.Clone(gone)
	stays := eligible.UIDs(units)
	for i, here := range out {
		if len(here) > 0 {
			out[i] = slices.DeleteFunc(slices.Clone(here), func(p *v1.Pod) bool { return p.DeletionTimestamp == nil && stays[p.UID] })
		}
	}
	return out
}

// mostQuestions bounds how often Kept asks.
const mostQuestions = 64

// Kept returns the pods of the bundles that may stay, the first rather than the last. fits says whether all is well when some
// bundles stay. Half of the bundles are tried at once while that succeeds, then each by itself.
func Kept(bundles [][]*v1.Pod, fits func(stay [][]*v1.Pod) bool) []*v1.Pod {
	var kept [][]*v1.Pod
	left := slices.Clone(bundles)
	asked := 0
	for size := len(left); size > 0; size /= 2 {
		for i := 0; i < len(left) && asked < mostQuestions; asked++ {
			to := min(i+size, len(left))
			if with := slices.Concat(kept, left[i:to]); fits(with) {
				kept = with
				left = slices.Delete(left, i, to)
			} else {
				i += size
			}
		}
	}
	return slices.Concat(kept...)
}
