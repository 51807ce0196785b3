package preempt

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// wholes are the groups of one eviction that leave whole, and how far they have come.
type wholes struct {
	of map[types.UID]gang.Ref // group, by victim; those who leave alone have none
	// also are those of these groups whom somebody else has asked to leave, alone, and who were
	// not seen leaving. They might be spared, and would be what is left: so they leave with the rest.
	also []*v1.Pod

	mu     sync.Mutex
	marks  map[types.UID]*v1.Pod // who was marked, as it is then
	unsure map[types.UID]bool    // who may have been deleted although the answer was an error
	lost   map[gang.Ref]bool     // groups that have lost somebody to this eviction
	over   map[gang.Ref]bool     // of those, groups of which nobody is waited for any more
}

func newWholes() *wholes {
	return &wholes{of: map[types.UID]gang.Ref{}, marks: map[types.UID]*v1.Pod{}, unsure: map[types.UID]bool{}, lost: map[gang.Ref]bool{}, over: map[gang.Ref]bool{}}
}

// wholes finds out which victims leave with others: those of a gang that cannot spare as many, and
// of gangs that cannot run without it.
func (p *Preemptor) wholes(victims []*v1.Pod) *wholes {
	bundles := eligible.BundlesOf(p.Cache, victims)
	whole := bundles.Gangs
	w := newWholes()
	w.of = bundles.Of
	for _, of := range eligible.SortedRefs(whole) {
		asked := p.Cache.Asked(of.Whole())
		if of != of.Whole() {
			asked = p.Cache.InPart(of, asked)
		}
		for _, pod := range asked {
			if !w.has(pod) {
				w.of[pod.UID], w.also = whole[of], append(w.also, pod)
			}
		}
	}
	return w
}

// has says whether a victim leaves with its group.
func (w *wholes) has(victim *v1.Pod) bool {
	_, ok := w.of[victim.UID]
	return ok
}

// among leaves out the victims that leave alone.
func (w *wholes) among(victims []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !w.has(p) })
}

// broken says whether a victim's group has lost somebody: who is left of it leaves, too.
func (w *wholes) broken(victim *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok := w.of[victim.UID]
	return ok && w.lost[key]
}

// parted says whether some group has lost somebody, and others of it are waited for.
func (w *wholes) parted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.over) < len(w.lost)
}

// awaits notes who is still waited for: groups of which nobody is have left.
func (w *wholes) awaits(left []*v1.Pod) {
	there := map[gang.Ref]bool{}
	for _, pod := range left {
		there[w.of[pod.UID]] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.lost {
		if !there[key] {
			w.over[key] = true
		}
	}
}

// came notes what came of the request to delete a victim.
func (w *wholes) came(victim *v1.Pod, inMemory bool, err error) {
	key, ok := w.of[victim.UID]
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !inMemory {
		w.lost[key] = true
	}
	w.unsure[victim.UID] = w.unsure[victim.UID] || err != nil && mayBeDone(err)
}

// leaves notes that a victim leaves, or is gone. Who was never asked was deleted by others.
func (w *wholes) leaves(victim *v1.Pod) {
	key, ok := w.of[victim.UID]
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsure[victim.UID] {
		w.lost[key] = true
	}
}

// mayBeDone says whether a request may have been carried out although the answer was an
// error.
func mayBeDone(err error) bool {
	return !status.Final(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsUnauthorized(err)
}

// mark remembers a victim with its mark.
func (w *wholes) mark(marked *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks[marked.UID] = marked
}

func (w *wholes) isMarked(victim *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marks[victim.UID] != nil
}

// marked is a victim as it was marked, or as it is.
func (w *wholes) marked(victim *v1.Pod) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod := w.marks[victim.UID]; pod != nil {
		return pod
	}
	return victim
}
