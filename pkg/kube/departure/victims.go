package departure

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Victims remembers, by group, who is asked to leave for its reservation. Only until
// they can be seen leaving is that more than the API server knows.
type Victims struct {
	mu    sync.Mutex
	last  int                    // number of the last eviction
	asked map[gang.Ref]*eviction // by group: the one for its reservation
	going map[types.UID]*parted  // who is to leave, of all groups, and was not seen leaving
	stuck map[gang.Ref]map[types.UID]bool

	vetoes    map[types.UID]veto
	vetoCount int // of all that ever came

	held map[*Departure]bool // departures without a reservation
	calm []int64             // see elsewhere

	looks atomic.Int32 // how many members on their way are being waited for
}

// Looks says whether an eviction waits to see how far a member on its way is, by the clock on the wall.
func (v *Victims) Looks() bool { return v.looks.Load() > 0 }

// eviction is who is asked to leave for one reservation.
type eviction struct {
	number int
	pods   map[types.UID]bool
	nodes  map[string]bool    // on which those are
	took   map[types.UID]bool // those whose leaving the API server has taken
	begun  bool               // its places are in the book
	doubt  *doubt             // who may not be needed any more; nil if nobody asks
	waits  func() bool        // whether the pod without a gang waits that it is for; nil for a gang
}

// parted is a pod that is to leave although the scheduler still counts it. Several evictions may need
// that. It stays only if all of them have taken it back.
type parted struct {
	pod    *v1.Pod
	by     map[int]time.Time // these, and until when it is to be expected of each; zero if we hear of it
	taken  bool              // the API server has taken its leaving
	asking chan struct{}     // closed when a request for it has ended; nil if none is under way
}

// next numbers an eviction.
func (v *Victims) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	return v.last
}

// set notes who is asked to leave for a group's reservation, and numbers the eviction.
func (v *Victims) set(group gang.Ref, pods []*v1.Pod) (number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked = map[gang.Ref]*eviction{}
	}
	v.last++
	e := &eviction{number: v.last, pods: map[types.UID]bool{}, nodes: map[string]bool{}, took: map[types.UID]bool{}}
	e.add(pods)
	v.asked[group] = e
	v.part(pods, e.number, time.Time{})
	return e.number
}

// also notes further pods that are asked to leave by an eviction for a group's reservation.
func (v *Victims) also(group gang.Ref, number int, pods []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.part(pods, number, time.Time{})
	if e := v.asked[group]; e != nil && e.number == number {
		e.add(pods)
	}
}

func (e *eviction) add(pods []*v1.Pod) {
	for _, p := range pods {
		e.pods[p.UID], e.nodes[p.Spec.NodeName] = true, true
	}
}

// Expect notes that an eviction is having pods deleted, and that nobody is heard of if it
// cannot.
func (v *Victims) Expect(pods []*v1.Pod, until time.Time, number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.part(pods, number, until)
}

// Back notes that an eviction does not need pods to leave any more, and returns those who stay:
// nobody else does.
func (v *Victims) Back(pods []*v1.Pod, number int, now time.Time) (stay []*v1.Pod) {
	if len(pods) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.asked {
		for _, p := range pods {
			if e.number == number {
				delete(e.pods, p.UID)
			}
		}
	}
	for _, p := range pods {
		if is := v.going[p.UID]; is != nil {
			delete(is.by, number)
		}
		if v.isGoing(p, now) {
			continue
		}
		delete(v.going, p.UID)
		stay = append(stay, p)
	}
	return stay
}

// part notes who is to leave. v.mu is held.
func (v *Victims) part(pods []*v1.Pod, number int, until time.Time) {
	if v.going == nil {
		v.going = map[types.UID]*parted{}
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		if v.going[p.UID] == nil {
			v.going[p.UID] = &parted{by: map[int]time.Time{}}
		}
		v.going[p.UID].pod, v.going[p.UID].by[number] = p, until
	}
}

