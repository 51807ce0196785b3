package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// wanted is what members want of a class, in whole devices.
type wanted struct {
	need int64
	any  []*resourceapi.ExactDeviceRequest // each device meets one of them
}

// Short says of which classes members want more devices than nodes have free, and which pools are not all told of yet: these
// have none. Where devices are shared, partitioned or one of several would do, numbers say nothing.
func (p *claimPage) Short(members []fit.Demand, nodes []fwk.NodeInfo) (short []fit.Shortage) {
	var some []*resourceapi.ResourceSlice
	for _, n := range nodes {
		some = append(some, p.byNode[n.Node().Name]...)
	}
	some = append(some, p.reached...)
	some, waits := p.whole(some, p.driversOf(members))
	short = slices.DeleteFunc(p.tooFew(members, some), func(s fit.Shortage) bool { return p.counted(s.What, members, nodes) })
	if waits != "" {
		short = append(short, fit.Shortage{Waits: waits})
	}
	return short
}

// counted says that some node has what members ask for of a class without claims, by the name of an extended resource: it is not
// among its devices.
func (p *claimPage) counted(class string, members []fit.Demand, nodes []fwk.NodeInfo) bool {
	for _, d := range members {
		for name, of := range p.extended(d.Pod) {
			if of.Name == class && slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n.GetAllocatable().GetScalarResources()[name] > 0 }) {
				return true
			}
		}
	}
	return false
}

// driversOf says whether members may want devices of a driver: one that has some of a class that they ask for, or none at all that
// is known of.
func (p *claimPage) driversOf(members []fit.Demand) func(driver string) bool {
	var classes []*resourceapi.DeviceClass
	for _, d := range members {
		var all []resourceapi.DeviceRequest
		for _, c := range p.claimsOf(d.Pod) {
			all = append(all, c.Spec.Devices.Requests...)
		}
		for _, r := range append(all, requestsFor(d.Pod, p.extended(d.Pod))...) {
			names := []string{}
			if r.Exactly != nil {
				names = append(names, r.Exactly.DeviceClassName)
			}
			for _, other := range r.FirstAvailable {
				names = append(names, other.DeviceClassName)
			}
			for _, name := range names {
				if class, err := p.manager.DeviceClasses().Get(name); err == nil && !slices.Contains(classes, class) {
					classes = append(classes, class)
				}
			}
		}
	}
	return func(driver string) bool {
		any, known := false, false
		for id, pool := range p.pools {
			if id.driver != driver {
				continue
			}
			for _, s := range pool {
				for i := range s.Spec.Devices {
					known = true
					any = any || slices.ContainsFunc(classes, func(c *resourceapi.DeviceClass) bool {
						return p.match(driver, &s.Spec.Devices[i], c.Spec.Selectors)
					})
				}
			}
		}
		return any || !known
	}
}

// whole leaves out slices of pools of which not all slices are there, and says of which one is missing whose driver counts.
func (p *claimPage) whole(some []*resourceapi.ResourceSlice, counts func(driver string) bool) (rest []*resourceapi.ResourceSlice, waits string) {
	broken := map[poolID]int{} // how many slices are there
	more := -1                 // pools than the one that is named
	for _, s := range some {
		id := poolOf(s)
		if _, known := broken[id]; known {
			continue
		}
		newest := slices.MaxFunc(p.pools[id], func(a, b *resourceapi.ResourceSlice) int {
			return cmp.Compare(a.Spec.Pool.Generation, b.Spec.Pool.Generation)
		})
		there := 0
		for _, o := range p.pools[id] {
			there += map[bool]int{true: 1}[o.Spec.Pool.Generation == newest.Spec.Pool.Generation]
		}
		broken[id] = -1
		if int64(there) < newest.Spec.Pool.ResourceSliceCount {
			broken[id] = there
			if !counts(id.driver) {
				continue
			}
			more++
			if says := fmt.Sprintf("pool %s of %s has %d of its %d ResourceSlices", id.pool, id.driver, there, newest.Spec.Pool.ResourceSliceCount); waits == "" || says < waits {
				waits = says
			}
		}
	}
	rest = slices.DeleteFunc(slices.Clone(some), func(s *resourceapi.ResourceSlice) bool { return broken[poolOf(s)] >= 0 })
	if more > 0 {
		waits += fmt.Sprintf(", and %d more are not whole either", more)
	}
	return rest, waits
}

