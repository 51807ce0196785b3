package status

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// One gang that comes or starts moves all that stand behind it. So not each change is written, but what
// is so every half a minute, and only to the first: who stands further behind is told by "musterctl queue".
const (
	// mostPositions is how many gangs are told their place in the queue.
	mostPositions = 100
	// positionsEvery is how long changes of the queue are gathered. A gang that starts before costs nothing.
	positionsEvery = 30 * time.Second
)

// Positions are the places in the queue of the gangs that are tried first, from 1.
func Positions(c *cache.Cache) map[gang.Ref]int32 {
	tried, _ := c.Queue()
	out := map[gang.Ref]int32{}
	for i, ref := range tried[:min(len(tried), mostPositions)] {
		out[ref] = int32(i + 1)
	}
	return out
}

// Position is what a gang with this condition is told of its place in the queue: who starts stands in none,
// nor does a gang that nobody tries.
func Position(reason string, at int32) int32 {
	switch reason {
	case ReasonScheduled, ReasonBinding, ReasonWaiting, ReasonRejected:
		return 0
	}
	return at
}

// line remembers the places in the queue as they were told last.
type line struct {
	mu    sync.Mutex
	due   bool // they are about to be found out
	known bool // this process has found them out
	at    map[gang.Ref]int32
}

// begin says whether somebody must find them out, since nobody is about to.
func (l *line) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.due
	l.due = true
	return !was
}

// end is for who finds them out from now on: what changes later, the next one does.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
}

// of is a gang's place, given the one that stands in its object: before anything is known that holds.
func (l *line) of(ref gang.Ref, old int32) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return old
	}
	return l.at[ref]
}

// forget is for a gang that is gone: one of its name is another one.
func (l *line) forget(ref gang.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.at, ref)
}

// take notes the places as they are, and returns what was told, or false if this process has told nothing.
func (l *line) take(at map[gang.Ref]int32) (was map[gang.Ref]int32, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known = l.at, l.known
	l.at, l.known = at, true
	return was, known
}

// moved has the places in the queue told when changes have been gathered.
func (t *Teller) moved() {
	if t.options.Settle < 0 || !t.line.begin() {
		return
	}
	t.Writer.DoAfter("queue", positionsEvery, func(context.Context) error {
		t.line.end()
		if t.cache.Open() { // else another process tells them
			t.tellPositions()
		}
		return nil
	})
}

// tellPositions has the status of each gang written whose place in the queue is another one than was told.
func (t *Teller) tellPositions() {
	now := Positions(t.cache)
	was, known := t.line.take(maps.Clone(now))
	if !known {
		was = t.written()
	}
	by := t.options.Clock.Now().Add(longestBusy)
	for ref, at := range now {
		if was[ref] != at {
			t.report(ref, by)
		}
	}
	for ref, at := range was {
		if at != 0 && now[ref] == 0 {
			t.report(ref, by)
		}
	}
}

// written are the places that a process before this one has told.
func (t *Teller) written() map[gang.Ref]int32 {
	out := map[gang.Ref]int32{}
	for _, ref := range t.cache.Gangs() {
		if pg := t.cache.Object(ref); pg != nil {
			out[ref] = pg.Status.Position
		}
	}
	return out
}
