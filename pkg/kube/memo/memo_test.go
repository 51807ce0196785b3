package memo_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
)

func TestMapHasTheLastValueOfAKeyUntilItIsTaken(t *testing.T) {
	var m memo.Map[string, int]
	require.Empty(t, m.All())
	require.False(t, m.Drop("a"))
	require.True(t, m.Add("a", 1))
	require.False(t, m.Add("a", 2))
	value, ok := m.Get("a")
	require.Equal(t, "2 true\n", fmt.Sprintln(value, ok))

	copied := m.All()
	m.Add("b", 3)
	require.Equal(t, map[string]int{"a": 2}, copied)

	value, ok = m.Take("a")
	require.Equal(t, "2 true\n", fmt.Sprintln(value, ok))
	_, ok = m.Take("a")
	require.False(t, ok)
	require.Equal(t, map[string]int{"b": 3}, m.TakeAll())
	require.Empty(t, m.All())
}

func TestMemoForgetsAnAnswerWhenItsStampChanges(t *testing.T) {
	var m memo.Memo[string, int64, string]
	m.Put("node", 1, "fits")
	answer, ok := m.Get("node", 1)
	require.Equal(t, "fits true\n", fmt.Sprintln(answer, ok))
	_, ok = m.Get("node", 2)
	require.False(t, ok)

	m.Put("node", 2, "full")
	_, ok = m.Get("node", 1)
	require.False(t, ok)
	m.Drop("node")
	_, ok = m.Get("node", 2)
	require.False(t, ok)
}

func TestMemoKeepsNoMoreAnswersThanItMay(t *testing.T) {
	m := memo.Memo[int, int, int]{Most: 3}
	for key := range 100 {
		m.Put(key, 0, key)
		m.Put(key, 1, key) // another stamp of the key is no further answer
		_, ok := m.Get(key, 1)
		require.True(t, ok)
		known := 0
		for k := range key + 1 {
			if _, ok := m.Get(k, 1); ok {
				known++
			}
		}
		require.LessOrEqual(t, known, 3)
	}
}
