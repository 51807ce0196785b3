package cache

import (
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// successor is a stand-in for the pod that a controller creates after the eviction of another one. The gang book reserves its node for the
// group.
type successor struct {
	standIn *v1.Pod
	group   gang.Ref
}

// assignedPod returns the member or the stand-in with that key; nil if there is none. Stand-ins are of lost members, of evicted pods'
// successors, and of members not yet created. c.mu is locked.
func (c *Cache) assignedPod(key string) *v1.Pod {
	if p := c.pods[key]; p != nil {
		return p
	}
	if p := c.lost[key]; p != nil {
		return p
	}
	if s, ok := c.successors[key]; ok {
		return s.standIn
	}
	leader, number, ok := group.Leader(key)
	if !ok {
		return nil
	}
	p := c.pods[leader]
	if p == nil {
		return nil
	}
	if r := c.gangs[source.GangOf(p)]; r != nil && r.Declared != nil {
		return r.StandIn(p, number)
	}
	return nil
}

// leadersWithoutMembers returns the groups whose leader was bound recently, within the wait limit, and whose other members do not exist
// yet. An earlier process may have reserved nodes for these members. c.mu is locked.
func (c *Cache) leadersWithoutMembers() (all []Absent) {
	now := c.Clock.Now()
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		if members, _ := r.StandIns(0); len(members) == 0 || !c.servesGang(r) {
			continue
		}
		last := Absent{Group: c.book.GroupOfGang(ref)[0], Until: now}
		for _, pod := range r.Pods {
			if until := boundAt(pod, now).Add(r.Declared.Wait); pod.Spec.NodeName != "" && until.After(last.Until) {
				last.Scheduler, last.Until = pod.Spec.SchedulerName, until
			}
		}
		if last.Until.After(now) {
			all = append(all, last)
		}
	}
	return all
}

// boundAt returns when a pod was bound; now if that is unknown, or later than now.
func boundAt(pod *v1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && c.LastTransitionTime.Time.Before(now) {
			return c.LastTransitionTime.Time
		}
	}
	return now
}

// Absent is a group with members that do not exist, for which nodes are to be reserved: they were lost, or an earlier process may have
// reserved nodes for them, which is not stored anywhere. Scheduler names the group's profile. A reservation may last until Until.
type Absent struct {
	Group     gang.Ref
	Scheduler string
	Until     time.Time
	// Recreated is set for a group that its controller recreates as a whole.
	Recreated *Recreated
}

// TakeAbsent removes and returns the groups of a profile for whose absent members nodes are to be reserved; nil if there are none. It first
// removes terminating members for which gone is true: a snapshot may lack them before their deletion is reported here.
func (c *Cache) TakeAbsent(scheduler string, gone func(pod string, uid types.UID) bool) (taken []Absent) {
	if read(c, func() bool { return len(c.absent)+len(c.terminating) == 0 }) {
		return nil
	}
	c.mu.Lock()
	maps.DeleteFunc(c.terminating, func(_ string, pod *v1.Pod) bool { return c.book.Missing(source.GangOf(pod)) == 0 }) // the gang ends
	none, ending := len(c.absent) == 0, slices.Collect(maps.Values(c.terminating))
	c.mu.Unlock()
	for _, pod := range ending {
		if gone(convert.PodKey(pod), pod.UID) {
			c.dropPod(pod)
			none = false
		}
	}
	if none {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = slices.DeleteFunc(c.absent, func(b Absent) bool {
		if b.Scheduler == scheduler {
			taken = append(taken, b)
		}
		return b.Scheduler == scheduler
	})
	return taken
}

// Faults returns the nodes of members that the gangs of a group have lost while they were incomplete, with the time of the last loss.
func (c *Cache) Faults(key gang.Ref) map[string]time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := map[string]time.Time{}
	for _, ref := range c.book.GroupOfGang(key) {
		if r := c.gangs[ref]; r != nil {
			maps.Copy(all, r.faults)
		}
	}
	return all
}

