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

// Victims has the pods to evict, by reservation and for all evictions together, until they terminate.
type Victims struct {
	mu        sync.Mutex
	last      int                        // number of the last eviction
	evictions map[gang.Ref]*eviction     // by group, for its reservation
	pending   map[types.UID]*victimState // pods to evict for any preemptor that were not seen terminating
	overdue   map[gang.Ref]map[types.UID]bool

	vetoes    map[types.UID]veto
	vetoCount int // number of all vetoes so far

	unreserved      map[*Eviction]bool // running evictions for pods without a gang
	calmGenerations []int64            // see takeCalmGenerations

	polls atomic.Int32 // number of members on their way that are polled
}

// Polls returns whether an eviction polls a member that is neither at Permit nor bound. It polls by the wall clock.
func (v *Victims) Polls() bool { return v.polls.Load() > 0 }

// eviction is the victims of one reservation.
type eviction struct {
	number         int
	pods           map[types.UID]bool
	nodes          map[string]bool    // the nodes of pods
	accepted       map[types.UID]bool // pods whose eviction the API server has accepted
	reserved       bool               // its node assignments are in the gang book
	question       *question          // nil without a question
	preemptorWaits func() bool        // whether the preemptor, a pod without a gang, still waits; nil for a gang
}

// victimState is a pod to evict. Several evictions may need it; it is spared when no eviction needs it any more.
type victimState struct {
	pod      *v1.Pod
	until    map[int]time.Time // by number of the eviction, until when the pod counts as terminating; zero is for ever
	accepted bool              // the API server has accepted its eviction
	request  chan struct{}     // closed when the current request ends; nil without a request
}

// nextNumber returns a new number for an eviction.
func (v *Victims) nextNumber() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	return v.last
}

// recordReservation records the victims of a group's reservation, and returns the number of the new eviction. It replaces an earlier one.
func (v *Victims) recordReservation(group gang.Ref, pods []*v1.Pod) (number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.evictions == nil {
		v.evictions = map[gang.Ref]*eviction{}
	}
	v.last++
	e := &eviction{number: v.last, pods: map[types.UID]bool{}, nodes: map[string]bool{}, accepted: map[types.UID]bool{}}
	e.add(pods)
	v.evictions[group] = e
	v.addVictims(pods, e.number, time.Time{})
	return e.number
}

// addAdditional adds victims to the eviction with this number for a group's reservation.
func (v *Victims) addAdditional(group gang.Ref, number int, pods []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.addVictims(pods, number, time.Time{})
	if e := v.evictions[group]; e != nil && e.number == number {
		e.add(pods)
	}
}

func (e *eviction) add(pods []*v1.Pod) {
	for _, p := range pods {
		e.pods[p.UID], e.nodes[p.Spec.NodeName] = true, true
	}
}

// Expect records that the eviction with a number evicts pods. They count as terminating until the given time; the zero time has no end.
func (v *Victims) Expect(pods []*v1.Pod, until time.Time, number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.addVictims(pods, number, until)
}

// Spare records that the eviction with a number does not need pods any more, and returns the pods that no other eviction needs.
func (v *Victims) Spare(pods []*v1.Pod, number int, now time.Time) (spared []*v1.Pod) {
	if len(pods) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.evictions {
		for _, p := range pods {
			if e.number == number {
				delete(e.pods, p.UID)
			}
		}
	}
	for _, p := range pods {
		if state := v.pending[p.UID]; state != nil {
			delete(state.until, number)
		}
		if v.isPending(p, now) {
			continue
		}
		delete(v.pending, p.UID)
		spared = append(spared, p)
	}
	return spared
}

// addVictims records pods to evict, as Expect does. It skips pods that terminate already. v.mu is locked.
func (v *Victims) addVictims(pods []*v1.Pod, number int, until time.Time) {
	if v.pending == nil {
		v.pending = map[types.UID]*victimState{}
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		if v.pending[p.UID] == nil {
			v.pending[p.UID] = &victimState{until: map[int]time.Time{}}
		}
		v.pending[p.UID].pod, v.pending[p.UID].until[number] = p, until
	}
}

// lockRequest waits until there is no other request for a pod, and keeps other callers waiting until the caller calls done. accepted is
// whether the API server has accepted a request before. The caller passes to done whether its own request was accepted. For a pod that is
// not in v.pending at the call, lockRequest does not wait and done does nothing.
func (v *Victims) lockRequest(pod *v1.Pod) (accepted bool, done func(accepted bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := v.pending[pod.UID]
	if state == nil {
		return false, func(bool) {}
	}
	for state.request != nil {
		request := state.request
		v.mu.Unlock()
		<-request
		v.mu.Lock()
	}
	request := make(chan struct{})
	state.request = request
	return state.accepted, func(accepted bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		state.accepted = state.accepted || accepted
		state.request = nil
		close(request)
	}
}

// addUnreserved records a running eviction for a pod without a gang, for Holds.
func (v *Victims) addUnreserved(d *Eviction) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unreserved == nil {
		v.unreserved = map[*Eviction]bool{}
	}
	v.unreserved[d] = true
}

