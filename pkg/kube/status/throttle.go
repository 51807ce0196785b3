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
	said map[string]saying // by group
	told map[string]saying // by what the event is about
	past time.Time         // when what is long past was last forgotten
}

type saying struct {
	words string
	since time.Time
}

// words returns what to say of a group that is refused for this reason: what was said
// last, if that is not long ago. later is how long that is to be said, 0 if the reason is
// news, or no other.
func (t *throttle) words(group, why string, now time.Time) (words string, later time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.said[group]
	if until := last.since.Add(steadyFor); known && now.Before(until) {
		if last.words != why {
			later = until.Sub(now)
		}
		return last.words, later
	}
	if t.said == nil {
		t.said = map[string]saying{}
	}
	t.tidy(now)
	t.said[group] = saying{why, now}
	return why, 0
}

// heard says whether an event with these words need not be recorded, since one like it
// was. reason is what must be equal.
func (t *throttle) heard(about, reason string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.told[about]; known && last.words == reason && now.Before(last.since.Add(sayAgain)) {
		return true
	}
	if t.told == nil {
		t.told = map[string]saying{}
	}
	t.told[about] = saying{reason, now}
	return false
}

// tidy forgets what does not matter any longer. t.mu is held.
func (t *throttle) tidy(now time.Time) {
	if now.Sub(t.past) < sayAgain {
		return
	}
	t.past = now
	old := func(_ string, s saying) bool { return !now.Before(s.since.Add(sayAgain)) }
	maps.DeleteFunc(t.said, old)
	maps.DeleteFunc(t.told, old)
}

// forget is for when a group is refused no longer, or gone.
func (t *throttle) forget(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.said, group)
	delete(t.told, group)
}
