package status

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Why a gang is refused names the room of each domain, which changes with every pod that
// starts or ends. Nobody reads so fast, and each change would be written to the member
// that was tried, to the PodGroup, and in events, for every gang that waits.
const (
	// steadyFor is how long a refusal's words stay.
	steadyFor = 10 * time.Second
	// sayAgain is how long an event about a refusal is not followed by another one.
	sayAgain = time.Minute
)

// memory is all that the Teller remembers of what was told, so that each thing is told once. One lock guards it.
type memory struct {
	mu        sync.Mutex
	last      map[string]string    // the last message, by what it is about
	refusals  map[string]refusal   // what is said of a group that is refused, by group
	events    map[event]time.Time  // when an event was recorded
	tidied    time.Time            // when refusals and events that are long past were forgotten last
	members   map[string]refusal   // what the members of a gang that is refused were told, by gang
	voids     map[string]types.UID // pods whose nominated node is to be cleared, by name, until that is written
	near      map[gang.Ref]string  // how near the places of a group's plan are, in words
	positions map[gang.Ref]int32   // the places in the queue; nil before this process knows them
}

// refusal is what was said of a refusal.
type refusal struct {
	Said
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

// news says whether a message differs from the last one about the same thing, and remembers it.
func (m *memory) news(about, message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last[about] == message {
		return false
	}
	m.last[about] = message
	return true
}

// forget forgets the last message about something.
func (m *memory) forget(about string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, about)
}

// words returns what to say of a group that is refused for this reason: what was said
// last, if that is not long ago. later is how long that is to be said, 0 if the reason is
// news, or no other. Whether the group will ever fit is news at once.
func (m *memory) words(group string, why Said, now time.Time) (words Said, later time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.refusals[group]
	if until := last.since.Add(steadyFor); known && now.Before(until) && last.Never == why.Never {
		if last.Said != why {
			later = until.Sub(now)
		}
		return last.Said, later
	}
	m.tidy(now)
	m.refusals[group] = refusal{Said: why, since: now}
	return why, 0
}

// heard says whether an event about something, for that reason, need not be recorded, since one like it
// was less than a minute ago.
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

// tidy forgets what does not matter any longer. m.mu is held.
func (m *memory) tidy(now time.Time) {
	if now.Sub(m.tidied) < sayAgain {
		return
	}
	m.tidied = now
	maps.DeleteFunc(m.refusals, func(_ string, r refusal) bool { return !now.Before(r.since.Add(sayAgain)) })
	maps.DeleteFunc(m.events, func(_ event, since time.Time) bool { return !now.Before(since.Add(sayAgain)) })
}

// toMembers returns what to tell members of a gang that is refused for a reason: what other members were told.
func (m *memory) toMembers(gang, reason string, said Said) Said {
	m.mu.Lock()
	defer m.mu.Unlock()
	if told, known := m.members[gang]; known && told.reason == reason {
		return told.Said
	}
	m.members[gang] = refusal{Said: said, reason: reason}
	return said
}

// placed is for a group that has a plan: it is not refused any longer. near says how near its places are.
func (m *memory) placed(group gang.Ref, near string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refusals, group.ID())
	m.near[group] = near
}

// nearnessOf is how near the places of a group's last plan were.
func (m *memory) nearnessOf(group gang.Ref) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.near[group]
}

// started is for a gang that has what it needs: its members are refused no longer.
func (m *memory) started(gang string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, gang)
}

// void notes which pod of a name is to lose its nominated node; "" is none.
func (m *memory) void(key string, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.voids[key] = pod; pod == "" {
		delete(m.voids, key)
	}
}

// isVoid says whether a pod is to lose its nominated node.
func (m *memory) isVoid(key string, pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pod != "" && m.voids[key] == pod
}

// position is a gang's place in the queue, given the one that its object has: before this process knows any, that holds.
func (m *memory) position(ref gang.Ref, old int32) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.positions == nil {
		return old
	}
	return m.positions[ref]
}

// move notes the places in the queue, and returns the ones before; nil if this process knew none.
func (m *memory) move(positions map[gang.Ref]int32) (was map[gang.Ref]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, m.positions = m.positions, maps.Clone(positions)
	return was
}

// gone forgets a gang that does not exist any more: one of its name is another one.
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

// aboutMembers is what a message to the members of a gang is about.
func aboutMembers(gang string) string { return "members of " + gang }
