package fit

import (
	"encoding/json"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// reads is what the Filters read for a template.
type reads struct {
	// key is what they read of the pod, if they read nothing else except the node; otherwise "". Labels and namespace are not in it.
	key string
	// checksAntiAffinity says that pods in the cluster have required anti-affinity. On the nodes of these, the member's labels matter, too.
	checksAntiAffinity bool
	// resources says that a member added to a node changes only the free resources for the next one.
	resources bool
}

// readsOf returns what the counter's Filters read. Filters that PreFilter has skipped are ignored.
func (c *Counter) readsOf() reads {
	r := reads{resources: true}
	for _, p := range c.plugins.Filter.Enabled {
		if c.state.GetSkipFilterPlugins().Has(p.Name) || c.pages.covers(p.Name) {
			continue
		}
		f := facts[p.Name]
		switch {
		case f.keyed:
			r.resources = r.resources && f.blind
		case p.Name == names.InterPodAffinity && hasNoTerms(c.member) && c.onlyOnHosts():
			r.checksAntiAffinity = true // a member has no terms, so that it does not exclude the next one
		default:
			return reads{}
		}
	}
	if c.allowedNodes == nil && c.rejected == nil {
		r.key = nodeKey(c.member.GetPod()) + c.pages.entry(c.member.GetPod())
	}
	return r
}

// onlyOnHosts returns whether the anti-affinity of running pods excludes the member only from their own nodes. It reads every term, because
// the snapshot's list of other terms depends on a feature gate.
func (c *Counter) onlyOnHosts() bool {
	nodes, err := c.profile.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return err == nil && !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPodsWithRequiredAntiAffinity(), func(p fwk.PodInfo) bool {
			return c.keptOffFrom(p.GetRequiredAntiAffinityTerms())
		})
	})
}

// keptOffFrom returns whether the anti-affinity terms of a pod exclude the member from nodes other than the pod's own.
func (c *Counter) keptOffFrom(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool {
		return t.TopologyKey != v1.LabelHostname && mayMatch(&t, c.member.GetPod())
	})
}

// mayMatch returns whether a term may match a pod. A namespace selector counts as matching.
func mayMatch(t *fwk.AffinityTerm, pod *v1.Pod) bool {
	_, selects := t.NamespaceSelector.Requirements()
	return (selects || t.Namespaces.Has(pod.Namespace)) && t.Selector.Matches(labels.Set(pod.Labels))
}

// hasNoTerms returns whether a pod has no required affinity and no required anti-affinity.
func hasNoTerms(pod fwk.PodInfo) bool {
	return len(pod.GetRequiredAntiAffinityTerms())+len(pod.GetRequiredAffinityTerms()) == 0
}

// nodeKey returns all fields that keyed Filters (see fact) read of a pod, as JSON.
func nodeKey(pod *v1.Pod) string {
	spec := &pod.Spec
	key := struct {
		Requests    v1.ResourceList
		Selector    map[string]string
		Affinity    *v1.NodeAffinity
		Tolerations []v1.Toleration
		Ports       []v1.ContainerPort
	}{
		Requests: resource.PodRequests(pod, resource.PodResourcesOptions{}),
		Selector: spec.NodeSelector, Tolerations: spec.Tolerations, Ports: schedutil.GetHostPorts(pod),
	}
	if spec.Affinity != nil {
		key.Affinity = spec.Affinity.NodeAffinity
	}
	out, err := json.Marshal(key)
	if err != nil {
		return "" // a pod that cannot be encoded is unique
	}
	return string(out)
}

// resourceSlots is for how many members each resource of a node suffices: pods, CPU, memory, ephemeral storage, and the first others.
type resourceSlots [8]int64

// least returns for how many members all of the first used resources suffice.
func (r *resourceSlots) least(used int) offer.Slots {
	return offer.Slots(max(0, min(slices.Min(r[:used]), maxSlots)))
}

// slotsPerResource returns the free resources of a node divided by a member's requests. used is the number of valid entries; exact is false
// if the member requests more resources than there are entries.
func (c *Counter) slotsPerResource(node fwk.NodeInfo) (r resourceSlots, used int, exact bool) {
	total, taken := node.GetAllocatable(), node.GetRequested()
	add := func(total, taken, need int64) {
		if need > 0 && used < len(r) {
			r[used] = (total - taken) / need
			used++
		}
	}
	add(int64(total.GetAllowedPodNumber()), int64(len(node.GetPods())), 1)
	add(total.GetMilliCPU(), taken.GetMilliCPU(), c.need.GetMilliCPU())
	add(total.GetMemory(), taken.GetMemory(), c.need.GetMemory())
	add(total.GetEphemeralStorage(), taken.GetEphemeralStorage(), c.need.GetEphemeralStorage())
	for _, s := range c.scalars {
		add(total.GetScalarResources()[s.name], taken.GetScalarResources()[s.name], s.need)
	}
	return r, used, len(c.scalars) <= len(r)-4
}

// scalar is a requested resource other than CPU, memory and storage.
type scalar struct {
	name v1.ResourceName
	need int64
}

func scalarsOf(need fwk.Resource) (out []scalar) {
	for name, n := range need.GetScalarResources() {
		out = append(out, scalar{name, n})
	}
	slices.SortFunc(out, func(a, b scalar) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

// fills remembers how many members a node takes if only resources decide: nodes with equal resourceSlots take equally many. So the Filters
// run once for equal resourceSlots, and no node is copied.
type fills struct {
	mu    sync.Mutex
	known map[resourceSlots]offer.Slots
	tight map[resourceSlots]bool // capped resourceSlots for which least is the number of members
}

// capped returns r with all entries above least replaced by least+1, so that only the scarcest resources matter. If the Filters accepted
// least members once, they do for all r with equal capped. If not, all entries matter: NodeResourcesFit may be configured to ignore
// resources.
func (r resourceSlots) capped(used int, least offer.Slots) resourceSlots {
	for i := range r[:used] {
		r[i] = min(r[i], int64(least)+1)
	}
	return r
}

func (f *fills) get(r resourceSlots, used int) (n offer.Slots, ok bool) {
	least := r.least(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tight[r.capped(used, least)] {
		return least, true
	}
	n, ok = f.known[r]
	return n, ok
}

func (f *fills) put(r resourceSlots, used int, n offer.Slots) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known, f.tight = map[resourceSlots]offer.Slots{}, map[resourceSlots]bool{}
	}
	if least := r.least(used); n == least {
		f.tight[r.capped(used, least)] = true
	} else {
		f.known[r] = n
	}
}
