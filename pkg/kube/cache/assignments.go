package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// AnyPlaces says whether any assignment is not assumed by the scheduler yet.
func (c *Cache) AnyPlaces() bool { return read(c, func() bool { return c.book.AnyPlaces() }) }

// Reserves says whether a pod's group has an assignment on a node.
func (c *Cache) Reserves(node string, pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	self := convert.PodKey(pod)
	return slices.ContainsFunc(c.book.PlacesOn(node), func(key string) bool { return key == self || c.book.SameGroup(key, self) })
}

// PlacesIn is PlacesOn for all nodes of a tree, by index. Nodes without such members are left out.
func (c *Cache) PlacesIn(tree *topology.Tree, pod *v1.Pod) map[int][]*v1.Pod {
	if !c.AnyPlaces() {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := map[int][]*v1.Pod{}
	for i := range tree.NumNodes() {
		if others := c.placesOn(tree.NodeName(i), pod); len(others) > 0 {
			out[i] = others
		}
	}
	return out
}

// PlacesOn returns the members of other groups with an assignment on the node that pod must respect: those of equal
// or higher priority, except those that were planned beside it.
func (c *Cache) PlacesOn(node string, pod *v1.Pod) []*v1.Pod {
	return read(c, func() []*v1.Pod { return c.placesOn(node, pod) })
}

// placesOn is PlacesOn with c.mu held.
func (c *Cache) placesOn(node string, pod *v1.Pod) (others []*v1.Pod) {
	self := convert.PodKey(pod)
	for _, key := range c.book.PlacesOn(node) {
		if key == self || c.book.SameGroup(key, self) {
			continue
		}
		if p := c.assignedPod(key); p != nil && c.Priority(p) >= c.Priority(pod) && !c.comesBeside(p, pod) {
			others = append(others, p)
		}
	}
	return others
}

// ReservedAfter says whether pod has a reservation that was made after other's assignment, at equal priority. Then
// other goes first.
func (c *Cache) ReservedAfter(pod, other *v1.Pod) bool {
	return read(c, func() bool { return c.comesBeside(pod, other) })
}

// comesBeside is ComesBeside with c.mu held.
func (c *Cache) comesBeside(pod, other *v1.Pod) bool {
	return c.Priority(pod) == c.Priority(other) && c.book.ReservedAfter(convert.PodKey(pod), convert.PodKey(other))
}

// Siblings says whether two pods are different members of one group.
func (c *Cache) Siblings(pod, other *v1.Pod) bool {
	return read(c, func() bool {
		return pod.UID != other.UID && c.book.SameGroup(convert.PodKey(pod), convert.PodKey(other))
	})
}

// SiblingsOn returns the pod and the members of its group with an assignment on the node that are not assumed, in
// queue order.
func (c *Cache) SiblingsOn(node string, pod *v1.Pod) []*v1.Pod {
	self := convert.PodKey(pod)
	all := []*v1.Pod{pod}
	c.mu.RLock()
	for _, key := range c.book.PlacesOn(node) {
		if key == self || !c.book.SameGroup(key, self) {
			continue
		}
		if p := c.assignedPod(key); p != nil {
			all = append(all, p)
		}
	}
	c.mu.RUnlock()
	if len(all) > 1 {
		slices.SortStableFunc(all, func(a, b *v1.Pod) int { return c.Order(a).Compare(c.Order(b)) })
	}
	return all
}

// ReservedIn returns, by node index, the members of other groups with a reservation. A surplus pod must respect
// them, whatever their priority.
func (c *Cache) ReservedIn(tree *topology.Tree, pod *v1.Pod) map[int][]*v1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := map[int][]*v1.Pod{}
	self := convert.PodKey(pod)
	for key, node := range c.book.ReservedPlaces() {
		i, ok := tree.NodeIndex(node)
		if p := c.pods[key]; ok && p != nil && key != self && !c.book.SameGroup(key, self) {
			out[i] = append(out[i], p)
		}
	}
	return out
}

// ReservedNode is the reserved node of a member.
type ReservedNode struct {
	Pod  *v1.Pod
	Gang gang.Ref
	Node string
}

// FarReservations returns the reservations of other groups for members of equal or higher priority whose constraints may
// exclude the pod from other nodes; with all, every reservation for members of such priority. It returns nil if there are none.
func (c *Cache) FarReservations(pod *v1.Pod, all bool) (out []ReservedNode) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !all && c.farReaching == 0 || !c.book.AnyPlaces() {
		return nil
	}
	self := convert.PodKey(pod)
	for key, node := range c.book.ReservedPlaces() {
		p := c.assignedPod(key)
		if p == nil || !all && !convert.KeepsOffAfar(p) || key == self || c.book.SameGroup(key, self) {
			continue
		}
		if c.Priority(p) >= c.Priority(pod) && !c.comesBeside(p, pod) {
			out = append(out, ReservedNode{p, source.GangOf(p), node})
		}
	}
	return out
}

// SameGroup says whether two pods belong to one group.
func (c *Cache) SameGroup(a, b *v1.Pod) bool {
	return read(c, func() bool { return c.book.SameGroup(convert.PodKey(a), convert.PodKey(b)) })
}
