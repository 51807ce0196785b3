// Package wake decides which unschedulable groups are retried at an event.
//
// Groups with identical requirements form a class: there is a plan for each of them or for none. So an event retries only the leader of a
// class, the first in the queue. If the retry fails, the others need not be tried. If it succeeds, the next group becomes the leader and is
// tried at once:
//
//	unschedulable, unschedulable, unschedulable    an event retries the leader
//	   ^leader                                     it fails: done
//	placed,        unschedulable, unschedulable    it succeeds: the next one is tried
//	                  ^leader
//
// Invariant: whenever a leader is removed from its class, the next group is tried. So no retry is lost.
// The other groups receive no events (Follows) until they are leaders, or are called because they changed (Call).
//
// The package uses only names. It has no pods and no plans, and does not interpret a class.
package wake

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Entry is an unschedulable group.
type Entry struct {
	Group    gang.Ref
	Class    string    // equal for groups with identical requirements; "" is a class with this group only
	TriedPod string    // the pod that was tried for it
	UID      string    // UID of the tried pod: a recreated pod was not tried
	Created  time.Time // orders the groups of a class
	// Plugins are the plugins that rejected it, sorted; nil if unknown.
	Plugins []string
	Kinds   []string  // pods with other requirements than the tried pod, one of each kind
	Since   time.Time // when it became unschedulable
	// Never says that no terminating pod helps. The group is retried only when nodes or the group itself change.
	Never bool
	// Limits is a version of the quotas with which no choice of its members can start. As long as the version is the same, the group is not
	// retried for quotas. 0 is none.
	Limits uint64
	// Template says that a plugin rejects a member on all nodes. Only an event of that plugin helps.
	Template bool

	called bool // it must be tried even if it is not the leader
}

// before returns the order of two groups of a class in the queue: -1, 0 or 1.
func (f *Entry) before(o *Entry) int {
	return cmp.Or(f.Created.Compare(o.Created), f.Group.Compare(o.Group, topology.CompareNames))
}

// key returns the name of the group's class. If Class is "", the name is unique.
func (f *Entry) key() string {
	if f.Class == "" {
		return "alone: " + f.Group.ID()
	}
	return f.Class
}

// Registry has the unschedulable groups by class. The zero value is empty.
type Registry struct {
	mu      sync.RWMutex
	groups  map[gang.Ref]*Entry
	classes map[string][]*Entry // in queue order
	leaders map[string]*Entry   // by the tried pod
	current attempt
}

// attempt is the current attempt, or the last one if that did not end with Record.
type attempt struct {
	group    gang.Ref
	triedPod string
	called   bool // an event happened since it began, so that its result may be outdated
}

// Record records that a group is unschedulable. It returns the pods to try now: the new leader of the group's previous class, and the pod
// of the leader that the group has replaced. PreEnqueue then keeps the latter out of the queue.
func (r *Registry) Record(f Entry) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups, r.classes, r.leaders = map[gang.Ref]*Entry{}, map[string][]*Entry{}, map[string]*Entry{}
	}
	if r.current.triedPod == f.TriedPod {
		f.called, r.current = r.current.called, attempt{}
	}
	wasLeader := false
	if old := r.groups[f.Group]; old != nil && old.key() != f.key() {
		try = r.leave(old)
	} else if old != nil {
		wasLeader = r.classes[old.key()][0] == old
		r.remove(old)
	}
	key := f.key()
	class := r.classes[key]
	if len(class) > 0 {
		delete(r.leaders, class[0].TriedPod)
	}
	i, _ := slices.BinarySearchFunc(class, &f, (*Entry).before)
	if i == 0 && len(class) > 0 && !wasLeader {
		try = append(try, class[0].TriedPod)
	}
	class = slices.Insert(class, i, &f)
	r.groups[f.Group] = &f
	r.classes[key] = class
	r.leaders[class[0].TriedPod] = class[0]
	return try
}

// Leave removes a group that is not unschedulable any more or has changed. It returns the pod of the new leader of its class, to try now,
// if the leader has changed.
func (r *Registry) Leave(group gang.Ref) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.groups[group]; f != nil {
		return r.leave(f)
	}
	return nil
}

