package connect

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gpuNode is one as a GPU operator and a kubelet write it, read from the wire.
func gpuNode(i int) *v1.Node {
	name := fmt.Sprintf("gpu-node-%d.cluster.example.com", i)
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.LabelHostname: name, "topology/spine": fmt.Sprint("spine-", i/128)},
			Annotations:   map[string]string{"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"csi.example.com":"i-%016d"}`, i)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 2000))}},
		},
		Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: v1.TaintEffectNoSchedule}}},
		Status: v1.NodeStatus{
			NodeInfo: v1.NodeSystemInfo{
				MachineID: fmt.Sprintf("%032d", i), KernelVersion: "6.8.0-1021-nvidia", OSImage: "Ubuntu 24.04.2 LTS",
				ContainerRuntimeVersion: "containerd://2.1.4",
				KubeletVersion:          "v1.37.0", OperatingSystem: "linux", Architecture: "amd64",
			},
			Conditions: []v1.NodeCondition{
				{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
				{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
			},
		},
	}
	for k := range 100 {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%d", k)] = "true"
	}
	for k := range 50 {
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", k, k), fmt.Sprintf("registry.example.com/team/image-%d:v1", k),
			}, SizeBytes: int64(k),
		})
	}
	n.Status.Capacity = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("192"), v1.ResourceMemory: resource.MustParse("2Ti"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	return n
}

// read is a node as it comes from the API server: nothing of it is shared with another one.
func read(t testing.TB, n *v1.Node) *v1.Node {
	wire, err := n.Marshal()
	require.NoError(t, err)
	out := &v1.Node{}
	require.NoError(t, out.Unmarshal(wire))
	return out
}

// TestNodesShareTheirWords: nodes are kept unchanged except for their managed fields, and equal strings are kept
// once. The given node is not changed.
func TestNodesShareTheirWords(t *testing.T) {
	w := &stringPool{}
	for i, node := range []*v1.Node{gpuNode(0), gpuNode(1), {}, {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}} {
		given := node.DeepCopy()
		var was []*byte // concurrent readers of the given node must not see a write
		for _, image := range given.Status.Images {
			was = append(was, unsafe.StringData(image.Names[0]))
		}
		kept := w.shareStrings(given)
		for k, image := range given.Status.Images {
			require.Same(t, was[k], unsafe.StringData(image.Names[0]))
		}
		require.Equal(t, node, given, "%d", i)
		require.Nil(t, kept.ManagedFields)
		kept.ManagedFields = node.ManagedFields
		require.Equal(t, node, kept, "%d", i)
	}
	a, b := w.shareStrings(read(t, gpuNode(2))), w.shareStrings(read(t, gpuNode(3)))
	same := func(a, b string) {
		t.Helper()
		require.Equal(t, a, b)
		require.Same(t, unsafe.StringData(a), unsafe.StringData(b), a)
	}
	same(a.Labels["topology/spine"], b.Labels["topology/spine"])
	same(a.Spec.Taints[0].Key, b.Spec.Taints[0].Key)
	same(a.Status.Conditions[0].Message, b.Status.Conditions[0].Message)
	same(a.Status.Images[7].Names[0], b.Status.Images[7].Names[0])
	same(a.Status.NodeInfo.KernelVersion, b.Status.NodeInfo.KernelVersion)
	require.NotContains(t, w.copies, a.Name, "what is of one node only is not remembered")
	require.NotContains(t, w.copies, a.Annotations["csi.volume.kubernetes.io/nodeid"])
}

// TestWordsAreBounded: a label that differs at each node does not fill the memory.
func TestWordsAreBounded(t *testing.T) {
	w := &stringPool{}
	for i := range 3 * maxStrings / 2 {
		word := fmt.Sprint("serial-", i)
		require.Equal(t, word, w.intern(word))
	}
	require.LessOrEqual(t, len(w.copies), maxStrings)
	long := strings.Repeat("x", maxStringLength+1)
	require.Equal(t, long, w.intern(long))
	require.NotContains(t, w.copies, long)
}

// BenchmarkNodesKept says what a node costs while it is kept, as it is read and with words that are shared.
func BenchmarkNodesKept(b *testing.B) {
	const nodes = 1000
	for name, keep := range map[string]func(*v1.Node) *v1.Node{
		"as read": func(n *v1.Node) *v1.Node { n.ManagedFields = nil; return n },
		"sharing": (&stringPool{}).shareStrings,
	} {
		b.Run(name, func(b *testing.B) {
			wire, err := gpuNode(0).Marshal()
			require.NoError(b, err)
			for b.Loop() {
				var before, after runtime.MemStats
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				kept := make([]*v1.Node, nodes)
				for i := range kept {
					n := &v1.Node{}
					require.NoError(b, n.Unmarshal(wire))
					kept[i] = keep(n)
				}
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/nodes/1024, "KiB/node")
				b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/nodes, "objects/node")
				runtime.KeepAlive(kept)
				b.StartTimer()
			}
		})
	}
}
