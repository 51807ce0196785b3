package cli

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadInPieces: a large file is what is in it, whatever the pieces; a small one, and what is no file, is left to others.
func TestReadInPieces(t *testing.T) {
	var text bytes.Buffer
	for i := uint64(0); text.Len() <= 2*piece; i++ {
		text.Write(binary.LittleEndian.AppendUint64(nil, i))
	}
	name := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(name, text.Bytes(), 0o600))
	data, free, ok := readInPieces(name)
	require.True(t, ok)
	require.True(t, bytes.Equal(text.Bytes(), data))
	free()

	for _, other := range []string{filepath.Dir(name), name + "-that-is-not-there"} {
		_, _, ok := readInPieces(other)
		require.False(t, ok)
	}
	require.NoError(t, os.Truncate(name, piece))
	_, _, ok = readInPieces(name)
	require.False(t, ok)
}