// noteMissing records the node of a lost member of an incomplete gang. It makes a stand-in for the member, for which a node is to be
// reserved: when the member has failed or is gone (gone), or before, while it terminates on a node that is not ready. It drops the
// stand-ins that are not needed any more. c.mu is locked.
func (c *Cache) noteMissing(r *record, lost *v1.Pod, gone bool) (effects []gang.Effect) {
	missing := c.book.Missing(r.Ref)
	if missing > 0 {
		if r.faults == nil {
			r.faults = map[string]time.Time{}
		}
		r.faults[lost.Spec.NodeName] = c.Clock.Now()
	}
	if missing > 0 && c.Repair > 0 && c.open.Load() && c.servesGang(r) {
		standIn, now := group.Lost(lost, ""), c.Clock.Now()
		noted := c.lost[convert.PodKey(standIn)]
		isNew := noted == nil || noted.UID != standIn.UID
		if isNew {
			c.addLost(r, standIn)
		}
		if isNew || gone {
			c.absent = append(c.absent, Absent{
				Group: c.book.GroupOfGang(r.Ref)[0], Scheduler: lost.Spec.SchedulerName, Until: now.Add(c.Repair),
			})
		}
		if gone {
			effects = c.book.Apply(gang.MemberGone{Gang: r.Ref}, now)
		}
	}
	c.keepLost(r, missing)
	return effects
}

// noteLostOn calls noteMissing for the members that terminate on a node that is not ready or was deleted. Capacity elsewhere is held for
// them at once, since their objects may exist for long. It also reports their gangs. c.mu is locked.
func (c *Cache) noteLostOn(node string) (effects []gang.Effect) {
	for _, key := range slices.SortedFunc(maps.Keys(c.onNode[node]), topology.CompareNames) {
		pod := c.pods[key]
		if r := c.gangs[source.GangOf(pod)]; r != nil && convert.Terminating(pod) {
			effects = append(effects, c.noteMissing(r, pod, false)...)
			effects = append(effects, gang.Effect{Verb: gang.Report, Gang: r.Ref})
		}
	}
	return effects
}

// isReady returns whether a node exists and is ready. c.mu is locked.
func (c *Cache) isReady(node string) bool {
	n := c.nodes[node]
	return n != nil && convert.Ready(n)
}

// addLost adds a stand-in for a lost member, in place of an earlier one of its name. c.mu is locked.
func (c *Cache) addLost(r *record, standIn *v1.Pod) {
	key := convert.PodKey(standIn)
	r.Lost = append(slices.DeleteFunc(r.Lost, func(p *v1.Pod) bool { return convert.PodKey(p) == key }), standIn)
	c.lost[key] = standIn
}

// returnLost has the stand-in of the lost member that a new member replaces removed first: that of its name, else one that Filters treat
// alike, else the first one. c.mu is locked.
func (c *Cache) returnLost(r *record, member *v1.Pod) {
	if len(r.Lost) < 2 {
		return
	}
	same := group.Lost(member, "")
	template := convert.Template(same)
	i := slices.IndexFunc(r.Lost, func(p *v1.Pod) bool { return p.Name == same.Name })
	if i < 0 {
		i = slices.IndexFunc(r.Lost, func(p *v1.Pod) bool { return convert.Template(p) == template })
	}
	if i > 0 {
		returned := r.Lost[i]
		r.Lost = slices.Insert(slices.Delete(r.Lost, i, i+1), 0, returned)
	}
}

// keepLost keeps the latest n stand-ins for lost members of a gang. c.mu is locked.
func (c *Cache) keepLost(r *record, n int) {
	for len(r.Lost) > n {
		delete(c.lost, convert.PodKey(r.Lost[0]))
		r.Lost = r.Lost[1:]
	}
}

// incompleteGangs returns the groups with missing members, after a restart. No object says which members were lost, so the stand-ins are
// made from the first bound member by name. c.mu is locked.
func (c *Cache) incompleteGangs() (all []Absent) {
	for _, ref := range c.refs() {
		r, missing := c.gangs[ref], c.book.Missing(ref)
		if missing == 0 || c.Repair <= 0 || !c.servesGang(r) {
			continue
		}
		bound := slices.DeleteFunc(slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames), func(key string) bool {
			return r.Pods[key].Spec.NodeName == ""
		})
		if len(bound) == 0 {
			continue
		}
		like := r.Pods[bound[0]]
		for i := range missing {
			c.addLost(r, group.Lost(like, strconv.Itoa(i+1)))
		}
		all = append(all, Absent{
			Group: c.book.GroupOfGang(ref)[0], Scheduler: like.Spec.SchedulerName, Until: c.Clock.Now().Add(c.Repair),
		})
	}
	return all
}
