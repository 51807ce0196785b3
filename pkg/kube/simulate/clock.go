package simulate

import (
	"sync/atomic"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// queueClock is the clock for the scheduling queue. Time stands still while something
// moves, but the queue takes pods of equal priority in the order in which they came,
// which it reads off a clock: so this one never tells the same time twice.
type queueClock struct {
	*clocktesting.FakeClock
	asked atomic.Int64
}

// Now implements clock.Clock.
func (c *queueClock) Now() time.Time {
	return c.FakeClock.Now().Add(time.Duration(c.asked.Add(1)))
}

// Since implements clock.Clock.
func (c *queueClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
