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

// minResources of a PodGroup is the sum of the requests of all members. Stand-ins request what it exceeds the existing pods by. No object
// says how many pods will follow, nor what they request. So each stand-in requests about as much as the first pod.

// rest is minResources minus the requests of the first pod, in equal shares: one for each further member. Shares of whole devices differ by
// at most one.
type rest struct {
	amounts map[v1.ResourceName]int64
	shares  int64 // number of shares
}

// grains are the sizes of shares of resources that the first pod does not request. The default is 1.
var grains = map[v1.ResourceName]int64{v1.ResourceCPU: 1000, v1.ResourceMemory: 1 << 30, v1.ResourceEphemeralStorage: 1 << 30}

// rest returns minResources minus the requests of a pod, as shares. It skips resource names of quotas, such as limits.cpu.
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

// upTo returns the amount of a resource in the given number of first shares together.
func (s rest) upTo(name v1.ResourceName, shares int64) int64 {
	if grains[name] > 0 {
		return min((s.amounts[name]+s.shares-1)/s.shares*shares, s.amounts[name])
	}
	return s.amounts[name] * shares / s.shares
}

// number returns a text for the name of a stand-in: the number of its share, and which amounts of it other pods already request.
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

// request sets the requests of a stand-in to its share without what other pods already request. number is from the method number.
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

// covered returns how many shares the requests of other pods make up completely, and the number of all shares.
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

// exact returns whether minResources is declared and the existing pods do not request more.
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

// beyond returns a message that minResources exceeds the requests of the existing pods. standIns is the number of stand-ins for the excess.
func (r *Record) beyond(standIns int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Declared.Resources)) {
		q := r.Declared.Resources[name]
		all = append(all, fmt.Sprintf("%s %s", name, q.String()))
	}
	return fmt.Sprintf("gang %s: minResources (%s) exceeds the requests of its pods; "+
		"the excess counts as %s. Lower minResources if all pods need less",
		r.Ref, strings.Join(all, ", "), members(standIns))
}

// members returns a number of members as a text.
func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprint(n, " members")
}

// requests returns the sum of the requests of all pods; if except is not nil, without that pod and pods with scheduling gates.
func (r *Record) requests(except *v1.Pod) map[v1.ResourceName]int64 {
	sum := map[v1.ResourceName]int64{}
	for _, pod := range r.Pods {
		if pod == except || except != nil && len(pod.Spec.SchedulingGates) > 0 {
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

// amountOf returns a quantity of a resource in thousandths of a CPU, in bytes, or as a number.
func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
