package e2ekind

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/localcluster"
	"github.com/muster-scheduler/muster/test/e2ekind/lab"
)

// repair: machines under a running gang with MustGather are gone (cases R4 and R10). Capacity in its domain is held while the lost
// members are Terminating, since no kubelet confirms their end. A pod of the same priority does not get it, the replacements do.
func repair(w *world) {
	w.oneSpine()
	_, others := w.stays()
	w.Run("one node", func(t *testing.T) { // the other one is free
		w := w.within(t)
		w.losesNodes(gang{name: "repair", members: 2, cpu: w.ofAWorker(60), spec: impatient}, w.ofAWorker(60), others[:1], others[1:])
	})
	w.Run("two nodes", func(t *testing.T) { // the third one takes the whole gang, and little more
		w := w.within(t)
		w.losesNodes(gang{name: "repair-two", members: 3, cpu: w.ofAWorker(25), spec: impatient}, w.ofAWorker(40), others, w.lab.Workers())
	})
}

// recreated: the node under a member of a LeaderWorkerSet's group is gone, and the controller recreates the whole group (case R18). The
// capacity that the group needs is held meanwhile: a pod of the same priority does not get it.
func recreated(w *world) {
	w.oneSpine()
	w.leaderWorkerSets()
	stays, _ := w.stays()
	cpu := w.ofAWorker(60)
	objects := fmt.Sprintf(leaderWorkerSet, cpu, memberImage, impatient)
	w.deleteLater(objects)
	w.eventually(60*time.Second, "the webhook of LeaderWorkerSet", func() error {
		_, err := w.lab.KubectlWith(w.Context(), objects, "apply", "--server-side", "-f", "-")
		return err
	})
	const label = "leaderworkerset.sigs.k8s.io/name=serve"
	// group returns the group's pods and the nodes on which they run. The leader stands first.
	group := func() (uids, nodes []string) {
		w.eventually(120*time.Second, "the group runs", func() error {
			uids, nodes = nil, nil
			printed, err := w.lab.Kubectl(w.Context(), "get", "pods", "-l", label, "-o",
				`jsonpath={range .items[*]}{.status.phase}{.metadata.deletionTimestamp} {.metadata.uid} {.spec.nodeName}{"\n"}{end}`)
			if err != nil {
				return err
			}
			for line := range strings.Lines(printed) {
				if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Running" {
					uids, nodes = append(uids, fields[1]), append(nodes, fields[2])
				}
			}
			if len(nodes) != 2 {
				return fmt.Errorf("pods are %q", printed)
			}
			return nil
		})
		return uids, nodes
	}
	before, nodes := group()
	pod, lost := "serve-0-1", nodes[1]
	if lost == stays {
		pod, lost = "serve-0", nodes[0]
	}
	w.stop(lost)
	terminating := func(pod string) {
		w.expect(180*time.Second, ".", "get", "pod", pod, "-o", "jsonpath={.metadata.deletionTimestamp}")
	}
	terminating(pod)
	terminating("serve-0")

	rival := gang{name: "recreated-rival", members: 1, cpu: cpu}
	w.refuses(rival, "serve")
	w.isOff(lost)
	again := time.Now()
	w.kubectl("wait", "pod", pod, "--for=delete", "--timeout=90s")
	after, now := group()
	for i, uid := range after {
		require.NotContains(w, before, uid, "the controller recreates all pods of the group")
		require.NotEqual(w, lost, now[i])
	}
	w.say("%s was stopped under %s: the group, recreated, runs %.1f s after the taint", lost, pod, time.Since(again).Seconds())
	require.Empty(w, w.kubectl("get", "pod", rival.pods()[0], "-o", "jsonpath={.spec.nodeName}"))
}

// leaderWorkerSets installs the controller as its project releases it, on the node of the control plane.
func (w *world) leaderWorkerSets() {
	programs, err := localcluster.StaticBinaries(w.Context(), os.Stdout, localcluster.LeaderWorkerSet)
	require.NoError(w, err)
	program := programs[localcluster.LeaderWorkerSet]
	folder := filepath.Join(w.lab.Folder(), "lws")
	require.NoError(w, os.MkdirAll(folder, 0o755))
	base, err := filepath.Rel(folder, filepath.Join(localcluster.Kept(program), "config/default"))
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, lwsOverlay, base), 0o644))

	name := w.kubectl("kustomize", folder)
	name = regexp.MustCompile(`(?m)image: (\S+)$`).FindStringSubmatch(name)[1]
	image := lab.Image{Name: name, Entry: "/manager", User: "65532:65532", Files: map[string]string{"/manager": program}}
	archive := filepath.Join(folder, "image.tar")
	require.NoError(w, image.Save(archive))
	require.NoError(w, w.lab.Load(w.Context(), archive, "", ""))
	w.Cleanup(func() { w.kubectlLater("delete", "-k", folder, "--ignore-not-found", "--wait", "--timeout=120s") })
	w.kubectl("apply", "--server-side", "-k", folder)
	w.kubectl("rollout", "status", "-n", "lws-system", "deployment/lws-controller-manager", "--timeout=120s")
}

const lwsOverlay = `resources: [%s]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/replicas, value: 1}
    - {op: replace, path: /spec/template/spec/containers/0/resources, value: {requests: {cpu: 50m}}}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {node-role.kubernetes.io/control-plane: ""}}
    - {op: add, path: /spec/template/spec/tolerations, value: [{operator: Exists}]}
`

const leaderWorkerSet = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: serve
  namespace: default
  annotations: {` + gatherInSpine + `}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      spec:
        schedulerName: muster-scheduler
        %[3]s
        containers:
        - {name: main, image: %[2]s, imagePullPolicy: Never, resources: {requests: {cpu: %[1]s, memory: 16Mi}}}
