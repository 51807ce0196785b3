package cache

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// mostNeighbours is how many gangs that wait are compared with one, the first in the queue.
const mostNeighbours = 64

// Neighbours lists how many members each of the gangs has, in the order of the queue, that wait beside a group, have its priority,
// and ask for the same but for how many they are: in what they need, as far as two members of each say, and in how they
// gather. Of a group of several gangs, and of gangs of which anything is special, there is none.
func (c *Cache) Neighbours(group *Group) (members []int) {
	if len(group.Gangs) != 1 || len(group.Own) > 0 || len(group.Pending) == 0 {
		return nil
	}
	head := group.Pods[group.Pending[0].Pod]
	c.mu.RLock()
	defer c.mu.RUnlock()
	var line []neighbour
	for ref, two := range c.book.Plain() {
		if n := c.neighbour(ref, two); ref != group.Key && n.is && n.priority == convert.Priority(head) && source.SameGather(c.gangs[ref].gather(), group.Gather) {
			line = append(line, n)
		}
	}
	slices.SortFunc(line, neighbour.compare)
	needs := convert.Needs(head)
	for _, n := range line[:min(len(line), mostNeighbours)] {
		if convert.Needs(n.first) == needs && (n.other == n.first || convert.Needs(n.other) == needs) {
			members = append(members, n.members)
		}
	}
	return members
}

// neighbour is a gang that waits beside another.
type neighbour struct {
	is           bool
	ref          gang.Ref
	created      time.Time
	priority     int32
	members      int
	first, other *v1.Pod
}

// neighbour describes a gang of ours. c.mu is held.
func (c *Cache) neighbour(ref gang.Ref, two [2]string) (n neighbour) {
	r := c.gangs[ref]
	if r == nil || len(r.branches()) > 0 || r.declared != nil && (r.declared.Apart || r.declared.Total > 0) {
		return n
	}
	n = neighbour{ref: ref, members: len(r.Pods), first: c.pods[two[0]], other: c.pods[two[1]]}
	if n.first == nil || n.other == nil || !c.serves[n.first.Spec.SchedulerName] {
		return n
	}
	n.is, n.priority, n.created = true, convert.Priority(n.first), n.first.CreationTimestamp.Time
	if r.Object != nil {
		n.created = r.Object.CreationTimestamp.Time
	}
	return n
}

// compare is the order of the queue, for gangs of one priority.
func (n neighbour) compare(o neighbour) int {
	return cmp.Or(n.created.Compare(o.created), n.ref.Compare(o.ref, topology.CompareNames))
}
