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
	// textInterval is how long the text of a refusal is shown before a newer text replaces it.
	textInterval = 10 * time.Second
	// eventInterval is the shortest time between two events about a refusal.
	eventInterval = time.Minute
)

// memory is what the Reporter has written, so that it writes each message once. mu guards all fields.
type memory struct {
	mu           sync.Mutex
	lastMessages map[string]string    // the last message, by subject
	refusals     map[string]refusal   // the text that is shown for a refused group, by group
	events       map[event]time.Time  // when an event was recorded
	cleanupTime  time.Time            // when outdated refusals and events were last dropped
	members      map[string]refusal   // the text in the status of a refused gang's members, by gang
	voids        map[string]types.UID // pods whose nominated node is to be cleared, by name, until that is written
	spreads      map[gang.Ref]string  // the spread of a group's plan, in words
	positions    map[gang.Ref]int32   // positions in the queue; nil before this process knows them
}

// refusal is the text that was shown of a refusal, and since when.
type refusal struct {
	Explained
	reason string
	since  time.Time
}

// event is the key under which at most one event a minute is recorded.
type event struct{ subject, reason string }

func newMemory() *memory {
	return &memory{
		lastMessages: map[string]string{}, refusals: map[string]refusal{}, events: map[event]time.Time{}, members: map[string]refusal{},
		voids: map[string]types.UID{}, spreads: map[gang.Ref]string{},
	}
}

// isNews returns true if message differs from the last message about subject, and remembers it.
func (m *memory) isNews(subject, message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lastMessages[subject] == message {
		return false
	}
	m.lastMessages[subject] = message
	return true
}

// forget drops the last message about a subject, so that the next one is news.
func (m *memory) forget(subject string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lastMessages, subject)
}

// words returns the text to show for a refused group: the text of the last textInterval if there is one, else explanation. delay is
// the time until explanation may be shown; 0 if it is shown already. A change of Never is shown at once.
func (m *memory) words(group string, explanation Explained, now time.Time) (words Explained, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, known := m.refusals[group]
	if expiry := entry.since.Add(textInterval); known && now.Before(expiry) && entry.Never == explanation.Never {
		if entry.Explained != explanation {
			delay = expiry.Sub(now)
		}
		return entry.Explained, delay
	}
	m.cleanUp(now)
	m.refusals[group] = refusal{Explained: explanation, since: now}
	return explanation, 0
}

// isRepeated returns true if an event of this subject and reason was recorded within eventInterval. Else it records now.
func (m *memory) isRepeated(subject, reason string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := event{subject, reason}
	if lastTime, known := m.events[e]; known && now.Before(lastTime.Add(eventInterval)) {
		return true
	}
	m.cleanUp(now)
	m.events[e] = now
	return false
}

// cleanUp drops refusals and events older than eventInterval, at most once per eventInterval. m.mu is held.
func (m *memory) cleanUp(now time.Time) {
	if now.Sub(m.cleanupTime) < eventInterval {
		return
	}
	m.cleanupTime = now
	maps.DeleteFunc(m.refusals, func(_ string, r refusal) bool { return !now.Before(r.since.Add(eventInterval)) })
	maps.DeleteFunc(m.events, func(_ event, since time.Time) bool { return !now.Before(since.Add(eventInterval)) })
}

// memberRefusal returns the text for the members of a refused gang: the first explanation since the gang is refused for reason.
func (m *memory) memberRefusal(id, reason string, explanation Explained) Explained {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry, known := m.members[id]; known && entry.reason == reason {
		return entry.Explained
	}
	m.members[id] = refusal{Explained: explanation, reason: reason}
	return explanation
}

// recordPlan records the spread of a group's plan, in words, and drops the group's refusal.
func (m *memory) recordPlan(group gang.Ref, spread string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refusals, group.ID())
	m.spreads[group] = spread
}

// spreadOf returns the spread of a group's last plan, in words; "" if none is known.
func (m *memory) spreadOf(group gang.Ref) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spreads[group]
}

// forgetMembers drops the text for the members of a gang that started.
func (m *memory) forgetMembers(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, id)
}

// setVoid records that the nominated node of the pod with this key and UID is to be cleared. An empty UID removes the record.
func (m *memory) setVoid(key string, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.voids[key] = pod; pod == "" {
		delete(m.voids, key)
	}
}

// isVoid says whether setVoid recorded this pod.
func (m *memory) isVoid(key string, pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pod != "" && m.voids[key] == pod
}

// position returns a gang's position in the queue, from 1; 0 for none. It returns old, the written one, before any is known.
func (m *memory) position(ref gang.Ref, old int32) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.positions == nil {
		return old
	}
	return m.positions[ref]
}

// setPositions records the positions in the queue, and returns the former ones; nil at the first call.
func (m *memory) setPositions(positions map[gang.Ref]int32) (oldPositions map[gang.Ref]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldPositions, m.positions = m.positions, maps.Clone(positions)
	return oldPositions
}

// forgetGang drops all records of a deleted gang, so that a new gang of its name starts without them.
func (m *memory) forgetGang(ref gang.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := ref.ID()
	delete(m.lastMessages, name)
	for _, subject := range []string{membersSubject(name), repairSubject(name), stuckSubject(name)} {
		delete(m.lastMessages, subject)
	}
	delete(m.refusals, name)
	delete(m.members, name)
	delete(m.spreads, ref)
	delete(m.positions, ref)
	maps.DeleteFunc(m.events, func(e event, _ time.Time) bool { return e.subject == name })
}

// membersSubject returns the subject of messages to the members of a gang.
func membersSubject(id string) string { return "members of " + id }
