package simulate

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

// TestRandomDevices: whatever nodes have and members request, a plan is carried out unchanged. No member is
// rejected in its own cycle, so no gang is planned twice. Gangs start whole or wait whole, and no device, or
// part of one, is allocated twice.
func TestRandomDevices(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set("25"))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(checks.DefValue)) }) // other tests want more
	}
	rapid.Check(t, func(t *rapid.T) {
		text := drawDevices(t)
		set := &Set{}
		require.NoError(t, set.Add("in.yaml", []byte(text)))
		planned := map[string]int{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w, err := Open(ctx, Options{Tried: func(_ context.Context, tried plugin.Trial) {
			if tried.Refusal == nil {
				planned[tried.Attempt.Group.Key.String()]++
			}
		}}, set)
		require.NoError(t, err, text)
		defer w.Close()
		require.NoError(t, w.Settle(ctx, nil), text)
		for group, n := range planned {
			require.Equal(t, 1, n, "plans of %s in\n%s", group, text)
		}
		for _, g := range w.Result().Gangs {
			require.Contains(t, []int{0, g.Min}, g.Bound, "%s of\n%s", g.Name, text)
		}
		checkDevices(t, w, text)
	})
}

// checkDevices adds up what all pods have.
func checkDevices(t *rapid.T, w *World, text string) {
	used, by := map[string]device.Amount{}, map[string]string{}
	for _, pod := range w.Pods() {
		a, err := convert.DeviceAllocation(pod)
		require.NoError(t, err)
		require.Equal(t, pod.Spec.NodeName != "", len(a) > 0, "%s has %v in\n%s", pod.Name, a, text)
		for _, s := range a {
			at := fmt.Sprint(pod.Spec.NodeName, " ", s.Type, " ", s.Minor)
			u := used[at]
			u.Core, u.Memory, u.Ratio = u.Core+s.Amount.Core, u.Memory+s.Amount.Memory, u.Ratio+s.Amount.Ratio
			used[at] = u
			require.True(t, u.Core <= 100 && u.Ratio <= 100 && u.Memory <= 80<<30, "%s is %v in\n%s", at, u, text)
			for _, vf := range s.VFs {
				require.Empty(t, by[vf.BusID+at], "%s in\n%s", at, text)
				by[vf.BusID+at] = pod.Name
			}
		}
	}
}

// drawDevices draws nodes with devices, pods on them, and gangs of members that may differ.
func drawDevices(t *rapid.T) string {
	var text strings.Builder
	text.WriteString(`---
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}]}}
`)
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		drawDeviceNode(t, &text, fmt.Sprint("n", i))
	}
	for g := range rapid.IntRange(1, 4).Draw(t, "gangs") {
		n := rapid.IntRange(1, 6).Draw(t, "members")
		name := fmt.Sprint("g", g)
		fmt.Fprintf(&text, "---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: %d}}\n",
			name, n)
		kinds := rapid.SliceOfN(rapid.SampledFrom(deviceWishes), 1, 2).Draw(t, "kinds")
		for i := range n {
			w := rapid.SampledFrom(kinds).Draw(t, "kind")
			fmt.Fprintf(&text,
				"---\n{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, labels: {pod-group.scheduling.sigs.k8s.io: %s}, annotations: {%s}}, spec: "+
					"{schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1, %s}, limits: {%s}}}]}}\n",
				name, i, name, w.says, w.wants, w.wants)
		}
	}
	return text.String()
}

// wish is what a member may want, and say of it.
type wish struct{ wants, says string }

var deviceWishes = []wish{
	{wants: "koordinator.sh/gpu: 100"},
	{wants: "koordinator.sh/gpu: 200"},
	{wants: "koordinator.sh/gpu: 400"},
	{wants: "koordinator.sh/gpu-core: 30, koordinator.sh/gpu-memory-ratio: 30"},
	{wants: "koordinator.sh/gpu-memory: 30Gi"},
	{wants: "koordinator.sh/gpu.shared: 2, koordinator.sh/gpu-core: 100, koordinator.sh/gpu-memory-ratio: 100"},
	{wants: "koordinator.sh/rdma: 1"},
	{wants: "koordinator.sh/gpu: 200", says: `scheduling.koordinator.sh/device-allocate-hint: '{"gpu":{"requiredTopologyScope":"PCIe"}}'`},
	{wants: "koordinator.sh/gpu: 300", says: `scheduling.koordinator.sh/device-allocate-hint: '{"gpu":{"requiredTopologyScope":"NUMANode"}}'`},
	{
		wants: "koordinator.sh/gpu: 200, koordinator.sh/rdma: 100",
		says:  `scheduling.koordinator.sh/device-joint-allocate: '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'`,
	},
	{
		wants: "koordinator.sh/gpu: 300, koordinator.sh/rdma: 1",
		says:  `scheduling.koordinator.sh/device-joint-allocate: '{"deviceTypes":["gpu","rdma"]}'`,
	},
	{
		wants: "koordinator.sh/rdma: 1",
		says:  `scheduling.koordinator.sh/device-allocate-hint: '{"rdma":{"vfSelector":{"matchLabels":{"kind":"fast"}}}}'`,
	},
	{wants: "koordinator.sh/gpu: 100", says: `scheduling.koordinator.sh/device-allocate-hint: '{"gpu":{"exclusivePolicy":"PCIeLevel"}}'`},
}

