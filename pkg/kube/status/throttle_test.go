package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWordsStay(t *testing.T) {
	var c throttle
	start := time.Unix(1000, 0)
	for _, step := range []struct {
		at    time.Duration
		why   string
		want  string
		later time.Duration
	}{
		{0, "3 of 8", "3 of 8", 0},
		{time.Second, "3 of 8", "3 of 8", 0},
		{4 * time.Second, "5 of 8", "3 of 8", 6 * time.Second},
		{9 * time.Second, "3 of 8", "3 of 8", 0},
		{10 * time.Second, "6 of 8", "6 of 8", 0},
		{11 * time.Second, "7 of 8", "6 of 8", 9 * time.Second},
	} {
		words, later := c.words("g", step.why, start.Add(step.at))
		require.Equal(t, step.want, words, step)
		require.Equal(t, step.later, later, step)
	}
	words, _ := c.words("another", "1 of 8", start.Add(time.Second))
	require.Equal(t, "1 of 8", words)
	c.forget("g")
	words, _ = c.words("g", "2 of 8", start.Add(12*time.Second))
	require.Equal(t, "2 of 8", words, "a group that was placed meanwhile is news")
}

func TestEventsOfRefusalsAreFew(t *testing.T) {
	var c throttle
	now := time.Unix(1000, 0)
	require.False(t, c.heard("g", "Unschedulable", now))
	require.True(t, c.heard("g", "Unschedulable", now.Add(59*time.Second)))
	require.False(t, c.heard("h", "Unschedulable", now.Add(59*time.Second)))
	require.False(t, c.heard("g", "Unschedulable", now.Add(time.Minute)))
	require.False(t, c.heard("g", "another PodGroup's", now.Add(61*time.Second)))
}
