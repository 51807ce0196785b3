package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoreStart: of many gangs that wait at once more members start if they are planned together, and never
// fewer of the first one.
func TestMoreStart(t *testing.T) {
	alone, beside := 0, 0
	for seed := range uint64(100) {
		_, a := atOnce(planners[0], seed, 24, 0)
		_, b := atOnce(planners[2], seed, 24, 0)
		alone, beside = alone+a, beside+b
	}
	require.Greater(t, beside, alone)
}

// TestPlayed: everybody starts once it has come, nobody has the node of another, and a play comes out as it did before.
func TestPlayed(t *testing.T) {
	for _, by := range planners {
		var first outcome
		all := traces[1].draw(7)
		first.play(newCluster(by), all)
		busy := map[int]*job{}
		for _, j := range all {
			require.True(t, j.started && j.gone && j.starts >= j.comes)
			require.Len(t, j.nodes, j.size)
			for _, n := range j.nodes {
				if was := busy[n]; was != nil && was.starts < j.ends && j.starts < was.ends {
					t.Fatalf("two have node %d", n)
				}
				busy[n] = j
			}
		}
		var again outcome
		again.play(newCluster(by), traces[1].draw(7))
		require.Equal(t, first, again, by.name)
	}
}

// TestAloneIsAlone: who comes when nobody waits gets what it would get anyway.
func TestAloneIsAlone(t *testing.T) {
	for size := 1; size <= largest; size++ {
		a, _ := newCluster(planners[0]).start(size, nil)
		b, _ := newCluster(planners[2]).start(size, nil)
		require.Equal(t, a, b)
	}
}
