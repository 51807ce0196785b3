package e2ekind

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
)

// upgrade: back to the commit before, and forward again. Each time a gang that runs goes on as if nothing
// had happened, and one that comes afterwards starts.
func upgrade(w *world) {
	before := w.commitBefore()
	w.versionIs("the commit before", "back", func() { w.kubectl("apply", "--server-side", "--force-conflicts", "-k", before) })
	w.versionIs("this one", "forward", func() {
		w.kubectl("apply", "--server-side", "--force-conflicts", "-k", w.overlay(root, "dev"))
	})
}

func (w *world) versionIs(what, name string, change func()) {
	running := gang{name: name + "-runs", members: 3, cpu: "50m"}
	w.apply(running.objects())
	w.said(running, "started", 60*time.Second)
	pods := func() string {
		return w.kubectl("get", "pods", "-l", "gang="+running.name, "-o",
			`jsonpath={range .items[*]}{.metadata.uid} {.status.phase} {.status.containerStatuses[0].restartCount} {end}`)
	}
	was := pods()
	began := time.Now()
	change()
	w.kubectl("rollout", "status", "-n", system, "deployment/muster-scheduler", "--timeout=120s")
	took := time.Since(began)
	after := gang{name: name + "-comes", members: 3, cpu: "50m"}
	w.apply(after.objects())
	started := w.said(after, "started", 60*time.Second)
	require.Equal(w, was, pods())
	w.say("%s after %.1f s: the gang that ran runs, the next one works after %.1f s, its starts within %s",
		what, took.Seconds(), time.Since(began).Seconds(), spread(started).Round(time.Microsecond))
}

// commitBefore builds it, gives its image to the nodes, and returns a folder to apply.
func (w *world) commitBefore() string {
	folder := filepath.Join(w.lab.Folder(), "before")
	sh := func(script string) {
		out, err := exec.CommandContext(w.Context(), "bash", "-c", "set -eo pipefail; "+script).CombinedOutput()
		require.NoError(w, err, "%s", out)
	}
	if exec.CommandContext(w.Context(), "git", "-C", root, "rev-parse", "--verify", "--quiet", "HEAD~1").Run() != nil {
		w.Skip("the commit before is not there")
	}
	sh(fmt.Sprintf("mkdir %[2]s && git -C %[1]s archive HEAD~1 | tar -x -C %[2]s", root, folder))
	w.loadImage(folder, "before")
	return w.overlay(folder, "before")
}
