package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/cli"
	"github.com/muster-scheduler/muster/pkg/kube/ask"
)

// say runs a command that must succeed, and returns what it prints.
func say(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Zero(t, cli.Main(t.Context(), args, &out, &errs), "%s: %s", args, errs.String())
	require.Empty(t, errs.String(), args)
	return out.String()
}

// TestDumpSaysTheSame: of a dump of a world everything is said that is said of the world, and a dump
// of the dump is the dump.
func TestDumpSaysTheSame(t *testing.T) {
	for _, scenario := range []string{
		"02-example-2", "08-no-help", "18-unknown-layer", "29-gang-evicted-whole", "30-disruption-budget", "32-gang-missing",
		"44-devices-too-many", "45-one-has-finished", "int-vol-01", "int-native-tree", "workload-jobset", "workload-lws",
	} {
		t.Run(scenario, func(t *testing.T) {
			files := scenarioFiles(t, scenario)
			dump := filepath.Join(t.TempDir(), "dump.yaml")
			require.Empty(t, say(t, append([]string{"dump", "-o", dump}, files...)...))
			text, err := os.ReadFile(dump)
			require.NoError(t, err)
			require.Equal(t, string(text), say(t, "dump", "-f", dump))

			same := func(args ...string) string {
				of := say(t, append(args, files...)...)
				require.Equal(t, of, say(t, append(args, "-f", dump)...), args)
				return of
			}
			same("topology", "-o", "wide")
			same("simulate", "--only", "waiting")
			var all []ask.Waiter
			require.NoError(t, json.Unmarshal([]byte(same("queue", "-A", "-o", "json")), &all))
			for _, w := range all {
				namespace, name, _ := strings.Cut(w.Gang, "/")
				same("explain", "podgroup", name, "-n", namespace, "-o", "wide")
				same("explain", "podgroup", name, "-n", namespace, "-o", "json")
			}
		})
	}
}

// TestDumpBook: a dump contains the state of a scheduler that takes over the cluster: reservations, waiting
// gangs with their reasons, and the answers of the Filters. A reader of the file reads only the objects.
func TestDumpBook(t *testing.T) {
	place := map[string]string{
		"hp-training-pod-0": "node-5", "hp-training-pod-1": "node-6", "hp-training-pod-2": "node-7", "hp-training-pod-3": "node-8",
	}
	objects := filepath.Join(t.TempDir(), "objects.yaml")
	edit(t, objects, []string{
		"clusternetworktopology.yaml", "example-nodes.yaml", "example2-priorityclasses.yaml", "example2-low-priority-pods.yaml",
		"example2-podgroup.yaml", "example2-pods.yaml",
	}, func(name string, o map[string]any) map[string]any {
		meta := o["metadata"].(map[string]any)
		meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
		if name == "low-priority-pod-5" {
			meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = "2026-01-01T00:00:30Z", 30
		}
		if node := place[name]; node != "" {
			o["status"] = map[string]any{"nominatedNodeName": node}
		}
		return o
	})
	more := filepath.Join(t.TempDir(), "more.yaml")
	require.NoError(t, os.WriteFile(more, []byte(`
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: large}
spec: {minMember: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: large-0, labels: {pod-group.scheduling.sigs.k8s.io: large}}
spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 9}}}]}
`), 0o600))
	dump := filepath.Join(t.TempDir(), "dump.yaml")
	say(t, "dump", "-f", objects, "-f", more, "-o", dump)
	text, err := os.ReadFile(dump)
	require.NoError(t, err)
	var first struct {
		Versions map[string]string
		Book     ask.Book
	}
	_, document, _ := strings.Cut(string(text), "---\n")
	document, _, _ = strings.Cut(document, "---\n")
	require.NoError(t, yaml.Unmarshal([]byte(document), &first))

	require.Equal(t, "1.37", first.Versions["behavesAs"])
	require.NotEmpty(t, first.Versions["muster"])
	book := first.Book
	require.Equal(t, []ask.GroupReservation{{Group: "default/high-priority-training", Priority: 1000000, Places: []string{
		"default/hp-training-pod-0 on node-5", "default/hp-training-pod-1 on node-6", "default/hp-training-pod-2 on node-7",
		"default/hp-training-pod-3 on node-8",
	}}}, book.Reservations)
	require.Len(t, book.Gangs, 2)
	require.Equal(t, []any{"default/high-priority-training", 1, ask.Preempting},
		[]any{book.Gangs[0].Gang, book.Gangs[0].Position, book.Gangs[0].State})
	require.Equal(t, []string{"default/low-priority-pod-5 on node-5"}, book.Gangs[0].Plan.Evicts)
	require.Nil(t, book.Gangs[0].Refusal)
	large := book.Gangs[1]
	require.Equal(t, ask.NeverFits, large.State)
	require.Contains(t, large.Refusal.Says, "no node has capacity for one member")
	large.Refusal.Says, large.Refusal.Words = "", ""
	require.Equal(t, &ask.Reason{By: "Plan", Plugins: []string{"NodeResourcesFit"}, Evictable: true, Never: true}, large.Refusal)

	require.Len(t, book.Answers, 2)
	require.Equal(t, []any{"default/hp-training-pod-0", 4}, []any{book.Answers[0].Pod, book.Answers[0].Pods})
	require.Equal(t, []ask.NodeAnswer{
		{Slots: 0, Reasons: []string{"Insufficient cpu", "Insufficient memory"}, Nodes: []string{"node-0", "node-1", "node-5"}},
		{Slots: 1, Nodes: []string{"node-2", "node-3", "node-4", "node-6", "node-7", "node-8", "node-9", "node-10", "node-11"}},
	}, book.Answers[0].Nodes)
	require.Equal(t, "default/large-0", book.Answers[1].Pod)

	var state struct {
		Waiting []struct{ Gang, State string }
	}
	require.NoError(t, json.Unmarshal(ui(t, "-f", dump)("/state"), &state))
	require.Len(t, state.Waiting, 2)
	require.Equal(t, "Preempting", state.Waiting[0].State)
}

