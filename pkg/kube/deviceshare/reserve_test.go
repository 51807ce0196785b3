package deviceshare

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// oneNode is a scheduler that sees one node.
type oneNode struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	node fwk.NodeInfo
}

func (o oneNode) SnapshotSharedLister() fwk.SharedLister    { return o }
func (o oneNode) NodeInfos() fwk.NodeInfoLister             { return o }
func (o oneNode) Get(string) (fwk.NodeInfo, error)          { return o.node, nil }
func (p *Plugin) sees(node fwk.NodeInfo) *Plugin            { p.handle = oneNode{node: node}; return p }
func (p *Plugin) reserves(t *testing.T, pod *v1.Pod) string { return p.reserve(t, pod).Message() }

func (p *Plugin) reserve(t *testing.T, pod *v1.Pod) *fwk.Status {
	return p.Reserve(t.Context(), nil, pod, "n")
}

// TestReserve: no other pod is given the devices of a pod, though the scheduler does not see that pod on the node; another node
// has nothing to do with it. When it is given back the next one may have it. The node is asked as it is now, not as it was when
// Filter was.
func TestReserve(t *testing.T) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	node := nodeWith(t)
	p.sees(node)
	five, four := wanting("a", "koordinator.sh/gpu=500", nil), wanting("b", "koordinator.sh/gpu=400", nil)
	require.Empty(t, p.reserves(t, five))
	require.Equal(t, "Insufficient GPU Devices", p.reserves(t, four))
	require.NotNil(t, p.holdings.choiceFor(five, "n"))
	require.Nil(t, p.holdings.choiceFor(five, "m"))

	seen := five.DeepCopy()
	seen.Spec.NodeName = "n"
	require.True(t, filter(p, four, node).IsSuccess(), "the pod is not on this node yet")
	node.AddPodInfo(infoOf(t, seen))
	require.False(t, filter(p, four, node).IsSuccess())
	p.Unreserve(t.Context(), nil, five, "n")
	require.False(t, filter(p, four, node).IsSuccess(), "it is to choose anew")
	require.NoError(t, node.RemovePod(klog.Background(), seen))
	require.True(t, filter(p, four, node).IsSuccess())
	require.Empty(t, p.reserves(t, four))

	p.devices.drop("n")
	require.Equal(t, "node(s) missing Device", p.reserves(t, wanting("c", "koordinator.sh/gpu=100", nil)))
	require.Empty(t, p.reserves(t, wanting("d", "nvidia.com/gpu=1", nil)), "the node counts it")
}

// TestViewsAreAsOfNow: a view is renewed when a pod of the node was given devices, when its Device object says something else,
// and when its labels do.
func TestViewsAreAsOfNow(t *testing.T) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	pod := wanting("a", "koordinator.sh/gpu=800", nil)
	on := pod.DeepCopy()
	on.Spec.NodeName = "n"
	node := nodeWith(t, on)
	nics := wanting("b", "koordinator.sh/rdma=400", nil)
	require.True(t, filter(p, nics, node).IsSuccess())
	p.holdings.put(pod, "n", device.Allocation{{Type: device.RDMA, Minor: 0, Amount: device.Amount{Core: 100}}})
	require.False(t, filter(p, nics, node).IsSuccess(), "a NIC was given")
	p.holdings.drop(pod.UID)
	require.True(t, filter(p, nics, node).IsSuccess())

	three := wanting("c", "koordinator.sh/gpu=300", nil)
	empty := nodeWith(t)
	require.True(t, filter(p, three, empty).IsSuccess())
	honours := d8()
	honours.SetLabels(map[string]string{"node.koordinator.sh/gpu-partition-policy": "Honor"})
	require.True(t, p.devices.set(honours), "its label says something else")
	require.False(t, p.devices.set(honours.DeepCopy()))
	require.Equal(t, "node(s) missing GPU Partition Table", filter(p, three, empty).Message())
	empty.Node().Labels = map[string]string{"node.koordinator.sh/gpu-model": "H100"}
	require.Equal(t, "node(s) Unsupported number of GPU requests", filter(p, three, empty).Message())
}

