package deviceshare

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// d8 is the Device object of a node with eight GPUs on four switches, two on each NUMA node, with a NIC each.
func d8(sick ...int) object {
	var all []any
	for i := range 8 {
		health := true
		for _, s := range sick {
			health = health && s != i
		}
		all = append(all, map[string]any{
			"type": "gpu", "minor": int64(i), "health": health, "topology": map[string]any{"nodeID": int64(i / 4), "pcieID": fmt.Sprint("p", i/2)},
			"resources": map[string]any{
				"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi",
				"koordinator.sh/gpu-memory-ratio": "100",
			},
		})
	}
	for i := range 4 {
		all = append(all, map[string]any{
			"type": "rdma", "minor": int64(i), "health": true, "topology": map[string]any{"nodeID": int64(i / 2), "pcieID": fmt.Sprint("p", i)},
			"resources": map[string]any{"koordinator.sh/rdma": "100"},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "n"}, "spec": map[string]any{"devices": all}}}
}

// wanting is a pod that wants resources, such as "koordinator.sh/gpu=200", and says something of them.
func wanting(name, resources string, says map[string]string) *v1.Pod {
	list := v1.ResourceList{}
	for word := range strings.FieldsSeq(resources) {
		key, value, _ := strings.Cut(word, "=")
		list[v1.ResourceName(key)] = resource.MustParse(value)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: says},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}},
	}
}

// has is a pod on the node that holds GPUs.
func has(name string, minors ...int) *v1.Pod {
	var a device.Allocation
	for _, m := range minors {
		a = append(a, device.Share{Type: device.GPU, Minor: m, Amount: device.Amount{Core: 100, Memory: 80 << 30, Ratio: 100}})
	}
	p := wanting(name, fmt.Sprintf("koordinator.sh/gpu=%d00", len(minors)),
		map[string]string{convert.DeviceAllocated: convert.DeviceAnnotation(a)})
	p.Spec.NodeName = "n"
	return p
}

func nodeWith(t require.TestingT, pods ...*v1.Pod) fwk.NodeInfo {
	n := framework.NewNodeInfo()
	n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	for _, p := range pods {
		n.AddPodInfo(infoOf(t, p))
	}
	return n
}

func infoOf(t require.TestingT, pod *v1.Pod) fwk.PodInfo {
	info, err := framework.NewPodInfo(pod)
	require.NoError(t, err)
	return info
}

// filter asks the plugin about a pod, as a cycle does.
func filter(p *Plugin, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	state := framework.NewCycleState()
	if _, s := p.PreFilter(context.Background(), state, pod, nil); !s.IsSuccess() {
		return s
	}
	return p.Filter(context.Background(), state, pod, node)
}

