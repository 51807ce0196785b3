package worlds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeast: of all worlds one in 200 must be of a kind, and of a few drawn of them none need be by chance alone.
func TestLeast(t *testing.T) {
	require.Equal(t, 30, least(6000, 6000))
	require.Equal(t, 6, least(1001, 1000), "as good as all: rounded up")
	require.Equal(t, 300, least(60000, 6000), "more than are meant")
	require.Equal(t, 0, least(1200, 6000), "-short")
	require.Equal(t, 4, least(3000, 6000))
	require.Equal(t, 0, least(99, 99))
}
