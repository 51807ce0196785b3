package preempt

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
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
	leave, whole := leaveWhole(p.Cache, victims)
	w := newWholes()
	for of, pods := range leave {
		if key, ok := whole[of]; ok {
			for uid := range pods {
				w.of[uid] = key
			}
		}
	}
	for _, of := range sortedRefs(whole) {
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

// Whole are the gangs that leave whole if these pods do.
func Whole(c *cache.Cache, pods []*v1.Pod) (out []gang.Ref) {
	_, whole := leaveWhole(c, pods)
	for _, of := range sortedRefs(whole) {
		all := crewsIn(c, []gang.Ref{of.Whole()})
		stays := func(is crew) bool { _, leaves := whole[is.ref]; return !leaves }
		if of == of.Whole() || !slices.Contains(out, of.Whole()) && !slices.ContainsFunc(all, stays) {
			out = append(out, of.Whole())
		}
	}
	return out
}

// leaveWhole sorts victims by gang, or part of a gang, and says of those that leave whole with which one
// they do.
func leaveWhole(c *cache.Cache, victims []*v1.Pod) (leave map[gang.Ref]map[types.UID]bool, whole map[gang.Ref]gang.Ref) {
	leave = map[gang.Ref]map[types.UID]bool{}
	for _, v := range victims {
		if of := source.Of(v); !of.IsZero() && v.DeletionTimestamp == nil {
			if leave[of] == nil {
				leave[of] = map[types.UID]bool{}
			}
			leave[of][v.UID] = true
		}
	}
	whole = map[gang.Ref]gang.Ref{} // by gang or part, the first of those with whom it leaves
	looked := map[gang.Ref]bool{}
	for of := range maps.Clone(leave) {
		together := c.Together(of)
		if looked[together[0]] {
			continue
		}
		looked[together[0]] = true
		crews := crewsIn(c, together)
		for _, is := range crews {
			if is.ref != is.ref.Whole() {
				move(leave, is)
			}
		}
		for _, part := range parts(crews, leave) {
			for _, of := range part {
				whole[of] = part[0]
			}
		}
	}
	return leave, whole
}

// move sorts those who leave of a part of a gang under the part.
func move(leave map[gang.Ref]map[types.UID]bool, part crew) {
	all := leave[part.ref.Whole()]
	for _, p := range part.pods {
		if all[p.UID] {
			if leave[part.ref] == nil {
				leave[part.ref] = map[types.UID]bool{}
			}
			leave[part.ref][p.UID] = true
			delete(all, p.UID)
		}
	}
}

// parts are the crews of a group that leave whole when some members leave, those together that
// cannot run without one another.
func parts(crews []crew, leave map[gang.Ref]map[types.UID]bool) (parts [][]gang.Ref) {
	gangs, gone := make([]evict.Gang, len(crews)), make([]int, len(crews))
	for i, is := range crews {
		gangs[i] = evict.Gang{Group: 1, Above: is.above}
		gangs[i].Short, gone[i] = is.without(leave[is.ref])
	}
	for _, part := range evict.Apart(gangs, evict.Leave(gangs, gone)) {
		var refs []gang.Ref
		for _, i := range part {
			refs = append(refs, crews[i].ref)
		}
		parts = append(parts, refs)
	}
	return parts
}

// without says whether a crew has too few members when some leave, and whether more leave than it can spare.
func (c *crew) without(leave map[types.UID]bool) (short bool, gone int) {
	stay, run, lost := 0, 0, 0
	for _, pod := range c.pods {
		if !c.joins[pod.UID] {
			run++
		}
		if !leave[pod.UID] {
			stay++
		} else if !c.joins[pod.UID] {
			lost++
		}
	}
	if c.ref != c.ref.Whole() {
		return c.short, max(0, lost-c.spare)
	}
	if (lost > 0 || len(c.joins) == 0 && len(leave) > 0) && (stay < c.least || lost > 0 && (c.spare == 0 || run-lost < c.least)) {
		gone = 1
	}
	return stay < c.least, gone
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