func TestFilter(t *testing.T) {
	vendor := wanting("p", "nvidia.com/gpu=1", nil)
	four, two := wanting("p", "koordinator.sh/gpu=400", nil), wanting("q", "koordinator.sh/gpu=200", nil)
	bound := func(name, resources, hint string) *v1.Pod { // by a scheduler that writes no devices
		p := wanting(name, resources, map[string]string{device.HintField: hint})
		p.Spec.NodeName = "n"
		return p
	}
	misread := d8()
	misread.Object["spec"].(map[string]any)["devices"].([]any)[0].(map[string]any)["minor"] = int64(1)
	for name, c := range map[string]struct {
		device object
		on     []*v1.Pod
		pod    *v1.Pod
		code   fwk.Code
		says   string
	}{
		"no devices wanted":      {nil, nil, wanting("p", "cpu=1", nil), fwk.Skip, ""},
		"no Device object":       {nil, nil, four, fwk.UnschedulableAndUnresolvable, "node(s) missing Device"},
		"a vendor's are counted": {nil, nil, vendor, fwk.Skip, ""},
		"another's are counted":  {nil, nil, wanting("p", "huawei.com/npu-core=1", nil), fwk.Skip, ""},
		"free":                   {d8(), nil, four, fwk.Success, ""},
		"a vendor's are chosen":  {d8(), []*v1.Pod{has("a", 0, 1, 2, 3, 4, 5, 6, 7)}, vendor, fwk.Unschedulable, "Insufficient"},
		"others hold some":       {d8(), []*v1.Pod{has("a", 0, 1, 2)}, four, fwk.Success, ""},
		"others hold too many":   {d8(), []*v1.Pod{has("a", 0, 1, 2, 3, 4)}, four, fwk.Unschedulable, "Insufficient"},
		"others will choose":     {d8(), []*v1.Pod{has("a", 0, 1), four}, two, fwk.Success, ""},
		"too many others will":   {d8(), []*v1.Pod{has("a", 0, 1, 2), four}, two, fwk.Unschedulable, "Insufficient"},
		"too few are healthy":    {d8(0, 1, 2, 3, 4), nil, four, fwk.UnschedulableAndUnresolvable, "Insufficient"},
		"it cannot be meant": {
			d8(), nil, wanting("p", "koordinator.sh/gpu-memory-ratio=150", nil),
			fwk.UnschedulableAndUnresolvable, "invalid resource device requests",
		},
		"two victims with unknown devices": {
			d8(),
			[]*v1.Pod{bound("a", "nvidia.com/gpu=4", "{}"), bound("b", "nvidia.com/gpu=4", "{}")},
			four,
			fwk.Unschedulable, "Insufficient GPU Devices",
		},
		"a bound pod needs more than exists": {
			d8(0),
			[]*v1.Pod{bound("a", "nvidia.com/gpu=8", "{}")},
			four, fwk.Unschedulable,
			"Insufficient GPU Devices",
		},
		"but of GPUs only": {
			d8(0),
			[]*v1.Pod{bound("a", "nvidia.com/gpu=8", "{}")},
			wanting("p", "koordinator.sh/rdma=50", nil), fwk.Success, "",
		},
		"unless a pod needs both": {
			d8(0),
			[]*v1.Pod{bound("a", "nvidia.com/gpu=8", "{}"), bound("b", "nvidia.com/gpu=1 koordinator.sh/rdma=1", "{}")},
			wanting("p", "koordinator.sh/rdma=50", nil), fwk.Unschedulable, "node(s) have devices for each of several pods, but not for all",
		},
		"a bound pod has an invalid annotation": {
			d8(),
			[]*v1.Pod{bound("a", "nvidia.com/gpu=5", "{")},
			four, fwk.Unschedulable,
			"Insufficient GPU Devices",
		},
		"an unreadable Device object": {misread, nil, four, fwk.UnschedulableAndUnresolvable, "node(s) have a Device that cannot be read"},
		"nor a vendor's": {
			misread, nil, vendor, fwk.UnschedulableAndUnresolvable,
			"node(s) have a Device that cannot be read",
		},
		"an unreadable annotation": {
			d8(), nil, wanting("p", "koordinator.sh/gpu=100", map[string]string{device.HintField: "{"}),
			fwk.UnschedulableAndUnresolvable, device.HintField,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plugin{Room: &Room{}}
			if c.device != nil {
				p.devices.set(c.device)
			}
			s := filter(p, c.pod, nodeWith(t, c.on...))
			require.Equal(t, c.code, s.Code(), s.Message())
			require.Contains(t, s.Message(), c.says)
		})
	}
}

// TestDeviceIsGone: a node without its Device object takes no pods with a vendor's GPUs while a pod there holds GPUs
// that no other plugin counts.
func TestDeviceIsGone(t *testing.T) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	require.True(t, p.devices.drop("n"))
	vendor := wanting("p", "nvidia.com/gpu=1", nil)
	s := filter(p, vendor, nodeWith(t, has("a", 0)))
	require.Equal(t, fwk.UnschedulableAndUnresolvable, s.Code())
	require.Equal(t, "node(s) missing Device", s.Message())
	n, _ := page{p.Room}.Rehearse().(*rehearsal).Count(t.Context(), vendor, nodeWith(t, has("a", 0)), 1)
	require.Zero(t, n)

	require.True(t, filter(p, vendor, nodeWith(t)).IsSuccess())
	counted := has("b", 0)
	counted.Spec.Containers[0].Resources.Requests = vendor.Spec.Containers[0].Resources.Requests
	require.True(t, filter(p, vendor, nodeWith(t, counted)).IsSuccess(), "the node itself counts it")
}