// drawDeviceNode draws a node with GPUs, some of them in use or unhealthy, and NICs.
func drawDeviceNode(t *rapid.T, text *strings.Builder, name string) {
	gpus, nics := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "gpus"), rapid.IntRange(0, 4).Draw(t, "nics")
	labels := ""
	if rapid.IntRange(0, 4).Draw(t, "partitions") == 0 {
		labels = ", node.koordinator.sh/gpu-model: H100, node.koordinator.sh/gpu-partition-policy: Honor"
	}
	fmt.Fprintf(text, `---
{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {spine: s%s}}, status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110,
  koordinator.sh/gpu: %[3]d00, koordinator.sh/gpu-core: %[3]d00, koordinator.sh/gpu-memory-ratio: %[3]d00, koordinator.sh/gpu.shared: %[3]d00, koordinator.sh/gpu-memory: %[4]dGi, koordinator.sh/rdma: %[5]d00}}}
---
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Device, metadata: {name: %[1]s}, spec: {devices: [`, name, labels, gpus, gpus*80, nics)
	for i := range gpus {
		fmt.Fprintf(text,
			"\n  {type: gpu, minor: %d, health: %t, topology: {nodeID: %d, pcieID: p%d}, resources: {koordinator.sh/gpu-core: 100, "+
				"koordinator.sh/gpu-memory: 80Gi, koordinator.sh/gpu-memory-ratio: 100}},",
			i, rapid.IntRange(0, 9).Draw(t, "sick") > 0, i/4, i/2)
	}
	for i := range nics {
		fmt.Fprintf(text,
			"\n  {type: rdma, minor: %d, health: true, topology: {nodeID: %d, pcieID: p%d}, resources: {koordinator.sh/rdma: 100}, vfGroups: "+
				"[{labels: {kind: fast}, vfs: [{minor: 0, busID: 'a%d'}, {minor: 1, busID: 'b%d'}]}]},",
			i, i/2, i, i, i)
	}
	text.WriteString("]}}\n")
	for i := range gpus {
		if rapid.IntRange(0, 5).Draw(t, "used") == 0 {
			part := rapid.SampledFrom([]int{100, 50}).Draw(t, "part")
			fmt.Fprintf(text, `---
{apiVersion: v1, kind: Pod, metadata: {name: used-%[1]s-%[2]d, annotations: {scheduling.koordinator.sh/device-allocated: '{"gpu":[{"minor":%[2]d,"resources":{"koordinator.sh/gpu-core":"%[3]d","koordinator.sh/gpu-memory-ratio":"%[3]d"}}]}'}},
  spec: {schedulerName: muster-scheduler, nodeName: %[1]s, containers: [{name: c, image: i, resources: {requests: {koordinator.sh/gpu-core: %[3]d, koordinator.sh/gpu-memory-ratio: %[3]d}}}]}}
`, name, i, part)
		}
	}
}

// TestDeviceShareConfigured: what Koordinator's configurations say of the plugin is taken; a profile that would bind pods
// without their devices, or arguments that are invalid, are refused by name.
func TestDeviceShareConfigured(t *testing.T) {
	for profile, says := range map[string]string{
		`{}`: "",
		`{plugins: {multiPoint: {disabled: [{name: DeviceShare}]}}}`: "",
		`{plugins: {filter: {enabled: [{name: DeviceShare}]}, reserve: {enabled: [{name: DeviceShare}]}, preBind: {enabled: [{name: ` +
			`DeviceShare}]}, score: {enabled: [{name: DeviceShare, weight: 3}]}}}`: "",
		`{pluginConfig: [{name: DeviceShare, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: DeviceShareArgs, scoringStrategy: ` +
			`{type: MostAllocated}}}]}`: "",
		`{pluginConfig: [{name: DeviceShare, args: {scoringStrategy: {type: Most}}}]}`: `DeviceShareArgs.scoringStrategy.type: "Most" is invalid`,
		`{plugins: {bind: {enabled: [{name: DefaultBinder}], disabled: [{name: DeviceShare}]}}}`: "plugin DeviceShare must be enabled at " +
			"reserve, and at bind before DefaultBinder",
		`{plugins: {reserve: {disabled: [{name: DeviceShare}]}}}`: "plugin DeviceShare must be enabled at reserve",
		`{schedulerName: a, pluginConfig: [{name: DeviceShare, args: {scoringStrategy: {type: MostAllocated}}}]}, ` +
			`{schedulerName: b}`: "DeviceShareArgs.scoringStrategy.type: it must be the same in all profiles",
	} {
		config := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [" + profile + "]\n"
		w, err := Open(t.Context(), Options{Config: []byte(config)}, &Set{})
		if says != "" {
			require.ErrorContains(t, err, says, profile)
			continue
		}
		require.NoError(t, err, profile)
		w.Close()
	}
}
