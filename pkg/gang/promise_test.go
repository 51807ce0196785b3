package gang_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// A restarted process knows the promise of a gang. Other gangs wait until the gang was tried, and it is tried again when its start has come.
func TestPromiseIsRestored(t *testing.T) {
	s := newStory(t)
	s.book.Starve, s.book.Promises = time.Minute, 1
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""))
	promise := gang.Promise{Domain: "s1", At: s.now.Add(time.Hour)}

	s.do(gang.Promised{Group: ref("ns/a"), Promise: promise})
	require.False(t, s.book.HoldsCapacity(ref("ns/a")), "a gang with missing members cannot be tried, and must not keep the turn")

	s.do(seen("ns/a-1", 1, ""), gang.Promised{Group: ref("ns/a"), Promise: promise})
	require.True(t, s.book.HoldsCapacity(ref("ns/a")))
	require.True(t, s.book.Resuming())
	require.Equal(t, promise, s.book.State(ref("ns/a")).Promise)
	s.do(gang.CapacityHeld{Group: ref("ns/a"), Promise: promise, Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}, {Pod: "ns/a-1", Node: "n1"}}},
		gang.Unschedulable{Group: ref("ns/a"), Refusal: gang.Obstacle{By: gang.Plan, Words: "full"}})
	require.False(t, s.book.Resuming())
	held, ok := s.book.HeldFor("ns/a-0")
	require.True(t, ok)
	require.Equal(t, promise, held)

	s.now = s.now.Add(30 * time.Minute)
	require.Equal(t, []string{"wake ns/a-0"}, s.do(gang.Tick{}), "the hold may not help any more: it is tried again")
	require.True(t, s.book.HoldsCapacity(ref("ns/a")), "a promised hold does not end while the nodes are still in use")
	s.now = promise.At
	require.Equal(t, []string{"wake ns/a-0"}, s.do(gang.Tick{}))
	s.now = promise.At.Add(time.Minute)
	s.do(gang.Tick{})
	require.False(t, s.book.HoldsCapacity(ref("ns/a")), "the start has come, and the hold has not grown since")
}

// Only Promises groups of the cluster have a promised start, one in each namespace.
func TestPromisesAreBounded(t *testing.T) {
	s := newStory(t)
	s.book.Starve, s.book.Promises = time.Minute, 1
	s.do(declared("x/a", 1), seen("x/a-0", 0, ""), declared("y/b", 1), seen("y/b-0", 0, ""))
	for _, name := range []string{"x/a", "y/b"} {
		s.do(gang.Unschedulable{Group: ref(name), Refusal: gang.Obstacle{By: gang.Plan, Words: "full"}})
	}
	s.now = s.now.Add(time.Minute)
	s.do(gang.Tick{})
	require.True(t, mustGroup(t, s, "y/b-0").MayPromise)
	s.do(gang.CapacityHeld{Group: ref("x/a"), Promise: gang.Promise{At: s.now.Add(time.Hour)}, Places: []gang.Assignment{{Pod: "x/a-0", Node: "n0"}}})
	require.True(t, mustGroup(t, s, "x/a-0").MayPromise, "it has the promise")
	require.False(t, mustGroup(t, s, "y/b-0").MayPromise)
}

// A hold ends for a starving group of higher priority, and its promise says so.
func TestHigherPriorityTakesTheTurn(t *testing.T) {
	s := newStory(t)
	s.book.Starve, s.book.Promises = time.Minute, 1
	s.do(declared("ns/low", 1), seen("ns/low-0", 0, ""), noRoom("ns/low"))
	require.Equal(t, []string{"wake ns/low-0"}, s.after(time.Minute))
	s.do(gang.CapacityHeld{
		Group: ref("ns/low"), Promise: gang.Promise{At: s.now.Add(720 * time.Hour)}, Places: []gang.Assignment{{Pod: "ns/low-0", Node: "n0"}},
	})
	for _, name := range []string{"ns/equal", "ns/high"} {
		m := seen(name+"-0", 0, "")
		if name == "ns/high" {
			m.Member.Priority = 5
		}
		s.do(declared(name, 1), m, noRoom(name))
	}
	require.Contains(t, s.after(time.Minute), "wake ns/high-0")
	require.True(t, s.book.HoldsCapacity(ref("ns/high")))
	require.Empty(t, s.book.PlacesOn("n0"))
	lost := s.book.State(ref("ns/low")).Promise
	require.False(t, lost.Exists())
	require.Equal(t, gang.BrokenPriority, lost.Kind)
	require.Equal(t, "capacity is held for gang ns/high of higher priority", lost.Cause)
}

