package simulate

import (
	"sync/atomic"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// queueClock is the clock of the scheduling queue, which orders pods of equal priority by the time at which they were added. The
// simulated time does not advance while goroutines work. So this clock adds a nanosecond at each read, and no two times are equal.
type queueClock struct {
	*clocktesting.FakeClock
	reads atomic.Int64
}

// Now implements clock.Clock.
func (c *queueClock) Now() time.Time {
	return c.FakeClock.Now().Add(time.Duration(c.reads.Add(1)))
}

// Since implements clock.Clock.
func (c *queueClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
