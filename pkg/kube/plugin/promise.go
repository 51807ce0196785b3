package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// A starving gang has a promised start if declared ends of pods tell when a domain has capacity for it. A promise is kept as long as
// the pods end as declared: the search for an earlier start stays in its domain. Only if there is none at the promised time, another
// promise is made, with the cause.

// holdCapacity holds the capacity of a domain for a starving gang: for a promised start, or the free capacity of a domain that can take the
// whole gang later. It returns a sentence on a promised start and a description of another hold, for messages; "" is none.
func (p *Plugin) holdCapacity(ctx context.Context, a *place.Attempt) (promised, kept string) {
	if !a.Group.Starving || !a.CapacityKnown() {
		return "", ""
	}
	if a = a.SmallestAttempt(ctx); len(a.Group.Pending) == 0 {
		return "", "" // the group needs none of its waiting members
	}
	a = p.besideHolds(ctx, a)
	now := p.options.Clock.Now()
	start, promise, ending := p.promise(ctx, a, now)
	if promise.Exists() {
		p.Cache.Handle(gang.CapacityHeld{Group: a.Group.Key, Places: start.Places, Promise: promise, Ending: ending})
		return " " + status.Promise(promise), ""
	}
	places, where := a.FreeWhereCapable(ctx)
	if len(places) > 0 || promise.Cause != "" {
		promise.Domain = where
		p.Cache.Handle(gang.CapacityHeld{Group: a.Group.Key, Places: places, Promise: promise})
	}
	if promise.Cause != "" {
		promised = " " + status.Promise(promise)
	}
	if len(places) > 0 {
		kept = status.Kept(len(places), a.Group.Need(), where)
	}
	return promised, kept
}

// quotasKeepPromise returns whether the quotas, which refuse a group now, admit it when its promised start comes: pods have ended by then,
// as declared, or are evicted for it.
func (p *Plugin) quotasKeepPromise(group *cache.Group) bool {
	now, promise := p.options.Clock.Now(), group.Promise
	yields, due, held := p.Preemptor.Yielding(group.Key), !promise.At.After(now), map[string]bool{}
	for _, node := range group.HeldNodes {
		held[node] = true
	}
	return promise.Exists() && p.quotas.AdmitsWithout(group, func(pod *v1.Pod) bool {
		end, known := p.Cache.End(pod, now)
		return known && (!end.After(promise.At) || !end.After(now)) || !due && held[pod.Spec.NodeName] && yields(pod)
	})
}

// besideHolds returns the attempt as it is when the pods start for which capacity is held. Until then the gang may perhaps use that
// capacity; but nothing is held for the gang there, since it would still be held when those pods start.
func (p *Plugin) besideHolds(ctx context.Context, a *place.Attempt) *place.Attempt {
	var taken []place.Taken
	for _, held := range p.Cache.HeldByOthers(a.Group.Key, a.Lowest()) {
		taken = append(taken, place.Taken{Pod: held.Pod, Node: held.Node})
	}
	return a.BesideHeld(ctx, taken)
}

// promise returns the start that is promised to a starving gang. No start is promised if its time is zero. ending says that the promised
// start has come, and pods in its domain are in their grace periods.
func (p *Plugin) promise(ctx context.Context, a *place.Attempt, now time.Time) (start place.Start, _ gang.Promise, ending bool) {
	old := a.Group.Promise
	if !a.Group.MayPromise {
		lost := gang.Promise{Cause: old.Cause, Kind: old.Kind, Broken: cmp.Or(old.Broken, old.At)}
		if old.Exists() {
			lost.Kind, lost.Cause = gang.BrokenPriority, "a gang of higher priority, or another one of equal priority, has a promised start now"
		}
		return start, lost, false
	}
	yields, overdue := p.Preemptor.Yielding(a.Group.Key), p.Preemptor.EvictableOverdue(a)
	lower := p.Preemptor.LowerVictims(a)
	due := old.Exists() && !old.At.After(now)
	countsLower := !now.Before(old.Broken) || !old.At.After(old.Broken) // lower victims, which are evicted when the start comes
	ends := func(pods []*v1.Pod) []cache.DeclaredEnd {
		all := p.Cache.Ends(pods, now)
		ending = due && slices.ContainsFunc(all, func(e cache.DeclaredEnd) bool { return e.Known && !e.Time.After(now) })
		evicts := !due || ending
		for i, pod := range pods {
			ended := !all[i].Known && !all[i].Time.IsZero()
			if yields(pod) || evicts && (countsLower && lower(pod) || old.Kind != gang.BrokenOverdue && ended && overdue(pod)) {
				// It is evicted when the start comes.
				all[i] = cache.DeclaredEnd{Time: now, Known: true}
			}
		}
		return all
	}
	if old.Exists() {
		if !countsLower { // the promise that was not kept may be kept after all, in another domain
			if start, ok := a.EarliestStart(ctx, ends, nil); ok && !start.At.After(old.Broken) {
				return start, old.Renewed(start.Domain, start.At), false
			}
			countsLower = true
		}
		start, ok := a.EarliestStartIn(ctx, old.Domain, ends)
		if ok && !due && !start.At.After(now) {
			countsLower = false
			without, known := a.EarliestStartIn(ctx, old.Domain, ends)
			if countsLower = true; known && !without.At.After(now) {
				start = without
			} else { // the search for victims found none for a start now
				start.At = old.At
			}
		}
		switch {
		case ok && start.At.Before(old.At.Add(time.Second)): // objects have times in whole seconds
			if start.At.After(old.At) {
				start.At = old.At
			}
			return start, old.Renewed(old.Domain, start.At), ending
		case ok && !start.At.After(now): // the last pods end now
			return start, old, ending
		}
	}
	if due { // what keeps the gang waiting could not be evicted
		overdue = func(*v1.Pod) bool { return false }
	}
	countsLower = !due
	start, ok := a.EarliestStart(ctx, ends, nil)
	if ok && countsLower && !start.At.After(now) { // the search for victims found none for a start now
		countsLower = false
		start, ok = a.EarliestStart(ctx, ends, nil)
	}
	switch {
	case !old.Exists() && ok:
		return start, old.Renewed(start.Domain, start.At), false
	case !old.Exists():
		return start, old, false
	}
	promise := gang.Promise{Broken: cmp.Or(old.Broken, old.At)}
	promise.Kind, promise.Cause = p.brokenBy(ctx, a, ends, now)
	if ok {
		promise.Domain, promise.At = start.Domain, start.At
	}
	return start, promise, false
}