// TestExpectedPodsKeepDevices: a pod does not take a device that an expected pod needs, if it may have another one.
func TestExpectedPodsKeepDevices(t *testing.T) {
	near := map[string]string{device.JointField: `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`}
	pod, other := wanting("a", "koordinator.sh/gpu=100", nil), wanting("b", "koordinator.sh/gpu=100 koordinator.sh/rdma=100", near)
	nic := wanting("c", "koordinator.sh/rdma=100",
		map[string]string{convert.DeviceAllocated: `{"rdma":[{"minor":3,"resources":{"koordinator.sh/rdma":"100"}}]}`})
	nic.Spec.NodeName = "n"
	for want, expected := range map[int][]*v1.Pod{5: nil, 7: {other}} {
		r := &Room{Expected: func(*v1.Pod, string) (own, others []*v1.Pod) { return []*v1.Pod{pod}, expected }}
		r.devices.set(d8())
		a, why := r.choose(pod, r.requested(pod).request, r.view(nodeWith(t, nic, has("used", 0, 1, 2, 3, 4, 6))), "n")
		require.Nil(t, why)
		require.Equal(t, want, a[0].Minor)
	}
}

// TestWordsOfOthers: a pod that is only expected on a node, say nominated, has none of the devices that stand in it.
func TestWordsOfOthers(t *testing.T) {
	p := &Plugin{Room: &Room{}}
	p.devices.set(d8())
	copied := has("a", 0)
	copied.Spec.NodeName = ""
	copied.Spec.Containers[0].Resources.Requests = v1.ResourceList{device.WholeGPU: resource.MustParse("800")}
	require.False(t, filter(p, wanting("b", "koordinator.sh/gpu=100", nil), nodeWith(t, copied)).IsSuccess())
}

// TestHints: what may cure a refusal, and what does not.
func TestHints(t *testing.T) {
	p := &Plugin{Room: &Room{byClass: func(name v1.ResourceName) bool { return name == device.NvidiaGPU }}}
	waits, wrong := wanting("p", "nvidia.com/gpu=1", nil), wanting("q", "koordinator.sh/gpu=150", nil)
	node := func(label, counts string) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node.koordinator.sh/gpu-model": label}},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{device.NvidiaGPU: resource.MustParse(counts)}},
		}
	}
	isolated := func(pod *v1.Pod) *v1.Pod {
		labelled := pod.DeepCopy()
		metav1.SetMetaDataLabel(&labelled.ObjectMeta, "koordinator.sh/gpu-isolation-provider", "HAMi-core")
		return labelled
	}
	plain := wanting("r", "cpu=1", nil)
	for name, c := range map[string]struct {
		hint        fwk.QueueingHintFn
		pod         *v1.Pod
		before, now any
		queues      bool
	}{
		"a pod with devices is gone":        {p.devicesFreed, waits, has("a", 0), nil, true},
		"a pod that wanted devices is gone": {p.devicesFreed, waits, wanting("a", "koordinator.sh/gpu=100", nil), nil, true},
		"a pod without devices is gone":     {p.devicesFreed, waits, wanting("a", "cpu=1", nil), nil, false},
		"nothing helps what is wrong":       {p.devicesFreed, wrong, has("a", 0), nil, false},
		"a node comes":                      {p.nodeChanged, waits, nil, node("a", "0"), true},
		"another model":                     {p.nodeChanged, waits, node("a", "0"), node("b", "0"), true},
		"the same model":                    {p.nodeChanged, waits, node("a", "0"), node("a", "8"), false},
		"a node begins to count":            {p.nodeCountsResource, waits, node("a", "0"), node("a", "8"), true},
		"it has counted already":            {p.nodeCountsResource, waits, node("a", "4"), node("a", "8"), false},
		"it counts what is not wanted":      {p.nodeCountsResource, wanting("p", "amd.com/gpu=1", nil), node("a", "0"), node("a", "8"), false},
		"a class changes":                   {p.classChanged, waits, nil, nil, true},
		"for a pod without device requests": {p.classChanged, wanting("p", "cpu=1", nil), nil, nil, false},
		"or for an invalid pod":             {p.classChanged, wrong, nil, nil, false},
		"another isolation provider":        {p.requestChanged, waits, waits, isolated(waits), true},
		"none for a pod without devices":    {p.requestChanged, plain, plain, isolated(plain), false},
	} {
		hint, err := c.hint(klog.Background(), c.pod, c.before, c.now)
		require.NoError(t, err)
		require.Equal(t, c.queues, hint == fwk.Queue, name)
	}
	require.NotEqual(t, page{p.Room}.Entry(waits), page{&Room{}}.Entry(waits), "with the class other nodes do")
}
