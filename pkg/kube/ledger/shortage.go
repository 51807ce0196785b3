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

// classDemand is how many whole devices of a class members need.
type classDemand struct {
	need     int64
	requests []*resourceapi.ExactDeviceRequest // the requests of the class
}

// Short implements an optional method of fit.Page: it returns the classes of which members need more devices than the nodes have free, and
// the incomplete pools, which count as empty. It returns no class if devices are shared or partitioned, or requests have alternatives.
func (p *claimPage) Short(members []fit.Demand, nodes []fwk.NodeInfo) (short []fit.Shortage) {
	var offered []*resourceapi.ResourceSlice
	for _, n := range nodes {
		offered = append(offered, p.byNode[n.Node().Name]...)
	}
	offered = append(offered, p.multiNode...)
	offered, waits := p.completePools(offered, p.driverFilter(members))
	short = slices.DeleteFunc(p.shortages(members, offered), func(s fit.Shortage) bool { return p.countedOnNode(s.What, members, nodes) })
	if waits != "" {
		short = append(short, fit.Shortage{Waits: waits})
	}
	return short
}

// countedOnNode returns whether a node offers an extended resource of the class without claims, which the class's devices do not show.
func (p *claimPage) countedOnNode(class string, members []fit.Demand, nodes []fwk.NodeInfo) bool {
	for _, d := range members {
		for name, resourceClass := range p.extendedClasses(d.Pod) {
			if resourceClass.Name == class &&
				slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n.GetAllocatable().GetScalarResources()[name] > 0 }) {
				return true
			}
		}
	}
	return false
}

