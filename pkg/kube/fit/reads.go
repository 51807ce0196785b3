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
	// key is what they read of the pod, if they read nothing else but the node; otherwise "". It excludes labels and namespace.
	key string
	// apart says that some pods in the cluster have required anti-affinity, which selects by labels: on their nodes the key is not enough.
	apart bool
	// resources says that a member added to a node changes only the free resources for the next one.
	resources bool
}

// readsOf determines what the counter's Filters read, once PreFilter has excluded inactive ones.
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
			r.apart = true // a member has no terms, so it does not keep off the next one
		default:
			return reads{}
		}
	}
	if c.allowedNodes == nil && c.rejected == nil {
		r.key = nodeKey(c.member.GetPod()) + c.pages.entry(c.member.GetPod())
	}
	return r
}

// onlyOnHosts returns whether pods keep the member off at most their own nodes. It reads every term:
// the snapshot's list of farther terms depends on a feature gate.
func (c *Counter) onlyOnHosts() bool {
	nodes, err := c.profile.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return err == nil && !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPodsWithRequiredAntiAffinity(), func(p fwk.PodInfo) bool {
			return c.keptOffFrom(p.GetRequiredAntiAffinityTerms())
		})
	})
}

// keptOffFrom returns whether a pod with such terms keeps the member off nodes other than its own.
func (c *Counter) keptOffFrom(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool {
		return t.TopologyKey != v1.LabelHostname && mayMatch(&t, c.member.GetPod())
	})
}

// mayMatch returns whether a term may match a pod. Selectors of namespaces count as matching.
func mayMatch(t *fwk.AffinityTerm, pod *v1.Pod) bool {
	_, selects := t.NamespaceSelector.Requirements()
	return (selects || t.Namespaces.Has(pod.Namespace)) && t.Selector.Matches(labels.Set(pod.Labels))
}

// hasNoTerms returns whether a pod has no required terms about other pods.
func hasNoTerms(pod fwk.PodInfo) bool {
	return len(pod.GetRequiredAntiAffinityTerms())+len(pod.GetRequiredAffinityTerms()) == 0
}

// nodeKey returns what the keyed Filters read of a pod.
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

// room is for how many members each resource of a node suffices: pods, CPU, memory, ephemeral storage, and the first other resources.
type room [8]int64

// least returns for how many members all resources suffice.
func (r *room) least(used int) offer.Slots {
	return offer.Slots(max(0, min(slices.Min(r[:used]), most)))
}

// roomOn divides the free resources of a node by a member's requests. used is the number of valid entries; exact is false if the member
// requests more resources.
func (c *Counter) roomOn(node fwk.NodeInfo) (r room, used int, exact bool) {
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

// scalar is a resource other than CPU, memory and storage.
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

// fills remembers how many members fit where only resources decide: nodes with equal room take equally many.
// So the Filters are asked once per room, and no node is copied.
type fills struct {
	mu    sync.Mutex
	known map[room]offer.Slots
	tight map[room]bool // rooms, shortened, for which the least decides
}

// short reduces a room to its scarcest resources.
// If the Filters once accepted as many members as these suffice for, that holds for every room with the same scarcest resources.
// Otherwise the whole room decides: a profile may let NodeResourcesFit ignore some resources.
func (r room) short(used int, least offer.Slots) room {
	for i := range r[:used] {
		r[i] = min(r[i], int64(least)+1)
	}
	return r
}

func (f *fills) get(r room, used int) (n offer.Slots, ok bool) {
	least := r.least(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tight[r.short(used, least)] {
		return least, true
	}
	n, ok = f.known[r]
	return n, ok
}

func (f *fills) put(r room, used int, n offer.Slots) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known, f.tight = map[room]offer.Slots{}, map[room]bool{}
	}
	if least := r.least(used); n == least {
		f.tight[r.short(used, least)] = true
	} else {
		f.known[r] = n
	}
}
