package status

import (
	"context"
	"time"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Each gang that arrives or starts moves all gangs behind it. So only the positions of the first gangs are written, every half a minute;
// "musterctl queue" shows all.
const (
	// mostPositions is how many gangs have their position written.
	mostPositions = 100
	// positionsEvery is how long changes of the queue are gathered.
	positionsEvery = 30 * time.Second
)

// Positions returns the queue positions of the gangs that are tried first, from 1.
func Positions(c *cache.Cache) map[gang.Ref]int32 {
	tried, _ := c.Queue()
	out := map[gang.Ref]int32{}
	for i, ref := range tried[:min(len(tried), mostPositions)] {
		out[ref] = int32(i + 1)
	}
	return out
}

// Position returns the position to show for a gang with this condition: 0 for a gang that starts or is not tried.
func Position(reason string, at int32) int32 {
	switch reason {
	case ReasonScheduled, ReasonBinding, ReasonWaiting, ReasonRejected:
		return 0
	}
	return at
}

// moved schedules the writing of positions after a change.
func (t *Reporter) moved() {
	if t.options.Settle < 0 {
		return
	}
	t.Writer.DoAfter("queue", positionsEvery, func(context.Context) error { // of several, the first runs in time
		if t.cache.Open() { // else the leader writes them
			t.tellPositions()
		}
		return nil
	})
}

// tellPositions updates the status of each gang whose position changed.
func (t *Reporter) tellPositions() {
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

// written returns the positions that a previous process wrote.
func (t *Reporter) written() map[gang.Ref]int32 {
	out := map[gang.Ref]int32{}
	for _, ref := range t.cache.Gangs() {
		if pg := t.cache.Object(ref); pg != nil {
			out[ref] = pg.Status.Position
		}
	}
	return out
}
