package gang

import (
	"iter"
	"maps"
	"slices"
)

// assign assigns a node to a member in the plan of its group.
func (b *Book) assign(g *group, m *member, node string) {
	g.plan[m.Pod], m.bindFailures = node, 0
	b.assignments++
	m.assignment = b.assignments
	m.recordNode(node)
	b.occupy(node, m.Pod)
	b.loseSuccessors(m, node)
	b.change(m, b.notePlanned)
}

// unassign removes a pod from the plan.
func (b *Book) unassign(g *group, pod string) {
	b.vacate(g.plan[pod], pod)
	delete(g.plan, pod)
	if m := b.pods[pod]; m != nil && m.planned {
		b.change(m, b.notePlanned)
	}
	b.advance(g)
}

// notePlanned updates m.planned: whether the plan of the member's group contains it.
func (b *Book) notePlanned(m *member) {
	g := b.groups[b.groupKey(m.Gang)]
	m.planned = g != nil && g.assigns(m.Pod)
}

func (g *group) assigns(pod string) bool {
	_, ok := g.plan[pod]
	return ok
}

// occupy adds a pod to unassumed: it has a node assignment or a held node that the scheduler does not count yet.
func (b *Book) occupy(node, pod string) {
	pods := b.unassumed[node]
	if i, found := slices.BinarySearchFunc(pods, pod, b.names); !found {
		b.unassumed[node] = slices.Insert(pods, i, pod)
	}
}

// vacate removes a pod from unassumed.
func (b *Book) vacate(node, pod string) {
	pods := b.unassumed[node]
	i, found := slices.BinarySearchFunc(pods, pod, b.names)
	if !found {
		return
	}
	if pods = slices.Delete(pods, i, i+1); len(pods) == 0 {
		delete(b.unassumed, node)
		return
	}
	b.unassumed[node] = pods
}

// NodeAssignment is a member's assignment in the plan of its group.
type NodeAssignment struct {
	Node         string // "" if it has none
	Confirmed    bool   // the plan may be carried out
	TurnObstacle string // why it must wait for its turn; "" if it need not
}

// NodeAssignment returns the assignment of a pod; the zero value for none.
func (b *Book) NodeAssignment(pod string) (a NodeAssignment) {
	if m := b.pods[pod]; m != nil {
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			_, waitsFor := g.mayEnter(m)
			return NodeAssignment{g.plan[pod], !g.unconfirmed, waitsFor}
		}
	}
	return NodeAssignment{}
}

// Place returns the node that is assigned to a pod, "" for none, and whether the plan may be carried out.
func (b *Book) Place(pod string) (node string, confirmed bool) {
	a := b.NodeAssignment(pod)
	return a.Node, a.Confirmed
}

// HasNode returns whether a member has an assignment or a node, as far as the book knows.
func (b *Book) HasNode(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.hasNode()
}

// ReservedAfter returns whether pod's node was reserved after other got its assignment in a confirmed plan. The reservation already counts
// other, so other need not wait for the reservation's victims.
func (b *Book) ReservedAfter(pod, other string) bool {
	m, o := b.pods[pod], b.pods[other]
	return m != nil && o != nil && m.planned && o.planned && m.assignment > o.assignment &&
		b.groups[b.groupKey(m.Gang)].unconfirmed && !b.groups[b.groupKey(o.Gang)].unconfirmed
}

// maxOlderNodes limits olderNodes.
const maxOlderNodes = 8

// recordNode records the node of the member's latest assignment.
func (m *member) recordNode(node string) {
	if m.lastNode != "" && m.lastNode != node {
		if m.olderNodes = append(m.olderNodes, m.lastNode); len(m.olderNodes) > maxOlderNodes {
			m.olderNodes = m.olderNodes[1:]
		}
	}
	m.lastNode = node
}

// HadPlace returns whether a pod is or was assigned to a node. A nomination may be written or read one plan late.
func (b *Book) HadPlace(pod, node string) bool {
	m := b.pods[pod]
	return m != nil && (m.lastNode == node || slices.Contains(m.olderNodes, node))
}

// PlacesOn returns the pods that are assigned to a node and not assumed there, by name. The slice is valid until the next event.
func (b *Book) PlacesOn(node string) []string { return b.unassumed[node] }

// ReservedPlaces yields the pod and node of each reservation that the scheduler does not count yet, sorted by group and pod.
func (b *Book) ReservedPlaces() iter.Seq2[string, string] {
	return func(yield func(pod, node string) bool) {
		if len(b.unassumed) == 0 {
			return
		}
		for _, key := range b.groupsWhere(func(g *group) bool { return g.reserved }) {
			g := b.groups[key]
			for _, pod := range slices.SortedFunc(maps.Keys(g.plan), b.names) {
				if m := b.pods[pod]; m != nil && !m.assumed && !yield(pod, g.plan[pod]) {
					return
				}
			}
		}
	}
}

// AnyPlaces returns whether any assignment is not assumed yet.
func (b *Book) AnyPlaces() bool { return len(b.unassumed) > 0 }
