package wake

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKept(t *testing.T) {
	var k Kept[string, int]
	require.Empty(t, k.All())
	require.Empty(t, k.Take())
	require.False(t, k.Drop("a"))
	k.Add("a", 1)
	k.Add("a", 2)
	k.Add("b", 3)
	all := k.All()
	require.Equal(t, map[string]int{"a": 2, "b": 3}, all)
	require.True(t, k.Drop("a"))
	require.False(t, k.Drop("a"))
	require.Len(t, all, 2, "a copy")
	require.Equal(t, map[string]int{"b": 3}, k.Take())
	require.Empty(t, k.Take())
}