// driverFilter returns a function that returns whether members may need devices of a driver: it has devices of a requested class, or no
// known devices.
func (p *claimPage) driverFilter(members []fit.Demand) func(driver string) bool {
	var classes []*resourceapi.DeviceClass
	for _, d := range members {
		var all []resourceapi.DeviceRequest
		for _, c := range p.claimsOf(d.Pod) {
			all = append(all, c.Spec.Devices.Requests...)
		}
		for _, r := range append(all, requestsFor(d.Pod, p.extendedClasses(d.Pod))...) {
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
		found, known := false, false
		for id, pool := range p.pools {
			if id.driver != driver {
				continue
			}
			for _, s := range pool {
				for i := range s.Spec.Devices {
					known = true
					found = found || slices.ContainsFunc(classes, func(c *resourceapi.DeviceClass) bool {
						return p.match(driver, &s.Spec.Devices[i], c.Spec.Selectors)
					})
				}
			}
		}
		return found || !known
	}
}

// completePools returns the slices of complete pools, and a message about incomplete pools of needed drivers; "" if there are none.
func (p *claimPage) completePools(offered []*resourceapi.ResourceSlice, needed func(driver string) bool) (all []*resourceapi.ResourceSlice,
	waits string,
) {
	incomplete := map[poolID]int{} // number of present slices of an incomplete pool; -1 for a complete one
	furtherPools := -1             // further pools beside the named one
	for _, s := range offered {
		id := poolOf(s)
		if _, known := incomplete[id]; known {
			continue
		}
		newest := slices.MaxFunc(p.pools[id], func(a, b *resourceapi.ResourceSlice) int {
			return cmp.Compare(a.Spec.Pool.Generation, b.Spec.Pool.Generation)
		})
		present := 0
		for _, o := range p.pools[id] {
			present += map[bool]int{true: 1}[o.Spec.Pool.Generation == newest.Spec.Pool.Generation]
		}
		incomplete[id] = -1
		if int64(present) < newest.Spec.Pool.ResourceSliceCount {
			incomplete[id] = present
			if !needed(id.driver) {
				continue
			}
			furtherPools++
			if text := fmt.Sprintf("pool %s of %s has %d of its %d ResourceSlices", id.pool, id.driver, present,
				newest.Spec.Pool.ResourceSliceCount); waits == "" || text < waits {
				waits = text
			}
		}
	}
	all = slices.DeleteFunc(slices.Clone(offered), func(s *resourceapi.ResourceSlice) bool { return incomplete[poolOf(s)] >= 0 })
	if furtherPools > 0 {
		waits += fmt.Sprintf(", and %d more are not whole either", furtherPools)
	}
	return all, waits
}

// shortages returns the classes of which members need more devices than are free in the slices; nil if numbers do not decide.
func (p *claimPage) shortages(members []fit.Demand, offered []*resourceapi.ResourceSlice) (short []fit.Shortage) {
	classes := map[string]*classDemand{}
	joint := map[types.UID]*resourceapi.ResourceClaim{}
	for _, d := range members {
		if !p.addMembers(classes, d, joint) {
			return nil
		}
	}
	for _, c := range joint {
		if !addRequests(classes, c.Spec.Devices.Requests, 1) {
			return nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		class, err := p.manager.DeviceClasses().Get(name)
		if err != nil {
			continue
		}
		if free, ok := p.freeOf(class, classes[name].requests, offered); ok && free < classes[name].need {
			short = append(short, fit.Shortage{What: name, Need: classes[name].need, Free: free})
		}
	}
	return short
}

// addMembers adds the requests of members of a kind to classes, and their joint claims to joint. It returns false if numbers of devices do
// not decide: as addRequests, and for claims that are allocated or shared with other pods. classes may then be incomplete.
func (p *claimPage) addMembers(classes map[string]*classDemand, d fit.Demand, joint map[types.UID]*resourceapi.ResourceClaim) bool {
	var all []resourceapi.DeviceRequest
	for _, c := range p.claimsOf(d.Pod) {
		switch {
		case p.isJoint(c):
			joint[c.UID] = c
		case c.Status.Allocation != nil || p.shared(c):
			return false
		default:
			all = append(all, c.Spec.Devices.Requests...)
		}
	}
	return addRequests(classes, append(all, requestsFor(d.Pod, p.extendedClasses(d.Pod))...), d.Members)
}

// addRequests adds requests to classes, each as many times as times says. It returns false if the number of free devices alone does not say
// whether they suffice: for alternatives, mode All, admin access, or shares of a device. classes may then be incomplete.
func addRequests(classes map[string]*classDemand, all []resourceapi.DeviceRequest, times int) bool {
	for i := range all {
		r := all[i].Exactly
		if r == nil || r.AllocationMode != resourceapi.DeviceAllocationModeExactCount || r.AdminAccess != nil && *r.AdminAccess ||
			r.Capacity != nil {
			return false
		}
		w := classes[r.DeviceClassName]
		if w == nil {
			w = &classDemand{}
			classes[r.DeviceClassName] = w
		}
		w.need += int64(times) * max(1, r.Count)
		w.requests = append(w.requests, r)
	}
	return true
}

// freeOf counts the free devices of a class that meet some request. ok is false where a count proves nothing: for shared or partitioned
// devices, or if a selector of the class or of a request fails on a device.
func (p *claimPage) freeOf(class *resourceapi.DeviceClass, requests []*resourceapi.ExactDeviceRequest,
	offered []*resourceapi.ResourceSlice,
) (free int64, ok bool) {
	for _, s := range offered {
		pool := p.poolStates[poolOf(s)]
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if len(d.ConsumesCounters) > 0 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
				return 0, false
			}
			id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
			if pool != nil && slices.Contains(pool.devices, id) {
				continue
			}
			meets, failed := p.evaluate(s.Spec.Driver, d, class.Spec.Selectors)
			meets = meets && slices.ContainsFunc(requests, func(r *resourceapi.ExactDeviceRequest) bool {
				matches, fails := p.evaluate(s.Spec.Driver, d, r.Selectors)
				failed = failed || fails
				return matches && tolerates(r, d)
			})
			if failed {
				return 0, false
			}
			if meets {
				free++
			}
		}
	}
	return free, true
}

func tolerates(r *resourceapi.ExactDeviceRequest, d *resourceapi.Device) bool {
	return !slices.ContainsFunc(d.Taints, func(taint resourceapi.DeviceTaint) bool {
		return taint.Effect != resourceapi.DeviceTaintEffectNone &&
			!slices.ContainsFunc(r.Tolerations, func(t resourceapi.DeviceToleration) bool {
				return resourceclaim.ToleratesTaint(t, taint)
			})
	})
}

// match returns whether a device meets all selectors. A selector that fails is not met.
func (p *claimPage) match(driver string, d *resourceapi.Device, selectors []resourceapi.DeviceSelector) bool {
	meets, _ := p.evaluate(driver, d, selectors)
	return meets
}

// evaluate returns whether a device meets all selectors. failed says that the device lacks what a selector reads, or that a selector is
// no valid expression.
func (p *claimPage) evaluate(driver string, d *resourceapi.Device, selectors []resourceapi.DeviceSelector) (meets, failed bool) {
	for _, s := range selectors {
		if s.CEL == nil {
			return false, false
		}
		expression := p.cel.GetOrCompile(s.CEL.Expression)
		if expression.Error != nil {
			return false, true
		}
		ok, _, err := expression.DeviceMatches(context.Background(), cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil || !ok {
			return false, err != nil
		}
	}
	return true, false
}
