package preempt

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
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

// answerWithin is how long the background waits for a cycle: a scheduler that has more urgent
// things to do is not waited for.
const answerWithin = 2 * time.Second

// stillNeeded leaves out, and spares, those who need not leave any more.
func (e *execution) stillNeeded(ctx context.Context, left []*v1.Pod) []*v1.Pod {
	units := e.departure.groups.units(left)
	if len(units) == 0 {
		return left // those who are left of broken groups
	}
	d := e.Victims.ask(e.group.Key, e.number, units)
	if d == nil {
		return left
	}
	e.wake(ctx)
	var stay []*v1.Pod
	select {
	case stay = <-d.answer:
	case <-e.Clock.After(answerWithin):
	case <-e.Ended:
	}
	e.spare(stay)
	return slices.DeleteFunc(slices.Clone(left), func(p *v1.Pod) bool { return slices.Contains(stay, p) })
}

// units sorts victims by who leaves with whom, the dearest first. Those of broken groups are
// left out.
func (w *wholes) units(victims []*v1.Pod) (units [][]*v1.Pod) {
	at := map[gang.Ref]int{}
	for _, pod := range victims {
		key, whole := w.of[pod.UID]
		i, known := at[key]
		switch {
		case w.broken(pod):
		case whole && known:
			units[i] = append(units[i], pod)
		default:
			if whole {
				at[key] = len(units)
			}
			units = append(units, []*v1.Pod{pod})
		}
	}
	slices.SortStableFunc(units, func(x, y []*v1.Pod) int {
		return cmp.Or(cmp.Compare(len(y), len(x)), cmp.Compare(convert.Priority(y[0]), convert.Priority(x[0])))
	})
	return units
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
func (p *Preemptor) Answer(ctx context.Context, a *place.Attempt) {
	d := p.Victims.doubted(a.Group.Key)
	if d == nil {
		return
	}
	gone, _ := p.Victims.Leaving(a, p.Clock.Now()).Fit(ctx, a)
	leaves := p.Victims.LeavesFor(a.Group.Key, p.Clock.Now())
	d.answer <- stay(d.units, func(some [][]*v1.Pod) bool {
		if _, why := a.PlacesFit(ctx, without(gone, some)); why != "" {
			return false
		}
		stays := uids(some)
		return p.Quotas == nil || p.Quotas.Fits(a.Group, func(pod *v1.Pod) bool {
			return pod.DeletionTimestamp != nil || !stays[pod.UID] && leaves(pod)
		})
	})
}

func uids(units [][]*v1.Pod) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, unit := range units {
		for _, pod := range unit {
			all[pod.UID] = true
		}
	}
	return all
}

// without leaves out of those who leave, by node, some who do not.
func without(gone [][]*v1.Pod, units [][]*v1.Pod) [][]*v1.Pod {
	out := slices.Clone(gone)
	stays := uids(units)
	for i, here := range out {
		if len(here) > 0 {
			out[i] = slices.DeleteFunc(slices.Clone(here), func(p *v1.Pod) bool { return p.DeletionTimestamp == nil && stays[p.UID] })
		}
	}
	return out
}

// mostPutBack bounds how often it is asked which of some victims may stay.
const mostPutBack = 64

// stay lists who may stay, the first rather than the last.
func stay(units [][]*v1.Pod, fits func(stay [][]*v1.Pod) bool) (out []*v1.Pod) {
	may, _ := putBack(units, mostPutBack, fits)
	for _, unit := range may {
		out = append(out, unit...)
	}
	return out
}

// putBack lists which units may stay, the first rather than the last: half of them at once as long as that goes, then one by one. all
// says that it took no more than most questions to ask about each.
func putBack[T any](units []T, most int, fits func(stay []T) bool) (may []T, all bool) {
	left := slices.Clone(units)
	tries := 0
	for size := len(left); size > 0 && tries < most; size /= 2 {
		for i := 0; i < len(left) && tries < most; tries++ {
			to := min(i+size, len(left))
			if with := slices.Concat(may, left[i:to]); fits(with) {
				may, left = with, slices.Delete(left, i, to)
			} else {
				i += size
			}
		}
		all = size == 1 && tries < most
	}
	return may, all || len(left) == 0
}
