package localcluster

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolderEndsItsPrograms(t *testing.T) {
	f, err := newFolder(t.TempDir(), "folder with space-")
	require.NoError(t, err)
	stubborn, err := f.command(context.Background(), "sh", "-c", "trap '' TERM; sleep 3600 & wait")
	require.NoError(t, err)
	require.NoError(t, stubborn.Start())
	require.Contains(t, mentions(t, f.path), f.join("bin", "sh")+" -c trap '' TERM; sleep 3600 & wait")

	require.NoError(t, f.Close())
	require.Error(t, stubborn.Wait())
	requireNothingLeft(t, f.path)
	require.NoError(t, f.Close(), "a second time")
}

func TestFolderWithoutGuard(t *testing.T) {
	f, err := newFolder(t.TempDir(), "folder-")
	require.NoError(t, err)
	child, err := f.command(context.Background(), "sleep", "3600")
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.NoError(t, f.guard.Process.Kill())

	require.NoError(t, f.Close())
	require.Error(t, child.Wait())
	requireNothingLeft(t, f.path)
}

// An editor or a "tail -f" on a log is not the folder's to kill.
func TestGuardSparesOnlookers(t *testing.T) {
	f, err := newFolder(t.TempDir(), "folder-")
	require.NoError(t, err)
	other, err := newFolder(t.TempDir(), "other-")
	require.NoError(t, err)
	onlooker, err := other.command(context.Background(), "tail", "-f", os.DevNull, f.join("guard.sh"))
	require.NoError(t, err)
	require.NoError(t, onlooker.Start())

	require.NoError(t, f.Close())
	require.NoError(t, onlooker.Process.Signal(os.Interrupt), "it is still there to be interrupted")
	require.ErrorContains(t, onlooker.Wait(), "interrupt")
	require.NoError(t, other.Close())
}

func TestProgramsOfOneName(t *testing.T) {
	f, err := newFolder(t.TempDir(), "folder-")
	require.NoError(t, err)
	defer f.Close()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/sh", []byte("#!/bin/sh\n"), 0o755))

	first, err := f.program("/bin/sh")
	require.NoError(t, err)
	again, err := f.program("/bin/sh")
	require.NoError(t, err)
	second, err := f.program(dir + "/sh")
	require.NoError(t, err)
	require.Equal(t, []string{f.join("bin", "sh"), f.join("bin", "sh"), f.join("bin", "sh-2")}, []string{first, again, second})

	_, err = f.program("no-such-program")
	require.ErrorContains(t, err, "no-such-program")
}
