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

// Order is a pod's position in the queue. Members of gangs that were partially bound at the start come first. Other pods are ordered by
// priority, then by creation of the gang, by the gang, and by rank.
type Order struct {
	Resumed  bool
	Priority int32
	Created  time.Time
	Member   gang.Member
}

// Order returns a member's position in the queue.
func (c *Cache) Order(pod *v1.Pod) Order {
	ref := source.GangOf(pod)
	m, _ := convert.Member(pod, ref)
	o := Order{Priority: c.Priority(pod), Created: pod.CreationTimestamp.Time, Member: m}
	c.mu.RLock()
	defer c.mu.RUnlock()
	o.Resumed = c.book.Resumed(ref)
	if r := c.gangs[ref]; r != nil && r.Object != nil {
		o.Created = r.Object.CreationTimestamp.Time
	}
	return o
}

// Before returns whether the pod at o is scheduled before the pod at p.
func (o Order) Before(p Order) bool {
	if o.Resumed != p.Resumed {
		return o.Resumed
	}
	return cmp.Or(cmp.Compare(p.Priority, o.Priority), o.Compare(p)) < 0
}

// Compare returns -1, 0 or 1: the order of pods of equal priority.
func (o Order) Compare(p Order) int {
	return cmp.Or(
		o.Created.Compare(p.Created),
		o.Member.Gang.Compare(p.Member.Gang, topology.CompareNames),
		o.Member.CompareRanks(&p.Member, topology.CompareNames),
		topology.CompareNames(o.Member.Pod, p.Member.Pod),
	)
}

// Queue returns the served gangs with pending members. tried are in the order in which they are scheduled; waits are the ones that wait
// for users or controllers. A gang's position is the position of its group's representative. If the group has no representative, it is the
// position of the gang's first member.
//
// It locks c.mu for each gang anew, so that other goroutines do not wait long.
func (c *Cache) Queue() (tried, waits []gang.Ref) {
	stands := map[gang.Ref]standing{}
	for _, ref := range c.Gangs() {
		position, waiting := c.standing(ref)
		if !waiting {
			continue
		}
		stands[ref] = position
		if c.State(ref).Refusal.WaitsForUser() {
			waits = append(waits, ref)
		} else {
			tried = append(tried, ref)
		}
	}
	for _, list := range [][]gang.Ref{tried, waits} {
		slices.SortFunc(list, func(a, b gang.Ref) int {
			return cmp.Or(stands[a].compare(stands[b]), a.Compare(b, topology.CompareNames))
		})
	}
	return tried, waits
}

// standing is a gang's position in the queue.
type standing struct {
	tried Order // of its group's representative
	other bool  // the representative is a member of another gang
	own   Order // of its own first member
}

// compare returns the order of two gangs, -1, 0 or 1. The gang of the representative is before the other gangs of its group.
func (s standing) compare(o standing) int {
	switch {
	case s.tried.Before(o.tried):
		return -1
	case o.tried.Before(s.tried):
		return 1
	case s.other != o.other:
		return map[bool]int{false: -1, true: 1}[s.other]
	case s.own.Before(o.own):
		return -1
	case o.own.Before(s.own):
		return 1
	}
	return 0
}

// standing returns a gang's position in the queue; waiting is false if no member is pending.
func (c *Cache) standing(ref gang.Ref) (s standing, waiting bool) {
	for i, pod := range c.waiting(ref) {
		if o := c.Order(pod); i == 0 || o.Before(s.own) {
			s.own, waiting = o, true
		}
	}
	s.tried = s.own
	if representative := c.representative(ref); representative != nil {
		s.tried = c.Order(representative)
		s.other = source.GangOf(representative) != ref
	}
	return s, waiting
}

// representative returns the member that stands for a gang's group in the queue, or nil.
func (c *Cache) representative(ref gang.Ref) *v1.Pod {
	return read(c, func() *v1.Pod { return c.pods[c.book.Representative(ref)] })
}

// waiting returns the pending members of a gang that profiles of this process schedule.
func (c *Cache) waiting(ref gang.Ref) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName == "" && c.serves[p.Spec.SchedulerName] })
}