// A group of higher priority may have a promised start beside groups of lower priority.
func TestPromiseOfHigherPriority(t *testing.T) {
	s := newStory(t)
	s.book.Starve, s.book.Promises = time.Minute, 1
	m := seen("y/high-0", 0, "")
	m.Member.Priority = 5
	s.do(declared("x/low", 1), seen("x/low-0", 0, ""), noRoom("x/low"), declared("y/high", 1), m, noRoom("y/high"))
	s.after(time.Minute)
	for _, name := range []string{"x/low", "y/high"} {
		require.True(t, mustGroup(t, s, name+"-0").MayPromise)
		s.do(gang.CapacityHeld{
			Group: ref(name), Promise: gang.Promise{At: s.now.Add(time.Hour)}, Places: []gang.Assignment{{Pod: name + "-0", Node: name}},
		})
	}
	require.False(t, mustGroup(t, s, "x/low-0").MayPromise)
}

// A group that free capacity does not help holds none, and does not keep the turn of its namespace.
func TestNoHoldWhereCapacityDoesNotHelp(t *testing.T) {
	for _, refusal := range []gang.Obstacle{
		{By: gang.Quota, Words: "max", NeverEvictable: true},
		{By: gang.Veto, Words: "vetoed"},
		{By: gang.Plan, Words: "too large", NeverEvictable: true},
	} {
		s := promisedStory(t)
		s.do(gang.Unschedulable{Group: ref("ns/a"), Refusal: refusal}, declared("ns/b", 1), seen("ns/b-0", 0, ""), noRoom("ns/b"))
		s.after(time.Second)
		require.Empty(t, s.book.PlacesOn("n0"), refusal.Words)
		require.False(t, s.book.State(ref("ns/a")).Promise.Exists())
		require.Equal(t, []string{"wake ns/b-0"}, s.after(time.Minute), "it is the turn of the next one")

		s.do(gang.Unschedulable{Group: ref("ns/b"), Refusal: refusal}, noRoom("ns/a"))
		require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Second), "free nodes help again")
	}
}

// A group that its quota stops keeps its turn, since its quota is held for it. No nodes are held, and no start is promised.
func TestQuotaEndsHoldOfNodes(t *testing.T) {
	s := promisedStory(t)
	s.do(gang.Unschedulable{Group: ref("ns/a"), Refusal: gang.Obstacle{By: gang.Quota, Words: "used up"}})
	s.after(time.Second)
	require.Empty(t, s.book.PlacesOn("n0"))
	require.False(t, s.book.State(ref("ns/a")).Promise.Exists())
	require.True(t, s.book.HoldsCapacity(ref("ns/a")))
	s.after(time.Minute)
	require.False(t, s.book.HoldsCapacity(ref("ns/a")), "a turn ends")
}

// Holds and promises end when they are turned off.
func TestHoldsAreTurnedOff(t *testing.T) {
	s := promisedStory(t)
	s.book.Promises = 0
	s.after(time.Second)
	require.False(t, s.book.State(ref("ns/a")).Promise.Exists())
	require.NotEmpty(t, s.book.PlacesOn("n0"), "a hold without a promise goes on")
	s.book.Starve = 0
	s.after(time.Second)
	require.Empty(t, s.book.PlacesOn("n0"))
	require.False(t, s.book.HoldsCapacity(ref("ns/a")))
}

// promisedStory returns a story in which node n0 is held for gang ns/a of one member, with a promised start in an hour.
func promisedStory(t *testing.T) *story {
	s := newStory(t)
	s.book.Starve, s.book.Promises = time.Minute, 1
	s.do(declared("ns/a", 1), seen("ns/a-0", 0, ""), noRoom("ns/a"))
	s.after(time.Minute)
	s.do(gang.CapacityHeld{
		Group: ref("ns/a"), Promise: gang.Promise{At: s.now.Add(time.Hour)}, Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}},
	})
	return s
}
