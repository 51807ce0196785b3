package status

import (
	"context"
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

// moved has the places in the queue told when changes have been gathered.
func (t *Teller) moved() {
	if t.options.Settle < 0 {
		return
	}
	t.Writer.DoAfter("queue", positionsEvery, func(context.Context) error { // of several, the first is done in time
		if t.cache.Open() { // else another process tells them
			t.tellPositions()
		}
		return nil
	})
}

// tellPositions has the status of each gang written whose place in the queue is another one than was told.
func (t *Teller) tellPositions() {
	now := Positions(t.cache)
	was := t.memory.move(now)
	if was == nil {
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
