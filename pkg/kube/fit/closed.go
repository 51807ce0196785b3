package fit

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// ClosedDomains are domains that a pod must not use, by node label and value, with the holder of a reservation in each: anti-affinity
// between the pod and a member with a reserved node in the domain closes it.
type ClosedDomains map[string]map[string]string

// ReservedMembers are members with reserved nodes. The snapshot does not contain them, so that Filters ignore their anti-affinity. (On
// their own nodes they are counted elsewhere.)
type ReservedMembers struct {
	namespaces corelisters.NamespaceLister
	kinds      []*reservedKind
	byTemplate map[any]*reservedKind
}

// reservedKind has the reservations of members with equal templates.
type reservedKind struct {
	info         fwk.PodInfo
	reservations []reservation
}

type reservation struct {
	node   *v1.Node
	holder string
}

// NewReservedMembers returns ReservedMembers without members.
func NewReservedMembers(namespaces corelisters.NamespaceLister) *ReservedMembers {
	return &ReservedMembers{namespaces: namespaces, byTemplate: map[any]*reservedKind{}}
}

// Add adds a member with a reserved node. template is equal for equal pods; holder names the reservation.
func (c *ReservedMembers) Add(pod *v1.Pod, template any, node *v1.Node, holder string) {
	kind := c.byTemplate[template]
	if kind == nil {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return // its own Filters report it
		}
		kind = &reservedKind{info: info}
		c.byTemplate[template], c.kinds = kind, append(c.kinds, kind)
	}
	kind.reservations = append(kind.reservations, reservation{node, holder})
}

// ClosedDomains returns the domains that a pod must not use, because of its own or the members' anti-affinity terms; nil if there are none.
func (c *ReservedMembers) ClosedDomains(pod *v1.Pod) (closed ClosedDomains) {
	if c == nil {
		return nil
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil // its own Filters report it
	}
	for _, kind := range c.kinds {
		keys := c.between(info, kind.info)
		for _, reserved := range kind.reservations {
			for key := range keys {
				if value, named := reserved.node.Labels[key]; named {
					closed = closed.with(key, value, reserved.holder)
				}
			}
		}
	}
	return closed
}

// between returns the node labels for which two pods must have different values, except the host name.
func (c *ReservedMembers) between(pod, other fwk.PodInfo) sets.Set[string] {
	keys := sets.New[string]()
	add := func(owner, target fwk.PodInfo) {
		for _, t := range owner.GetRequiredAntiAffinityTerms() {
			if t.TopologyKey != v1.LabelHostname && t.Matches(target.GetPod(), labelsOf(target.GetPod().Namespace, c.namespaces)) {
				keys.Insert(t.TopologyKey)
			}
		}
	}
	add(pod, other)
	add(other, pod)
	return keys
}

// labelsOf returns the labels of a namespace; none if it is unknown.
func labelsOf(namespace string, all corelisters.NamespaceLister) labels.Set {
	if ns, err := all.Get(namespace); err == nil {
		return ns.Labels
	}
	return nil
}

// with returns o with a further domain. Of several holders of one domain it keeps the first by name.
func (o ClosedDomains) with(key, value, holder string) ClosedDomains {
	if o == nil {
		o = ClosedDomains{}
	}
	if o[key] == nil {
		o[key] = map[string]string{}
	}
	if previous, ok := o[key][value]; !ok || holder < previous {
		o[key][value] = holder
	}
	return o
}

// Closes returns whether a node is in a closed domain, and the first holder by name.
func (o ClosedDomains) Closes(node *v1.Node) (holder string, isClosed bool) {
	for key, values := range o {
		value, named := node.Labels[key]
		if !named {
			continue
		}
		if found, ok := values[value]; ok && (!isClosed || found < holder) {
			holder, isClosed = found, true
		}
	}
	return holder, isClosed
}

// Key returns a text that is equal if the same domains are closed, whatever the holders; "" if none is closed.
func (o ClosedDomains) Key() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(o)) {
		for _, value := range slices.Sorted(maps.Keys(o[key])) {
			b.WriteString(key)
			b.WriteByte('=')
			b.WriteString(value)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Clone implements fwk.StateData. ClosedDomains in a cycle's state are never changed.
func (o ClosedDomains) Clone() fwk.StateData { return o }
