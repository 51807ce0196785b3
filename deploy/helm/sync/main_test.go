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
	for _, chart := range []string{
		"muster/files", "muster/templates/common", "muster-crds/files", "muster-controller/files", "muster-controller/templates/common",
	} {
		require.Equal(t, read(t, fresh+"/"+chart), read(t, "../"+chart), "run make generate")
	}
}

// TestReadme: what a README.md says of values is what values.yaml says, and a value without a comment is an error.
func TestReadme(t *testing.T) {
	for chart := range readmes {
		want, err := readme("../" + chart)
		require.NoError(t, err)
		got, err := os.ReadFile("../" + chart + "/README.md")
		require.NoError(t, err)
		require.Equal(t, want, string(got), "run make generate")
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(folder+"/values.yaml", []byte("# Above.\na: 1\nb: {}\n"), 0o600))
	_, err := readme(folder)
	require.ErrorContains(t, err, "b has no comment")
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