// turn waits while another request for a pod is under way, and returns whether the API server has accepted one. done must be
// called with the outcome of the request that follows.
func (v *Victims) turn(pod *v1.Pod) (taken bool, done func(taken bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	is := v.going[pod.UID]
	if is == nil {
		return false, func(bool) {}
	}
	for is.asking != nil {
		asking := is.asking
		v.mu.Unlock()
		<-asking
		v.mu.Lock()
	}
	asking := make(chan struct{})
	is.asking = asking
	return is.taken, func(taken bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		is.taken = is.taken || taken
		is.asking = nil
		close(asking)
	}
}

// hold notes a departure without a reservation, until it is released.
func (v *Victims) hold(d *Departure) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = map[*Departure]bool{}
	}
	v.held[d] = true
}

func (v *Victims) release(d *Departure) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held, d)
}

// Holds returns whether a pod without a gang must not be bound yet: a bundle that is evicted for it has lost a pod, and
// others of it are waited for.
func (v *Victims) Holds(pod *v1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for d := range v.held {
		if d.By.UID() == pod.UID && len(d.bundles.over) < len(d.bundles.lost) {
			return true
		}
	}
	return false
}

// Unasked returns, of pods that are to leave, those whom the API server was not asked for yet, or in vain.
func (v *Victims) Unasked(pods []*v1.Pod, now time.Time) (out []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range pods {
		if is := v.going[p.UID]; is != nil && !is.taken && v.isGoing(p, now) {
			out = append(out, is.pod)
		}
	}
	return out
}

// AllUnasked is Unasked for all who are to leave.
func (v *Victims) AllUnasked(now time.Time) (out []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, is := range v.going {
		if !is.taken && v.isGoing(is.pod, now) {
			out = append(out, is.pod)
		}
	}
	return out
}

// took notes that the API server has taken a pod's leaving.
func (v *Victims) took(group gang.Ref, number int, pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.asked[group]; e != nil && e.number == number {
		e.took[pod.UID] = true
	}
}

// current says whether an eviction is the one for its group's reservation.
func (v *Victims) current(group gang.Ref, number int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	return e != nil && e.number == number
}

// begin notes that an eviction's places are in the book: from now on it ends with them.
func (v *Victims) begin(group gang.Ref, number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.asked[group]; e != nil && e.number == number {
		e.begun = true
	}
}

// alone notes that an eviction is for a pod without a gang, which ends when that does not wait any more, and forgets those that have ended.
func (v *Victims) alone(group gang.Ref, number int, waits func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.asked, func(_ gang.Ref, e *eviction) bool { return e.waits != nil && !e.waits() })
	if e := v.asked[group]; e != nil && e.number == number {
		e.waits = waits
	}
}

// Tidy forgets what only matters to a gang that has a reservation, or that waits.
func (v *Victims) Tidy(c *cache.Cache, group gang.Ref) {
	v.mu.Lock()
	e, stuck := v.asked[group], v.stuck[group]
	over := e != nil && e.begun
	v.mu.Unlock()
	if over && c.Reserved(group) { // the cache asks who leaves: it must not be asked with v.mu held
		over = false
	}
	var placed bool
	if stuck != nil {
		g, refusal := c.GroupOf(group)
		placed = refusal.Is() || len(g.Pending) == 0
	}
	if !over && !placed {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if over && v.asked[group] == e {
		delete(v.asked, group)
	}
	if placed {
		delete(v.stuck, group)
	}
}

// Forget is for when the group has its places, or is gone.
func (v *Victims) Forget(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.asked, group)
	delete(v.stuck, group)
}

// Abandon is for when the group has lost its places, and is planned anew: victims of whom the API
// server has taken none stay, as far as this group is concerned. The new plan must not count on
// their leaving.
func (v *Victims) Abandon(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	if e == nil || len(e.took) > 0 {
		return
	}
	for uid := range e.pods {
		is := v.going[uid]
		if is == nil {
			continue
		}
		if delete(is.by, e.number); len(is.by) == 0 {
			delete(v.going, uid)
		}
	}
	delete(v.asked, group)
}

// Overdue notes that the group's victims have had their time. Those whose leaving the API
// server never took have had none.
func (v *Victims) Overdue(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	if e == nil {
		return
	}
	if v.stuck == nil {
		v.stuck = map[gang.Ref]map[types.UID]bool{}
	}
	for uid := range e.took {
		if v.stuck[group] == nil {
			v.stuck[group] = map[types.UID]bool{}
		}
		v.stuck[group][uid] = true
	}
	delete(v.asked, group)
}