// tooFew is Short in numbers.
func (p *claimPage) tooFew(members []fit.Demand, some []*resourceapi.ResourceSlice) (short []fit.Shortage) {
	classes := map[string]*wanted{}
	joint := map[types.UID]*resourceapi.ResourceClaim{}
	for _, d := range members {
		if !p.want(classes, d, joint) {
			return nil
		}
	}
	for _, c := range joint {
		if !want(classes, c.Spec.Devices.Requests, 1) {
			return nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		class, err := p.manager.DeviceClasses().Get(name)
		if err != nil {
			continue
		}
		if free, ok := p.freeOf(class, classes[name].any, some); ok && free < classes[name].need {
			short = append(short, fit.Shortage{What: name, Need: classes[name].need, Free: free})
		}
	}
	return short
}

// want adds up what each of some members wants, and notes what they want together; it says false if that cannot be
// said in numbers.
func (p *claimPage) want(classes map[string]*wanted, d fit.Demand, joint map[types.UID]*resourceapi.ResourceClaim) bool {
	var all []resourceapi.DeviceRequest
	for _, c := range p.claimsOf(d.Pod) {
		switch {
		case p.together(c):
			joint[c.UID] = c
		case c.Status.Allocation != nil || p.shared(c):
			return false
		default:
			all = append(all, c.Spec.Devices.Requests...)
		}
	}
	return want(classes, append(all, requestsFor(d.Pod, p.extended(d.Pod))...), d.Members)
}

// want adds requests up that are to be met so many times.
func want(classes map[string]*wanted, all []resourceapi.DeviceRequest, times int) bool {
	for i := range all {
		r := all[i].Exactly
		if r == nil || r.AllocationMode != resourceapi.DeviceAllocationModeExactCount || r.AdminAccess != nil && *r.AdminAccess || r.Capacity != nil {
			return false
		}
		w := classes[r.DeviceClassName]
		if w == nil {
			w = &wanted{}
			classes[r.DeviceClassName] = w
		}
		w.need += int64(times) * max(1, r.Count)
		w.any = append(w.any, r)
	}
	return true
}

// freeOf counts the devices of a class that are free and do for some request.
func (p *claimPage) freeOf(class *resourceapi.DeviceClass, requests []*resourceapi.ExactDeviceRequest, some []*resourceapi.ResourceSlice) (free int64, ok bool) {
	for _, s := range some {
		pool := p.taken[poolOf(s)]
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if len(d.ConsumesCounters) > 0 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
				return 0, false
			}
			id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
			if pool != nil && slices.Contains(pool.devices, id) || !p.match(s.Spec.Driver, d, class.Spec.Selectors) {
				continue
			}
			if slices.ContainsFunc(requests, func(r *resourceapi.ExactDeviceRequest) bool {
				return tolerates(r, d) && p.match(s.Spec.Driver, d, r.Selectors)
			}) {
				free++
			}
		}
	}
	return free, true
}

func tolerates(r *resourceapi.ExactDeviceRequest, d *resourceapi.Device) bool {
	return !slices.ContainsFunc(d.Taints, func(taint resourceapi.DeviceTaint) bool {
		return taint.Effect != resourceapi.DeviceTaintEffectNone && !slices.ContainsFunc(r.Tolerations, func(t resourceapi.DeviceToleration) bool {
			return resourceclaim.ToleratesTaint(t, taint)
		})
	})
}

// match says whether a device meets all selectors.
func (p *claimPage) match(driver string, d *resourceapi.Device, selectors []resourceapi.DeviceSelector) bool {
	return !slices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
		if s.CEL == nil {
			return true
		}
		expression := p.cel.GetOrCompile(s.CEL.Expression)
		if expression.Error != nil {
			return true
		}
		ok, _, err := expression.DeviceMatches(context.Background(), cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		return err != nil || !ok
	})
}