// TestDumpOfACluster: ages in a dump, also of terminating pods, count from the time of the dump. simulate starts with
// the status in the dump.
func TestDumpOfACluster(t *testing.T) {
	const cluster = `apiVersion: musterctl/v1
kind: Dump
at: "2026-01-01T12:00:00.5Z"
---
apiVersion: v1
kind: Node
metadata: {name: m, creationTimestamp: "2026-01-01T08:00:00Z"}
status: {capacity: {cpu: 2}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, creationTimestamp: "2026-01-01T10:00:00Z", managedFields: [{manager: someone}]}
spec: {minMember: 1}
status: {conditions: [{type: Scheduled, status: "False", reason: Unschedulable, message: no room, lastTransitionTime: "2026-01-01T11:00:00Z"}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: secretive
  creationTimestamp: "2026-01-01T10:00:00Z"
  labels: {pod-group.scheduling.sigs.k8s.io: g, env: test}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: geheim, mine: kept}
spec:
  schedulerName: muster-scheduler
  initContainers: [{name: i, image: i, args: [geheim]}]
  containers:
  - name: c
    image: repository
    command: [geheim]
    args: [geheim]
    env: [{name: TOKEN, value: geheim}]
    lifecycle: {preStop: {exec: {command: [geheim]}}}
    livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: Authorization, value: geheim}]}}
    resources: {requests: {cpu: 4}}
  volumes: [{name: v, csi: {driver: d, volumeAttributes: {password: geheim}}}, {name: w, flexVolume: {driver: d, options: {password: geheim}}}]
status: {containerStatuses: [{name: c, image: i, imageID: i, lastState: {terminated: {exitCode: 1, message: geheim}}}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: sc, labels: {parameters: kept-label}}
provisioner: kubernetes.io/glusterfs
parameters: {restuserkey: geheim}
mountOptions: [password=geheim]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], mountOptions: [password=geheim], csi: {driver: d, volumeHandle: h}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: va}
spec: {attacher: d, nodeName: m, source: {persistentVolumeName: pv}}
status: {attached: true, attachmentMetadata: {key: geheim}, attachError: {message: geheim}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dc}
spec: {config: [{opaque: {driver: kept.example.com, parameters: {token: geheim}}}]}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j, uid: u-j, annotations: {kept: "yes"}}
spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, env: [{name: TOKEN, value: geheim}]}]}}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {token: geheim}
`
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(file, []byte(cluster), 0o600))
	var dump, errs bytes.Buffer
	require.Zero(t, cli.Main(t.Context(), []string{"dump", "-f", file}, &dump, &errs), errs.String())
	for _, kept := range []string{
		"# As it was at 2026-01-01T12:00:00Z", "at: \"2026-01-01T12:00:00.5Z\"", "env: test", "mine: kept", "image: repository",
		"parameters: kept-label", "driver: kept.example.com", "cpu: \"4\"", "kept: \"yes\"",
	} {
		require.Contains(t, dump.String(), kept)
	}
	for _, secret := range []string{"geheim", "managedFields", "TOKEN", "pytorchReplicaSpecs"} {
		require.NotContains(t, dump.String(), secret)
	}
	again := filepath.Join(t.TempDir(), "dump.yaml")
	require.NoError(t, os.WriteFile(again, dump.Bytes(), 0o600))
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", again), "Gang default/g: NeverFits, 60m, 0 of 1 members bound")
	require.Contains(t, say(t, "simulate", "-f", again), "1 gang: 1 never fits")

	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("apiVersion: musterctl/v1\nkind: Dump\nat: noon\n"), 0o600))
	var out bytes.Buffer
	require.Equal(t, 2, cli.Main(t.Context(), []string{"queue", "-f", bad}, &out, &out))
	require.Contains(t, out.String(),
		`bad.yaml: document 1, line 1: Dump: at: "noon" is no time; supported values: such as 2026-01-01T00:00:00Z`)
}

