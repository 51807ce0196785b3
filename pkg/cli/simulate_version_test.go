package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// versioned is a file with a node whose kubelet is of a version, and a pod.
func versioned(t *testing.T, kubelet string) string {
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}, nodeInfo: {kubeletVersion: "`+kubelet+`"}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-1}
spec: {schedulerName: muster-scheduler, containers: [{name: main, image: none}]}
`), 0o644))
	return file
}

// TestSimulateVersion: the cluster's version is that of its newest kubelet, if it is one that a
// scheduler can emulate, and what the user names wins.
func TestSimulateVersion(t *testing.T) {
	for _, c := range []struct{ kubelet, named, says string }{
		{"v1.34.4", "", ""},
		{"v1.35.1-eks-3abbec1", "", ""},
		{"v1.37.0", "", ""},
		{"kwok-v0.8.0", "", ""},
		{"", "", ""},
		{"v1.31.2", "", "Note: the newest kubelet is of Kubernetes 1.31; simulated is 1.34\n"},
		{"v1.38.0", "", "Note: the newest kubelet is of Kubernetes 1.38; simulated is 1.37\n"},
		{"v1.31.2", "1.36", ""},
		{"v1.31.2", "v1.36.3", ""},
	} {
		file := versioned(t, c.kubelet)
		args := []string{"-f", file}
		if c.named != "" {
			args = append(args, "--kubernetes-version", c.named)
		}
		t.Run(c.kubelet+" "+c.named, func(t *testing.T) {
			code, stdout, stderr := simulate(t, args...)
			require.Zero(t, code, stderr)
			require.Equal(t, c.says, stderr)
			require.Contains(t, stdout, "default/pod-1")
		})
	}
	for _, bad := range []string{"1.33", "1.38", "new", "1"} {
		file := versioned(t, "")
		t.Run(bad, func(t *testing.T) {
			code, _, stderr := simulate(t, "-f", file, "--kubernetes-version", bad)
			require.Equal(t, 2, code)
			require.Contains(t, stderr, "--kubernetes-version "+bad+": supported values: 1.34 to 1.37")
		})
	}
}