// TestOfferedTwice: what a node's Device and a DeviceClass both offer is given by neither, since neither knows what the
// other gave; a node that counts it itself, or of which there is no Device, is asked as ever. All that asks hears the same.
func TestOfferedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		resources string
		counts    string // by the node itself
		devices   bool
		room      bool
	}{
		"by both":                  {"nvidia.com/gpu=1", "", true, false},
		"counted by the node":      {"nvidia.com/gpu=1", "8", true, true},
		"counted as none":          {"nvidia.com/gpu=1", "0", true, false},
		"by the class alone":       {"nvidia.com/gpu=1", "", false, true},
		"by the Device alone":      {"koordinator.sh/gpu=100", "", true, true},
		"one of two by both":       {"nvidia.com/gpu=1 koordinator.sh/rdma=1", "", true, false},
		"another vendor's, by one": {"amd.com/gpu=1", "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plugin{Room: &Room{}}
			p.byClass = func(name v1.ResourceName) bool { return name == device.NvidiaGPU }
			if c.devices {
				p.devices.set(d8())
			} else {
				other := d8()
				other.SetName("other")
				p.devices.set(other)
			}
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{}}}
			if c.counts != "" {
				node.Status.Allocatable[device.NvidiaGPU] = resource.MustParse(c.counts)
			}
			info := framework.NewNodeInfo()
			info.SetNode(node)
			pod := wanting("p", c.resources, nil)
			r := page{p.Room}.Rehearse().(*rehearsal)
			n, _ := r.Count(t.Context(), pod, info, 1)
			require.Equal(t, c.room, n == 1)
			require.Equal(t, c.room, r.Take(t.Context(), pod, info).IsSuccess())
			s := filter(p, pod, info)
			require.Equal(t, c.room, s.IsSuccess())
			if !c.room {
				require.Equal(t, fwk.UnschedulableAndUnresolvable, s.Code())
				require.Equal(t, "node(s) offer nvidia.com/gpu twice: by a Device and by a DeviceClass", s.Message())
			}
		})
	}
}

// TestHoldings: what was chosen counts from then on until the pod says it itself, whatever it said before.
func TestHoldings(t *testing.T) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	pod := wanting("a", "koordinator.sh/gpu=400", map[string]string{convert.DeviceAllocated: `{"gpu":[{"minor":7}]}`})
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = "n"
	chosen := has("a", 0, 1, 2, 3)
	a, err := convert.DeviceAllocation(chosen)
	require.NoError(t, err)
	near := wanting("b", "koordinator.sh/gpu=500", nil)
	p.holdings.put(pod, "n", a)
	require.False(t, filter(p, near, nodeWith(t, assumed)).IsSuccess())
	require.True(t, filter(p, wanting("c", "koordinator.sh/gpu=400", nil), nodeWith(t, assumed)).IsSuccess())

	written := chosen.DeepCopy()
	require.False(t, filter(p, near, nodeWith(t, written)).IsSuccess())
	require.Empty(t, p.holdings.byPod, "it is seen in the pod")

	p.holdings.put(pod, "n", a)
	p.deleted(pod)
	require.True(t, filter(p, near, nodeWith(t)).IsSuccess())
	require.Empty(t, p.holdings.byPod)
}

