package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

// oddNames is a world in which the names of gangs, which annotations may give them, forge lines and steer terminals.
const oddNames = `
{apiVersion: v1, kind: Node, metadata: {name: m}, status: {capacity: {cpu: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, annotations: {gang.scheduling.koordinator.sh/name: "w\nforged: line\u0085forged: too\u2028forged: as well\u001b[31m\u202Eend", gang.scheduling.koordinator.sh/min-available: "1"}}
spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 4}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, annotations: {gang.scheduling.koordinator.sh/name: "r\nforged: line\u0085forged: too", gang.scheduling.koordinator.sh/min-available: "1"}}
spec: {nodeName: m, schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
status: {phase: Running}
`

// TestNamesForgeNothing: whatever objects are called, a name stays on its line, and what steers a terminal is not printed: in
// tables, and in the comments with which a dump begins, which must not end early.
func TestNamesForgeNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file, []byte(oddNames), 0o600))
	for _, args := range [][]string{
		{"queue"},
		{"queue", "-o", "wide"},
		{"explain", "pod", "waits"},
		{"explain", "pod", "runs"},
		{"topology"},
		{"topology", "--for", "pod/waits"},
		{"simulate"},
		{"drain-plan", "m", "-o", "wide"},
		{"dump"},
	} {
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), append(args, "-f", file), &out, &errs)
		require.True(t, code == 0 || args[0] == "drain-plan" && code == 1, errs.String()) // "does not fit"
		text := out.String()
		if args[0] == "dump" { // what follows is data, in which these are escaped
			text, _, _ = strings.Cut(text, "\n---\n")
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			require.False(t, strings.HasPrefix(strings.TrimLeft(line, " #"), "forged"), "%s: %q", args, line)
			for _, r := range line {
				require.False(t, unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control), "%s: %q", args, line)
			}
		}
	}
}

// TestDumpLeavesOutCopies: some tools keep a copy of a whole object in an annotation, with what is left out elsewhere.
func TestDumpLeavesOutCopies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    objectset.rio.cattle.io/applied: geheim
    banzaicloud.com/last-applied: geheim
    kopf.zalando.org/last-handled-configuration: geheim
    mine/applied-by: kept
spec:
  schedulerName: muster-scheduler
  containers: [{name: c, image: i}]
  volumes: [{name: g, gitRepo: {repository: "https://user:geheim@git.example/x"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: r}
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}
status: {devices: [{driver: d.example, pool: p, device: x, data: {token: geheim}}]}
`), 0o600))
	text := say(t, "dump", "-f", file)
	require.NotContains(t, text, "geheim")
	require.Contains(t, text, "mine/applied-by: kept")
	require.Contains(t, text, "driver: d.example")
}

// TestDumpIsPrivate: other users may not read the file, even if a readable file of that name existed.
func TestDumpIsPrivate(t *testing.T) {
	file, dump := filepath.Join(t.TempDir(), "world.yaml"), filepath.Join(t.TempDir(), "dump.yaml")
	require.NoError(t, os.WriteFile(file, []byte(oddNames), 0o600))
	require.NoError(t, os.WriteFile(dump, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(dump, 0o644))
	say(t, "dump", "-f", file, "-o", dump)
	info, err := os.Stat(dump)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
