package status

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// The refusal of a gang names the capacity of each domain, which changes with every pod that starts or ends. Each change would be written
// to the representative, the PodGroup and events, for every waiting gang, faster than users read.
const (
	// steadyFor is how long a refusal's words stay.
	steadyFor = 10 * time.Second
	// sayAgain is the shortest time between two events about a refusal.
	sayAgain = time.Minute
)

// memory is what the Reporter has told, so that each thing is told once. One lock guards it.
type memory struct {
	mu        sync.Mutex
	last      map[string]string    // the last message, by subject
	refusals  map[string]refusal   // what is shown for a refused group, by group
	events    map[event]time.Time  // when an event was recorded
	tidied    time.Time            // when outdated refusals and events were last dropped
	members   map[string]refusal   // what the members of a refused gang were told, by gang
	voids     map[string]types.UID // pods whose nominated node is to be cleared, by name, until that is written
	near      map[gang.Ref]string  // the spread of a group's plan, in words
	positions map[gang.Ref]int32   // positions in the queue; nil before this process knows them
}

// refusal is what was shown of a refusal.
type refusal struct {
	Explained
	reason string
	since  time.Time
}

// event is a kind of events of which one a minute is enough.
type event struct{ about, reason string }

func newMemory() *memory {
	return &memory{
		last: map[string]string{}, refusals: map[string]refusal{}, events: map[event]time.Time{}, members: map[string]refusal{},
		voids: map[string]types.UID{}, near: map[gang.Ref]string{},
	}
}

// news returns whether a message differs from the last one about its subject, and remembers it.
func (m *memory) news(about, message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last[about] == message {
		return false
	}
	m.last[about] = message
	return true
}

// forget drops the last message about a subject.
func (m *memory) forget(about string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, about)
}

// words returns what to show for a group refused for this reason: the recent words, if there are any. later is when the new ones may be
// shown; 0 if they are returned or equal. A change of whether the group ever fits is shown at once.
func (m *memory) words(group string, why Explained, now time.Time) (words Explained, later time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.refusals[group]
	if until := last.since.Add(steadyFor); known && now.Before(until) && last.Never == why.Never {
		if last.Explained != why {
			later = until.Sub(now)
		}
		return last.Explained, later
	}
	m.tidy(now)
	m.refusals[group] = refusal{Explained: why, since: now}
	return why, 0
}

// heard returns whether an event like this one was recorded less than a minute ago, and otherwise remembers it.
func (m *memory) heard(about, reason string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := event{about, reason}
	if last, known := m.events[e]; known && now.Before(last.Add(sayAgain)) {
		return true
	}
	m.tidy(now)
	m.events[e] = now
	return false
}

// tidy drops outdated entries. m.mu is held.
func (m *memory) tidy(now time.Time) {
	if now.Sub(m.tidied) < sayAgain {
		return
	}
	m.tidied = now
	maps.DeleteFunc(m.refusals, func(_ string, r refusal) bool { return !now.Before(r.since.Add(sayAgain)) })
	maps.DeleteFunc(m.events, func(_ event, since time.Time) bool { return !now.Before(since.Add(sayAgain)) })
}

// toMembers returns what to tell further members of a refused gang: what the first ones were told.
func (m *memory) toMembers(gang, reason string, said Explained) Explained {
	m.mu.Lock()
	defer m.mu.Unlock()
	if told, known := m.members[gang]; known && told.reason == reason {
		return told.Explained
	}
	m.members[gang] = refusal{Explained: said, reason: reason}
	return said
}

// placed records the plan of a group, which is not refused any longer; near describes its spread.
func (m *memory) placed(group gang.Ref, near string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refusals, group.ID())
	m.near[group] = near
}

// nearnessOf returns the spread of a group's last plan.
func (m *memory) nearnessOf(group gang.Ref) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.near[group]
}

// started drops what the members of a gang that started were told.
func (m *memory) started(gang string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, gang)
}

// void records which pod of a name is to lose its nominated node; "" is none.
func (m *memory) void(key string, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.voids[key] = pod; pod == "" {
		delete(m.voids, key)
	}
}

// isVoid returns whether a pod is to lose its nominated node.
func (m *memory) isVoid(key string, pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pod != "" && m.voids[key] == pod
}

// position returns a gang's position in the queue; old, as its object has it, before this process knows any.
func (m *memory) position(ref gang.Ref, old int32) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.positions == nil {
		return old
	}
	return m.positions[ref]
}

// move records the positions in the queue, and returns the former ones; nil if there were none.
func (m *memory) move(positions map[gang.Ref]int32) (was map[gang.Ref]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, m.positions = m.positions, maps.Clone(positions)
	return was
}

// gone forgets a deleted gang. A new gang of that name is another one.
func (m *memory) gone(ref gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := ref.ID()
	delete(m.last, name)
	delete(m.last, aboutMembers(name))
	delete(m.refusals, name)
	delete(m.members, name)
	delete(m.near, ref)
	delete(m.positions, ref)
	maps.DeleteFunc(m.events, func(e event, _ time.Time) bool { return e.about == name })
}

// aboutMembers returns the subject of messages to the members of a gang.
func aboutMembers(gang string) string { return "members of " + gang }