// removeUnreserved removes an eviction that addUnreserved has recorded.
func (v *Victims) removeUnreserved(d *Eviction) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.unreserved, d)
}

// Holds returns whether a pod without a gang must not be bound yet: a bundle that is evicted for this pod is only partly evicted.
func (v *Victims) Holds(pod *v1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for d := range v.unreserved {
		if d.By.UID() == pod.UID && len(d.bundles.finished) < len(d.bundles.hasLost) {
			return true
		}
	}
	return false
}

// NotRequested returns those of the pods that are to be evicted and whose eviction the API server has not accepted yet.
func (v *Victims) NotRequested(pods []*v1.Pod, now time.Time) (out []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range pods {
		if state := v.pending[p.UID]; state != nil && !state.accepted && v.isPending(p, now) {
			out = append(out, state.pod)
		}
	}
	return out
}

// AllNotRequested returns all pods that are to be evicted and whose eviction the API server has not accepted yet, in any order.
func (v *Victims) AllNotRequested(now time.Time) (out []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, state := range v.pending {
		if !state.accepted && v.isPending(state.pod, now) {
			out = append(out, state.pod)
		}
	}
	return out
}

// recordAccepted records that the API server has accepted the eviction of a pod.
func (v *Victims) recordAccepted(group gang.Ref, number int, pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.evictions[group]; e != nil && e.number == number {
		e.accepted[pod.UID] = true
	}
}

// current returns whether the eviction with this number is still the one for the group's reservation.
func (v *Victims) current(group gang.Ref, number int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	return e != nil && e.number == number
}

// markReserved records that an eviction's node assignments are in the gang book. From now on Tidy ends the eviction if the book drops them.
func (v *Victims) markReserved(group gang.Ref, number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.evictions[group]; e != nil && e.number == number {
		e.reserved = true
	}
}

// setPreemptor records for an eviction whether its preemptor, a pod without a gang, still waits. It also drops the evictions of other such
// preemptors that do not wait any more.
func (v *Victims) setPreemptor(group gang.Ref, number int, waits func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.evictions, func(_ gang.Ref, e *eviction) bool { return e.preemptorWaits != nil && !e.preemptorWaits() })
	if e := v.evictions[group]; e != nil && e.number == number {
		e.preemptorWaits = waits
	}
}

// Tidy drops the eviction for a group without a reservation, and the overdue victims of a group without pending members.
func (v *Victims) Tidy(c *cache.Cache, group gang.Ref) {
	v.mu.Lock()
	e, overdue := v.evictions[group], v.overdue[group]
	unreserved := e != nil && e.reserved
	v.mu.Unlock()
	if unreserved && c.Reserved(group) { // with v.mu unlocked, because the cache calls Victims
		unreserved = false
	}
	var placed bool
	if overdue != nil {
		g, refusal := c.GroupOf(group)
		placed = refusal.Exists() || len(g.Pending) == 0
	}
	if !unreserved && !placed {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if unreserved && v.evictions[group] == e {
		delete(v.evictions, group)
	}
	if placed {
		delete(v.overdue, group)
	}
}

// Forget drops the eviction and the overdue victims of a group that is placed or deleted. Its victims are evicted nevertheless.
func (v *Victims) Forget(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.evictions, group)
	delete(v.overdue, group)
}

// Abandon ends the eviction for a group that has lost its reservation, if the API server has accepted none of its requests. Its victims
// then do not count as gone any more, except if another eviction needs them.
func (v *Victims) Abandon(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	if e == nil || len(e.accepted) > 0 {
		return
	}
	for uid := range e.pods {
		state := v.pending[uid]
		if state == nil {
			continue
		}
		if delete(state.until, e.number); len(state.until) == 0 {
			delete(v.pending, uid)
		}
	}
	delete(v.evictions, group)
}

// EvictsNone returns whether the group's reservation has no victims of its own: it waits for pods that terminate anyway.
func (v *Victims) EvictsNone(group gang.Ref) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	return e != nil && len(e.pods) == 0
}

