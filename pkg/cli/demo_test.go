package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestDemoRefusesAnotherProgram: a scheduler that is not there is a mistake in the command line.
func TestDemoRefusesAnotherProgram(t *testing.T) {
	require.Equal(t, exitUsage, Main(t.Context(), []string{"demo", "--scheduler", "no-such-program"}, io.Discard, io.Discard))
}

// startDemo runs the demo as a process; TMPDIR is a folder of its own.
func startDemo(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	return startMain(t, append([]string{"demo"}, args...)...)
}

// handedOver is the last line of a demo that is kept.
const handedOver = "Ctrl-C ends the cluster"

// readUntil returns the lines up to one that contains a part.
func readUntil(t *testing.T, from *bufio.Reader, part string) (lines []string) {
	for {
		line, err := from.ReadString('\n')
		t.Log(strings.TrimSuffix(line, "\n"))
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		require.NoError(t, err, "before a line with %q", part)
		if strings.Contains(line, part) {
			return lines
		}
		require.NotContains(t, line, handedOver, "before a line with %q", part)
	}
}

// leftOf lists the programs that were started from a folder in dir, and the files there.
func leftOf(t *testing.T, dir string) []string {
	left, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range commands {
		content, _ := os.ReadFile(file) // it may have gone by now
		if program, _, _ := strings.Cut(string(content), "\x00"); strings.HasPrefix(program, dir) {
			left = append(left, program)
		}
	}
	return left
}

// TestDemo runs the demo to its end, kills it in the middle and interrupts it.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	scheduler, err := filepath.Abs("../../bin/muster-scheduler")
	require.NoError(t, err)
	if _, err := os.Stat(scheduler); err != nil {
		t.Skip("needs bin/muster-scheduler: make build")
	}
	t.Setenv(mainEnv, "1")

	t.Run("to the end", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		cmd, stdout := startDemo(t, "--keep", "--scheduler", scheduler)
		lines := readUntil(t, stdout, handedOver)
		require.NotEmpty(t, leftOf(t, os.Getenv("TMPDIR")), "it is kept")
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		_, err := io.Copy(io.Discard, stdout)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), "exit code 0")
		require.Empty(t, leftOf(t, os.Getenv("TMPDIR")))

		require.False(t, slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  ✗") }))
		for _, line := range lines {
			if !strings.Contains(line, os.Getenv("TMPDIR")) { // a path as long as it is
				require.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		cmd, stdout := startDemo(t, "--scheduler", scheduler)
		readUntil(t, stdout, "$ kubectl get pod hp-training-pod-0")
		running := strings.Join(leftOf(t, os.Getenv("TMPDIR")), "\n")
		for _, program := range []string{"etcd", "kube-apiserver", "kwok", "muster-scheduler"} {
			require.Contains(t, running, "/bin/"+program)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.Eventually(t, func() bool { return len(leftOf(t, os.Getenv("TMPDIR"))) == 0 }, time.Minute, 20*time.Millisecond)
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		cmd, stdout := startDemo(t, "--keep", "--scheduler", scheduler)
		readUntil(t, stdout, "The victim takes")
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		_, err := io.Copy(io.Discard, stdout)
		require.NoError(t, err)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, exitInterrupted, exit.ExitCode())
		require.Empty(t, leftOf(t, os.Getenv("TMPDIR")))
	})
	t.Run("no scheduler", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		cmd, stdout := startDemo(t, "--scheduler", "false")
		_, err := io.Copy(io.Discard, stdout)
		require.NoError(t, err)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, exitFailed, exit.ExitCode())
		require.Empty(t, leftOf(t, os.Getenv("TMPDIR")))
	})
}
