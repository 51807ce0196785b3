package plugin_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// gpuNode is a node with eight GPUs, as far as a Node says so.
func gpuNode(name string) *v1.Node {
	list := v1.ResourceList{
		"cpu": resource.MustParse("64"), "pods": resource.MustParse("64"),
		"koordinator.sh/gpu": resource.MustParse("800"), "koordinator.sh/gpu-memory-ratio": resource.MustParse("800"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"spine": "s", "block": "b", v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Capacity: list, Allocatable: list},
	}
}

// deviceOf is the Device object of such a node, of which so many GPUs are healthy.
func deviceOf(name string, healthy int) *unstructured.Unstructured {
	var gpus []any
	for i := range 8 {
		gpus = append(gpus, map[string]any{
			"type": "gpu", "minor": int64(i), "id": fmt.Sprint(name, "-", i), "health": i < healthy,
			"resources": map[string]any{
				"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi", "koordinator.sh/gpu-memory-ratio": "100",
			},
			"topology": map[string]any{"nodeID": int64(i / 4), "pcieID": fmt.Sprint("p", i/2)},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"devices": gpus},
	}}
}

// withDevices is a cluster of such nodes, with Device objects in which all GPUs are healthy.
func withDevices(t *testing.T, nodes ...string) *testcluster.Cluster {
	var objects []runtime.Object
	for _, name := range nodes {
		objects = append(objects, gpuNode(name))
	}
	c := testcluster.New(t, "", objects...)
	c.Serves = []schema.GroupVersionResource{convert.Devices}
	for _, name := range nodes {
		setDevice(t, c, deviceOf(name, 8))
	}
	return c
}

func setDevice(t *testing.T, c *testcluster.Cluster, u *unstructured.Unstructured) {
	t.Helper()
	all := c.Custom.Resource(convert.Devices)
	if _, err := all.Get(t.Context(), u.GetName(), metav1.GetOptions{}); err == nil {
		_, err = all.Update(t.Context(), u, metav1.UpdateOptions{})
		require.NoError(t, err)
		return
	}
	_, err := all.Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
}

// wanting has a pod want so many percent of GPUs.
func wanting(p *v1.Pod, percent string) *v1.Pod {
	p.Spec.Containers[0].Resources.Requests["koordinator.sh/gpu"] = resource.MustParse(percent)
	return p
}

// holding has a pod hold GPUs.
func holding(p *v1.Pod, minors ...int) *v1.Pod {
	var all []string
	for _, m := range minors {
		all = append(all, fmt.Sprintf(`{"minor":%d,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}`, m))
	}
	p.Annotations = map[string]string{convert.DeviceAllocated: `{"gpu":[` + strings.Join(all, ",") + `]}`}
	return p
}

// given returns the devices of some pods, and checks that no device is given twice.
func given(t *testing.T, c *testcluster.Cluster, names ...string) string {
	t.Helper()
	var out []string
	by := map[string]string{}
	for _, name := range names {
		p := c.Get(name)
		text := convert.DevicesText(p)
		out = append(out, name+"="+text)
		for _, minor := range strings.Split(strings.TrimPrefix(text, "gpu "), ",") {
			device := p.Spec.NodeName + " " + minor
			require.Empty(t, by[device], "%s and %s have %s", by[device], name, device)
			by[device] = name
		}
	}
	return strings.Join(out, " ")
}

// A gang or pod that lacked healthy devices, or a Device object, is retried when the Device object changes.
func TestDeviceChangeRetriesWaitingPods(t *testing.T) {
	t.Parallel()
	c := withDevices(t)
	node := gpuNode("n0")
	require.NoError(t, c.Client.Tracker().Add(node))
	c.Run()
	members := testcluster.Pending(2, 0, "1")
	for _, p := range members {
		wanting(p, "300")
	}
	c.Gang("g", 2, members...)
	c.WaitSaid(1, "missing Device")
	setDevice(t, c, deviceOf("n0", 5))
	c.WaitSaid(1, "best is s with 1")
	setDevice(t, c, deviceOf("n0", 6))
	c.Wait("g-0=n0 g-1=n0", func() string { return c.Where("g-0", "g-1") })
	c.Pod(wanting(testcluster.A("alone", 0, "1", ""), "100"))
	c.WaitSaid(1, "Pod/alone Warning")
	c.WaitSaid(1, "Pod/g-0 Warning")
	setDevice(t, c, deviceOf("n0", 7))
	c.Wait("alone=n0", func() string { return c.Where("alone") })
	require.Equal(t, "g-0=gpu 0,1,2 g-1=gpu 3,4,5 alone=gpu 6", given(t, c, "g-0", "g-1", "alone"))
}

