package main

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCopies: what the charts have is what "make generate" makes, no more and no less.
func TestCopies(t *testing.T) {
	fresh := t.TempDir()
	require.NoError(t, sync(fresh))
	for _, chart := range []string{"muster/files", "muster-crds/files"} {
		require.Equal(t, read(t, fresh+"/"+chart), read(t, "../"+chart), "run make generate")
	}
}

func read(t *testing.T, folder string) map[string]string {
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(folder + "/" + file)
		all[file] = string(data)
		return err
	}))
	require.NotEmpty(t, all)
	return all
}
