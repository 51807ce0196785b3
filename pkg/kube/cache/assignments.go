package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// AnyPlaces returns whether any member has a node assignment that the scheduler has not assumed yet.
func (c *Cache) AnyPlaces() bool { return read(c, func() bool { return c.book.AnyPlaces() }) }

// Reserves returns whether the pod, or another member of its group, is assigned to the node.
func (c *Cache) Reserves(node string, pod *v1.Pod) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	self := convert.PodKey(pod)
	return slices.ContainsFunc(c.book.PlacesOn(node), func(key string) bool { return c.shares(key, self, pod) })
}

// PlacesIn returns PlacesOn for all nodes of a tree, by node index. Nodes without such members are left out.
func (c *Cache) PlacesIn(tree *topology.Tree, pod *v1.Pod) map[int][]*v1.Pod {
	if !c.AnyPlaces() {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	out, use := map[int][]*v1.Pod{}, c.backfillOf(pod)
	for i := range tree.NumNodes() {
		if others := c.placesOn(tree.NodeName(i), pod, use); len(others) > 0 {
			out[i] = others
		}
	}
	return out
}

// PlacesOn returns the members of other groups that are assigned to the node and that pod must respect: members of equal or higher
// priority, and protected missing members. Two kinds are left out: members whose reservation was made after pod's assignment, and
// members for which capacity is held that the pod may use before they start.
func (c *Cache) PlacesOn(node string, pod *v1.Pod) []*v1.Pod {
	return read(c, func() []*v1.Pod { return c.placesOn(node, pod, c.backfillOf(pod)) })
}

// placesOn is PlacesOn with c.mu locked.
func (c *Cache) placesOn(node string, pod *v1.Pod, use backfill) (others []*v1.Pod) {
	self := convert.PodKey(pod)
	for _, key := range c.book.PlacesOn(node) {
		if p := c.respected(key, self, pod); p != nil && !c.mayBackfill(key, use) {
			others = append(others, p)
		}
	}
	return others
}

// HeldPlace is a member of a starving gang and the node on which capacity is held for it.
type HeldPlace struct {
	Pod  *v1.Pod
	Node string
}

// HeldByOthers returns the members of other groups for which capacity is held and that pod must respect, sorted by name. It also has the
// members whose capacity the pod may use before they start.
func (c *Cache) HeldByOthers(group gang.Ref, pod *v1.Pod) (all []HeldPlace) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	held := c.book.HeldByOthers(group)
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if p := c.assignedPod(key); p != nil && c.outranks(p, pod) {
			all = append(all, HeldPlace{p, held[key]})
		}
	}
	return all
}

// respected returns the member with that key if a pod, whose key is self, must respect the member's assignment; nil if it need not. A pod
// that may backfill uses the capacity until the member starts. c.mu is locked.
func (c *Cache) respected(key, self string, pod *v1.Pod) *v1.Pod {
	if c.shares(key, self, pod) {
		return nil
	}
	if p := c.assignedPod(key); p != nil && c.outranks(p, pod) && !c.reservedAfter(p, pod) {
		return p
	}
	return nil
}

// outranks returns whether pod must respect the assignment of p: p has at least its priority, or p is a stand-in for a missing member of a
// gang whose members pod could not evict: labels protect them, or pod never preempts. c.mu is locked.
func (c *Cache) outranks(p, pod *v1.Pod) bool {
	return c.Priority(p) >= c.Priority(pod) ||
		c.lost[convert.PodKey(p)] != nil && (convert.Protected(p) || convert.NeverPreempts(pod))
}

// ReservedAfter returns whether both pods have equal priority and pod's reservation was made after other's assignment. Then other need not
// respect pod's reservation.
func (c *Cache) ReservedAfter(pod, other *v1.Pod) bool {
	return read(c, func() bool { return c.reservedAfter(pod, other) })
}

// reservedAfter is ReservedAfter with c.mu locked.
func (c *Cache) reservedAfter(pod, other *v1.Pod) bool {
	return c.Priority(pod) == c.Priority(other) && c.book.ReservedAfter(convert.PodKey(pod), convert.PodKey(other))
}

// Siblings returns whether two pods are different members of one group.
func (c *Cache) Siblings(pod, other *v1.Pod) bool {
	return read(c, func() bool {
		return pod.UID != other.UID && c.book.SameGroup(convert.PodKey(pod), convert.PodKey(other))
	})
}

// SiblingsOn returns, in queue order, the pod and the members of its group that are assigned to the node and not assumed yet.
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

// ReservedIn returns, by node index, the members of other groups with a reservation, whatever their priority. Surplus members must respect
// them.
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

// FarReservations returns the reservations of other groups' members of equal or higher priority that have anti-affinity beyond their node.
// With all, it returns the reservations of all members of such priority. It returns nil if there are none.
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
		if c.outranks(p, pod) && !c.reservedAfter(p, pod) {
			out = append(out, ReservedNode{p, source.GangOf(p), node})
		}
	}
	return out
}

// SameGroup returns whether two pods are members of one group.
func (c *Cache) SameGroup(a, b *v1.Pod) bool {
	return read(c, func() bool { return c.book.SameGroup(convert.PodKey(a), convert.PodKey(b)) })
}
