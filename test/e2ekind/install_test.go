package e2ekind

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/test/e2ekind/lab"
)

// install is what the README says: the image by make, objects by kubectl apply. Two real pods become
// Ready in a namespace that enforces the restricted standard.
func install(w *world) {
	w.loadImage(root, "dev")
	w.loadMember()
	began := time.Now()
	w.kubectl("apply", "--server-side", "-k", filepath.Join(root, "deploy/crds"))
	w.kubectl("apply", "--server-side", "-k", w.overlay(root, "dev"))
	w.kubectl("rollout", "status", "-n", system, "deployment/muster-scheduler", "--timeout=120s")
	w.say("deploy/base: two replicas ready after %.1f s", time.Since(began).Seconds())
	require.Equal(w, "restricted",
		w.kubectl("get", "namespace", system, "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`))
	require.Equal(w, "2", w.kubectl("get", "deployment", "-n", system, "muster-scheduler", "-o", "jsonpath={.status.readyReplicas}"))
	nodes := strings.Fields(w.kubectl("get", "pods", "-n", system, "-o", "jsonpath={.items[*].spec.nodeName}"))
	require.Len(w, nodes, 2)
	require.NotEqual(w, nodes[0], nodes[1], "the replicas are to be spread")
	w.notPrivileged()
}

const system = "muster-system"

// notPrivileged looks at what runs from outside: no capabilities, not root, nothing to write to.
func (w *world) notPrivileged() {
	pod := strings.Fields(w.kubectl("get", "pods", "-n", system, "-o", "jsonpath={.items[*].metadata.name}"))[0]
	node := w.kubectl("get", "pod", "-n", system, pod, "-o", "jsonpath={.spec.nodeName}")
	status, err := w.lab.Docker(w.Context(), "exec", node, "sh", "-c",
		`grep -E '^(Uid|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/$(pgrep -x muster-schedule)/status`)
	require.NoError(w, err)
	require.Regexp(w, `Uid:\s65532\s65532\s65532\s65532`, status)
	require.Regexp(w, `CapPrm:\s0000000000000000\nCapBnd:\s0000000000000000\nNoNewPrivs:\s1\nSeccomp:\s2`, status)
	w.say("the process: %s", strings.Join(strings.Fields(status), " "))
}

// loadImage builds the image of the project in a folder as a user does. It loads the image into the nodes under the name
// that kubelets look for.
func (w *world) loadImage(project, tag string) {
	out, err := exec.CommandContext(w.Context(), "make", "-C", project, "--no-print-directory", "image",
		"IMAGE=docker.io/library/muster-scheduler:"+tag, "VERSION="+tag, "ARCHES="+runtime.GOARCH).CombinedOutput()
	require.NoError(w, err, "%s", out)
	archive := filepath.Join(project, "bin/image/muster-scheduler-"+tag+"-image-linux-"+runtime.GOARCH+".tar")
	require.NoError(w, w.lab.Load(w.Context(), archive, "", ""))
}

// overlay returns a folder to apply: deploy/base of a project, with the image of that tag.
func (w *world) overlay(project, tag string) string {
	w.Helper()
	folder := filepath.Join(w.lab.Folder(), "overlay-"+tag)
	require.NoError(w, os.MkdirAll(folder, 0o755))
	base, err := filepath.Abs(filepath.Join(project, "deploy/base"))
	require.NoError(w, err)
	base, err = filepath.Rel(folder, base)
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(folder, "kustomization.yaml"),
		fmt.Appendf(nil, "resources: [%s]\nimages: [{name: muster-scheduler, newTag: %s}]\n", base, tag), 0o644))
	return folder
}

// loadMember loads the program of the gangs of these steps into the nodes.
func (w *world) loadMember() {
	archive := filepath.Join(w.lab.Folder(), "member.tar")
	image := lab.Image{Name: memberImage, Entry: "/member", User: "65532:65532", Files: map[string]string{"/member": w.lab.Built(lab.Member)}}
	require.NoError(w, image.Save(archive))
	require.NoError(w, w.lab.Load(w.Context(), archive, "", ""))
}

// uninstall restores the state before the installation, and keeps the CRDs, since users' objects depend on them.
func uninstall(w *world) {
	w.remove()
	w.isBare()
}

// remove removes what deploy/base has installed.
func (w *world) remove() {
	w.Helper()
	w.kubectl("delete", "-k", filepath.Join(root, "deploy/base"), "--ignore-not-found", "--wait", "--timeout=120s")
}

// crds lists the CRDs of an installation, by name.
var crds = []string{
	"clusternetworktopologies.scheduling.koordinator.sh", "podgroups.scheduling.sigs.k8s.io", "podgroups.scheduling.x-k8s.io",
}

// isBare waits until there is what was there before Muster, and the CRDs.
func (w *world) isBare() {
	w.Helper()
	w.eventually(60*time.Second, "what was there before", func() error {
		is := w.inventory()
		more := slices.DeleteFunc(slices.Clone(is), func(name string) bool { return slices.Contains(w.bare, name) })
		less := slices.DeleteFunc(slices.Clone(w.bare), func(name string) bool { return slices.Contains(is, name) })
		if len(more)+len(less) > 0 {
			return fmt.Errorf("there is more: %q, and less: %q", more, less)
		}
		return nil
	})
	require.Equal(w, crds, strings.Fields(w.kubectl("get", "crd", "-o", "jsonpath={.items[*].metadata.name}")))
	w.say("%d objects, as before the installation, and the CRDs: %s", len(w.bare), strings.Join(crds, " "))
}

// inventory names all objects of the kinds of an installation. Node leases come and go.
func (w *world) inventory() (names []string) {
	w.Helper()
	kinds := "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,configmaps,secrets,services,deployments,poddisruptionbudgets," +
		"networkpolicies,priorityclasses,leases,validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
	for line := range strings.Lines(w.kubectl("get", kinds, "-A", "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "Lease kube-") && !strings.HasPrefix(line,
			"Secret kube-system/bootstrap-token-") {
			names = append(names, line)
		}
	}
	slices.Sort(names)
	return names
}
