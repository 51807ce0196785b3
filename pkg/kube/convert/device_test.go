package convert_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

func deviceObject(t *testing.T, change ...func(map[string]any)) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/device.yaml")
	require.NoError(t, err)
	var u unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(text, &u.Object))
	for _, f := range change {
		f(u.Object)
	}
	return &u
}

// asks is a pod with requests and annotations.
func asks(requests, annotations map[string]string) *v1.Pod {
	return pod(func(p *v1.Pod) {
		for k, v := range requests {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceName(k)] = resource.MustParse(v)
		}
		for k, v := range annotations {
			p.Annotations["scheduling.koordinator.sh/"+k] = v
		}
	})
}

// TestDeviceNode: what a Device object says is what a node has.
func TestDeviceNode(t *testing.T) {
	n, err := convert.DeviceNode(deviceObject(t), map[string]string{"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
	require.NoError(t, err)
	state := device.NewState(n)
	require.Equal(t, `numa-1
  p1  gpu2! .
numa0
  p0  gpu0 .   gpu1 .  rdma1 .
`, state.Draw(nil))

	var solver device.Solver
	for _, c := range []struct {
		name     string
		requests map[string]string
		hints    map[string]string
		want     int
	}{
		{"healthy ones", map[string]string{"nvidia.com/gpu": "1"}, nil, 2},
		{"memory", map[string]string{"koordinator.sh/gpu-memory": "30Gi"}, nil, 4},
		{
			"by label",
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": `{"gpu": {"selector": {"matchLabels": {"kind": "fast"}}}}`},
			1,
		},
		{
			"by expression",
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": `{"gpu": {"selector": {"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]}}}`},
			1,
		},
		{
			"VFs",
			map[string]string{"koordinator.sh/rdma": "1"},
			map[string]string{"device-allocate-hint": `{"rdma": {"vfSelector": {"matchLabels": {"type": "general"}}}}`},
			2,
		},
		{
			"other VFs",
			map[string]string{"koordinator.sh/rdma": "1"},
			map[string]string{"device-allocate-hint": `{"rdma": {"vfSelector": {"matchLabels": {"type": "other"}}}}`},
			0,
		},
		{
			"a scope",
			map[string]string{"koordinator.sh/gpu": "200"},
			map[string]string{"device-allocate-hint": `{"gpu": {"requiredTopologyScope": "PCIe"}}`},
			1,
		},
		{
			"a partition",
			map[string]string{"koordinator.sh/gpu": "200"},
			map[string]string{"gpu-partition-spec": `{"allocatePolicy": "Restricted", "ringBusBandwidth": "300Gi"}`},
			1,
		},
		{
			"more bandwidth",
			map[string]string{"koordinator.sh/gpu": "200"},
			map[string]string{"gpu-partition-spec": `{"ringBusBandwidth": "500Gi"}`},
			0,
		},
		{
			"joint",
			map[string]string{"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "60"},
			map[string]string{"device-joint-allocate": `{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}`},
			1,
		},
	} {
		r, err := convert.DeviceRequest(asks(c.requests, c.hints))
		require.NoError(t, err, c.name)
		require.Equal(t, device.Count{Slots: c.want, Exact: true}, solver.Slots(state, r, 100), c.name)
	}

	honours, err := convert.DeviceNode(deviceObject(t), map[string]string{"node.koordinator.sh/gpu-partition-policy": "Honor"})
	require.NoError(t, err)
	r, err := convert.DeviceRequest(asks(map[string]string{"nvidia.com/gpu": "1"}, nil))
	require.NoError(t, err)
	require.Equal(t, "node(s) Unsupported number of GPU requests", solver.Why(device.NewState(honours), []*device.Request{r}).Text())
}

// TestDeviceNodeBad: what cannot be read is named.
func TestDeviceNodeBad(t *testing.T) {
	first := func(o map[string]any) map[string]any {
		return o["spec"].(map[string]any)["devices"].([]any)[0].(map[string]any)
	}
	for want, change := range map[string]func(map[string]any){
		"devices of node node-0: gpu: minor 1 is there twice": func(o map[string]any) { first(o)["minor"] = int64(1) },
		"devices of node node-0: quantities must match": func(o map[string]any) {
			first(o)["resources"] = map[string]any{"koordinator.sh/gpu-core": "many"}
		},
		"devices of node node-0: scheduling.koordinator.sh/gpu-partitions: ": func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"scheduling.koordinator.sh/gpu-partitions": "{"}
		},
		"devices of node node-0: partition 0 of those of 2 GPUs has the minors [1]": func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"scheduling.koordinator.sh/gpu-partitions": `{"2": [{"minors": [1]}]}`}
		},
	} {
		_, err := convert.DeviceNode(deviceObject(t, change), nil)
		require.ErrorContains(t, err, want)
	}
}

// TestDeviceRequest: what pods say, and what of it is wrong.
func TestDeviceRequest(t *testing.T) {
	for _, c := range []struct {
		requests, annotations map[string]string
		want                  string
	}{
		{map[string]string{"cpu": "3"}, map[string]string{"device-allocate-hint": "not even JSON"}, ""},
		{
			map[string]string{"koordinator.sh/gpu-memory-ratio": "150"},
			nil,
			"invalid resource device requests: [koordinator.sh/gpu-memory-ratio]: koordinator.sh/gpu-memory-ratio=150: must be up to 100, or a " +
				"multiple of 100",
		},
		{
			map[string]string{"koordinator.sh/gpu-memory": "100000Ei"},
			nil,
			"koordinator.sh/gpu-memory=9223372036854775807: must be a number that a node may have",
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": `{"gpu": {"requiredTopologyScop": "PCIe"}}`},
			`scheduling.koordinator.sh/device-allocate-hint: json: unknown field "requiredTopologyScop"`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": `{} {}`},
			`scheduling.koordinator.sh/device-allocate-hint: more than one JSON value`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": ""},
			`scheduling.koordinator.sh/device-allocate-hint: "": must be JSON, and it ends too early`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-allocate-hint": `{"GPU": {"requiredTopologyScope": "PCIe"}}`},
			`scheduling.koordinator.sh/device-allocate-hint: "GPU": must be gpu, rdma or fpga`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-joint-allocate": `{"deviceTypes": ["gpu", "nic"]}`},
			`scheduling.koordinator.sh/device-joint-allocate: deviceTypes: "nic": must be gpu, rdma or fpga`,
		},
		{
			map[string]string{"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "400"},
			nil,
			`koordinator.sh/gpu-core=30: must be the same for each of 4 GPUs`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"gpu-partition-spec": `{"allocatePolicy": "Strict"}`},
			`scheduling.koordinator.sh/gpu-partition-spec: allocatePolicy: "Strict": must be Restricted or BestEffort`,
		},
		{
			map[string]string{"koordinator.sh/gpu": "100"},
			map[string]string{"device-joint-allocate": `["gpu"]`},
			`scheduling.koordinator.sh/device-joint-allocate: json: cannot unmarshal array`,
		},
	} {
		r, err := convert.DeviceRequest(asks(c.requests, c.annotations))
		if c.want == "" {
			require.NoError(t, err)
			require.Nil(t, r)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

// TestDeviceAllocation: what is written is what is read, and as Koordinator's own agents read it.
func TestDeviceAllocation(t *testing.T) {
	const documented = `{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"80Gi","koordinator.sh/gpu-memory-ratio":"100"},` +
		`"id":"GPU-6a1c"}],` +
		`"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"1"},"id":"0000:1f:00.0",` +
		`"extension":{"vfs":[{"minor":3,"busID":"0000:1f:00.4"}]}}]}`
	held, err := convert.DeviceAllocation(asks(nil, map[string]string{"device-allocated": documented}))
	require.NoError(t, err)
	require.Equal(t, device.Allocation{
		{Type: device.GPU, Minor: 2, ID: "GPU-6a1c", Amount: device.Amount{Core: 100, Memory: 80 << 30, Ratio: 100}},
		{Type: device.RDMA, Minor: 1, ID: "0000:1f:00.0", Amount: device.Amount{Core: 1}, VFs: []device.VF{{Minor: 3, BusID: "0000:1f:00.4"}}},
	}, held)
	require.Equal(t, documented, convert.DeviceAnnotation(held))

	alone, err := convert.DeviceAllocation(asks(map[string]string{"koordinator.sh/rdma": "1"}, map[string]string{
		"device-allocated":     `{"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":1},"later":true}]}`,
		"device-allocate-hint": `{"rdma": {"exclusivePolicy": "PCIeLevel"}}`,
	}))
	require.NoError(t, err)
	require.Equal(t, device.Allocation{{Type: device.RDMA, Minor: 1, Amount: device.Amount{Core: 1}, Exclusive: device.PCIeLevel}}, alone)

	wrong, err := convert.DeviceAllocation(asks(map[string]string{"koordinator.sh/gpu": "150"},
		map[string]string{"device-allocated": `{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100"}}]}`}))
	require.NoError(t, err, "it holds what it holds, whatever it asks for")
	require.Len(t, wrong, 1)

	nothing, err := convert.DeviceAllocation(asks(nil, nil))
	require.NoError(t, err)
	require.Nil(t, nothing)
	_, err = convert.DeviceAllocation(asks(nil,
		map[string]string{"device-allocated": `{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-core":"-100"}}]}`}))
	require.EqualError(t, err, "scheduling.koordinator.sh/device-allocated: gpu 2: resources that cannot be: {Core:-1 Memory:0 Ratio:0}")
	_, err = convert.DeviceAllocation(asks(nil,
		map[string]string{"device-allocated": `{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-memory":"100000Ei"}}]}`}))
	require.ErrorContains(t, err, "resources that cannot be")
	_, err = convert.DeviceAllocation(asks(nil, map[string]string{"device-allocated": "[]"}))
	require.ErrorContains(t, err, "scheduling.koordinator.sh/device-allocated: json: cannot unmarshal array")
}

