package main

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachGangEnds: on any trace each gang runs to its end. What a team lacks of its fair share is at most what
// its next gang needs, and one gang more.
func TestEachGangEnds(t *testing.T) {
	for seed := range uint64(4) {
		m := play(draw(seed+1), usual)
		for _, g := range m.gangs {
			require.NotZero(t, g.ended, "seed %d: %s of %d places", seed+1, g.name, g.size)
		}
		require.LessOrEqual(t, m.owed, most, "seed %d, minute %d", seed+1, m.owedAt)
	}
}

// TestDrawing: what docs/measurements/fairness.md shows is what the command draws.
func TestDrawing(t *testing.T) {
	is, err := os.ReadFile("../../docs/measurements/fairness.svg")
	require.NoError(t, err)
	require.Equal(t, play(draw(1), usual).svg(), string(is), "run: go run ./test/fairness -svg docs/measurements/fairness.svg")
}

// TestLargeAmongSmall: small gangs of all teams keep the cluster full. Then a gang comes that is larger than its team's
// fair share. After a while freed capacity is kept for the large gang, which starts when enough small gangs have ended.
// Without the capacity hold the large gang would start only when no more small ones come.
func TestLargeAmongSmall(t *testing.T) {
	const end = 2000
	trace := func() (all []*gang, large *gang) {
		for now := range end / 5 {
			for team := range teams {
				all = append(all, &gang{name: fmt.Sprint(team, "-", now), team: team, size: 8, comes: 5 * now, lasts: 60 + now%7})
			}
		}
		large = &gang{name: "large", size: most, comes: 500, lasts: 60}
		return append(all, large), large
	}
	all, large := trace()
	play(all, usual)
	require.Less(t, large.waits, usual.starve+120)

	all, large = trace()
	play(all, rules{starve: math.MaxInt / 2})
	require.Greater(t, large.waits, end-1000, "the test would show nothing")
}
