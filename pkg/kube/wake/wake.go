// Package wake decides which of the groups that were refused are worth trying again when
// something changes.
//
// Groups that ask for the same are a class: either each of them has a plan on a cluster, or
// none has. So of a class only the first in the queue, its leader, is tried when something
// happens that may help. If that comes to nothing the others need not be tried, and if it gets
// places the next one leads, and is tried at once:
//
//	refused, refused, refused        a change: the leader is tried
//	   ^leader                       refused again: that was all
//	placed,  refused, refused        placed: the next one is tried
//	            ^leader
//
// No wake-up is lost as long as this holds: whenever a group that leads leaves its class, for
// whatever reason, the next one is tried. It may have been woken and not been tried yet.
//
// The others need not even hear of anything: they are kept out of where events are heard
// (Follows) until they lead, or are called on their own account, since they have changed.
//
// The package knows names only; it knows neither pods nor plans nor what a class means.
package wake

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Filing is a group that was refused.
type Filing struct {
	Group   gang.Ref
	Class   string // "" is a class of its own
	Speaker string // the pod that was tried for it
	UID     string // the speaker's: another pod of that name was not tried
	Created time.Time
	// Plugins are those that refused it, sorted; nil if nobody knows which.
	Plugins []string
	Kinds   []string  // pods that need something else than the speaker, one of each kind
	Since   time.Time // when it was refused
	// Never says that nobody who leaves helps: it is tried again when nodes change, or it does.
	Never bool
	// Limits are those of quotas with which no choice of its members could ever start: as long as they are the same it need not be tried for what quotas
	// have. 0 is that it may be.
	Limits uint64
	// Template says that a plugin refuses it wherever it might go: no place helps, be it new or free, unless that plugin
	// waits for one.
	Template bool

	called bool // it is to be tried on its own account
}

// before says who stands first in the queue, within a class.
func (f *Filing) before(o *Filing) int {
	return cmp.Or(f.Created.Compare(o.Created), f.Group.Compare(o.Group, topology.CompareNames))
}

// key names the class.
func (f *Filing) key() string {
	if f.Class == "" {
		return "alone: " + f.Group.ID()
	}
	return f.Class
}

// Room is where refused groups wait. The zero value is an empty one.
type Room struct {
	mu      sync.RWMutex
	groups  map[gang.Ref]*Filing
	classes map[string][]*Filing // in the order of the queue
	leaders map[string]*Filing   // by the pod that is tried
	trying  attempt
}

// attempt is the one that goes on, or was the last and came to something else than a refusal.
type attempt struct {
	group   gang.Ref
	speaker string
	called  bool // meanwhile: what comes of it may be of the past
}

// File notes that a group was refused. It returns the pods to try now: those of a class that
// the group leaves, if it led it, and whoever led before it and is to be kept out now.
func (r *Room) File(f Filing) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups, r.classes, r.leaders = map[gang.Ref]*Filing{}, map[string][]*Filing{}, map[string]*Filing{}
	}
	if r.trying.speaker == f.Speaker {
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
	of := r.classes[key]
	if len(of) > 0 {
		delete(r.leaders, of[0].Speaker)
	}
	i, _ := slices.BinarySearchFunc(of, &f, (*Filing).before)
	if i == 0 && len(of) > 0 && !led {
		try = append(try, of[0].Speaker)
	}
	of = slices.Insert(of, i, &f)
	r.groups[f.Group], r.classes[key], r.leaders[of[0].Speaker] = &f, of, of[0]
	return try
}

// Leave notes that a group is refused no longer, or changes. It returns the pod to try now.
func (r *Room) Leave(group gang.Ref) (try []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.groups[group]; f != nil {
		return r.leave(f)
	}
	return nil
}

// leave takes a group out, and returns who leads its class now if that is somebody else.
func (r *Room) leave(f *Filing) (try []string) {
	led := r.classes[f.key()][0] == f
	r.remove(f)
	if of := r.classes[f.key()]; led && len(of) > 0 {
		return []string{of[0].Speaker}
	}
	return nil
}