// TestChoose: members of a gang choose together, in their order, whichever member comes first; other expected pods are left
// room where there is any.
func TestChoose(t *testing.T) {
	near := map[string]string{device.HintField: `{"gpu":{"requiredTopologyScope":"PCIe"}}`}
	first, second, third := wanting("g-0", "koordinator.sh/gpu=100", nil), wanting("g-1", "koordinator.sh/gpu=200", near), wanting("g-2",
		"koordinator.sh/gpu=200", near)
	other := wanting("other", "koordinator.sh/gpu=200", near)
	for name, c := range map[string]struct {
		who    *v1.Pod
		own    []*v1.Pod
		others []*v1.Pod
		want   string
	}{
		"the first leaves whole switches": {first, []*v1.Pod{first, second, third}, nil, "gpu 3"},
		"the second":                      {second, []*v1.Pod{first, second, third}, nil, "gpu 4,5"},
		"the last before the others":      {third, []*v1.Pod{first, second, third}, nil, "gpu 6,7"},
		"others are left room":            {first, []*v1.Pod{first}, []*v1.Pod{second, third}, "gpu 3"},
		"or not, where there is none":     {third, []*v1.Pod{second, third}, []*v1.Pod{other}, "gpu 6,7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Room{Expected: func(*v1.Pod, string) (own, others []*v1.Pod) { return c.own, c.others }}
			r.devices.set(d8())
			v := r.view(nodeWith(t, has("used", 0, 1, 2)))
			a, why := r.choose(c.who, r.requested(c.who).request, v, "n")
			require.Nil(t, why)
			is := c.who.DeepCopy()
			is.Spec.NodeName, is.Annotations = "n", map[string]string{convert.DeviceAllocated: convert.DeviceAnnotation(a)}
			require.Equal(t, c.want, convert.DevicesText(is))
		})
	}
}

// TestLedgerAgreesWithFilter: as many pods as the ledger counts pass the Filter, each with the earlier pods on the
// node. The count is the same for all at once and for one by one.
func TestLedgerAgreesWithFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Plugin{Room: &Room{}}
		p.devices.set(d8(rapid.SliceOfN(rapid.IntRange(0, 7), 0, 2).Draw(t, "sick")...))
		var on []*v1.Pod
		for i, m := range rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 0, 4, rapid.ID).Draw(t, "used") {
			on = append(on, has(fmt.Sprint("used-", i), m))
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "some will choose") {
			on = append(on, drawPod(t, fmt.Sprint("open-", i)))
		}
		pod := drawPod(t, "p")
		node := nodeWith(t, on...)
		page := page{p.Room}
		rehearsal := page.Rehearse().(*rehearsal)
		leaves := len(on) > 0 && rapid.Bool().Draw(t, "a pod terminates")
		if leaves {
			rehearsal.Release(on[0])
		}
		at := node.Snapshot()
		if leaves {
			at = nodeWith(t, on[1:]...)
		}
		slots, _ := rehearsal.Count(t.Context(), pod, node, 100)
		var inTurn, filtered int
		for rehearsal.Take(t.Context(), pod, node).IsSuccess() {
			inTurn++
		}
		for filter(p, pod, at).IsSuccess() {
			at.AddPodInfo(infoOf(t, pod))
			filtered++
		}
		require.Equal(t, filtered, inTurn)
		require.Equal(t, filtered, slots)
		for range inTurn {
			rehearsal.Undo()
		}
		require.Len(t, rehearsal.nodes["n"].members.Members(), len(rehearsal.nodes["n"].open))
	})
}

func drawPod(t *rapid.T, name string) *v1.Pod {
	return wanting(name, rapid.SampledFrom([]string{
		"koordinator.sh/gpu=100", "koordinator.sh/gpu=200", "koordinator.sh/gpu=400", "koordinator.sh/gpu-memory=30Gi", "koordinator.sh/rdma=50",
		"koordinator.sh/gpu-core=30 koordinator.sh/gpu-memory-ratio=40", "koordinator.sh/gpu=200 koordinator.sh/rdma=50",
	}).Draw(t, name), rapid.SampledFrom([]map[string]string{
		nil, {device.HintField: `{"gpu":{"requiredTopologyScope":"NUMANode"}}`}, {device.HintField: `{"gpu":{"exclusivePolicy":"DeviceLevel"}}`},
	}).Draw(t, name+" says"))
}

// BenchmarkCount: how many members a node takes, at once and one after the other.
func BenchmarkCount(b *testing.B) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	pod := wanting("p", "koordinator.sh/gpu-core=10 koordinator.sh/gpu-memory-ratio=10", nil)
	node := nodeWith(b)
	b.Run("at once", func(b *testing.B) {
		for b.Loop() {
			page{p.Room}.Rehearse().(*rehearsal).Count(b.Context(), pod, node, 100)
		}
	})
	b.Run("in turn", func(b *testing.B) {
		for b.Loop() {
			for r := (page{p.Room}).Rehearse(); r.Take(b.Context(), pod, node).IsSuccess(); { //nolint:revive // that is all
			}
		}
	})
}
