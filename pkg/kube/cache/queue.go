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

// Order is a pod's place in the queue: gangs that were partially bound when this process began come
// first, then counts the priority, its gang's creation, the gang and the rank.
type Order struct {
	Resumed  bool
	Priority int32
	Created  time.Time
	Member   gang.Member
}

// Order returns the place of a gang's member in the queue.
func (c *Cache) Order(pod *v1.Pod) Order {
	ref := source.Of(pod)
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

// Before says who of two pods is tried first.
func (o Order) Before(p Order) bool {
	if o.Resumed != p.Resumed {
		return o.Resumed
	}
	return cmp.Or(cmp.Compare(p.Priority, o.Priority), o.Compare(p)) < 0
}

// Compare says who is tried first of pods of one priority.
func (o Order) Compare(p Order) int {
	return cmp.Or(
		o.Created.Compare(p.Created),
		o.Member.Gang.Compare(p.Member.Gang, topology.CompareNames),
		o.Member.CompareRanks(&p.Member, topology.CompareNames),
		topology.CompareNames(o.Member.Pod, p.Member.Pod),
	)
}

// Queue lists the gangs of which members wait that this process serves, in the order in which they will
// be tried: a gang stands where the member does that is tried for its group, or if there is none, where the
// first of its own does. In a list of their own are those that nobody tries, since their users must act
// first, or whoever makes their members.
//
// One gang after the other is looked at, so that nobody waits for the lock meanwhile.
func (c *Cache) Queue() (tried, waits []gang.Ref) {
	stands := map[gang.Ref]standing{}
	for _, ref := range c.Gangs() {
		at, any := c.stands(ref)
		if !any {
			continue
		}
		stands[ref] = at
		if c.State(ref).Refusal.Waits() {
			waits = append(waits, ref)
		} else {
			tried = append(tried, ref)
		}
	}
	for _, line := range [][]gang.Ref{tried, waits} {
		slices.SortFunc(line, func(a, b gang.Ref) int {
			return cmp.Or(stands[a].compare(stands[b]), a.Compare(b, topology.CompareNames))
		})
	}
	return tried, waits
}

// standing is where a gang stands in the queue.
type standing struct {
	tried Order // whoever is tried for its group
	other bool  // that is a member of another gang
	own   Order // the first of its own
}

// compare puts the one that is tried for a group before the others of the group.
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

// stands says where a gang stands; any is false if no member of it waits.
func (c *Cache) stands(ref gang.Ref) (s standing, any bool) {
	for i, pod := range c.inLine(ref) {
		if o := c.Order(pod); i == 0 || o.Before(s.own) {
			s.own, any = o, true
		}
	}
	s.tried = s.own
	if speaker := c.speaker(ref); speaker != nil {
		s.tried = c.Order(speaker)
		s.other = source.Of(speaker) != ref
	}
	return s, any
}

// speaker is the member that is tried for a gang's group; nil if there is none, or each member is for itself.
func (c *Cache) speaker(ref gang.Ref) *v1.Pod {
	return read(c, func() *v1.Pod { return c.pods[c.book.Speaker(ref)] })
}

// inLine are the members of a gang that wait for a node of one of our profiles.
func (c *Cache) inLine(ref gang.Ref) (pods []*v1.Pod) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gangs[ref].members(func(p *v1.Pod) bool { return p.Spec.NodeName == "" && c.serves[p.Spec.SchedulerName] })
}
