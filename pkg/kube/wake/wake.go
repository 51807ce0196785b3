// Package wake decides which unschedulable groups are retried when something changes.
//
// Groups with identical requirements form a class: a cluster has a plan for each of them or for none. So an event
// retries only the leader of a class, the first in the queue. If the retry fails, the others need not be tried. If
// it succeeds, the next one leads and is tried at once:
//
//	unschedulable, unschedulable, unschedulable    an event retries the leader
//	   ^leader                                     it fails: done
//	placed,        unschedulable, unschedulable    it succeeds: the next one is tried
//	                  ^leader
//
// Invariant: whenever a leader leaves its class, the next group is tried. So no retry is lost.
// The other groups receive no events (Follows) until they lead, or are called because they changed.
//
// The package knows names only. It must not know pods, plans or the meaning of a class.
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
	Class    string // "" is a class of its own
	TriedPod string // the pod that was tried for it
	UID      string // of the tried pod: a recreated pod was not tried
	Created  time.Time
	// Plugins are the plugins that rejected it, sorted; nil if unknown.
	Plugins []string
	Kinds   []string  // pods with other needs than the tried pod, one of each kind
	Since   time.Time // when it became unschedulable
	// Never says that no terminating pod helps. It is retried when nodes or the group change.
	Never bool
	// Limits identifies the quota limits within which no choice of its members can start. It is not retried for
	// quotas while the limits are the same. 0 is none.
	Limits uint64
	// Template says that a plugin rejects it on every node. Only an event of that plugin helps.
	Template bool

	called bool // it must be tried for itself
}

// before orders the groups of a class by the queue.
func (f *Entry) before(o *Entry) int {
	return cmp.Or(f.Created.Compare(o.Created), f.Group.Compare(o.Group, topology.CompareNames))
}

// key returns the class.
func (f *Entry) key() string {
	if f.Class == "" {
		return "alone: " + f.Group.ID()
	}
	return f.Class
}

// Registry holds the unschedulable groups. The zero value is empty.
type Registry struct {
	mu      sync.RWMutex
	groups  map[gang.Ref]*Entry
	classes map[string][]*Entry // in queue order
	leaders map[string]*Entry   // by the tried pod
	trying  attempt
}

// attempt is the current attempt, or the last one that did not end with a Filing.
type attempt struct {
	group   gang.Ref
	speaker string
	called  bool // an event came meanwhile: the result may be outdated
}

// Record records that a group is unschedulable. It returns the pods to try now: the next leader of a class that the
// group left, and the leader that it replaced, which must be kept out.
func (r *Registry) Record(f Entry) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups, r.classes, r.leaders = map[gang.Ref]*Entry{}, map[string][]*Entry{}, map[string]*Entry{}
	}
	if r.trying.speaker == f.TriedPod {
		f.called, r.trying = r.trying.called, attempt{}
	}
	led := false
	if old := r.groups[f.Group]; old != nil && old.key() != f.key() {
		try = r.leave(old)
	} else if old != nil {
		led = r.classes[old.key()][0] == old
		r.remove(old)
	}
	key := f.key()
	class := r.classes[key]
	if len(class) > 0 {
		delete(r.leaders, class[0].TriedPod)
	}
	i, _ := slices.BinarySearchFunc(class, &f, (*Entry).before)
	if i == 0 && len(class) > 0 && !led {
		try = append(try, class[0].TriedPod)
	}
	class = slices.Insert(class, i, &f)
	r.groups[f.Group] = &f
	r.classes[key] = class
	r.leaders[class[0].TriedPod] = class[0]
	return try
}

// Leave deletes a group that is not unschedulable any more, or changes. It returns the pod to try now.
func (r *Registry) Leave(group gang.Ref) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.groups[group]; f != nil {
		return r.leave(f)
	}
	return nil
}

// leave deletes a group and returns the new leader of its class, if that changed.
func (r *Registry) leave(f *Entry) (try []string) {
	led := r.classes[f.key()][0] == f
	r.remove(f)
	if class := r.classes[f.key()]; led && len(class) > 0 {
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
func (r *Registry) RecordedPod(group gang.Ref) (speaker string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.TriedPod
	}
	return ""
}

// TriedPod returns the pod that was or is being tried for a group; "" if there is none.
func (r *Registry) TriedPod(group gang.Ref) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.TriedPod
	}
	if r.trying.group == group {
		return r.trying.speaker
	}
	return ""
}

// Begin records that a pod is being tried for its group, one at a time.
func (r *Registry) Begin(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trying = attempt{group: group, speaker: pod}
	if f := r.groups[group]; f != nil && f.TriedPod == pod {
		f.called = false
	}
}

// Call records that a pod must be tried for its own group, whichever group leads.
func (r *Registry) Call(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call(group, pod)
}

func (r *Registry) call(group gang.Ref, pod string) {
	if r.trying.speaker == pod {
		r.trying.called = true
	}
	if f := r.groups[group]; f != nil && f.TriedPod == pod {
		f.called = true
	}
}

// longestFollow is how long a group follows without a retry. The scheduler's queue retries all pods after five
// minutes. A leader may be kept out for other reasons.
const longestFollow = 4 * time.Minute

// Follows returns whether a pod need not be tried or receive events, because another group of its class is tried.
func (r *Registry) Follows(group gang.Ref, pod, uid string, now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.groups[group]
	return f != nil && f.TriedPod == pod && f.UID == uid && !f.called && r.leaders[pod] != f && now.Before(f.Since.Add(longestFollow))
}

// HelpedByNodes returns whether a pod leads a class and some node may help it.
func (r *Registry) HelpedByNodes(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Template
}

// HelpedByEviction returns whether a pod leads a class and terminating pods may help it.
func (r *Registry) HelpedByEviction(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Never
}

// Limits returns Filing.Limits of the leader that a pod is tried for.
func (r *Registry) Limits(pod string) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[pod]; f != nil {
		return f.Limits
	}
	return 0
}

// Kinds returns the pods of other kinds of a leader's group.
func (r *Registry) Kinds(leader string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[leader]; f != nil {
		return f.Kinds
	}
	return nil
}

// WaitsFor returns whether a pod leads a class that a plugin rejected, or may have rejected.
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

// Leaders returns, sorted, the pods of the leaders that freed capacity may help. The pod that is being tried is
// included: it may not have seen the change.
func (r *Registry) Leaders() []string {
	return r.leadersWhere(func(f *Entry) bool { return !f.Never })
}

// LeadersFor returns, sorted, the pods of the leaders that a plugin rejected or may have, and the pod that is being
// tried.
func (r *Registry) LeadersFor(plugin string) []string {
	return r.leadersWhere(func(f *Entry) bool { return f.waitsFor(plugin) })
}

func (r *Registry) leadersWhere(match func(*Entry) bool) (pods []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, f := range r.leaders {
		if match(f) && pod != r.trying.speaker {
			pods = append(pods, pod)
		}
	}
	if current := r.trying; current.speaker != "" {
		r.call(current.group, current.speaker)
		pods = append(pods, current.speaker)
	}
	slices.SortFunc(pods, topology.CompareNames)
	return pods
}