// A gang or pod with an invalid device request is retried when the request changes, not on events of nodes, devices
// or other pods.
func TestInvalidDeviceRequestIsRetriedOnlyWhenChanged(t *testing.T) {
	t.Parallel()
	c := withDevices(t, "n0")
	c.Pod(holding(wanting(testcluster.A("old", 0, "1", "n0"), "100"), 7))
	c.Run()
	says := func(p *v1.Pod, scope string) {
		p.Annotations = map[string]string{
			"scheduling.koordinator.sh/device-allocate-hint": fmt.Sprintf(`{"gpu":{"requiredTopologyScope":%q}}`, scope),
		}
	}
	members := testcluster.Pending(2, 0, "1")
	for _, p := range members {
		says(wanting(p, "200"), "Rack")
	}
	c.Gang("g", 2, members...)
	alone := wanting(testcluster.A("alone", 0, "1", ""), "200")
	says(alone, "Rack")
	c.Pod(alone)
	c.WaitSaid(1, "Pod/alone Warning")
	c.WaitSaid(1, "Pod/g-0 Warning")
	c.Wait("refused", func() string {
		if strings.Contains(saysGang(t, c, "g"), "Rack") {
			return "refused"
		}
		return saysGang(t, c, "g")
	})
	cycles := func() int { return len(c.Said("FailedScheduling")) }
	before := cycles()
	require.NoError(t, c.Client.Tracker().Add(gpuNode("n1")))
	setDevice(t, c, deviceOf("n1", 8))
	c.EditNode("n0", func(n *v1.Node) { n.Labels["node.koordinator.sh/gpu-model"] = "H100" })
	c.EditNode("n0", func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("65") })
	c.Remove("old")
	c.Never(func() bool { return cycles() > before })
	c.Edit("g-0", func(p *v1.Pod) { says(p, "PCIe") })
	c.Edit("alone", func(p *v1.Pod) { says(p, "PCIe") })
	c.Wait("bound", func() string {
		if strings.Contains(c.Where("alone"), "=n") { // both nodes have room for it by now
			return "bound"
		}
		return c.Where("alone")
	})
	c.Edit("g-1", func(p *v1.Pod) { says(p, "PCIe") })
	c.Wait("bound", func() string {
		if strings.Count(c.Where("g-0", "g-1"), "=n") == 2 {
			return "bound"
		}
		return c.Where("g-0", "g-1")
	})
	given(t, c, "alone", "g-0", "g-1")
}

// A new scheduler learns from the pods which devices are in use. If the Device object is deleted, running pods
// continue and no further pod starts.
func TestRestartKnowsUsedDevices(t *testing.T) {
	t.Parallel()
	c := withDevices(t, "n0")
	c.Pod(holding(wanting(testcluster.A("old-0", 0, "1", "n0"), "400"), 0, 1, 2, 3))
	c.Pod(holding(wanting(testcluster.A("old-1", 0, "1", "n0"), "400"), 4, 5, 6, 7))
	c.Run()
	c.Gang("g", 1, wanting(testcluster.A("", 0, "1", ""), "400"))
	c.WaitSaid(1, "Insufficient GPU Devices")
	require.NoError(t, c.Custom.Resource(convert.Devices).Delete(t.Context(), "n0", metav1.DeleteOptions{}))
	c.WaitSaid(1, "missing Device")
	c.Remove("old-1")
	c.Never(func() bool { return c.Get("g-0").Spec.NodeName != "" })
	require.Equal(t, "n0", c.Get("old-0").Spec.NodeName)
	setDevice(t, c, deviceOf("n0", 8))
	c.Wait("g-0=n0", func() string { return c.Where("g-0") })
	require.Equal(t, "old-0=gpu 0,1,2,3 g-0=gpu 4,5,6,7", given(t, c, "old-0", "g-0"))
}

// A member whose binding fails releases its devices and continues on the retry. No device is given twice.
func TestDevicesWhenBindingFails(t *testing.T) {
	t.Parallel()
	c := withDevices(t, "n0", "n1")
	var asked atomic.Int64
	c.Answering(func(r testcluster.Request) error {
		if n := asked.Add(1); r.What == "binding" && n%3 == 0 && n < 20 {
			return errors.New("the API server is away")
		}
		return nil
	})
	c.Run()
	var names []string
	for _, gang := range []string{"g", "h"} {
		members := testcluster.Pending(6, 0, "1")
		for i, p := range members {
			wanting(p, "100")
			names = append(names, fmt.Sprint(gang, "-", i))
		}
		c.Gang(gang, 6, members...)
		c.Pod(wanting(testcluster.A(gang+"alone", 0, "1", ""), "100"))
		names = append(names, gang+"alone")
	}
	for _, name := range names {
		require.True(t, c.Within(testcluster.WaitFor, func() bool { return c.Get(name).Spec.NodeName != "" }), c.Describe())
	}
	given(t, c, names...)
}
