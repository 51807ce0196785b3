package translate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/translate"
)

// TestRefused: what cannot work is said before a cluster is asked, all of it.
func TestRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "backends.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("backends: [{name: koordinator, gangMode: strict}]\n"), 0o600))
	two := filepath.Join(t.TempDir(), "two.yaml")
	require.NoError(t, os.WriteFile(two, []byte("default: muster\n---\nnodeTier: 1\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"nothing to do":  {nil, []string{"there is nothing to do", "leaderworkerset, podcliqueset, podgang"}},
		"no such source": {[]string{"--enable-source=podgang,pods"}, []string{`--enable-source: there is no source "pods"`}},
		"a lonely gate":  {[]string{"--enable-source=podgang", "--gate-pods"}, []string{"--gate-pods needs --webhook-port"}},
		"several": {
			[]string{"--workers=0", "--discovery-interval=0s"}, []string{"nothing to do", "--workers=0", "--discovery-interval=0s"},
		},
		"no such port": {
			[]string{"--enable-source=podgang", "--webhook-port=-1"},
			[]string{"--webhook-port=-1 is invalid; supported values: 1 to 65535, or 0 for none"},
		},
		"a high port":  {[]string{"--enable-source=podgang", "--webhook-port=65536"}, []string{"--webhook-port=65536 is invalid"}},
		"bad backends": {[]string{"--enable-source=podgang", "--backend-config=" + bad}, []string{"--backend-config=" + bad, "gangMode"}},
		"two documents": {
			[]string{"--enable-source=podgang", "--backend-config=" + two},
			[]string{
				"--backend-config=" + two,
				"backend configuration: second document at line 3, without a kind; supported values: one document, the configuration of the backends",
			},
		},
		"no backends":     {[]string{"--enable-source=podgang", "--backend-config=nowhere"}, []string{"--backend-config", "nowhere"}},
		"an argument":     {[]string{"podgang"}, []string{"unknown command"}},
		"an unknown flag": {[]string{"--sources=podgang"}, []string{"unknown flag: --sources"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := translate.Command()
			cmd.SetArgs(c.args)
			err := cmd.ExecuteContext(t.Context())
			require.Error(t, err)
			for _, says := range c.says {
				require.ErrorContains(t, err, says)
			}
		})
	}
}

// TestHelp: it says what the program is for, and its version is Muster's.
func TestHelp(t *testing.T) {
	for arg, says := range map[string]string{"--help": "docs/admins/controller.md", "--version": "Kubernetes"} {
		cmd, out := translate.Command(), &bytes.Buffer{}
		cmd.SetArgs([]string{arg})
		cmd.SetOut(out)
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		require.Contains(t, out.String(), says)
	}
}