// TestDumpOfAnotherConfiguration: by the configuration by which a dump was made it is read, unless another one is
// given.
func TestDumpOfAnotherConfiguration(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	config := func(enable bool) string {
		return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: CoschedulingArgs, enablePreemption: %t}
`, enable)
	}
	cluster := write("cluster.yaml", `
{apiVersion: musterctl/v1, kind: Dump, at: "2026-01-01T12:00:00Z"}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}
---
{apiVersion: v1, kind: Node, metadata: {name: m}, status: {capacity: {cpu: 2}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: low}, spec: {nodeName: m, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: g-0, labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: {schedulerName: muster-scheduler, priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
`)
	never, always := write("never.yaml", config(false)), write("always.yaml", config(true))
	dump := write("dump.yaml", say(t, "dump", "-f", cluster, "--config", never))
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", cluster), "Gang default/g: Evicts")
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", dump), "Gang default/g: Unschedulable")
	require.Contains(t, say(t, "simulate", "-f", dump), "1 unschedulable")
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", write("again.yaml", say(t, "dump", "-f", dump))),
		"Gang default/g: Unschedulable")
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", dump, "--config", always), "Gang default/g: Evicts")
	require.NotContains(t, say(t, "dump", "-f", cluster), "configuration:")
	var out bytes.Buffer
	require.Equal(t, 2, cli.Main(t.Context(), []string{"dump", "-f", cluster, "--config", cluster}, &out, &out),
		"what is no configuration is not put into a dump")
}

// TestDumpKeepsWhatFiltersRead: rules by which containers are restarted ask for a feature of nodes.
func TestDumpKeepsWhatFiltersRead(t *testing.T) {
	const cluster = `
{apiVersion: musterctl/v1, kind: Dump, at: "2026-01-01T12:00:00Z"}
---
{apiVersion: v1, kind: Node, metadata: {name: m}, status: {capacity: {cpu: 2}}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: g-0, labels: {pod-group.scheduling.sigs.k8s.io: g}}
spec:
  schedulerName: muster-scheduler
  restartPolicy: Never
  containers: [{name: c, image: i, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]
`
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(file, []byte(cluster), 0o600))
	says := say(t, "explain", "podgroup", "g", "-f", file)
	require.Contains(t, says, "(1 node rejects members:\n  didn't")
	dump := filepath.Join(t.TempDir(), "dump.yaml")
	require.NoError(t, os.WriteFile(dump, []byte(say(t, "dump", "-f", file)), 0o600))
	require.Equal(t, says, say(t, "explain", "podgroup", "g", "-f", dump))
}
