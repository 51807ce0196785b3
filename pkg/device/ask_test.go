package device_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/muster-scheduler/muster/pkg/device"
)

// TestAsk: valid requests of pods, and the messages for invalid ones.
func TestAsk(t *testing.T) {
	for _, c := range []struct{ ask, want string }{
		// GPUs: number, amounts of each (core, memory, ratio), whether shared.
		{"nvidia.com/gpu=2", `"gpu" {100 0 100} 2 false`},
		{"amd.com/gpu=1", `"gpu" {100 0 100} 1 false`},
		{"dcu.com/gpu=8", `"gpu" {100 0 100} 8 false`},
		{"gpu=30", `"gpu" {30 0 30} 1 true`},
		{"gpu=100", `"gpu" {100 0 100} 1 false`},
		{"gpu=400", `"gpu" {100 0 100} 4 false`},
		{"gpu-memory=4096", `"gpu" {0 4096 0} 1 true`},
		{"gpu-memory-ratio=200", `"gpu" {0 0 100} 2 false`},
		{"gpu-core=50 gpu-memory=4096", `"gpu" {50 4096 0} 1 true`},
		{"gpu-core=60 gpu-memory-ratio=200", `"gpu" {30 0 100} 2 false`},
		{"gpu.shared=2 gpu-memory=4096", `"gpu" {0 2048 0} 2 true`},
		{"gpu.shared=2 gpu-memory-ratio=100", `"gpu" {0 0 50} 2 true`},
		{"gpu.shared=2 gpu-memory-ratio=200", `"gpu" {0 0 100} 2 false`},
		{"gpu.shared=2 gpu-core=20 gpu-memory=4096", `"gpu" {10 2048 0} 2 true`},
		{"gpu.shared=2 gpu-core=20 gpu-memory-ratio=100", `"gpu" {10 0 50} 2 true`},
		{"gpu=0 rdma=1", `"rdma" {1 0 0} 1 false`},
		{"cpu=4", "nothing"},
		// Others.
		{"rdma=100", `"rdma" {100 0 0} 1 false`},
		{"rdma=300", `"rdma" {100 0 0} 3 false`},
		{"fpga=40", `"fpga" {40 0 0} 1 false`},
		{"rdma=3 rdma.strategy=RequestsAsCount", `"rdma" {1 0 0} 3 false`},
		{"rdma=3 rdma.strategy=RequestsAsCount rdma.alone=DeviceLevel", `"rdma" {100 0 0} 3 false`},
		{"rdma=3 rdma.strategy=ApplyForAll", `"rdma" {3 0 0} 0 false`},
		{"rdma=200 rdma.strategy=ApplyForAll", `"rdma" {100 0 0} 2 false`},
		{"gpu=100 rdma=1 joint=rdma+gpu", `"rdma" {1 0 0} 1 false 0 0 - vf -;"gpu" {100 0 100} 1 false`},
		{
			"gpu=100 fpga=1 rdma=1 joint=rdma+gpu same",
			`"rdma" {1 0 0} 1 false 0 0 - vf -;"gpu" {100 0 100} 1 false 0 0 - vf -;"fpga" {1 0 0} 1 false 0 0 - vf -;1 true ""`,
		},
		{"gpu=100 joint=rdma+gpu same", `"gpu" {100 0 100} 1 false 0 0 - vf -;0 false ""`},
		{"gpu=100 rdma=1 joint=gpu+fpga", `"gpu" {100 0 100} 1 false 0 0 - vf -;"rdma" {1 0 0} 1 false 0 0 - vf -;0 false ""`},
		{"gpu=100 rdma.scope=PCIe", `"gpu" {100 0 100} 1 false 0 0 - vf -;0 false ""`},
		{"gpu=100 gpu.scope=NUMANode gpu.alone=PCIeLevel gpu.kind=fast", `"gpu" {100 0 100} 1 false 2 2 ["kind" In ["fast"]] vf -`},
		{
			"gpu=100 partition=Restricted isolation=HAMi-core",
			`"gpu" {100 0 100} 1 false 0 0 - vf -;0 false "HAMi-core" {Policy:Restricted Bandwidth:0}`,
		},
		// Refused.
		{"gpu=150", "invalid resource unit koordinator.sh/gpu: 150: must be up to 100, or a multiple of 100"},
		{"rdma=101", "invalid resource unit koordinator.sh/rdma: 101: must be up to 100, or a multiple of 100"},
		{"rdma=-1", "invalid resource device requests: [koordinator.sh/rdma]: koordinator.sh/rdma=-1: must be a number that a node may have"},
		{"gpu=-100", "invalid resource device requests: [koordinator.sh/gpu]: koordinator.sh/gpu=-100: must be a number that a node may have"},
		{
			"gpu-memory-ratio=150",
			"invalid resource device requests: [koordinator.sh/gpu-memory-ratio]: koordinator.sh/gpu-memory-ratio=150: must be up to 100, or a " +
				"multiple of 100",
		},
		{
			"gpu-core=150 gpu-memory=1Gi",
			"invalid resource device requests: [koordinator.sh/gpu-core koordinator.sh/gpu-memory]: koordinator.sh/gpu-core=150: must be up to " +
				"100, or a multiple of 100",
		},
		{
			"gpu-core=200 gpu-memory=1Gi",
			"invalid resource device requests: [koordinator.sh/gpu-core koordinator.sh/gpu-memory]: koordinator.sh/gpu-core=200: must be at most " +
				"100 for each GPU, and memory is asked of 1",
		},
		{
			"gpu.shared=3 gpu-memory-ratio=100",
			"invalid resource device requests: [koordinator.sh/gpu-memory-ratio koordinator.sh/gpu.shared]: koordinator.sh/gpu-memory-ratio=100: " +
				"must be the same for each of 3 GPUs, at most 100",
		},
		{
			"gpu.shared=1 gpu-memory-ratio=200",
			"invalid resource device requests: [koordinator.sh/gpu-memory-ratio koordinator.sh/gpu.shared]: koordinator.sh/gpu-memory-ratio=200: " +
				"must be the same for each of 1 GPUs, at most 100",
		},
		{
			"gpu.shared=4 gpu-memory=3",
			"invalid resource device requests: [koordinator.sh/gpu-memory koordinator.sh/gpu.shared]: koordinator.sh/gpu-memory=3: must be at " +
				"least 1 byte for each of 4 GPUs",
		},
		{
			"gpu-core=30",
			"invalid resource device requests: [koordinator.sh/gpu-core]: must be one of nvidia.com/gpu, amd.com/gpu, dcu.com/gpu, gpu, " +
				"gpu-memory, gpu-memory-ratio, gpu-core+gpu-memory, gpu-core+gpu-memory-ratio, gpu.shared+gpu-memory, gpu.shared+gpu-memory-ratio, " +
				"gpu.shared+gpu-core+gpu-memory, gpu.shared+gpu-core+gpu-memory-ratio",
		},
		{"gpu=100 nvidia.com/gpu=1", "invalid resource device requests: [koordinator.sh/gpu nvidia.com/gpu]: must be one of"},
		{
			"huawei.com/npu-core=4 gpu-memory-ratio=50",
			"invalid resource device requests: [huawei.com/npu-core]: huawei.com/npu-core=4: must be left out: templates of NPUs are not supported",
		},
		{
			"gpu=100 gpu.scope=pcie",
			`scheduling.koordinator.sh/device-allocate-hint: gpu.requiredTopologyScope: "pcie": must be Device, PCIe, NUMANode or Node`,
		},
		{
			"gpu=100 rdma.alone=Card",
			`scheduling.koordinator.sh/device-allocate-hint: rdma.exclusivePolicy: "Card": must be DeviceLevel or PCIeLevel`,
		},
		{
			"rdma=1 rdma.strategy=All",
			`scheduling.koordinator.sh/device-allocate-hint: rdma.allocateStrategy: "All": must be ApplyForAll or RequestsAsCount`,
		},
		{
			"gpu=100 gpu.strategy=ApplyForAll",
			`scheduling.koordinator.sh/device-allocate-hint: gpu.allocateStrategy: "ApplyForAll": must be left out: ` +
				`GPUs are counted by their resources`,
		},
		{
			"gpu=100 rdma=1 joint=fpga+gpu",
			`scheduling.koordinator.sh/device-joint-allocate: deviceTypes[0]: "fpga": must be a type of which the pod requests devices`,
		},
		{
			"gpu=100 rdma=1 joint=gpu+rdma jointscope=SameNUMA",
			`scheduling.koordinator.sh/device-joint-allocate: requiredScope: "SameNUMA": must be SamePCIe`,
		},
		{"gpu=100 partition=Best", `scheduling.koordinator.sh/gpu-partition-spec: allocatePolicy: "Best": must be Restricted or BestEffort`},
	} {
		a, err := ask(strings.Fields(c.ask))
		assert.NoError(t, err)
		r, bad := a.Request()
		got := "nothing"
		switch {
		case bad != nil:
			got = bad.Text()
		case r != nil:
			got = r.Key()
		}
		assert.True(t, strings.HasPrefix(got, c.want), "%s\nsays  %s\nnot   %s", c.ask, got, c.want)
	}
}

