package elasticquota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// classes counts how many devices there are of the classes that quotas name.
type classes struct {
	slices  resourcelisters.ResourceSliceLister // nil where there is no such API
	classes resourcelisters.DeviceClassLister
	cel     *cel.Cache
	known   map[string]counted // by slice
	backs   map[string]string  // by extended resource, the class that has it
}

// counted is how many devices of a slice are of each class; fewer than none if that cannot be said.
type counted struct {
	slice *resourceapi.ResourceSlice
	of    map[*resourceapi.DeviceClass]int64
}

// hearClasses has the room hear that there are other devices.
func (r *Room) hearClasses(of resourceinformers.Interface) error {
	r.classes = classes{slices: of.ResourceSlices().Lister(), classes: of.DeviceClasses().Lister(), cel: cel.NewCache(10, cel.Features{})}
	changed := func() {
		if !r.Active() {
			return
		}
		r.mu.Lock()
		names := len(r.classes.named(r.book.Tree().Resources()))
		if names > 0 {
			r.totals()
		}
		r.mu.Unlock()
		if names > 0 {
			r.changed()
		}
	}
	hear := func(informer toolscache.SharedIndexInformer, changed func()) error {
		_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
		})
		return err
	}
	return errors.Join(hear(of.ResourceSlices().Informer(), changed), hear(of.DeviceClasses().Informer(), func() {
		r.setBacks()
		changed()
	}))
}

// setBacks finds out which classes have extended resources, and counts those pods anew that ask for some: of several classes the newest has it,
// as for the API server.
func (r *Room) setBacks() {
	all, err := r.classes.classes.List(everything)
	if err != nil {
		return // an informer's store has no errors
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
	r.mu.Lock()
	same := maps.Equal(backs, r.classes.backs)
	if r.classes.backs = backs; same || !r.Active() {
		r.mu.Unlock()
		return
	}
	for _, k := range sorted(r.pods) {
		if r.wild {
			r.pods[k].asks = nil // it is looked at with the tree
		} else {
			r.put(r.pods[k])
		}
	}
	r.totals()
	r.mu.Unlock()
	r.changed()
}

// backing is the class that has an extended resource; "" if none has it.
func (c *classes) backing(name string) string {
	if class, is := strings.CutPrefix(name, resourceapi.ResourceDeviceClassPrefix); is {
		return class
	}
	return c.backs[name]
}

// named are the classes among what quotas name, by that name.
func (c *classes) named(resources []string) (all map[string]*resourceapi.DeviceClass) {
	if c.slices == nil {
		return nil
	}
	for _, name := range resources {
		class, is := convert.ClassOfQuota(name)
		if !is {
			continue
		}
		if all == nil {
			all = map[string]*resourceapi.DeviceClass{}
		}
		all[name], _ = c.classes.Get(class)
	}
	return all
}

// total says how many devices there are of each class that quotas name, on nodes that count and beside nodes. A class of which that
// cannot be said, since nobody declares it, or devices are parts of others or shared, is not in it.
func (c *classes) total(named map[string]*resourceapi.DeviceClass, counts func(node string) bool) quota.List {
	all, err := c.slices.List(everything)
	if err != nil {
		return nil // an informer's store has no errors
	}
	newest := map[[2]string]int64{}
	for _, s := range all {
		pool := [2]string{s.Spec.Driver, s.Spec.Pool.Name}
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	sum, was := quota.List{}, c.known
	c.known = make(map[string]counted, len(all))
	for name, class := range named {
		if class != nil {
			sum[name] = 0
		}
	}
	for _, s := range all {
		is := was[s.Name]
		if is.slice != s {
			is = counted{s, map[*resourceapi.DeviceClass]int64{}}
		}
		c.known[s.Name] = is
		old := s.Spec.Pool.Generation < newest[[2]string{s.Spec.Driver, s.Spec.Pool.Name}]
		if old || s.Spec.NodeName != nil && !counts(*s.Spec.NodeName) {
			continue
		}
		for _, name := range sorted(sum) {
			if n := c.count(is, named[name]); n < 0 {
				delete(sum, name)
			} else {
				sum[name] += n
			}
		}
	}
	return sum
}

// count is how many devices of a slice are of a class, which is found out once.
func (c *classes) count(s counted, class *resourceapi.DeviceClass) (n int64) {
	if n, known := s.of[class]; known {
		return n
	}
	maps.DeleteFunc(s.of, func(old *resourceapi.DeviceClass, _ int64) bool { return old.Name == class.Name })
	defer func() { s.of[class] = n }()
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

// match says whether a device is of a class.
func (c *classes) match(driver string, d *resourceapi.Device, class *resourceapi.DeviceClass) bool {
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
