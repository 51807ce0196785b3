package plugin

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
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

// calm remembers what is said of groups that are refused, and when events were recorded.
type calm struct {
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
func (c *calm) words(group, why string, now time.Time) (words string, later time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.said[group]
	if until := last.since.Add(steadyFor); known && now.Before(until) {
		if last.words != why {
			later = until.Sub(now)
		}
		return last.words, later
	}
	if c.said == nil {
		c.said = map[string]saying{}
	}
	c.tidy(now)
	c.said[group] = saying{why, now}
	return why, 0
}

// heard says whether an event with these words need not be recorded, since one like it
// was. reason is what must be equal.
func (c *calm) heard(about, reason string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, known := c.told[about]; known && last.words == reason && now.Before(last.since.Add(sayAgain)) {
		return true
	}
	if c.told == nil {
		c.told = map[string]saying{}
	}
	c.told[about] = saying{reason, now}
	return false
}

// tidy forgets what does not matter any longer. c.mu is held.
func (c *calm) tidy(now time.Time) {
	if now.Sub(c.past) < sayAgain {
		return
	}
	c.past = now
	old := func(_ string, s saying) bool { return !now.Before(s.since.Add(sayAgain)) }
	maps.DeleteFunc(c.said, old)
	maps.DeleteFunc(c.told, old)
}

// forget is for when a group is refused no longer, or gone.
func (c *calm) forget(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, group)
	delete(c.told, group)
}

// steadily returns what to say of a refused group. If that is not why, it is tried once
// more when it may be said: nothing else need happen until then.
func (p *Plugin) steadily(group, why string, speaker *v1.Pod) string {
	if p.options.Settle < 0 {
		return why
	}
	words, later := p.calm.words(group, why, p.options.Clock.Now())
	if later > 0 {
		p.Writer.DoAfter("refusal of "+group, later, func(context.Context) error {
			p.handle.Activate(klog.Background(), map[string]*v1.Pod{convert.PodKey(speaker): speaker})
			return nil
		})
	}
	return words
}
