package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// wire is the connection of the scheduler to the API: it loses requests, and records the objects that are
// written.
type wire struct {
	mu      sync.Mutex
	failing *failSpec
	tried   map[string]int      // requests, since they fail
	lost    []lostRequest       // that the judge has not seen
	written map[string][]string // requests that write to foreign pods and PodGroups, by what they write to
}

type lostRequest struct {
	what, pod, node string
	done            bool // only the answer was lost
}

// request is one that writes.
type request struct {
	what, verb, name, node string
	gvr                    string
	evicts                 bool
}

func requestOf(action clienttesting.Action) (r request, ok bool) {
	r.verb, r.gvr = action.GetVerb(), action.GetResource().Resource
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		b, is := action.Object.(*v1.Binding)
		if !is {
			return r, false
		}
		r.what, r.name, r.node = bindings, b.Name, b.Target.Name
	case clienttesting.PatchActionImpl:
		r.name = action.Name
		r.evicts = strings.Contains(string(action.Patch), string(v1.DisruptionTarget))
		switch {
		case action.GetResource() != pods:
			r.what = gangStatus
		case r.evicts:
			r.what = evictions
		default:
			r.what = podStatus
		}
	case clienttesting.DeleteActionImpl:
		r.name, r.what, r.evicts = action.Name, evictions, true
	default:
		return r, false
	}
	return r, r.gvr == pods.Resource || r.gvr == sigs.PodGroups.Resource
}

// pass carries a request out, or loses it.
func (w *wire) pass(action clienttesting.Action, ask answer) (runtime.Object, error) {
	r, ok := requestOf(action)
	if !ok {
		return ask()
	}
	err := w.lose(r)
	if err == nil {
		return ask()
	}
	if w.how() == answerLost {
		if _, refused := ask(); refused != nil {
			return nil, refused
		}
	}
	return nil, err
}

func (w *wire) how() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing == nil {
		return ""
	}
	return w.failing.How
}

