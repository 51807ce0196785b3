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

// Victims remembers the pods to evict for each group's reservation. That is more than the API server knows only until the pods terminate.
type Victims struct {
	mu        sync.Mutex
	last      int                        // number of the last eviction
	evictions map[gang.Ref]*eviction     // by group, for its reservation
	pending   map[types.UID]*victimState // of all groups, not seen terminating
	stuck     map[gang.Ref]map[types.UID]bool

	vetoes    map[types.UID]veto
	vetoCount int // of all times

	unreserved map[*Eviction]bool // departures without a reservation
	quiet      []int64            // see elsewhere

	polls atomic.Int32 // number of members on their way that are polled
}

// Polls returns whether an eviction polls a member on its way, by the wall clock.
func (v *Victims) Polls() bool { return v.polls.Load() > 0 }

// eviction is the victims of one reservation.
type eviction struct {
	number         int
	pods           map[types.UID]bool
	nodes          map[string]bool    // of the pods
	accepted       map[types.UID]bool // accepted by the API server
	reserved       bool               // its node assignments are in the gang book
	doubt          *doubt             // nil without a question
	preemptorWaits func() bool        // whether the preemptor without a gang waits; nil for a gang
}

// victimState is a pod to evict that the scheduler still counts. Several evictions may need it; it is spared when all of them have taken it
// back.
type victimState struct {
	pod      *v1.Pod
	until    map[int]time.Time // by eviction, until when it is expected; zero without end
	accepted bool              // accepted by the API server
	request  chan struct{}     // closed when a request ends; nil without one
}

// next returns the number of a new eviction.
func (v *Victims) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	return v.last
}

// set records the victims of a group's reservation, and returns the number of the eviction.
func (v *Victims) set(group gang.Ref, pods []*v1.Pod) (number int) {
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

// also adds victims to the eviction with this number for a group's reservation.
func (v *Victims) also(group gang.Ref, number int, pods []*v1.Pod) {
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

// Expect records that the eviction with a number deletes pods, until the given time; the zero time has no end.
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

// addVictims records pods to evict. v.mu is held.
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

// turn waits until no other request for a pod is under way. It returns whether the API server has accepted one. The caller must call done
// with the result of its own request: until then others wait. A pod that is not to be evicted has no turn, and done does nothing.
func (v *Victims) turn(pod *v1.Pod) (accepted bool, done func(accepted bool)) {
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

// hold records an eviction for a pod without a gang, until release. Holds reads the record.
func (v *Victims) hold(d *Eviction) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unreserved == nil {
		v.unreserved = map[*Eviction]bool{}
	}
	v.unreserved[d] = true
}

// release ends hold.
func (v *Victims) release(d *Eviction) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.unreserved, d)
}

// Holds returns whether a pod without a gang must not be bound yet, because a bundle that is evicted for it is partly evicted.
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

// NotRequested returns the pods that are to be evicted and whose eviction the API server has not accepted.
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

// AllNotRequested is NotRequested of all pods, in any order.
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

// current returns whether an eviction is the one for its group's reservation.
func (v *Victims) current(group gang.Ref, number int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	return e != nil && e.number == number
}

// markReserved records that an eviction's node assignments are in the gang book: the eviction ends with them.
func (v *Victims) markReserved(group gang.Ref, number int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.evictions[group]; e != nil && e.number == number {
		e.reserved = true
	}
}

// setPreemptor records the preemptor of an eviction without a gang, and drops the evictions of preemptors that do not wait any more.
func (v *Victims) setPreemptor(group gang.Ref, number int, waits func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.evictions, func(_ gang.Ref, e *eviction) bool { return e.preemptorWaits != nil && !e.preemptorWaits() })
	if e := v.evictions[group]; e != nil && e.number == number {
		e.preemptorWaits = waits
	}
}

// Tidy drops the eviction for a group that has no reservation any more, and the overdue victims of a group that no longer waits.
func (v *Victims) Tidy(c *cache.Cache, group gang.Ref) {
	v.mu.Lock()
	e, stuck := v.evictions[group], v.stuck[group]
	unreserved := e != nil && e.reserved
	v.mu.Unlock()
	if unreserved && c.Reserved(group) { // without v.mu, because the cache asks Victims
		unreserved = false
	}
	var placed bool
	if stuck != nil {
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
		delete(v.stuck, group)
	}
}

// Forget drops the eviction and the overdue victims of a group that is placed or gone. Its victims remain to be evicted.
func (v *Victims) Forget(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.evictions, group)
	delete(v.stuck, group)
}

// Abandon ends the eviction for a group that lost its reservation, if the API server has accepted none of its requests. The next plan then
// does not count its victims as gone, except victims of other groups.
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

// Overdue records that the victims of a group's reservation exceeded their time, and ends their eviction. Victims without an accepted
// request are not overdue.
func (v *Victims) Overdue(group gang.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	if e == nil {
		return
	}
	if v.stuck == nil {
		v.stuck = map[gang.Ref]map[types.UID]bool{}
	}
	for uid := range e.accepted {
		if v.stuck[group] == nil {
			v.stuck[group] = map[types.UID]bool{}
		}
		v.stuck[group][uid] = true
	}
	delete(v.evictions, group)
}

// Avoid returns a predicate for nodes with an overdue victim of the group; nil without any.
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

// IsVictim returns whether a pod is a victim of a group's reservation, on any node.
func (v *Victims) IsVictim(group gang.Ref, pod *v1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.evictions[group]
	return e != nil && e.pods[pod.UID]
}

// TerminatesFor returns a predicate for pods that terminate, are to be evicted for any group, or are victims of this group's reservation.
func (v *Victims) TerminatesFor(group gang.Ref, now time.Time) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool { return v.Terminates(pod, now) || v.IsVictim(group, pod) }
}

// Terminates returns whether a pod terminates or is to be evicted.
func (v *Victims) Terminates(pod *v1.Pod, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return pod.DeletionTimestamp != nil || v.isPending(pod, now)
}

// GoneWithin returns whether a terminating pod is probably gone within a time; false for a pod that exceeds its grace period by patience,
// which may never be gone.
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

// isPending returns whether a pod is to be evicted and was not seen terminating. v.mu is held.
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

// Depart updates an attempt: pods to evict count as terminating before the scheduler sees that, so that no other gang chooses the same
// victim. Pods in stay are left as they are. Terminating pods are dropped from v.
func (v *Victims) Depart(ctx context.Context, a *place.Attempt, now time.Time, stay map[types.UID]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := map[int]fwk.NodeInfo{}
	for uid, p := range v.pending {
		i, ok := a.Net.Tree.NodeIndex(p.pod.Spec.NodeName)
		if ok && a.Nodes[i] == nil || stay[uid] {
			continue // a node to avoid
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

// withTerminating returns a node with a pod marked as terminating; false if the pod is gone or terminates in the snapshot.
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

// AsTerminating returns a copy of a pod that terminates from now on for its grace period.
func AsTerminating(pod *v1.Pod, now time.Time) *v1.Pod {
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: now.Add(eligible.Grace(pod))}
	return out
}
