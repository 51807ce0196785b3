package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

func TestWordsStay(t *testing.T) {
	c := newMemory()
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
		words, later := c.words(gang.Ref{Name: "g"}.ID(), Explained{Text: step.why}, start.Add(step.at))
		require.Equal(t, Explained{Text: step.want}, words, step)
		require.Equal(t, step.later, later, step)
	}
	words, _ := c.words("another", Explained{Text: "1 of 8"}, start.Add(time.Second))
	require.Equal(t, "1 of 8", words.Text)
	words, later := c.words("another", Explained{Text: "1 of 8", Never: true}, start.Add(2*time.Second))
	require.True(t, words.Never, "that it never fits is news")
	require.Zero(t, later)
	c.recordPlan(gang.Ref{Name: "g"}, "")
	words, _ = c.words(gang.Ref{Name: "g"}.ID(), Explained{Text: "2 of 8"}, start.Add(12*time.Second))
	require.Equal(t, "2 of 8", words.Text, "a group that was placed meanwhile is news")
}

// TestEventsAreFew: one a minute about one thing and for one reason.
func TestEventsAreFew(t *testing.T) {
	c := newMemory()
	now := time.Unix(1000, 0)
	require.False(t, c.isRepeated("g", "Unschedulable", now))
	require.True(t, c.isRepeated("g", "Unschedulable", now.Add(59*time.Second)))
	require.False(t, c.isRepeated("h", "Unschedulable", now.Add(59*time.Second)))
	require.False(t, c.isRepeated("g", "Unschedulable", now.Add(time.Minute)))
	require.False(t, c.isRepeated("g", "Preempting", now.Add(61*time.Second)))
	require.True(t, c.isRepeated("g", "Unschedulable", now.Add(62*time.Second)), "another event between them makes no difference")
}
