package e2ekind

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// guide is the section of docs/getting-started/kind.md that leads from a clone to a gang.
const guide = "From a clone to a gang, on kind"

// section is the text between a heading of second rank and the next.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	require.True(t, found, "%s has no section %q", file, heading)
	is, _, _ := strings.Cut(below, "\n## ")
	return is
}

// fenced parts what is printed between fences from what is not.
func fenced(text string) (blocks []string, prose string) {
	for i, part := range strings.Split("\n"+text, "\n```") {
		if i%2 == 1 {
			blocks = append(blocks, strings.TrimPrefix(part, "\n"))
		} else {
			prose += part
		}
	}
	return blocks, prose
}

// TestGuideIsShort: reading it and typing all of it takes less than ten minutes.
func TestGuideIsShort(t *testing.T) {
	const words, keys = 200, 200 // a minute
	blocks, prose := fenced(section(t, "docs/getting-started/kind.md", guide))
	require.GreaterOrEqual(t, len(blocks), 4)
	read := float64(len(strings.Fields(prose))) / words
	typed := float64(len(strings.Join(blocks, "\n"))) / keys
	t.Logf("%.1f minutes of reading, %.1f of typing", read, typed)
	require.Less(t, read+typed, 10.0)
}

func TestFenced(t *testing.T) {
	blocks, prose := fenced("a\n```\nb\n\nc\n```\nd\n```\ne\n```\n")
	require.Equal(t, []string{"b\n\nc", "e"}, blocks)
	require.Equal(t, []string{"a", "d"}, strings.Fields(prose))
}

// newOperator types what docs/getting-started/kind.md prints, as it is printed, and sees a gang run. Three things differ
// from what a reader has: the address of the project is this folder; "kind create cluster" finds the
// cluster of these steps made, with the nodes that it names or more; and kind's other commands mean that.
func newOperator(w *world) {
	w.remove()
	w.kubectl(append([]string{"delete", "crd", "--ignore-not-found", "--wait", "--timeout=60s"}, crds...)...)
	for _, node := range append(w.lab.Workers(), w.lab.ControlPlane()) {
		_, err := w.lab.Docker(w.Context(), "exec", node, "ctr", "--namespace=k8s.io", "images", "rm", "docker.io/library/muster-scheduler:dev")
		require.NoError(w, err)
	}
	home := filepath.Join(w.lab.Folder(), "operator")
	programs := filepath.Join(home, "programs")
	require.NoError(w, os.MkdirAll(programs, 0o755))
	require.NoError(w, os.Symlink(w.lab.Tool(localcluster.Kubectl), filepath.Join(programs, "kubectl")))
	kind := fmt.Sprintf("#!/bin/bash\n[ \"$1 $2\" = 'create cluster' ] && exec cat\nexec %q \"$@\"\n", w.lab.Tool(localcluster.Kind))
	require.NoError(w, os.WriteFile(filepath.Join(programs, "kind"), []byte(kind), 0o755))
	project, err := filepath.Abs(root)
	require.NoError(w, err)

	w.Cleanup(func() {
		w.kubectlLater("delete", "job/train", "podgroup.scheduling.sigs.k8s.io/train", "clusternetworktopology/default",
			"--ignore-not-found", "--wait", "--timeout=60s")
		w.kubectlLater("label", "nodes", "--all", "network.topology.nvidia.com/spine-")
		w.kubectlLater("delete", "-k", filepath.Join(root, "deploy/base"), "--ignore-not-found", "--wait", "--timeout=120s")
	})
	blocks, _ := fenced(section(w.T, "docs/getting-started/kind.md", guide))
	script := "set -eo pipefail\n"
	for i, block := range blocks {
		script += fmt.Sprintf("%s\necho \"# block %d: $SECONDS s since the first\" >&2\n", block, i+1)
	}
	cmd := exec.CommandContext(w.Context(), "bash", "-c", script)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+w.lab.Path(), "KUBECONFIG="+w.lab.Kubeconfig(), "KIND_CLUSTER_NAME="+w.lab.Name(),
		"MAKEFLAGS=", "MAKELEVEL=", // "make e2e-kind" runs this: its own make must not print the folder into the manifests
		"GIT_PROGRESS_DELAY=10000", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+project+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/muster-scheduler/muster")
	began := time.Now()
	printed, err := cmd.CombinedOutput()
	require.NoError(w, err, "%s", printed)
	w.say("from a clone to a gang after %.0f s:\n%s", time.Since(began).Seconds(), indent(strings.TrimSpace(string(printed))))

	pods := strings.Fields(w.kubectl("get", "pods", "-l", "pod-group.scheduling.sigs.k8s.io=train", "-o",
		`jsonpath={range .items[*]}{.spec.schedulerName}/{.status.phase} {end}`))
	require.Equal(w, []string{
		"muster-scheduler/Running", "muster-scheduler/Running", "muster-scheduler/Running", "muster-scheduler/Running",
	}, pods)
}
