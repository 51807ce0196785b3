package preempt

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// When a gang finishes, its pods terminate one by one. A pending gang is retried after each pod. It could evict other pods for capacity
// that becomes free a moment later. So an eviction is postponed if it costs less after all pods of the finishing gang are gone. Until the
// retry, the free nodes are held for the pending gang. Deleted pods that the snapshot still contains are treated alike.

// maxEndWait is how long a group postpones evictions at most, however many gangs finish one after another. After a break of that length it
// may wait again.
const maxEndWait = 5 * time.Second

// endWaits records for each waiting group when it began to postpone evictions, and when it last did. Only the scheduling cycles of one
// profile use it, one after another.
type endWaits map[gang.Ref]span

type span struct{ since, last time.Time }

// mayWait returns whether a group has waited for less than maxEndWait. If so, it records that the group waits at now.
func (p *endWaits) mayWait(group gang.Ref, now time.Time) bool {
	if *p == nil {
		*p = endWaits{}
	}
	for key, s := range *p {
		if now.Sub(s.last) > maxEndWait {
			delete(*p, key)
		}
	}
	s, waits := (*p)[group]
	if !waits {
		s.since = now
	}
	if now.Sub(s.since) >= maxEndWait {
		return false
	}
	(*p)[group] = span{s.since, now}
	return true
}

// awaitsEnd returns whether the eviction of found's victims is postponed, because a cheaper one suffices after other gangs have finished.
// If so, it holds the free capacity for the group and schedules its retry.
func (p *Preemptor) awaitsEnd(ctx context.Context, a *place.Attempt, found *solution, representative *v1.Pod) bool {
	if len(found.gone) == 0 {
		return false
	}
	soon := p.cheaperAfterEnd(ctx, a, found)
	if soon == nil || !p.endWaits.mayWait(a.Group.Key, p.Clock.Now()) {
		return false
	}
	p.Cache.Handle(gang.CapacityHeld{Group: a.Group.Key, Places: assignmentsWithoutVictims(a, soon), For: 2 * cache.EndsWithin})
	p.retrySoon(ctx, a.Group.Key, representative)
	return true
}

// assignmentsWithoutVictims returns the node assignments of soon on nodes where soon evicts no pod. Only these nodes are held for the gang.
func assignmentsWithoutVictims(a *place.Attempt, soon *solution) []gang.Assignment {
	own, _ := a.Split(soon.Places)
	gone := map[types.UID]bool{}
	for _, victim := range soon.gone {
		gone[victim.UID] = true
	}
	return slices.DeleteFunc(own, func(at gang.Assignment) bool {
		i, ok := a.Net.Tree.NodeIndex(at.Node)
		return !ok || a.Nodes[i] == nil || hasPod(a.Nodes[i], func(uid types.UID) bool { return gone[uid] }) // also one that is on its way there
	})
}

// retrySoon activates the representative of a group after cache.EndsWithin. If a retry of the group is already scheduled, it does nothing.
func (p *Preemptor) retrySoon(ctx context.Context, group gang.Ref, representative *v1.Pod) {
	if !p.retries.Add(group, representative) {
		return
	}
	go func() {
		select {
		case <-p.Clock.After(cache.EndsWithin):
			pod, _ := p.retries.Take(group)
			p.Profile.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(pod): pod})
		case <-p.Ended:
		}
	}()
}

// cheaperAfterEnd returns the solution that suffices after all pods that are expected to end are gone. It returns nil if that solution does
// not cost less than found.
func (p *Preemptor) cheaperAfterEnd(ctx context.Context, a *place.Attempt, found *solution) *solution {
	ending := stillCounted(a, p.Cache.ExpectedToEnd(a.Group.Whole(), p.IsGone))
	if len(ending) == 0 {
		return nil
	}
	soon, _ := p.cheapest(ctx, p.candidates(ctx, a, p.Limits().MaxGrace, victimLimits{}, ending))
	if soon == nil || !soon.before(found) {
		return nil
	}
	return soon
}

// stillCounted returns the pods that the attempt's nodes still contain. pods has the node of each pod; an unknown node ("") counts.
func stillCounted(a *place.Attempt, pods map[types.UID]string) map[types.UID]bool {
	found := map[types.UID]bool{}
	for uid, node := range pods {
		i, ok := a.Net.Tree.NodeIndex(node)
		if node == "" || ok && a.Nodes[i] != nil && hasPod(a.Nodes[i], func(counted types.UID) bool { return counted == uid }) {
			found[uid] = true
		}
	}
	return found
}

// hasPod returns whether the node contains a pod whose UID is selected.
func hasPod(node fwk.NodeInfo, selects func(types.UID) bool) bool {
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool { return selects(info.GetPod().UID) })
}

// IsGone returns whether the informer's store does not contain the pod with this key and UID. The store learns of a deletion before the
// cache's handler runs, and the scheduler may retry groups in between. The store does not contain finished pods.
func (p *Preemptor) IsGone(pod string, uid types.UID) bool {
	now, _, err := p.podStore.GetByKey(pod)
	listed, ok := now.(*v1.Pod)
	return err == nil && (!ok || listed.UID != uid)
}
