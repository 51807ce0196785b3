package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The programs that BenchmarkExplain measures, and where it leaves the cluster for further questions.
const (
	programEnv = "MUSTERCTL"
	clusterEnv = "EXPLAIN_CLUSTER"
	program    = "../../bin/musterctl"
)

// The cluster that is explained: every node is full, and the largest gang that waits needs a third of a spine.
const (
	spines, blocksOfSpine, nodesOfBlock = 10, 10, 50
	gpusOfNode, gpusOfPod               = 8, 2
	podsOfNode                          = gpusOfNode / gpusOfPod
)

var (
	waiting     = []int{640, 320, 128, 64, 16} // members of wait-0, wait-1, ...
	runningSize = []int{8, 16, 32, 64, 128}
	runningRank = []int{100, 200, 300, 500}
)

// BenchmarkExplain is "musterctl explain" as a process, of 5,000 nodes and 20,000 pods in a file as "kubectl get -o json"
// prints them: a gang of 640 that must evict, and one that runs.
//
// It needs bin/musterctl (make build), or MUSTERCTL. EXPLAIN_CLUSTER is where the file stays.
func BenchmarkExplain(b *testing.B) {
	name := program
	if other := os.Getenv(programEnv); other != "" {
		name = other
	}
	if _, err := os.Stat(name); err != nil {
		b.Skip("without ", name, ": make build")
	}
	file := os.Getenv(clusterEnv)
	if file == "" {
		file = filepath.Join(b.TempDir(), "cluster.json")
	}
	out, err := os.Create(file)
	require.NoError(b, err)
	require.NoError(b, writeCluster(out))
	require.NoError(b, out.Close())
	for _, c := range []struct{ gang, state string }{{"wait-0", "Evicts"}, {"run-0", "Scheduled"}} {
		b.Run("nodes=5000/pods=20000/"+c.state, func(b *testing.B) {
			var cpu, peak float64
			for b.Loop() {
				cmd := exec.Command(name, "explain", "podgroup", c.gang, "-f", file, "-o", "json")
				cmd.Stderr = os.Stderr
				answer, err := cmd.Output()
				require.NoError(b, err)
				require.Contains(b, string(answer), fmt.Sprintf("%q: %q", "state", c.state))
				cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
				if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
					peak = max(peak, float64(use.Maxrss)/1024)
				}
			}
			b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
			b.ReportMetric(peak, "peak-MiB")
		})
	}
}

