package command

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadFlags: the scheduler does not start, and names the flag and its value. What
// may be wrong in a configuration is in test/e2e: a process can read only one.
func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{
			[]string{"--enable-network-topology-manager=maybe"},
			`invalid argument "maybe" for "--enable-network-topology-manager" flag: strconv.ParseBool: parsing "maybe": invalid syntax`,
		},
		{[]string{"--enable-network-topology-managers"}, `unknown flag: --enable-network-topology-managers`},
		{
			[]string{"--leader-elect=sometimes"},
			`invalid argument "sometimes" for "--leader-elect" flag: strconv.ParseBool: parsing "sometimes": invalid syntax`,
		},
		{
			[]string{"--leader-elect-lease-duration=15"},
			`invalid argument "15" for "--leader-elect-lease-duration" flag: time: missing unit in duration "15"`,
		},
		{[]string{"--secure-port=70000"}, `--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0`},
		{[]string{"serve"}, `"muster-scheduler" does not take any arguments, got ["serve"]`},
		// The last one: gates are kept for the whole process.
		{[]string{"--feature-gates=NoSuchGate=true"}, `unrecognized feature gate: NoSuchGate`},
	} {
		cmd := New(Options{})
		cmd.SetArgs(c.args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		require.EqualError(t, cmd.ExecuteContext(t.Context()), c.want, c.args)
	}
}

// TestTwoConfigurations: kube-scheduler reads only the first document of a configuration. A second document
// is an error before any request is sent.
func TestTwoConfigurations(t *testing.T) {
	const one = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(one+"---\n"+one+"parallelism: 3\n"), 0o600))
	cmd := New(Options{})
	cmd.SetArgs([]string{"--config=" + file})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	require.EqualError(t, cmd.ExecuteContext(t.Context()),
		"--config="+file+": second document at line 4, kind KubeSchedulerConfiguration; supported values: one document, a "+
			"KubeSchedulerConfiguration")
}