// TestDevicesGoRound: what members of a node are given is written, read, and leaves as much as it took.
func TestDevicesGoRound(t *testing.T) {
	n, err := convert.DeviceNode(deviceObject(t), nil)
	require.NoError(t, err)
	member := asks(map[string]string{"koordinator.sh/gpu-memory": "33Gi", "koordinator.sh/rdma": "1"}, map[string]string{
		"device-joint-allocate": `{"deviceTypes": ["gpu", "rdma"]}`,
		"device-allocate-hint":  `{"rdma": {"vfSelector": {}}}`,
	})
	r, err := convert.DeviceRequest(member)
	require.NoError(t, err)
	var solver device.Solver
	one, ok, _ := solver.Choose(device.NewState(n), []*device.Request{r})
	require.True(t, ok)
	text := convert.DeviceAnnotation(one[0])
	require.JSONEq(t, `{"gpu":[{"minor":0,"id":"GPU-6a1c","resources":{"koordinator.sh/gpu-memory":"33Gi","koordinator.sh/gpu-memory-ratio":"41"}}],
		"rdma":[{"minor":1,"id":"0000:1f:00.0","resources":{"koordinator.sh/rdma":"1"},"extension":{"vfs":[{"minor":2,"busID":"0000:1f:00.3"}]}}]}`, text)
	member.Annotations[convert.DeviceAllocated] = text
	read, err := convert.DeviceAllocation(member)
	require.NoError(t, err)
	require.Equal(t, one[0], read)
}
