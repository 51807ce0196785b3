package preempt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/evict"
)

// TestRankInOrder: of gangs that started in the same second the one is evicted first that got its nodes last; within a gang the highest rank.
func TestRankInOrder(t *testing.T) {
	c := &candidates{here: []onNode{{victims: []evict.Victim{
		{Name: "old-0", Gang: 1, Rank: 0}, {Name: "old-1", Gang: 1, Rank: 1}, {Name: "young-0", Gang: 2, Rank: 0}, {Name: "alone"}, {Name: "young-9", Gang: 2, Rank: 9},
	}}}}
	c.rankInOrder()
	rank := map[string]int{}
	for _, v := range c.here[0].victims {
		rank[v.Name] = v.Rank
	}
	require.Greater(t, rank["young-0"], rank["old-1"])
	require.Greater(t, rank["young-9"], rank["young-0"])
	require.Greater(t, rank["old-1"], rank["old-0"])
	require.Greater(t, rank["alone"], rank["old-1"])
	require.Greater(t, rank["young-0"], rank["alone"])
}