// leave is Leave for a recorded group, with r.mu locked.
func (r *Registry) leave(f *Entry) (try []string) {
	wasLeader := r.classes[f.key()][0] == f
	r.remove(f)
	if class := r.classes[f.key()]; wasLeader && len(class) > 0 {
		return []string{class[0].TriedPod}
	}
	return nil
}

func (r *Registry) remove(f *Entry) {
	key := f.key()
	class := r.classes[key]
	delete(r.groups, f.Group)
	delete(r.leaders, class[0].TriedPod)
	i, _ := slices.BinarySearchFunc(class, f, (*Entry).before)
	if class = slices.Delete(class, i, i+1); len(class) == 0 {
		delete(r.classes, key)
		return
	}
	r.classes[key], r.leaders[class[0].TriedPod] = class, class[0]
}

// RecordedPod returns the pod that was tried for a group; "" if the group is not recorded.
func (r *Registry) RecordedPod(group gang.Ref) (triedPod string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.TriedPod
	}
	return ""
}

// TriedPod returns the pod that was tried for a recorded group, or that is being tried for the group; "" if there is none.
func (r *Registry) TriedPod(group gang.Ref) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.TriedPod
	}
	if r.current.group == group {
		return r.current.triedPod
	}
	return ""
}

// Begin records that an attempt for a group with this pod begins. There is one attempt at a time.
func (r *Registry) Begin(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = attempt{group: group, triedPod: pod}
	if f := r.groups[group]; f != nil && f.TriedPod == pod {
		f.called = false
	}
}

// Call records that a pod must be tried for its group even if another group is the leader. If the pod is being tried, its result may be
// outdated.
func (r *Registry) Call(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call(group, pod)
}

func (r *Registry) call(group gang.Ref, pod string) {
	if r.current.triedPod == pod {
		r.current.called = true
	}
	if f := r.groups[group]; f != nil && f.TriedPod == pod {
		f.called = true
	}
}

// longestFollow is how long a group may wait behind a leader without a retry: the leader may be kept out of the queue for another reason.
// The scheduler's queue retries all pods after five minutes.
const longestFollow = 4 * time.Minute

// Follows returns whether a pod need not be tried or receive events, because its group waits behind the leader of its class.
func (r *Registry) Follows(group gang.Ref, pod, uid string, now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.groups[group]
	return f != nil && f.TriedPod == pod && f.UID == uid && !f.called && r.leaders[pod] != f && now.Before(f.Since.Add(longestFollow))
}

// HelpedByNodes returns whether a pod is of a leader, and a new or changed node may help that.
func (r *Registry) HelpedByNodes(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Template
}

// HelpedByEviction returns whether a pod is of a leader, and the end of other pods may help that.
func (r *Registry) HelpedByEviction(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Never
}

// Limits returns Entry.Limits of the leader with this tried pod; 0 if there is none.
func (r *Registry) Limits(pod string) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[pod]; f != nil {
		return f.Limits
	}
	return 0
}

// Kinds returns Entry.Kinds of the leader with this tried pod; nil if there is none.
func (r *Registry) Kinds(leader string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[leader]; f != nil {
		return f.Kinds
	}
	return nil
}

// WaitsFor returns whether a pod is of a leader that the plugin has rejected, or may have rejected.
func (r *Registry) WaitsFor(pod, plugin string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && f.waitsFor(plugin)
}

func (f *Entry) waitsFor(plugin string) bool {
	_, found := slices.BinarySearch(f.Plugins, plugin)
	return found || f.Plugins == nil
}

// Leaders returns the pods of the leaders that freed capacity may help, sorted. It adds the pod that is being tried, whose attempt may not
// have considered the change.
func (r *Registry) Leaders() []string {
	return r.leadersWhere(func(f *Entry) bool { return !f.Never })
}

// LeadersFor returns the pods of the leaders that a plugin has rejected or may have rejected, sorted, and the pod that is being tried.
func (r *Registry) LeadersFor(plugin string) []string {
	return r.leadersWhere(func(f *Entry) bool { return f.waitsFor(plugin) })
}

func (r *Registry) leadersWhere(match func(*Entry) bool) (pods []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, f := range r.leaders {
		if match(f) && pod != r.current.triedPod {
			pods = append(pods, pod)
		}
	}
	if current := r.current; current.triedPod != "" {
		r.call(current.group, current.triedPod)
		pods = append(pods, current.triedPod)
	}
	slices.SortFunc(pods, topology.CompareNames)
	return pods
}
