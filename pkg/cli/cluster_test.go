package cli

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mainEnv makes this test binary behave as musterctl.
const mainEnv = "MUSTER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// stuck is the time after which a test kills a process. Builds may come first on a new machine, so it is no measure
// of speed.
const stuck = 10 * time.Minute

// startMain runs musterctl as a process. If it gets stuck, it says where its goroutines
// are and ends.
func startMain(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewReader(stdout)
}

func TestClusterUpRefuses(t *testing.T) {
	pods := filepath.Join(t.TempDir(), "pods.yaml")
	require.NoError(t, os.WriteFile(pods, []byte("apiVersion: v1\nkind: Pod\n"), 0o644))
	for args, want := range map[string]string{
		"--kubernetes-version 1.33": `invalid argument "1.33" for "--kubernetes-version" flag: there is no Kubernetes "1.33" to run; ` +
			`supported values: 1.34.4, 1.35.4, 1.36.3, 1.37.0, or a minor version such as 1.37`,
		"--spines 0":             `invalid argument "0" for "--spines" flag: must be a whole number of at least 1`,
		"--nodes-per-block many": `invalid argument "many" for "--nodes-per-block" flag: must be a whole number of at least 1`,
		"--leave-delay -1s": `invalid argument "-1s" for "--leave-delay" flag: ` +
			`must be a duration of at least 0s, such as 5s or 1m30s`,
		"--nodes n.yaml --spines 3":     `--nodes n.yaml and --spines 3: give either a file or the numbers`,
		"--nodes no-such.yaml":          `--nodes: open no-such.yaml: no such file or directory`,
		"--nodes " + pods:               `--nodes ` + pods + `: object 1 is v1 Pod, want v1 Node`,
		"--api-feature-gates A=true,B":  `--api-feature-gates A=true,B: "B" is not Name=true or Name=false`,
		"--api-feature-gates =true":     `--api-feature-gates =true: "=true" is not Name=true or Name=false`,
		"--api-feature-gates A=perhaps": `--api-feature-gates A=perhaps: "A=perhaps" is not Name=true or Name=false`,
		"--controller-manager=perhaps": `invalid argument "perhaps" for "--controller-manager" flag: strconv.ParseBool: parsing "perhaps": ` +
			`invalid syntax`,
		"--nodez 3": `unknown flag: --nodez`,
		"more":      `unknown command "more" for "musterctl cluster up"`,
	} {
		var stdout, stderr strings.Builder
		code := Main(t.Context(), append([]string{"cluster", "up"}, strings.Fields(args)...), &stdout, &stderr)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, stdout.String(), args)
		require.Contains(t, stderr.String(), "Error: "+want, args)
	}
}

func TestExitCodes(t *testing.T) {
	var stderr strings.Builder
	require.Equal(t, exitUsage, Main(t.Context(), []string{"no-such-command"}, io.Discard, &stderr))
	require.Equal(t, "Error: unknown command \"no-such-command\" for \"musterctl\"\n", stderr.String())
	require.Equal(t, exitUsage, Main(t.Context(), []string{"cluster", "down"}, io.Discard, &stderr))
	require.ErrorIs(t, &ExitError{3, fs.ErrExist}, fs.ErrExist)
	require.Equal(t, 0, Main(t.Context(), nil, io.Discard, &stderr))
}

// TestClusterUp interrupts a cluster while it starts and when it runs.
func TestClusterUp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	t.Setenv(mainEnv, "1")
	t.Setenv("TMPDIR", t.TempDir())
	up := func(args ...string) (*exec.Cmd, *bufio.Reader) {
		return startMain(t, append([]string{"cluster", "up"}, args...)...)
	}
	interrupt := func(cmd *exec.Cmd, stdout io.Reader) {
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		rest, err := io.ReadAll(stdout)
		require.NoError(t, err)
		require.Empty(t, string(rest))
		require.NoError(t, cmd.Wait(), "exit code 0")
		left, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, left)
	}

	nodes := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, os.WriteFile(nodes, []byte(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "only"}}`), 0o644))
	cmd, stdout := up("--nodes", nodes, "--leave-delay", "0s")
	kubeconfig, err := stdout.ReadString('\n')
	require.NoError(t, err)
	require.FileExists(t, strings.TrimSpace(kubeconfig))
	const log = "logs/kube-controller-manager.log"
	require.FileExists(t, filepath.Join(filepath.Dir(kubeconfig), log), "by default")
	interrupt(cmd, stdout)

	cmd, stdout = up("--nodes", nodes, "--controller-manager=false")
	kubeconfig, err = stdout.ReadString('\n')
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(filepath.Dir(kubeconfig), log))
	interrupt(cmd, stdout)

	cmd, stdout = up()
	require.Eventually(t, func() bool {
		match, err := filepath.Glob(os.Getenv("TMPDIR") + "/muster-*/logs/etcd.log")
		return err == nil && len(match) > 0
	}, stuck, time.Millisecond)
	interrupt(cmd, stdout)
}
