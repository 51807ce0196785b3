package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Group is a gang group with the objects that a planner needs.
type Group = group.Group

// View is the state of a pod and its group, read at one moment for a scheduling cycle.
type View struct {
	Key      gang.Ref // the key of its group
	Member   *v1.Pod  // the recorded member with the pod's key, or nil
	Seat     gang.NodeAssignment
	Reserved bool   // the group waits for its victims to terminate
	Admitted bool   // the pod has no confirmed assignment and may be scheduled
	Why      string // why it may not be scheduled
	// Group is nil if the pod may not be scheduled, or if Refusal says why the group cannot be planned.
	Group   *Group
	Refusal gang.Obstacle
}

// View returns the view of a pod. Group and Refusal are set only if Admitted is true.
func (c *Cache) View(pod *v1.Pod) View {
	c.mu.RLock()
	defer c.mu.RUnlock()
	self, key := convert.PodKey(pod), c.groupKey(pod)
	v := View{Key: key, Member: c.pods[self], Seat: c.book.NodeAssignment(self), Reserved: c.book.Reserved(key)}
	if v.Seat.Confirmed && v.Seat.Node != "" {
		return v
	}
	if v.Admitted, v.Why = c.admit(pod); v.Admitted {
		v.Group, v.Refusal = c.group(key)
	}
	return v
}

// GroupKey returns the key of a pod's group; for a pod that the book does not know, the gang that the pod names.
func (c *Cache) GroupKey(pod *v1.Pod) gang.Ref {
	return read(c, func() gang.Ref { return c.groupKey(pod) })
}

// groupKey is GroupKey with c.mu locked.
func (c *Cache) groupKey(pod *v1.Pod) gang.Ref {
	if key, ok := c.book.GroupKey(convert.PodKey(pod)); ok {
		return key
	}
	return source.GangOf(pod)
}

// Group returns the group of a pod, or nil and why it cannot be planned.
func (c *Cache) Group(pod *v1.Pod) (*Group, gang.Obstacle) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key, ok := c.book.GroupKey(convert.PodKey(pod))
	if !ok {
		return nil, unknown(source.GangOf(pod))
	}
	return c.group(key)
}

// GroupOf returns the group with that key, or nil and why it cannot be planned.
func (c *Cache) GroupOf(key gang.Ref) (*Group, gang.Obstacle) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.group(key)
}

// group is GroupOf with c.mu locked.
func (c *Cache) group(key gang.Ref) (*Group, gang.Obstacle) {
	g, ok := c.book.GroupOf(key)
	if !ok {
		return nil, unknown(key)
	}
	var records []*group.Record
	for _, member := range g.Gangs {
		r := c.gangs[member.Ref]
		if r == nil {
			return nil, unknown(member.Ref)
		}
		records = append(records, &r.Record)
	}
	var tree *topology.Tree
	if net := c.current.Load(); net != nil {
		tree = net.Tree
	}
	return group.New(*g, records, tree)
}

// Evictable returns whether a pod, or each gang of its gang group, declares that it is evicted first: for a promised start of another gang,
// or for its repair.
func (c *Cache) Evictable(pod *v1.Pod) bool {
	return read(c, func() bool { return c.evictable(pod) })
}

// CreatedAfter returns whether all gangs of a gang's group were created after all gangs of another group; false if a time is unknown.
func (c *Cache) CreatedAfter(ref, other gang.Ref) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	first, _ := c.book.Created(ref)
	_, last := c.book.Created(other)
	return !last.IsZero() && first.After(last)
}

func unknown(ref gang.Ref) gang.Obstacle {
	return gang.Obstacle{By: gang.Missing, Words: "gang " + ref.String() + " is not known"}
}