// Avoid says of a node whether a victim of the group that did not leave in time is still there; nil if there is no
// such victim.
func (v *Victims) Avoid(group gang.Ref) place.Avoid {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.stuck[group]) == 0 {
		return nil
	}
	stuck := maps.Clone(v.stuck[group])
	return func(node fwk.NodeInfo) bool {
		return slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return stuck[p.GetPod().UID] })
	}
}

// Asked says whether a pod was asked to leave for the reservation of a group, wherever it is: the rest of a
// gang leaves along with those whose places are taken.
func (v *Victims) Asked(group gang.Ref, pod *v1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.asked[group]
	return e != nil && e.pods[pod.UID]
}

// LeavesFor says of pods whether they leave, or are to for whomever, or were asked for the reservation of a group.
func (v *Victims) LeavesFor(group gang.Ref, now time.Time) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool { return v.Leaves(pod, now) || v.Asked(group, pod) }
}

// Leaves says whether a pod is to leave, seen or not.
func (v *Victims) Leaves(pod *v1.Pod, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return pod.DeletionTimestamp != nil || v.isGoing(pod, now)
}

// Departs says whether a pod that is seen leaving is to be gone within a time. Whoever has not gone long after that was to be, need not ever.
func (v *Victims) Departs(pod *v1.Pod, now time.Time, within, patience time.Duration) bool {
	t := eligible.Takes(pod, now)
	return t <= within && t > -patience
}

// Unseen are those who are to leave, within a time from when they are asked, and were not seen leaving: those whose leaving the API server has
// taken, and the others.
func (v *Victims) Unseen(now time.Time, within time.Duration) (taken, others []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, is := range v.going {
		switch {
		case !v.isGoing(is.pod, now) || eligible.Grace(is.pod) > within:
		case is.taken:
			taken = append(taken, is.pod)
		default:
			others = append(others, is.pod)
		}
	}
	return taken, others
}

// isGoing says whether a pod is to leave and was not seen leaving. v.mu is held.
func (v *Victims) isGoing(pod *v1.Pod, now time.Time) bool {
	if p := v.going[pod.UID]; p != nil {
		for _, until := range p.by {
			if until.IsZero() || now.Before(until) {
				return true
			}
		}
	}
	return false
}

// Depart brings an attempt up to date: pods that were asked to leave, for this group or
// another one, leave, though the scheduler has not seen it yet. Without that two gangs
// could choose the same victim. Those who are seen leaving are no longer remembered. Who is in stay is not counted on.
func (v *Victims) Depart(ctx context.Context, a *place.Attempt, now time.Time, stay map[types.UID]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := map[int]fwk.NodeInfo{}
	for uid, p := range v.going {
		i, ok := a.Net.Tree.NodeIndex(p.pod.Spec.NodeName)
		if ok && a.Nodes[i] == nil || stay[uid] {
			continue // a node to avoid
		}
		if !ok || !v.isGoing(p.pod, now) {
			delete(v.going, uid)
			continue
		}
		on := a.Nodes[i]
		if n := changed[i]; n != nil {
			on = n
		}
		n, there := departsFrom(ctx, on, Marked(p.pod, now))
		if !there {
			delete(v.going, uid)
			continue
		}
		changed[i] = n
	}
	a.Replace(changed)
}

// departsFrom is a node on which a pod is marked as leaving. It says false if the pod is gone, or leaves already as far as the
// scheduler knows.
func departsFrom(ctx context.Context, node fwk.NodeInfo, going *v1.Pod) (marked fwk.NodeInfo, there bool) {
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.UID != going.UID {
			continue
		}
		if pod.DeletionTimestamp != nil {
			return node, false
		}
		gone, err := framework.NewPodInfo(going)
		n := node.Snapshot()
		if err != nil || n.RemovePod(klog.FromContext(ctx), pod) != nil {
			return node, true
		}
		n.AddPodInfo(gone)
		return n, true
	}
	return node, false
}

// Marked is a pod as it will be once its leaving is seen.
func Marked(pod *v1.Pod, now time.Time) *v1.Pod {
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: now.Add(eligible.Grace(pod))}
	return out
}
