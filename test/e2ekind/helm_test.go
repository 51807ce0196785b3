package e2ekind

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// helm installs both charts where nothing of Muster is, changes a value, goes back, and removes them.
// The release and the namespace are the docs' (docs/admins/install.md).
func helm(w *world) {
	w.remove()
	w.kubectl(append([]string{"delete", "crd", "--ignore-not-found", "--wait", "--timeout=60s"}, crds...)...)
	w.Run("releases", func(t *testing.T) { releases(w.within(t)) }) // gangs and their Services go with it
	w.isBare()
}

func releases(w *world) {
	const native, custom = `"--config=/etc/muster/native.yaml"`, `"--config=/etc/muster/custom.yaml"`
	args := func() string {
		return w.kubectl("get", "deployment", "-n", system, "muster-scheduler", "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	}

	began := time.Now()
	w.helm("install", "muster-crds", chart("muster-crds"))
	w.helm("install", "muster", chart("muster"), "--namespace="+system, "--create-namespace", "--set=image.repository=muster-scheduler,image.tag=dev", "--wait",
		"--timeout=120s")
	w.kubectl("label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
	w.say("helm install: two replicas ready after %.1f s", time.Since(began).Seconds())
	require.Contains(w, args(), native)
	w.twoReplicas()
	w.say("%s", indent(strings.TrimSpace(w.helm("test", "muster", "--namespace="+system, "--timeout=120s"))))

	// New pods, which the namespace takes only if they are restricted, with a scheduler name that no profile served until
	// now.
	w.versionIs("helm upgrade", "helm-up", func() {
		w.helm("upgrade", "muster-crds", chart("muster-crds"))
		w.helm("upgrade", "muster", chart("muster"), "--namespace="+system, "--reuse-values", "--wait", "--timeout=120s",
			"--set=schedulerNames={muster-scheduler,koord-scheduler}", "--set=coschedulingArgs.maxGrace=1m")
	})
	require.Contains(w, args(), custom)
	w.twoReplicas()
	g := gang{name: "helm-koord", members: 2, cpu: "50m"}
	w.apply(strings.ReplaceAll(g.objects(), "schedulerName: muster-scheduler", "schedulerName: koord-scheduler"))
	w.said(g, "started", 60*time.Second)

	w.versionIs("helm rollback", "helm-back", func() {
		w.helm("rollback", "muster", "1", "--namespace="+system, "--wait", "--timeout=120s")
	})
	require.Contains(w, args(), native)
	w.twoReplicas()

	w.helm("uninstall", "muster", "--namespace="+system, "--wait", "--timeout=120s")
	w.kubectl("delete", "namespace", system, "--wait", "--timeout=120s")
	require.Contains(w, w.helm("uninstall", "muster-crds"), "kept due to the resource policy")
	require.Equal(w, "Running Running", w.kubectl("get", "pods", "-l", "gang=helm-koord", "-o", "jsonpath={.items[*].status.phase}"),
		"what runs goes on")
}

func chart(name string) string { return filepath.Join(root, "deploy/helm", name) }

// twoReplicas: no more and no fewer are ready, on two nodes.
func (w *world) twoReplicas() {
	w.Helper()
	w.kubectl("rollout", "status", "-n", system, "deployment/muster-scheduler", "--timeout=120s")
	w.expect(60*time.Second, `^2$`, "get", "deployment", "-n", system, "muster-scheduler", "-o", "jsonpath={.status.readyReplicas}")
	// Pods of the rollout before may still terminate.
	w.eventually(60*time.Second, "two pods on two nodes", func() error {
		nodes := strings.Fields(w.kubectl("get", "pods", "-n", system, "-l", "app.kubernetes.io/name=muster-scheduler", "-o",
			"jsonpath={.items[*].spec.nodeName}"))
		if len(nodes) != 2 || nodes[0] == nodes[1] {
			return fmt.Errorf("they are on %q", nodes)
		}
		return nil
	})
}

// helm runs the version of Helm that is pinned in tools/deploy, away from what its user has configured,
// and returns what it prints.
func (w *world) helm(args ...string) string {
	w.Helper()
	program, err := exec.CommandContext(w.Context(), "go", "tool", "-n", "-modfile="+filepath.Join(root, "tools/deploy/go.mod"),
		"helm").Output()
	require.NoError(w, err)
	home := filepath.Join(w.lab.Folder(), "helm")
	cmd := exec.CommandContext(w.Context(), strings.TrimSpace(string(program)), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+w.lab.Kubeconfig())
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	require.NoError(w, cmd.Run(), "helm %s\n%s", strings.Join(args, " "), &printed)
	return printed.String()
}
