package status

import (
	"context"
	"time"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Each gang that arrives or starts changes the position of all gangs behind it. So only the positions of the first maxPositions
// gangs are written, once per positionInterval; "musterctl queue" shows all.
const (
	// maxPositions is how many gangs have their position written.
	maxPositions = 100
	// positionInterval is how long changes of the queue are gathered.
	positionInterval = 30 * time.Second
)

// Positions returns the queue positions, from 1, of the first maxPositions gangs.
func Positions(c *cache.Cache) map[gang.Ref]int32 {
	queue, _ := c.Queue()
	out := map[gang.Ref]int32{}
	for i, ref := range queue[:min(len(queue), maxPositions)] {
		out[ref] = int32(i + 1)
	}
	return out
}

// Position returns position, or 0 if the reason of the gang's condition says that the gang starts or is not tried.
func Position(reason string, position int32) int32 {
	switch reason {
	case reasons.Scheduled, reasons.Finished, reasons.Binding, reasons.Waiting, reasons.Rejected:
		return 0
	}
	return position
}

// schedulePositions schedules the writing of positions after a change.
func (t *Reporter) schedulePositions() {
	if t.options.Settle < 0 {
		return
	}
	t.Writer.DoAfter("queue", positionInterval, func(context.Context) error { // later calls do not delay it
		if t.cache.Open() { // else the leader writes them
			t.reportPositions()
		}
		return nil
	})
}

// reportPositions updates the status of each gang whose position changed.
func (t *Reporter) reportPositions() {
	positions := Positions(t.cache)
	oldPositions := t.memory.setPositions(positions)
	if oldPositions == nil {
		oldPositions = t.writtenPositions()
	}
	deadline := t.options.Clock.Now().Add(longestBusy)
	for ref, position := range positions {
		if oldPositions[ref] != position {
			t.report(ref, deadline)
		}
	}
	for ref, position := range oldPositions {
		if position != 0 && positions[ref] == 0 {
			t.report(ref, deadline)
		}
	}
}

// writtenPositions returns the positions that a previous process wrote.
func (t *Reporter) writtenPositions() map[gang.Ref]int32 {
	out := map[gang.Ref]int32{}
	for _, ref := range t.cache.Gangs() {
		if pg := t.cache.Object(ref); pg != nil {
			out[ref] = pg.Status.Position
		}
	}
	return out
}