// writeCluster writes a List.
func writeCluster(to io.Writer) error {
	w := &lister{to: bufio.NewWriter(to)}
	w.raw(`{"apiVersion": "v1", "kind": "List", "items": [`)
	w.item(map[string]any{
		"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ClusterNetworkTopology", "metadata": named("default", "", nil),
		"spec": map[string]any{"networkTopologySpec": []any{
			map[string]any{"topologyLayer": "SpineLayer", "labelKey": []any{"network/spine"}},
			map[string]any{"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": []any{"network/block"}},
			map[string]any{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
		}},
	})
	w.item(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": named("default", "", nil)})
	nodes := spines * blocksOfSpine * nodesOfBlock
	for i := range nodes {
		w.item(clusterNode(i))
	}
	// Gangs that run sit next to one another, and each fifth pod is of none.
	gang, left := -1, 0 // the one that is being placed, and how many of it are still to be
	members := nodes * podsOfNode * 4 / 5
	for i := range nodes * podsOfNode {
		if i%5 == 4 {
			w.item(clusterPod(fmt.Sprint("alone-", i), "", 50, i/podsOfNode))
			continue
		}
		if left == 0 {
			gang++
			left = min(runningSize[gang%len(runningSize)], members)
			members -= left
			w.item(clusterGang(fmt.Sprint("run-", gang), left))
		}
		left--
		w.item(clusterPod(fmt.Sprintf("run-%d-%d", gang, left), fmt.Sprint("run-", gang), runningRank[gang%len(runningRank)], i/podsOfNode))
	}
	for i, members := range waiting {
		name := fmt.Sprint("wait-", i)
		w.item(clusterGang(name, members))
		for m := range members {
			w.item(clusterPod(fmt.Sprintf("%s-%d", name, m), name, 1000, -1))
		}
	}
	w.raw("\n]}\n")
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// lister writes the items of a list as kubectl does, with four spaces a level.
type lister struct {
	to   *bufio.Writer
	some bool
	err  error
}

func (l *lister) raw(text string) {
	if l.err == nil {
		_, l.err = l.to.WriteString(text)
	}
}

func (l *lister) item(object map[string]any) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("        ", "    ")
	if err := e.Encode(object); err != nil && l.err == nil {
		l.err = err
	}
	if l.some {
		l.raw(",")
	}
	l.some = true
	l.raw("\n        " + string(bytes.TrimSpace(out.Bytes())))
}

const clusterBorn = "2026-01-01T00:00:00Z"

func named(name, namespace string, more map[string]any) map[string]any {
	out := map[string]any{"name": name, "uid": "uid-" + namespace + "-" + name, "creationTimestamp": clusterBorn, "resourceVersion": "1"}
	if namespace != "" {
		out["namespace"] = namespace
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func clusterNode(i int) map[string]any {
	name := fmt.Sprint("node-", i)
	size := map[string]any{
		"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": fmt.Sprint(gpusOfNode), "ephemeral-storage": "7Ti",
		"hugepages-2Mi": "0",
	}
	block := i / nodesOfBlock
	ready := func(kind, status, reason string) map[string]any {
		return map[string]any{
			"type": kind, "status": status, "reason": reason, "message": "kubelet says " + reason, "lastTransitionTime": clusterBorn,
			"lastHeartbeatTime": clusterBorn,
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": named(name, "", map[string]any{"labels": map[string]any{
			"network/spine": fmt.Sprint("spine-", block/blocksOfSpine), "network/block": fmt.Sprint("block-", block), "kubernetes.io/hostname": name,
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "gpu-8",
			"nvidia.com/gpu.product": "H100",
		}}),
		"spec": map[string]any{"podCIDR": fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)},
		"status": map[string]any{
			"capacity": size, "allocatable": size,
			"conditions": []any{
				ready("MemoryPressure", "False", "KubeletHasSufficientMemory"), ready("DiskPressure", "False", "KubeletHasNoDiskPressure"),
				ready("PIDPressure", "False", "KubeletHasSufficientPID"), ready("Ready", "True", "KubeletReady"),
			},
			"addresses": []any{
				map[string]any{"type": "InternalIP", "address": fmt.Sprintf("10.200.%d.%d", i/256, i%256)},
				map[string]any{"type": "Hostname", "address": name},
			},
			"nodeInfo": map[string]any{
				"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.0", "kernelVersion": "6.8", "kubeProxyVersion": "",
				"kubeletVersion": "v1.37.0",
				"machineID":      "", "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "",
			},
		},
	}
}

func clusterGang(name string, members int) map[string]any {
	return map[string]any{
		"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": named(name, "default", map[string]any{"annotations": map[string]any{
			"gang.scheduling.koordinator.sh/network-topology-spec": `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"},{"layer":"BlockLayer","strategy":"PreferGather"}]}`,
		}}),
		"spec": map[string]any{"minMember": members},
	}
}

// clusterPod is a pod as a Job's controller makes it; it waits if the node is none.
func clusterPod(name, of string, priority, node int) map[string]any {
	job := name
	if of != "" {
		job = of
	}
	labels := map[string]any{"app": "training", "batch.kubernetes.io/job-name": job, "batch.kubernetes.io/controller-uid": "uid-" + job}
	if of != "" {
		labels["pod-group.scheduling.sigs.k8s.io"] = of
	}
	env := []any{}
	for i := range 10 {
		env = append(env,
			map[string]any{"name": fmt.Sprint("TRAINING_VARIABLE_", i), "value": fmt.Sprintf("some value of %s, which is number %d", name, i)})
	}
	size := map[string]any{"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": fmt.Sprint(gpusOfPod)}
	spec := map[string]any{
		"schedulerName": "muster-scheduler", "priority": priority, "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": true,
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "serviceAccountName": "default", "serviceAccount": "default",
		"securityContext": map[string]any{}, "terminationGracePeriodSeconds": 30,
		"containers": []any{map[string]any{
			"name": "worker", "image": "registry.example.com/training/worker:v1.2.3", "imagePullPolicy": "IfNotPresent",
			"command": []any{"torchrun", "--nnodes=80", "--nproc-per-node=8", "train.py"}, "env": env,
			"resources":                map[string]any{"limits": size, "requests": size},
			"terminationMessagePath":   "/dev/termination-log",
			"terminationMessagePolicy": "File",
			"volumeMounts": []any{
				map[string]any{"name": "data", "mountPath": "/data"},
				map[string]any{"name": "shm", "mountPath": "/dev/shm"},
				map[string]any{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
			},
		}},
		"volumes": []any{
			map[string]any{"name": "data", "hostPath": map[string]any{"path": "/mnt/data", "type": ""}},
			map[string]any{"name": "shm", "emptyDir": map[string]any{"medium": "Memory"}},
			map[string]any{"name": "kube-api-access", "projected": map[string]any{"defaultMode": 420, "sources": []any{
				map[string]any{"serviceAccountToken": map[string]any{"expirationSeconds": 3607, "path": "token"}},
				map[string]any{
					"configMap": map[string]any{"name": "kube-root-ca.crt", "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}}},
				},
			}}},
		},
		"tolerations": []any{
			map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
			map[string]any{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
		},
	}
	status := map[string]any{"phase": "Pending", "qosClass": "Guaranteed"}
	if node >= 0 {
		spec["nodeName"] = fmt.Sprint("node-", node)
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": "True", "lastTransitionTime": clusterBorn, "lastProbeTime": nil}
		}
		status = map[string]any{
			"phase": "Running", "qosClass": "Guaranteed", "startTime": clusterBorn, "podIP": "10.1.2.3", "hostIP": "10.200.1.2",
			"conditions": []any{
				condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"), condition("ContainersReady"),
				condition("PodScheduled"),
			},
			"containerStatuses": []any{map[string]any{
				"name": "worker", "image": "registry.example.com/training/worker:v1.2.3",
				"imageID":     "registry.example.com/training/worker@sha256:0123456789abcdef",
				"containerID": "containerd://0123456789abcdef-" + name, "ready": true, "started": true, "restartCount": 0,
				"state": map[string]any{"running": map[string]any{"startedAt": clusterBorn}}, "lastState": map[string]any{},
			}},
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": named(name, "default", map[string]any{
			"labels": labels,
			"ownerReferences": []any{map[string]any{
				"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "uid-" + job, "controller": true, "blockOwnerDeletion": true,
			}},
		}),
		"spec": spec, "status": status,
	}
}