// TestSelectors: as Kubernetes selects.
func TestSelectors(t *testing.T) {
	s := func(key, operator string, values ...string) *device.Selector {
		return &device.Selector{Requirements: []device.Requirement{{Key: key, Operator: operator, Values: values}}}
	}
	labels := map[string]string{"a": "1"}
	for _, c := range []struct {
		*device.Selector
		matches bool
		bad     string
	}{
		{nil, true, ""},
		{&device.Selector{}, true, ""},
		{s("a", "In", "2", "1"), true, ""},
		{s("a", "In", "2"), false, ""},
		{s("b", "In", ""), false, ""},
		{s("a", "NotIn", "1"), false, ""},
		{s("a", "NotIn", "2"), true, ""},
		{s("b", "NotIn", "1"), true, ""},
		{s("a", "Exists"), true, ""},
		{s("b", "Exists"), false, ""},
		{s("a", "DoesNotExist"), false, ""},
		{s("b", "DoesNotExist"), true, ""},
		{s("a", "In"), false, `: a: "In": must be In with values`},
		{s("a", "Exists", "1"), true, `: a: "Exists": must be Exists without values`},
		{s("a", "Gt", "1"), true, `: a: "Gt": must be In, NotIn, Exists or DoesNotExist`},
		{s("", "Exists"), false, `: "": must be a key in every requirement`},
	} {
		_, bad := device.Ask{
			Resources: []device.Resource{{Name: device.RDMAUnits, Value: 1}},
			Hints:     []device.Hint{{Type: device.RDMA, VFs: c.Selector}},
		}.Request()
		if c.bad != "" {
			assert.Equal(t, device.HintField+": rdma.vfSelector"+c.bad, bad.Text())
			continue
		}
		assert.Nil(t, bad)
		assert.Equal(t, c.matches, c.Matches(labels), "%s", c.Selector)
	}
}

// TestMissing: without a Device object only a vendor's resource may be counted by another plugin.
func TestMissing(t *testing.T) {
	for ask1, want := range map[string]string{
		"nvidia.com/gpu=2":        "",
		"gpu=100":                 "node(s) missing Device",
		"rdma=1":                  "node(s) missing Device",
		"nvidia.com/gpu=2 rdma=1": "node(s) missing Device",
	} {
		a, err := ask(strings.Fields(ask1))
		assert.NoError(t, err)
		r, bad := a.Request()
		assert.Nil(t, bad)
		got := ""
		if why := device.Missing(r); why != nil {
			got = why.Text()
		}
		assert.Equal(t, want, got, ask1)
	}
}
