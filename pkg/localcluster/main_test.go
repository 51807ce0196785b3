package localcluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain also is the parent that TestKilledParent kills: with holdEnv set this
// binary starts a cluster, prints its folder, and waits.
func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const holdEnv = "MUSTER_TEST_HOLD_CLUSTER"

// Generous, because machines that run tests are busy.
const (
	waitLong = time.Minute
	waitTick = 20 * time.Millisecond
)

func hold() error {
	c, err := Start(context.Background(), Options{Controllers: true})
	if err != nil {
		return err
	}
	if _, err := c.Launch(context.Background(), "sh", "-c", "sleep 3600 & wait"); err != nil {
		return err
	}
	fmt.Println(c.Dir())
	select {}
}

// startHolder starts this binary as such a parent.
func startHolder(t *testing.T) (parent *exec.Cmd, dir string) {
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), holdEnv+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return parent, strings.TrimSpace(line)
}

// mentions lists the command lines that name dir.
func mentions(t *testing.T, dir string) []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		content, _ := os.ReadFile(file) // it may have gone by now
		if line := strings.TrimRight(strings.ReplaceAll(string(content), "\x00", " "), " "); strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// requireNothingLeft waits until no process names dir and dir has gone.
func requireNothingLeft(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(mentions(t, dir)) == 0 && !exists(dir)
	}, waitLong, waitTick, "left of %s: %v", dir, mentions(t, dir))
}