`

// oneSpine makes all workers one spine, each with a block of its own.
func (w *world) oneSpine() {
	w.apply(w.fixture("clusternetworktopology.yaml"))
	for _, node := range w.lab.Workers() {
		w.kubectl("label", "node", node, spine+"=kind", block+"="+node)
		w.Cleanup(func() { w.kubectlLater("label", "node", node, spine+"-", block+"-") })
	}
}

// stays returns the node of the leader, which must not stop, and the two others.
func (w *world) stays() (node string, others []string) {
	node = w.kubectl("get", "pod", "-n", system, w.leader(), "-o", "jsonpath={.spec.nodeName}")
	others = slices.DeleteFunc(w.lab.Workers(), func(other string) bool { return other == node })
	require.Len(w, others, 2)
	return node, others
}

// stop stops the machines of nodes, and starts them when the step ends.
func (w *world) stop(nodes ...string) {
	for _, node := range nodes {
		_, err := w.lab.Docker(w.Context(), "stop", "--time=0", node)
		require.NoError(w, err)
	}
	w.Cleanup(func() { w.comeBack(nodes...) })
}

// isOff marks a node as shut down, as an administrator does when the machine is off.
func (w *world) isOff(node string) {
	const off = "node.kubernetes.io/out-of-service"
	w.kubectl("taint", "node", node, off+"=nodeshutdown:NoExecute")
	w.Cleanup(func() { w.kubectlLater("taint", "node", node, off+"-") })
}

// refuses creates a pod without a gang, and waits until its message says that capacity is reserved for a gang.
func (w *world) refuses(pod gang, reserved string) {
	w.apply(pod.alone())
	w.Cleanup(func() {
		if w.Failed() {
			pods, _ := w.lab.Kubectl(later(), "get", "pods", "-A", "-o", "wide")
			logs, _ := w.lab.Kubectl(later(), "logs", "-n", system, "-l", "app.kubernetes.io/name=muster-scheduler", "--prefix", "--tail=40")
			w.say("%s\n%s", pods, logs)
		}
	})
	w.say("%s", w.expect(60*time.Second, "reserved for gang default/"+reserved, "get", "pod", pod.pods()[0], "-o",
		`jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`))
}

const (
	// gatherInSpine is the annotation of a gang whose members must share one spine.
	gatherInSpine = "gang.scheduling.koordinator.sh/network-topology-spec: " +
		`'{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'`
	spine = "network.topology.nvidia.com/spine"
	block = "network.topology.nvidia.com/block"
)

// losesNodes starts a gang, stops the nodes in lost, and has their members recreated. Pods that use 60 % of the nodes in blocked let these
// nodes take no member, or one, until the gang has started. A rival of the same priority requests cpu after the loss.
func (w *world) losesNodes(g gang, cpu string, lost, blocked []string) {
	const meta = "namespace: default}\nspec: {minMember"
	for i, node := range blocked {
		blocker := gang{name: fmt.Sprintf("%s-blocker-%d", g.name, i), members: 1, cpu: w.ofAWorker(60)}
		w.apply(strings.Replace(blocker.alone(), "spec:\n", "spec:\n  nodeName: "+node+"\n", 1))
	}
	w.apply(strings.Replace(g.objects(), meta, "namespace: default, annotations: {"+gatherInSpine+"}}\nspec: {minMember", 1))
	w.said(g, "started", 60*time.Second)
	var gone, stay []string
	for _, pod := range g.pods() {
		if slices.Contains(lost, w.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")) {
			gone = append(gone, pod)
		} else {
			stay = append(stay, pod)
		}
	}
	require.Len(w, gone, len(lost))
	for i := range blocked {
		w.kubectl("delete", "pod", fmt.Sprintf("%s-blocker-%d-0", g.name, i), "--wait")
	}

	w.stop(lost...)
	for _, pod := range gone {
		w.expect(180*time.Second, ".", "get", "pod", pod, "-o", "jsonpath={.metadata.deletionTimestamp}")
	}
	state := `jsonpath={range .status.conditions[?(@.type=="Repairing")]}{.status}/{.reason} {.message}{end}`
	w.say("%s", w.expect(30*time.Second, fmt.Sprintf("^True/HoldingCapacity %d of %d members", len(lost), g.members),
		"get", "podgroup.scheduling.sigs.k8s.io", g.name, "-o", state))

	rival := gang{name: g.name + "-rival", members: 1, cpu: cpu}
	w.refuses(rival, g.name)
	for _, node := range lost {
		w.isOff(node)
	}
	again := time.Now()
	for _, pod := range gone {
		w.kubectl("wait", "pod", pod, "--for=delete", "--timeout=90s")
		w.kubectlWith(g.pod(slices.Index(g.pods(), pod)), "apply", "--server-side", "-f", "-")
	}
	for _, pod := range gone {
		w.expect(90*time.Second, "^Running$", "get", "pod", pod, "-o", "jsonpath={.status.phase}")
		now := w.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
		require.NotContains(w, lost, now)
		w.say("%s, which was recreated, runs on %s %.1f s after the taint", pod, now, time.Since(again).Seconds())
	}
	for _, pod := range stay {
		require.Equal(w, "Running", w.kubectl("get", "pod", pod, "-o", "jsonpath={.status.phase}"))
	}
	require.Empty(w, w.kubectl("get", "pod", rival.pods()[0], "-o", "jsonpath={.spec.nodeName}"))
	w.expect(30*time.Second, "^$", "get", "podgroup.scheduling.sigs.k8s.io", g.name, "-o", state)
}
