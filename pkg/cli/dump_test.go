package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

// TestDumpOfACluster: what is said of a cluster's age and of pods that leave counts from when the dump
// was made, and simulate takes the status as it was then.
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
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j, annotations: {kept: "yes"}}
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
	for _, kept := range []string{"# As it was at 2026-01-01T12:00:00Z", "at: \"2026-01-01T12:00:00.5Z\"", "env: test", "mine: kept", "image: repository", "cpu: \"4\"", "kept: \"yes\""} {
		require.Contains(t, dump.String(), kept)
	}
	for _, secret := range []string{"geheim", "managedFields", "TOKEN", "pytorchReplicaSpecs"} {
		require.NotContains(t, dump.String(), secret)
	}
	again := filepath.Join(t.TempDir(), "dump.yaml")
	require.NoError(t, os.WriteFile(again, dump.Bytes(), 0o600))
	require.Contains(t, say(t, "explain", "podgroup", "g", "-f", again), "Gang default/g: NeverFits, 60m, 0 of 1 members bound")
	require.Contains(t, say(t, "simulate", "-f", again), "1 gang: 1 unschedulable")

	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("apiVersion: musterctl/v1\nkind: Dump\nat: noon\n"), 0o600))
	var out bytes.Buffer
	require.Equal(t, 2, cli.Main(t.Context(), []string{"queue", "-f", bad}, &out, &out))
	require.Contains(t, out.String(), `bad.yaml: document 1, line 1: Dump: at: "noon" is no time; legal: such as 2026-01-01T00:00:00Z`)
}
