package deviceclass_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/kube/deviceclass"
)

const driver, resource = "gpu.example.com", "gpu.deviceclass.resource.k8s.io/devices"

func class(name, expression string, age time.Duration, extended *string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(10_000, 0).Add(-age))}}
	c.Spec.ExtendedResourceName = extended
	c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return c
}

func slice(name, node string, generation int64, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.Pool, s.Spec.Devices = driver, resourceapi.ResourcePool{Name: node, Generation: generation}, devices
	if node != "" {
		s.Spec.NodeName = &node
	}
	return s
}

func newCounter(t *testing.T) (c deviceclass.Counter, slices, classes cache.Indexer) {
	t.Helper()
	slices, classes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	return deviceclass.New(resourcelisters.NewResourceSliceLister(slices), resourcelisters.NewDeviceClassLister(classes)), slices, classes
}

// TestQuotaCountsDevicesOfItsClass: devices count in the newest generation of a pool, on nodes that count or without
// a node. Devices that are parts of others do not count.
func TestQuotaCountsDevicesOfItsClass(t *testing.T) {
	shared := true
	whole, part, twice := resourceapi.Device{Name: "a"}, resourceapi.Device{
		Name: "p", ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "c"}},
	},
		resourceapi.Device{Name: "t", AllowMultipleAllocations: &shared}
	for name, test := range map[string]struct {
		expression string
		slices     []*resourceapi.ResourceSlice
		total      map[string]int64
	}{
		"nodes that count": {
			"true", []*resourceapi.ResourceSlice{slice("1", "ready", 1, whole, whole), slice("2", "other", 1, whole)}, map[string]int64{resource: 2},
		},
		"beside nodes": {"true", []*resourceapi.ResourceSlice{slice("1", "", 1, whole)}, map[string]int64{resource: 1}},
		"the newest generation": {
			"true", []*resourceapi.ResourceSlice{slice("1", "ready", 1, whole, whole), slice("2", "ready", 2, whole)}, map[string]int64{resource: 1},
		},
		"another class": {
			`device.driver == "other"`, []*resourceapi.ResourceSlice{slice("1", "ready", 1, whole, part)}, map[string]int64{resource: 0},
		},
		"parts of others": {"true", []*resourceapi.ResourceSlice{slice("1", "ready", 1, whole, part)}, map[string]int64{}},
		"given twice":     {"true", []*resourceapi.ResourceSlice{slice("1", "ready", 1, whole, twice)}, map[string]int64{}},
	} {
		c, slices, classes := newCounter(t)
		require.NoError(t, classes.Add(class("gpu", test.expression, 0, nil)))
		for _, s := range test.slices {
			require.NoError(t, slices.Add(s))
		}
		require.Equal(t, test.total, c.Total(c.Named([]string{"cpu", resource}), func(node string) bool { return node == "ready" }), name)
	}
	c, _, _ := newCounter(t)
	require.Empty(t, c.Total(c.Named([]string{resource}), func(string) bool { return true }), "nothing declares the class")
	require.Nil(t, new(deviceclass.Counter).Named([]string{resource}), "a cluster without these APIs")
}

// TestNewestClassHasAnExtendedResource: of several classes with one extended resource the newest has it, as for the API server.
func TestNewestClassHasAnExtendedResource(t *testing.T) {
	c, _, classes := newCounter(t)
	gpu := "example.com/gpu"
	require.NoError(t, classes.Add(class("old", "true", time.Hour, &gpu)))
	require.NoError(t, classes.Add(class("new", "true", time.Minute, &gpu)))
	backs, err := c.ReadBacks()
	require.NoError(t, err)
	require.True(t, c.SetBacks(backs))
	require.False(t, c.SetBacks(backs), "nothing is new")
	require.Equal(t, "new", c.Backing(gpu))
	require.Equal(t, "old", c.Backing(resourceapi.ResourceDeviceClassPrefix+"old"))
	require.Empty(t, c.Backing("example.com/other"))
}
