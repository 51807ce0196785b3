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

// minResources of a PodGroup is the sum of what all its members request. Capacity beyond the pods that exist is held for stand-ins (ahead.go). No object says
// how many pods are to come, nor what each requests: each stand-in requests about as much as the first pod does.

// rest is minResources less the requests of the first pod, in equal shares, one for each stand-in. Shares of whole devices differ by one at most.
type rest struct {
	amounts map[v1.ResourceName]int64
	shares  int64
}

// grains are the shares of resources that the first pod does not request; 1 of others.
var grains = map[v1.ResourceName]int64{v1.ResourceCPU: 1000, v1.ResourceMemory: 1 << 30, v1.ResourceEphemeralStorage: 1 << 30}

// rest is what minResources asks for beyond a pod. Names of quotas, such as limits.cpu, are not read.
func (r *Record) rest(first *v1.Pod) rest {
	out, own := rest{amounts: map[v1.ResourceName]int64{}}, requestsOf(first)
	for name, q := range r.Declared.Resources {
		left := amountOf(name, q) - own[name]
		if prefix, _, dotted := strings.Cut(string(name), "."); left <= 0 || name == v1.ResourcePods || dotted && (prefix == "limits" || prefix == "requests") || strings.HasPrefix(string(name), "count/") {
			continue
		}
		share := max(own[name], 1)
		if own[name] == 0 && grains[name] > 0 {
			share = grains[name]
		}
		out.amounts[name], out.shares = left, max(out.shares, min((left+share-1)/share, source.MaxAhead))
	}
	return out
}

// upTo is how much of a resource the first shares have.
func (s rest) upTo(name v1.ResourceName, shares int64) int64 {
	if grains[name] > 0 {
		return (s.amounts[name] + s.shares - 1) / s.shares * shares
	}
	return s.amounts[name] * shares / s.shares
}

// request has a pod request one of the shares, by its number.
func (s rest) request(spec *v1.PodSpec, number string) {
	i, _ := strconv.ParseInt(number, 10, 64)
	requests := v1.ResourceList{}
	for name := range s.amounts {
		if n := s.upTo(name, i) - s.upTo(name, i-1); name == v1.ResourceCPU {
			requests[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		} else if n > 0 {
			requests[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	spec.InitContainers, spec.Overhead, spec.Resources = nil, nil, nil
	spec.Containers = []v1.Container{{Name: "rest", Resources: v1.ResourceRequirements{Requests: requests}}}
}

// covered returns how many shares the requests of the other pods sum up to, and how many shares there are.
func (r *Record) covered(first *v1.Pod) (n, of int) {
	s, others := r.rest(first), map[v1.ResourceName]int64{}
	for _, pod := range r.Pods {
		if pod != first {
			for name, amount := range requestsOf(pod) {
				others[name] += amount
			}
		}
	}
	for int64(n) < s.shares {
		for name := range s.amounts {
			if min(s.upTo(name, int64(n)+1), s.amounts[name]) > others[name] {
				return n, int(s.shares)
			}
		}
		n++
	}
	return n, n
}

// exact says whether minResources asks for all pods that exist, and no more.
func (r *Record) exact() bool {
	if len(r.Declared.Resources) == 0 {
		return false
	}
	sum := map[v1.ResourceName]int64{}
	for _, pod := range r.Pods {
		for name, amount := range requestsOf(pod) {
			sum[name] += amount
		}
	}
	for name, q := range r.Declared.Resources {
		if sum[name] > amountOf(name, q) {
			return false
		}
	}
	return true
}

// beyond says what minResources asks for beyond the pods that exist.
func (r *Record) beyond(standIns int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Declared.Resources)) {
		q := r.Declared.Resources[name]
		all = append(all, fmt.Sprintf("%s %s", name, q.String()))
	}
	return fmt.Sprintf("minResources of gang %s (%s) asks for more than the requests of its pods, counted as %s to come: lower minResources, or free capacity",
		r.Ref, strings.Join(all, ", "), members(standIns))
}

// members counts members.
func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprint(n, " members")
}

// requestsOf is what a pod requests.
func requestsOf(pod *v1.Pod) map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{}
	for name, q := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		out[name] = amountOf(name, q)
	}
	return out
}

// amountOf is a quantity in thousandths of a CPU, in bytes, or in devices.
func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
