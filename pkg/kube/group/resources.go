package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// minResources of a PodGroup is the sum of the requests of all members. Capacity beyond the existing pods is held
// for stand-ins. No object says how many pods follow, nor their requests, so each stand-in requests about as much
// as the first pod.

// rest is minResources minus the requests of the first pod, in equal shares, one per stand-in. Shares of whole
// devices differ by at most one.
type rest struct {
	amounts map[v1.ResourceName]int64
	shares  int64
}

// grains are the shares of resources that the first pod does not request. The default is 1.
var grains = map[v1.ResourceName]int64{v1.ResourceCPU: 1000, v1.ResourceMemory: 1 << 30, v1.ResourceEphemeralStorage: 1 << 30}

// rest returns what minResources requests beyond a pod. It skips names of quotas, such as limits.cpu.
func (r *Record) rest(first *v1.Pod) rest {
	out, requested := rest{amounts: map[v1.ResourceName]int64{}}, requestsOf(first)
	for name, q := range r.Declared.Resources {
		left := amountOf(name, q) - requested[name]
		prefix, _, dotted := strings.Cut(string(name), ".")
		ofQuota := dotted && (prefix == "limits" || prefix == "requests") || strings.HasPrefix(string(name), "count/")
		if left <= 0 || name == v1.ResourcePods || ofQuota {
			continue
		}
		share := max(requested[name], 1)
		if requested[name] == 0 && grains[name] > 0 {
			share = grains[name]
		}
		out.amounts[name], out.shares = left, max(out.shares, min((left+share-1)/share, source.MaxAhead))
	}
	return out
}

// upTo returns the amount of a resource in the first shares.
func (s rest) upTo(name v1.ResourceName, shares int64) int64 {
	if grains[name] > 0 {
		return min((s.amounts[name]+s.shares-1)/s.shares*shares, s.amounts[name])
	}
	return s.amounts[name] * shares / s.shares
}

// number returns a name for a share: its number, and the amounts of it that other pods cover.
func (s rest) number(share int, others map[v1.ResourceName]int64) string {
	number := strconv.Itoa(share)
	parts := ""
	previous := int64(share) - 1
	for _, name := range slices.Sorted(maps.Keys(s.amounts)) {
		parts += standInMark + strconv.FormatInt(max(0, min(others[name], s.upTo(name, previous+1))-s.upTo(name, previous)), 10)
	}
	if strings.Trim(parts, standInMark+"0") == "" {
		return number
	}
	return number + parts
}

// request sets the requests of a pod to the uncovered part of a share.
func (s rest) request(spec *v1.PodSpec, number string) {
	parts := make([]int64, 1+len(s.amounts))
	for i, part := range strings.SplitN(number, standInMark, len(parts)) {
		parts[i], _ = strconv.ParseInt(part, 10, 64)
	}
	requests := v1.ResourceList{}
	for i, name := range slices.Sorted(maps.Keys(s.amounts)) {
		if n := s.upTo(name, parts[0]) - s.upTo(name, parts[0]-1) - parts[i+1]; n <= 0 {
			continue
		} else if name == v1.ResourceCPU {
			requests[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		} else {
			requests[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	spec.InitContainers, spec.Overhead, spec.Resources = nil, nil, nil
	spec.Containers = []v1.Container{{Name: "rest", Resources: v1.ResourceRequirements{Requests: requests}}}
}

// covered returns how many shares the other pods cover, and the number of shares.
func (s rest) covered(others map[v1.ResourceName]int64) (n, total int) {
	for int64(n) < s.shares {
		for name := range s.amounts {
			if s.upTo(name, int64(n)+1) > others[name] {
				return n, int(s.shares)
			}
		}
		n++
	}
	return n, n
}

// exact returns whether the existing pods exactly cover minResources.
func (r *Record) exact() bool {
	if len(r.Declared.Resources) == 0 {
		return false
	}
	sum := r.requests(nil)
	for name, q := range r.Declared.Resources {
		if sum[name] > amountOf(name, q) {
			return false
		}
	}
	return true
}

// beyond describes what minResources requests beyond the existing pods.
func (r *Record) beyond(standIns int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Declared.Resources)) {
		q := r.Declared.Resources[name]
		all = append(all, fmt.Sprintf("%s %s", name, q.String()))
	}
	return fmt.Sprintf("gang %s: minResources (%s) exceeds the requests of its pods; "+
		"the excess counts as %s. Lower minResources, or free capacity",
		r.Ref, strings.Join(all, ", "), members(standIns))
}

// members formats a number of members.
func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprint(n, " members")
}

// requests returns the sum of the requests of all pods except one.
func (r *Record) requests(except *v1.Pod) map[v1.ResourceName]int64 {
	sum := map[v1.ResourceName]int64{}
	for _, pod := range r.Pods {
		if pod == except {
			continue
		}
		for name, amount := range requestsOf(pod) {
			sum[name] += amount
		}
	}
	return sum
}

// requestsOf returns the requests of a pod.
func requestsOf(pod *v1.Pod) map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{}
	for name, q := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		out[name] = amountOf(name, q)
	}
	return out
}

// amountOf returns a quantity in thousandths of a CPU, in bytes, or in devices.
func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
