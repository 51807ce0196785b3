package status

import (
	"maps"
	"sync"
	"time"
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

// throttle remembers what is said of groups that are refused, and when events were recorded.
type throttle struct {
	mu   sync.Mutex
	said map[string]saying               // by group
	told map[string]map[string]time.Time // by what the event is about, and its reason
	past time.Time                       // when what is long past was last forgotten
}

type saying struct {
	Said
	since time.Time
}

// words returns what to say of a group that is refused for this reason: what was said
// last, if that is not long ago. later is how long that is to be said, 0 if the reason is
// news, or no other. Whether the group will ever fit is news at once.
func (t *throttle) words(group string, why Said, now time.Time) (words Said, later time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.said[group]
	if until := last.since.Add(steadyFor); known && now.Before(until) && last.Never == why.Never {
		if last.Said != why {
			later = until.Sub(now)
		}
		return last.Said, later
	}
	if t.said == nil {
		t.said = map[string]saying{}
	}
	t.tidy(now)
	t.said[group] = saying{why, now}
	return why, 0
}

// heard says whether an event about something, for that reason, need not be recorded, since one like it
// was.
func (t *throttle) heard(about, reason string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.told[about][reason]; known && now.Before(last.Add(sayAgain)) {
		return true
	}
	t.tidy(now)
	if t.told == nil {
		t.told = map[string]map[string]time.Time{}
	}
	if t.told[about] == nil {
		t.told[about] = map[string]time.Time{}
	}
	t.told[about][reason] = now
	return false
}

// tidy forgets what does not matter any longer. t.mu is held.
func (t *throttle) tidy(now time.Time) {
	if now.Sub(t.past) < sayAgain {
		return
	}
	t.past = now
	old := func(since time.Time) bool { return !now.Before(since.Add(sayAgain)) }
	maps.DeleteFunc(t.said, func(_ string, s saying) bool { return old(s.since) })
	maps.DeleteFunc(t.told, func(_ string, reasons map[string]time.Time) bool {
		maps.DeleteFunc(reasons, func(_ string, since time.Time) bool { return old(since) })
		return len(reasons) == 0
	})
}

// forget is for when a group is refused no longer.
func (t *throttle) forget(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.said, group)
}

// gone is for when there is no such gang any more: one of its name is another one.
func (t *throttle) gone(gang string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.said, gang)
	delete(t.told, gang)
}