func (r *Room) remove(f *Filing) {
	key := f.key()
	of := r.classes[key]
	delete(r.groups, f.Group)
	delete(r.leaders, of[0].Speaker)
	i, _ := slices.BinarySearchFunc(of, f, (*Filing).before)
	if of = slices.Delete(of, i, i+1); len(of) == 0 {
		delete(r.classes, key)
		return
	}
	r.classes[key], r.leaders[of[0].Speaker] = of, of[0]
}

// Filed says for which pod a group was refused; "" if it is not filed.
func (r *Room) Filed(group gang.Ref) (speaker string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.Speaker
	}
	return ""
}

// Speaker is for which pod a group was refused, or is being tried; "" if there is none.
func (r *Room) Speaker(group gang.Ref) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.groups[group]; f != nil {
		return f.Speaker
	}
	if r.trying.group == group {
		return r.trying.speaker
	}
	return ""
}

// Begin notes that a pod is being tried for its group, one at a time.
func (r *Room) Begin(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trying = attempt{group: group, speaker: pod}
	if f := r.groups[group]; f != nil && f.Speaker == pod {
		f.called = false
	}
}

// Call notes that a pod is to be tried on its group's own account, whoever leads.
func (r *Room) Call(group gang.Ref, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call(group, pod)
}

func (r *Room) call(group gang.Ref, pod string) {
	if r.trying.speaker == pod {
		r.trying.called = true
	}
	if f := r.groups[group]; f != nil && f.Speaker == pod {
		f.called = true
	}
}

// longestFollow is how long a group follows without being tried. The scheduler's queue lets
// everybody try again after five minutes, in case that somebody was forgotten: whoever leads
// may be kept out by others.
const longestFollow = 4 * time.Minute

// Follows says whether a pod need not be tried for its group, nor hear of anything, since
// another group is tried that asks for the same.
func (r *Room) Follows(group gang.Ref, pod, uid string, now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.groups[group]
	return f != nil && f.Speaker == pod && f.UID == uid && !f.called && r.leaders[pod] != f && now.Before(f.Since.Add(longestFollow))
}

// Roams says whether a pod is that of a leader which a place somewhere may help.
func (r *Room) Roams(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Template
}

// Hopes says whether a pod is that of a leader which pods that leave may help.
func (r *Room) Hopes(pod string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && !f.Never
}

// Limits are Filing.Limits of the leader that a pod is tried for.
func (r *Room) Limits(pod string) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[pod]; f != nil {
		return f.Limits
	}
	return 0
}

// Kinds are the pods beside a leader's that its group was refused for.
func (r *Room) Kinds(leader string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if f := r.leaders[leader]; f != nil {
		return f.Kinds
	}
	return nil
}

// WaitsFor says whether a pod is that of a leader which a plugin has refused, or may have.
func (r *Room) WaitsFor(pod, plugin string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := r.leaders[pod]
	return f != nil && f.waitsFor(plugin)
}

func (f *Filing) waitsFor(plugin string) bool {
	_, found := slices.BinarySearch(f.Plugins, plugin)
	return found || f.Plugins == nil
}

// Leaders are the pods of all leaders which places that become free may help, and the one that is being
// tried, which may have seen what changes as it was before; sorted.
func (r *Room) Leaders() []string {
	return r.leadersWhere(func(f *Filing) bool { return !f.Never })
}

// LeadersFor are the pods of the leaders which a plugin has refused, or may have, and the one
// that is being tried; sorted.
func (r *Room) LeadersFor(plugin string) []string {
	return r.leadersWhere(func(f *Filing) bool { return f.waitsFor(plugin) })
}

func (r *Room) leadersWhere(is func(*Filing) bool) (pods []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, f := range r.leaders {
		if is(f) && pod != r.trying.speaker {
			pods = append(pods, pod)
		}
	}
	if now := r.trying; now.speaker != "" {
		r.call(now.group, now.speaker)
		pods = append(pods, now.speaker)
	}
	slices.SortFunc(pods, topology.CompareNames)
	return pods
}
