// Package deviceclass counts the devices of the DeviceClasses that quotas name, from ResourceSlices.
//
// It has no lock: the caller must not call it concurrently.
package deviceclass

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Counter counts the devices of classes. The zero Counter is for a cluster without these APIs.
type Counter struct {
	slices  resourcelisters.ResourceSliceLister // nil without the API
	classes resourcelisters.DeviceClassLister
	cel     *cel.Cache
	known   map[string]counted // remembered numbers, by name of the slice
	backs   map[string]string  // by extended resource, the class that provides it
}

// counted has the number of devices in a slice by class; negative if it is unknown.
type counted struct {
	slice   *resourceapi.ResourceSlice
	byClass map[*resourceapi.DeviceClass]int64
}

// New returns a counter that reads from these listers.
func New(resourceSlices resourcelisters.ResourceSliceLister, classes resourcelisters.DeviceClassLister) Counter {
	return Counter{slices: resourceSlices, classes: classes, cel: cel.NewCache(10, cel.Features{})}
}

// ReadBacks returns, by extended resource, the name of the class that provides it: of several classes the newest one.
func (c *Counter) ReadBacks() (map[string]string, error) {
	all, err := c.classes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *resourceapi.DeviceClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	backs := map[string]string{}
	for _, class := range all {
		if name := class.Spec.ExtendedResourceName; name != nil {
			backs[*name] = class.Name
		}
	}
	return backs, nil
}

// SetBacks stores a result of ReadBacks, and returns whether it differs from the stored one.
func (c *Counter) SetBacks(backs map[string]string) bool {
	changed := !maps.Equal(backs, c.backs)
	c.backs = backs
	return changed
}

// Backs returns the stored result of ReadBacks. Callers must not change it.
func (c *Counter) Backs() map[string]string { return c.backs }

// Backing returns the name of the class that provides an extended resource; "" if none does.
func (c *Counter) Backing(name string) string {
	if class, isClass := strings.CutPrefix(name, resourceapi.ResourceDeviceClassPrefix); isClass {
		return class
	}
	return c.backs[name]
}

// Named returns the classes among the resources that quotas name, by resource. A class that does not exist is nil.
func (c *Counter) Named(resources []string) (all map[string]*resourceapi.DeviceClass) {
	if c.slices == nil {
		return nil
	}
	for _, name := range resources {
		class, isClass := convert.ClassOfQuota(name)
		if !isClass {
			continue
		}
		if all == nil {
			all = map[string]*resourceapi.DeviceClass{}
		}
		all[name], _ = c.classes.Get(class)
	}
	return all
}

// Total returns the number of devices of each class, by resource: devices of nodes for which counts returns true, and devices that are not
// of one node. A class is left out if its number is unknown: it does not exist, or its devices are shared or parts of other devices.
func (c *Counter) Total(named map[string]*resourceapi.DeviceClass, counts func(node string) bool) map[string]int64 {
	all, err := c.slices.List(labels.Everything())
	if err != nil {
		return nil // an informer's store returns no errors
	}
	newest := map[[2]string]int64{}
	for _, s := range all {
		pool := [2]string{s.Spec.Driver, s.Spec.Pool.Name}
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	sum, previous := map[string]int64{}, c.known
	c.known = make(map[string]counted, len(all))
	for name, class := range named {
		if class != nil {
			sum[name] = 0
		}
	}
	for _, s := range all {
		current := previous[s.Name]
		if current.slice != s {
			current = counted{s, map[*resourceapi.DeviceClass]int64{}}
		}
		c.known[s.Name] = current
		old := s.Spec.Pool.Generation < newest[[2]string{s.Spec.Driver, s.Spec.Pool.Name}]
		if old || s.Spec.NodeName != nil && !counts(*s.Spec.NodeName) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			if n := c.count(current, named[name]); n < 0 {
				delete(sum, name)
			} else {
				sum[name] += n
			}
		}
	}
	return sum
}

// count returns how many devices of a slice are of a class; negative if unknown. It remembers the number in s.
func (c *Counter) count(s counted, class *resourceapi.DeviceClass) (n int64) {
	if n, known := s.byClass[class]; known {
		return n
	}
	maps.DeleteFunc(s.byClass, func(old *resourceapi.DeviceClass, _ int64) bool { return old.Name == class.Name })
	defer func() { s.byClass[class] = n }()
	for i := range s.slice.Spec.Devices {
		d := &s.slice.Spec.Devices[i]
		switch {
		case !c.match(s.slice.Spec.Driver, d, class):
		case len(d.ConsumesCounters) > 0 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations:
			return -1
		default:
			n++
		}
	}
	return n
}

// match returns whether a device meets all selectors of a class.
func (c *Counter) match(driver string, d *resourceapi.Device, class *resourceapi.DeviceClass) bool {
	return !slices.ContainsFunc(class.Spec.Selectors, func(s resourceapi.DeviceSelector) bool {
		if s.CEL == nil {
			return true
		}
		expression := c.cel.GetOrCompile(s.CEL.Expression)
		if expression.Error != nil {
			return true
		}
		ok, _, err := expression.DeviceMatches(context.Background(), cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		return err != nil || !ok
	})
}
