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

// reads says what the Filters look at when they are asked about a template.
type reads struct {
	// key is what they read of the pod, if beside it they look at nothing but the node;
	// "" if they look further. Neither labels nor the namespace are in it.
	key string
	// apart says that in the cluster there are pods that keep others off their node, by
	// labels: of the nodes with such pods the key does not say enough.
	apart bool
	// resources says that a member that is added to a node changes nothing for the next
	// one but what is left of resources.
	resources bool
}

// readsOf finds out what the counter's Filters look at, once its PreFilters have said
// which of them have nothing to do.
func (c *Counter) readsOf() reads {
	r := reads{resources: true}
	for _, p := range c.plugins.Filter.Enabled {
		if c.state.GetSkipFilterPlugins().Has(p.Name) || c.pages.cover(p.Name) {
			continue
		}
		f := facts[p.Name]
		switch {
		case f.keyed:
			r.resources = r.resources && f.blind
		case p.Name == names.InterPodAffinity && hasNoTerms(c.member) && c.onlyOnHosts():
			r.apart = true // a member has no terms: the next one is not kept off
		default:
			return reads{}
		}
	}
	if c.only == nil && c.refused == nil {
		r.key = nodeKey(c.member.GetPod()) + c.pages.entry(c.member.GetPod())
	}
	return r
}

// onlyOnHosts says that the pods of the cluster keep the member off their own node at most. Every term is looked at: the
// snapshot lists nodes with pods that reach farther, but only where a feature gate is on.
func (c *Counter) onlyOnHosts() bool {
	nodes, err := c.profile.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return err == nil && !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPodsWithRequiredAntiAffinity(), func(p fwk.PodInfo) bool { return c.keptOffFrom(p.GetRequiredAntiAffinityTerms()) })
	})
}

// keptOffFrom says whether a pod with such terms keeps the member off other nodes than its own.
func (c *Counter) keptOffFrom(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool {
		return t.TopologyKey != v1.LabelHostname && mayMatch(&t, c.member.GetPod())
	})
}

// mayMatch says whether a term means a pod, if the labels of its namespace do not tell.
func mayMatch(t *fwk.AffinityTerm, pod *v1.Pod) bool {
	_, some := t.NamespaceSelector.Requirements()
	return (some || t.Namespaces.Has(pod.Namespace)) && t.Selector.Matches(labels.Set(pod.Labels))
}

// hasNoTerms says that a pod requires nothing of other pods.
func hasNoTerms(pod fwk.PodInfo) bool {
	return len(pod.GetRequiredAntiAffinityTerms())+len(pod.GetRequiredAffinityTerms()) == 0
}

// nodeKey is what the keyed Filters read of a pod.
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
		return "" // a pod that cannot be written down is like no other
	}
	return string(out)
}

// room is how many members each resource of a node is enough for: pods, CPU, memory,
// ephemeral storage, and the first few others that a member requests.
type room [8]int64

// least is how many members all of it is enough for.
func (r *room) least(used int) offer.Slots {
	return offer.Slots(max(0, min(slices.Min(r[:used]), most)))
}

// roomOn divides what is free on the node by what a member requests. used says how many
// of the numbers mean something; exact is false if the member requests more resources.
func (c *Counter) roomOn(node fwk.NodeInfo) (r room, used int, exact bool) {
	have, taken := node.GetAllocatable(), node.GetRequested()
	add := func(have, taken, need int64) {
		if need > 0 && used < len(r) {
			r[used] = (have - taken) / need
			used++
		}
	}
	add(int64(have.GetAllowedPodNumber()), int64(len(node.GetPods())), 1)
	add(have.GetMilliCPU(), taken.GetMilliCPU(), c.need.GetMilliCPU())
	add(have.GetMemory(), taken.GetMemory(), c.need.GetMemory())
	add(have.GetEphemeralStorage(), taken.GetEphemeralStorage(), c.need.GetEphemeralStorage())
	for _, s := range c.scalars {
		add(have.GetScalarResources()[s.name], taken.GetScalarResources()[s.name], s.need)
	}
	return r, used, len(c.scalars) <= len(r)-4
}

// scalar is a resource that is neither CPU nor memory nor storage.
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

// fills remembers how many members nodes take that take one, where only resources
// decide: nodes with the same room take the same. So the Filters say it once for each
// room, and no node need be copied to ask them about the others.
type fills struct {
	mu    sync.Mutex
	known map[room]offer.Slots
	tight map[room]bool // rooms as short makes them, of which the least decides
}

// short leaves of a room what says which resources are the scarcest: of the others it is
// enough to know that they are not.
//
// Where the Filters have said once that such a room takes as many as its scarcest
// resources are enough for, one of these counts, and the others are enough for more. So
// it is true of every node with that room. Where they have not (a profile may have
// NodeResourcesFit ignore some resources) the whole room must be looked at.
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
