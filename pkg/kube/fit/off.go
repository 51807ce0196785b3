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

// Off is the domains, by node label and its value, in which a pod may not be because of others who are still to come there, on whatever
// node: it keeps them off, or they keep it off. With each is for whom.
type Off map[string]map[string]string

// Comers are pods that are still to come to nodes. They are not in the snapshot, so that no Filter knows of them; on their own nodes they
// are counted beside the members.
type Comers struct {
	namespaces corelisters.NamespaceLister
	kinds      []*comers
	alike      map[any]*comers
}

// comers are some that are written alike.
type comers struct {
	info fwk.PodInfo
	to   []comer
}

type comer struct {
	node *v1.Node
	whom string
}

// NewComers returns nobody.
func NewComers(namespaces corelisters.NamespaceLister) *Comers {
	return &Comers{namespaces: namespaces, alike: map[any]*comers{}}
}

// Add notes one who comes to a node for somebody. Its template is the same for all who are written alike.
func (c *Comers) Add(pod *v1.Pod, template any, node *v1.Node, whom string) {
	of := c.alike[template]
	if of == nil {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return // its own Filters say so
		}
		of = &comers{info: info}
		c.alike[template], c.kinds = of, append(c.kinds, of)
	}
	of.to = append(of.to, comer{node, whom})
}

// Off says where a pod may not be because of them, by terms of either. It is nil if that is nowhere.
func (c *Comers) Off(pod *v1.Pod) (off Off) {
	if c == nil {
		return nil
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil // its own Filters say so
	}
	for _, of := range c.kinds {
		keys := c.between(info, of.info)
		for _, to := range of.to {
			for key := range keys {
				if value, named := to.node.Labels[key]; named {
					off = off.with(key, value, to.whom)
				}
			}
		}
	}
	return off
}

// between is the node labels of the domains in which two pods may not be together.
func (c *Comers) between(pod, other fwk.PodInfo) sets.Set[string] {
	keys := sets.New[string]()
	add := func(of, meant fwk.PodInfo) {
		for _, t := range of.GetRequiredAntiAffinityTerms() {
			if t.TopologyKey != v1.LabelHostname && t.Matches(meant.GetPod(), labelsOf(meant.GetPod().Namespace, c.namespaces)) {
				keys.Insert(t.TopologyKey)
			}
		}
	}
	add(pod, other)
	add(other, pod)
	return keys
}

// labelsOf are the labels of a namespace; none if it is not known.
func labelsOf(namespace string, all corelisters.NamespaceLister) labels.Set {
	if ns, err := all.Get(namespace); err == nil {
		return ns.Labels
	}
	return nil
}

// with adds a domain. Of several for whom it is closed the first by name is told.
func (o Off) with(key, value, whom string) Off {
	if o == nil {
		o = Off{}
	}
	if o[key] == nil {
		o[key] = map[string]string{}
	}
	if was, ok := o[key][value]; !ok || whom < was {
		o[key][value] = whom
	}
	return o
}

// Closes says whether a node is in one of these domains, and for whom it is kept.
func (o Off) Closes(node *v1.Node) (whom string, closed bool) {
	for key, values := range o {
		value, named := node.Labels[key]
		if !named {
			continue
		}
		if is, ok := values[value]; ok && (!closed || is < whom) {
			whom, closed = is, true
		}
	}
	return whom, closed
}

// Key is equal for those that close the same domains.
func (o Off) Key() string {
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

// Clone implements fwk.StateData. It is not changed any more once it is in a cycle's state.
func (o Off) Clone() fwk.StateData { return o }
