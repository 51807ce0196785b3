package cache

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Where a controller makes the leader of a gang before the other members, these are planned with
// it all the same (Declaration.Total). Who stands in for one that is still to be made is a pod like
// the one that is to come, as far as that is known. Its name is the leader's with a number, after a
// character that names of pods cannot have.

const standsIn = "~"

// standIns are the members of a gang that are still to be made; none if it is not known that there
// will be any.
func (r *record) standIns() (members []gang.Member, pods []*v1.Pod) {
	if r.declared == nil || len(r.Pods) == 0 || r.declared.Total+len(r.declared.Resources) == 0 {
		return nil, nil
	}
	leader := r.Pods[slices.MinFunc(slices.Collect(maps.Keys(r.Pods)), topology.CompareNames)]
	exist, total, number := len(r.Pods)+len(r.done), r.declared.Total, strconv.Itoa
	if total == 0 {
		rest, others := r.rest(leader), r.requests(leader)
		exist, total = rest.covered(others)
		number = func(share int) string { return rest.number(share, others) }
	}
	for i := exist + 1; i <= total; i++ {
		pod := r.standIn(leader, number(i))
		pods = append(pods, pod)
		members = append(members, gang.Member{
			Gang: r.Ref, Pod: convert.PodKey(pod), UID: string(pod.UID), Rank: gang.NoRank, Priority: convert.Priority(pod),
		})
	}
	return members, pods
}

// standIn is a pod that matters as much as the leader, and needs what the others will. It has no volumes
// and claims that may be the leader's own: those of one that does not exist cannot be asked for. Of claims that are
// made from a template it is known what they will be.
func (r *record) standIn(leader *v1.Pod, number string) *v1.Pod {
	pod := *leader
	pod.Name, pod.UID = leader.Name+standsIn+number, leader.UID+types.UID(standsIn+number)
	pod.DeletionTimestamp, pod.Status = nil, v1.PodStatus{}
	if r.declared.Total == 0 {
		pod.Spec = *pod.Spec.DeepCopy()
		r.rest(leader).request(&pod.Spec, number)
	}
	own := func(v v1.Volume) bool { return v.Ephemeral != nil || v.PersistentVolumeClaim != nil }
	if f := r.declared.Follower; f != nil {
		pod.Spec = *f.Spec.DeepCopy()
		pod.Spec.Priority, pod.Spec.PriorityClassName, pod.Spec.PreemptionPolicy = leader.Spec.Priority, leader.Spec.PriorityClassName, leader.Spec.PreemptionPolicy
		pod.Labels = source.FollowerLabels(leader.Labels, f.Labels)
		source.KeepTogether(leader, &pod.Spec)
		own = func(v v1.Volume) bool { return v.Ephemeral != nil }
	}
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), own)
	convert.WithoutClaims(&pod.Spec, func(ref v1.PodResourceClaim) bool { return ref.ResourceClaimTemplateName == nil })
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "", nil
	return &pod
}

// placed is who has a place under that name: a pod, or who stands in for one; nil if nobody does
// any more. c.mu is held.
func (c *Cache) placed(key string) *v1.Pod {
	if p := c.pods[key]; p != nil {
		return p
	}
	leader, number, ok := strings.Cut(key, standsIn)
	if !ok {
		return nil
	}
	p := c.pods[leader]
	if p == nil {
		return nil
	}
	if r := c.gangs[source.Of(p)]; r != nil && r.declared != nil {
		return r.standIn(p, number)
	}
	return nil
}

// leadersAlone are the groups whose leader has a node for less than the time to wait, and whose other
// members are still to be made: a process before this one may have kept places for these. c.mu is held.
func (c *Cache) leadersAlone() (all []Bereft) {
	now := c.Clock.Now()
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		if members, _ := r.standIns(); len(members) == 0 || !c.ours(r) {
			continue
		}
		last := Bereft{Group: c.book.Together(ref)[0], Until: now}
		for _, pod := range r.Pods {
			if until := boundAt(pod, now).Add(r.declared.Wait); pod.Spec.NodeName != "" && until.After(last.Until) {
				last.Scheduler, last.Until = pod.Spec.SchedulerName, until
			}
		}
		if last.Until.After(now) {
			all = append(all, last)
		}
	}
	return all
}

// boundAt is when a pod got its node, now if that is not said, or is still to come by our clock.
func boundAt(pod *v1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && c.LastTransitionTime.Time.Before(now) {
			return c.LastTransitionTime.Time
		}
	}
	return now
}

// Bereft is a group for whose members that are still to be made no places are kept since this process
// began, whose pods name that scheduler; they may be kept until then.
type Bereft struct {
	Group     gang.Ref
	Scheduler string
	Until     time.Time
}

// TakeBereft returns those that a profile serves, once.
func (c *Cache) TakeBereft(scheduler string) (some []Bereft) {
	c.mu.RLock()
	any := len(c.bereft) > 0
	c.mu.RUnlock()
	if !any {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bereft = slices.DeleteFunc(c.bereft, func(b Bereft) bool {
		if b.Scheduler == scheduler {
			some = append(some, b)
		}
		return b.Scheduler == scheduler
	})
	return some
}