// lose returns the error of a request that is lost; nil if it is not.
func (w *wire) lose(r request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	to := r.gvr + "/" + r.name
	w.written[to] = append(w.written[to],
		strings.TrimSpace(fmt.Sprintf("%s %s %s", r.verb, r.what, map[bool]string{true: "evicts"}[r.evicts])))
	f := w.failing
	if f == nil || f.What != r.what && f.What != anyRequest || (nameHash(r.name)^f.Salt)%3 >= uint64(f.Share) {
		return nil
	}
	try := r.what + " " + r.verb + " " + r.name
	if w.tried[try]++; w.tried[try] > f.Times {
		return nil
	}
	w.lost = append(w.lost, lostRequest{what: r.what, pod: r.name, node: r.node, done: f.How == answerLost})
	gr := pods.GroupResource()
	switch f.How {
	case conflict:
		return apierrors.NewConflict(gr, r.name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case tooMany:
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	case unavailable:
		return apierrors.NewServiceUnavailable("apiserver is shutting down")
	}
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// fail loses requests from now on; nil ends it.
func (w *wire) fail(f *failSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing, w.tried = f, map[string]int{}
}

// news returns the requests lost since the last call, and the written objects.
func (w *wire) news() (lost []lostRequest, written map[string][]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost, written = w.lost, w.written
	w.lost, w.written = nil, map[string][]string{}
	slices.SortFunc(lost, func(a, b lostRequest) int { return strings.Compare(a.what+a.pod, b.what+b.pod) })
	return lost, written
}

// lostBinding is a binding that the API did not take.
type lostBinding struct {
	pod, node string
}

// noteLost records lost requests: members whose bindings were lost must be bound to the same nodes, as long
// as nothing else happens.
func (w *world) noteLost(lost []lostRequest) {
	for _, l := range lost {
		w.counts[requestsLost]++
		w.say(fmt.Sprintf("lost: %s of %s %s", l.what, l.pod, l.node))
		if l.what == evictions {
			w.counts[evictionsLost]++
			w.stirPod(l.pod) // it may have been carried out, and only the answer was lost
			for _, group := range w.groups() {
				w.noteDelayed(group)
			}
		}
		if pod := w.pods["default/"+l.pod]; l.what == podStatus && pod != nil {
			w.untold[pod.UID] = true
			w.noteDelayed(w.groupOf(w.members[l.pod]))
		}
		if l.what != bindings {
			continue
		}
		w.counts[bindingsLost]++
		if w.members[l.pod] == "" {
			w.loose, w.looseAt[l.node] = true, w.s.clock.Now()
			if pod := w.pods["default/"+l.pod]; pod != nil {
				w.comesLate[pod.UID] = true
			}
			continue
		}
		group := groupKey(w.groupOf(w.members[l.pod]))
		w.halfway[group], w.uneven[group] = true, true
		if pod := w.pods["default/"+l.pod]; pod != nil && !l.done {
			if w.since[pod.UID].IsZero() {
				w.since[pod.UID] = w.patientSince(group)
			}
			w.lost[pod.UID], w.retried[pod.UID] = lostBinding{l.pod, l.node}, true
		}
	}
	for _, l := range lost { // the scheduler counted a pod without a gang on the node for a moment, so a group may have been planned again
		if l.what == bindings && w.members[l.pod] == "" {
			w.forgetLostAt(l.node)
		}
	}
}

// forgetLostAt forgets the lost bindings of groups of which one was lost to a node.
func (w *world) forgetLostAt(node string) {
	for uid, l := range w.lost {
		if l.node == node {
			w.forgetLost(w.groupOf(w.members[l.pod]))
			delete(w.lost, uid)
		}
	}
}

// noteDelayed records the reservations of a group when a nomination or an eviction was lost: its remaining
// victims are evicted later for these nodes, whatever capacity is free by then.
func (w *world) noteDelayed(group []string) {
	if places, waiting := w.placesOf(group); waiting {
		w.delayed[groupKey(group)] = fmt.Sprint(places)
	}
}

// noteUnasked records victims whose eviction request was lost, and is retried.
func (w *world) noteUnasked(lost []lostRequest) {
	for _, l := range lost {
		if l.what != evictions {
			continue
		}
		if pod := w.pods["default/"+l.pod]; pod != nil {
			w.unasked[pod.UID] = w.change
			w.postponed[pod.UID] = true
		}
	}
}

// patientSince is when the time began that the members of a group wait for one another, as far as bindings were lost
// since: with the first of them, whatever has become of that one. A plan that is over ends it.
func (w *world) patientSince(group string) time.Time {
	if w.patient[group].IsZero() {
		w.patient[group] = w.s.clock.Now()
	}
	return w.patient[group]
}

// endPatience is called when a group holds no reservations any more.
func (w *world) endPatience() {
	for key := range w.patient {
		group := strings.Split(key, ",")
		if places, _ := w.placesOf(group); len(places) == 0 && w.heldOf(group) == 0 {
			delete(w.patient, key)
		}
	}
}

// excused reports whether a group may be partly bound, because bindings were lost. Some members of a gang
// that the group may omit are bound alone, too, while the other bindings are retried. This holds even without
// a bound member, as long as the plan goes on or a binding may be in flight.
func (w *world) excused(group []string) bool {
	key := groupKey(group)
	whole, anyBound, retried := true, false, false
	for _, name := range group {
		pending, bound := w.membersOf(name)
		tried := slices.ContainsFunc(pending, func(p *v1.Pod) bool { return w.retried[p.UID] })
		whole = whole && (w.whole[name] || w.mayMiss(group, name) && !tried)
		anyBound = anyBound || len(bound) > 0
	}
	for _, p := range w.pods { // also one that is being deleted
		retried = retried || w.retried[p.UID] && p.Spec.NodeName == "" && slices.Contains(group, w.members[p.Name])
	}
	if !anyBound {
		delete(w.uneven, key)
	}
	if whole || !anyBound && !retried && w.patient[key].IsZero() {
		delete(w.halfway, key)
	}
	return w.halfway[key]
}

// judgeSamePlace (spec 5.11): a pod whose binding was lost is bound to the same node, if it still fits there.
func (w *world) judgeSamePlace(pod *v1.Pod) error {
	l, ok := w.lost[pod.UID]
	defer delete(w.since, pod.UID)
	if !ok {
		return nil
	}
	group := w.groupOf(w.members[pod.Name])
	displaced := pod.Spec.NodeName != l.node && w.displaced(groupKey(group))
	over := w.outOfPatience(group)
	if over {
		clear(w.last) // it had no node in between, as in noteLate
	}
	delete(w.lost, pod.UID)
	switch {
	case pod.Spec.NodeName == l.node:
		w.counts[placesKeptLost]++
	case over, w.s.clock.Since(w.looseAt[l.node]) < 30*time.Second: // it is planned again; or a pod without a gang was on its way there
	case !displaced && w.roomAt(l.node, pod):
		return wrong("blamed", "%s is bound to %s: the API did not take its binding to %s, which has room", pod.Name, pod.Spec.NodeName, l.node)
	}
	return nil
}

// anyUntold reports whether a pod may be nominated for a node without a visible nomination, because the write
// was lost.
func (w *world) anyUntold() bool {
	return slices.ContainsFunc(w.sorted(), func(p *v1.Pod) bool {
		return w.untold[p.UID] && p.Spec.NodeName == "" && p.Status.NominatedNodeName == ""
	})
}

// outOfPatience reports whether the Permit timeout of some gang of the group has passed since its first lost
// binding.
func (w *world) outOfPatience(group []string) bool {
	for _, p := range w.pods {
		since, lost := w.since[p.UID]
		if !lost || !slices.Contains(group, w.members[p.Name]) {
			continue
		}
		for _, name := range group {
			if g := w.gangs[name]; g != nil && !w.s.clock.Now().Before(since.Add(time.Duration(g.timeout)*time.Second)) {
				return true
			}
		}
	}
	return false
}

// displaced reports whether the group of a member whose binding was lost must be planned again: one such
// member does not fit on its node any more, beside the other members.
func (w *world) displaced(group string) bool {
	if at, ok := w.anew[group]; ok && at == w.change {
		return true
	}
	taken := map[string]room{}
	for _, p := range w.sorted() {
		l, ok := w.lost[p.UID]
		if !ok || p.Spec.NodeName == l.node || groupKey(w.groupOf(w.members[p.Name])) != group {
			continue
		}
		taken[l.node] = taken[l.node].plus(needs(p))
		n := w.nodes[l.node]
		if n == nil || n.Spec.Unschedulable ||
			w.free(l.node).minus(w.reserved(l.node, w.groupOf(w.members[p.Name]), convert.Priority(p), convert.NeverPreempts(p))).less(taken[l.node]) {
			w.anew[group] = w.change
			return true
		}
	}
	return false
}

// roomAt reports whether a pod fits on a node, beside pods and reservations of equal or higher priority.
func (w *world) roomAt(node string, pod *v1.Pod) bool {
	n := w.nodes[node]
	if n == nil || n.Spec.Unschedulable {
		return false
	}
	left := w.free(node).minus(w.reserved(node, w.groupOf(w.members[pod.Name]), convert.Priority(pod), convert.NeverPreempts(pod)))
	return !left.less(needs(pod))
}

// judgeLost: when the world has settled, no pod waits only because a request was lost.
func (w *world) judgeLost() error {
	groups := map[string][]string{}
	for _, p := range w.sorted() {
		if _, ok := w.lost[p.UID]; ok && p.Spec.NodeName == "" && !convert.Finished(p) {
			group := w.groupOf(w.members[p.Name])
			groups[groupKey(group)] = group
		}
	}
	for _, key := range sortedKeys(groups) {
		f, ok := w.fitting(groups[key])
		if !ok {
			continue
		}
		f.takeStock(groups[key])
		if fits, _ := f.fits(); fits && w.admits(groups[key], nil) {
			return wrong("blamed", "%s waits since a binding was lost, and fits: %s", key, f.how())
		}
	}
	return nil
}

// noteLate records that a pod without a gang is bound whose binding was lost. In between it had no node, so
// it counts as made now, and may take a node that was freed by an eviction
// (TestGangEvictsAgainWhenPodTakesReservedNode).
func (w *world) noteLate(pod *v1.Pod) {
	if w.comesLate[pod.UID] {
		delete(w.comesLate, pod.UID)
		clear(w.last)
	}
}

// settledGround forgets lost requests, since something else has happened. It does not extend the timeouts of
// waiting groups.
func (w *world) settledGround() {
	clear(w.lost)
	clear(w.unasked)
	w.loose = false
}

// forgetLost forgets the lost bindings of a group.
func (w *world) forgetLost(group []string) {
	for _, p := range w.pods {
		if slices.Contains(group, w.members[p.Name]) {
			delete(w.lost, p.UID)
		}
	}
}

// onlyLate reports whether all these victims were chosen earlier: an eviction request was lost, and is sent
// again, whatever capacity is free since.
func (w *world) onlyLate(pods []*v1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return !w.postponed[p.UID] })
}

// onlyUnasked reports whether all these victims belong to a lost request, or are evicted with their group after it
// (decision 16: the pod on the needed node is evicted last).
func (w *world) onlyUnasked(uids []types.UID) bool {
	groups := map[string]bool{}
	group := func(p *v1.Pod) string { return groupKey(w.groupOf(w.members[p.Name])) }
	is := map[types.UID]*v1.Pod{}
	for _, p := range w.pods {
		is[p.UID] = p
		if _, ok := w.unasked[p.UID]; ok && w.members[p.Name] != "" {
			groups[group(p)] = true
		}
	}
	return !slices.ContainsFunc(uids, func(uid types.UID) bool {
		_, ok := w.unasked[uid]
		return !ok && (is[uid] == nil || !groups[group(is[uid])])
	})
}