// Overdue ends the eviction for a group because its victims have exceeded their time. It records the victims with an accepted request as
// overdue, see Avoid.
func (v *Victims) Overdue(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	if e == nil {
		return
	}
	if v.overdue == nil {
		v.overdue = map[gang.Ref]map[types.UID]bool{}
	}
	for uid := range e.accepted {
		if v.overdue[group] == nil {
			v.overdue[group] = map[types.UID]bool{}
		}
		v.overdue[group][uid] = true
	}
	delete(v.evictions, group)
}

// Avoid returns a function that returns whether a node has an overdue victim of the group; nil if there are no overdue victims.
func (v *Victims) Avoid(group gang.Ref) place.Avoid {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.overdue[group]) == 0 {
		return nil
	}
	overdue := maps.Clone(v.overdue[group])
	return func(node fwk.NodeInfo) bool {
		return slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return overdue[p.GetPod().UID] })
	}
}

// IsVictim returns whether a pod is a victim of a group's reservation.
func (v *Victims) IsVictim(group gang.Ref, pod *v1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	return e != nil && e.pods[pod.UID]
}

// TerminatesFor returns a function that returns whether a pod terminates, is to be evicted, or is a victim of this group's reservation.
func (v *Victims) TerminatesFor(group gang.Ref, now time.Time) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool { return v.Terminates(pod, now) || v.IsVictim(group, pod) }
}

// Terminates returns whether a pod terminates or is to be evicted for any preemptor.
func (v *Victims) Terminates(pod *v1.Pod, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return pod.DeletionTimestamp != nil || v.isPending(pod, now)
}

// GoneWithin returns whether a terminating pod is probably gone within the given time. It returns false for a pod that has exceeded its
// grace period by patience or more: such a pod may never be gone.
func (v *Victims) GoneWithin(pod *v1.Pod, now time.Time, within, patience time.Duration) bool {
	t := eligible.TimeToTerminate(pod, now)
	return t <= within && t > -patience
}

// Pending returns the pods to evict that do not terminate yet and have a grace period of at most within: first the pods whose eviction the
// API server has accepted, then the others, in any order.
func (v *Victims) Pending(now time.Time, within time.Duration) (accepted, others []*v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, state := range v.pending {
		switch {
		case !v.isPending(state.pod, now) || eligible.Grace(state.pod) > within:
		case state.accepted:
			accepted = append(accepted, state.pod)
		default:
			others = append(others, state.pod)
		}
	}
	return accepted, others
}

// isPending returns whether a pod is to be evicted and was not seen terminating. v.mu is locked.
func (v *Victims) isPending(pod *v1.Pod, now time.Time) bool {
	if p := v.pending[pod.UID]; p != nil {
		for _, until := range p.until {
			if until.IsZero() || now.Before(until) {
				return true
			}
		}
	}
	return false
}

// Depart changes the attempt's nodes so that pods to evict count as terminating, except pods in stay. So no other gang chooses the same
// victims. It removes pods from v that are gone or that the snapshot shows as terminating.
func (v *Victims) Depart(ctx context.Context, a *place.Attempt, now time.Time, stay map[types.UID]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := map[int]fwk.NodeInfo{}
	for uid, p := range v.pending {
		i, ok := a.Net.Tree.NodeIndex(p.pod.Spec.NodeName)
		if ok && a.Nodes[i] == nil || stay[uid] {
			continue // the node is excluded, or the pod is in stay
		}
		if !ok || !v.isPending(p.pod, now) {
			delete(v.pending, uid)
			continue
		}
		node := a.Nodes[i]
		if n := changed[i]; n != nil {
			node = n
		}
		n, found := withTerminating(ctx, node, AsTerminating(p.pod, now))
		if !found {
			delete(v.pending, uid)
			continue
		}
		changed[i] = n
	}
	a.Replace(changed)
}

// withTerminating returns a copy of the node that has the pod evicted instead of the pod with its UID. found is false if the node does not
// have that pod, or has it as terminating already.
func withTerminating(ctx context.Context, node fwk.NodeInfo, evicted *v1.Pod) (marked fwk.NodeInfo, found bool) {
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.UID != evicted.UID {
			continue
		}
		if pod.DeletionTimestamp != nil {
			return node, false
		}
		replacement, err := framework.NewPodInfo(evicted)
		n := node.Snapshot()
		if err != nil || n.RemovePod(klog.FromContext(ctx), pod) != nil {
			return node, true
		}
		n.AddPodInfo(replacement)
		return n, true
	}
	return node, false
}

// AsTerminating returns a copy of a pod that terminates from now on and takes its grace period for that.
func AsTerminating(pod *v1.Pod, now time.Time) *v1.Pod {
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: now.Add(eligible.Grace(pod))}
	return out
}