// brokenBy returns why the promised start of a gang cannot be kept: the kind of the cause, and a sentence. ends returns when pods end.
func (p *Plugin) brokenBy(ctx context.Context, a *place.Attempt, ends place.Ends, now time.Time) (kind, cause string) {
	lowest := a.Lowest()
	priority := p.Cache.Priority(lowest)
	names := slices.Sorted(maps.Values(a.Group.HeldNodes))
	for _, name := range names {
		i, ok := a.Net.Tree.NodeIndex(name)
		if ok && a.ClosedAt(a.Group.Promise.At)(i) {
			return gang.BrokenNode, fmt.Sprintf("node %s has maintenance at that time", name)
		}
		if !ok || a.Nodes[i] == nil {
			return gang.BrokenNode, fmt.Sprintf("node %s cannot be used", name)
		}
		if a.Nodes[i].Node().Spec.Unschedulable {
			return gang.BrokenNode, fmt.Sprintf("node %s is cordoned", name)
		}
		if t, found := untolerated(a.Nodes[i].Node(), lowest); found {
			return gang.BrokenNode, fmt.Sprintf("node %s has the taint %s, which is not tolerated", name, t.ToString())
		}
		for _, info := range a.Nodes[i].GetPods() {
			pod := info.GetPod()
			if pod.DeletionTimestamp != nil && !ends([]*v1.Pod{pod})[0].Known {
				return gang.BrokenOther, fmt.Sprintf("pod %s on node %s has not terminated within its grace period", convert.PodKey(pod), name)
			}
			if end, overdue := p.Cache.Overdue(pod, now); overdue && !ends([]*v1.Pod{pod})[0].Known {
				return gang.BrokenOverdue,
					fmt.Sprintf("pod %s was declared to end at %s and still runs", convert.PodKey(pod), end.UTC().Format(time.RFC3339))
			}
			if p.Cache.Priority(pod) > priority {
				return gang.BrokenPriority, fmt.Sprintf("pod %s of higher priority uses node %s", convert.PodKey(pod), name)
			}
		}
	}
	for _, name := range names {
		if others := p.Cache.PlacesOn(name, lowest); len(others) > 0 {
			return gang.BrokenPriority, fmt.Sprintf("node %s is reserved for gang %s", name, source.GangOf(others[0]))
		}
	}
	for _, name := range slices.Compact(slices.Clone(names)) {
		count := len(slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other != name }))
		switch pod, end := lateOn(ctx, a, name, count, ends); {
		case pod == nil:
		case end.IsZero():
			return gang.BrokenOther, fmt.Sprintf("pod %s on node %s declares no end", convert.PodKey(pod), name)
		default:
			return gang.BrokenOther,
				fmt.Sprintf("pod %s on node %s is declared to end at %s", convert.PodKey(pod), name, end.UTC().Format(time.RFC3339))
		}
	}
	return gang.BrokenOther, "the gang, the capacity or the declared ends in the domain have changed"
}

// untolerated returns the first taint of a node that keeps a pod off the node.
func untolerated(node *v1.Node, pod *v1.Pod) (v1.Taint, bool) {
	keepsOff := func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }
	return helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, keepsOff, true)
}

// lateOn returns a pod on a held node that ends after the promised start of the gang, and its declared end, zero for none. It returns nil
// if the node takes that many members without the pods that end by then. It prefers pods with a declared end, then the youngest pod. Pods
// of DaemonSets do not count.
func lateOn(ctx context.Context, a *place.Attempt, node string, members int, ends place.Ends) (late *v1.Pod, end time.Time) {
	i, ok := a.Net.Tree.NodeIndex(node)
	if !ok || a.Nodes[i] == nil {
		return nil, time.Time{}
	}
	var pods, gone []*v1.Pod
	for _, info := range a.Nodes[i].GetPods() {
		pods = append(pods, info.GetPod())
	}
	for i, e := range ends(pods) {
		pod := pods[i]
		owner := metav1.GetControllerOf(pod)
		switch {
		case e.Known && !e.Time.After(a.Group.Promise.At):
			gone = append(gone, pod)
		case owner != nil && owner.Kind == "DaemonSet":
		case late == nil, end.IsZero() && e.Known, e.Known == !end.IsZero() && late.CreationTimestamp.Before(&pod.CreationTimestamp):
			late, end = pod, e.Time
		}
	}
	if int(a.CountWithout(ctx, i, gone)) >= members {
		return nil, time.Time{}
	}
	return late, end
}
