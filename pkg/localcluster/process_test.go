package localcluster

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreePort(t *testing.T) {
	taken := map[int]bool{}
	for range 50 {
		port, err := FreePort()
		require.NoError(t, err)
		require.False(t, taken[port])
		require.Less(t, port, 32768, "Linux uses higher ports for outgoing connections")
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		taken[port] = true
	}
}
