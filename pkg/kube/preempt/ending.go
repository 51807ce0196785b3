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

// The pods of an ending gang terminate one by one. A gang that waits for its nodes is retried each time, and one eviction may soon make up
// for the rest, which is free a moment later. So an eviction is put off if it costs less after the end. The free nodes are held for the
// gang until its retry. The same holds for deleted pods that the snapshot still contains.

// mostPatient is how long a group waits at most, however many gangs end one after the other. After a break of that length it may wait
// again.
const mostPatient = 5 * time.Second

// patient holds since when groups have waited for ending gangs, and when they last did. Only the scheduling cycles of one profile use it,
// one after the other.
type patient map[gang.Ref]span

type span struct{ since, last time.Time }

// mayWait returns whether a group may wait on, and records that it does.
func (p *patient) mayWait(group gang.Ref, now time.Time) bool {
	if *p == nil {
		*p = patient{}
	}
	for key, s := range *p {
		if now.Sub(s.last) > mostPatient {
			delete(*p, key)
		}
	}
	s, waits := (*p)[group]
	if !waits {
		s.since = now
	}
	if now.Sub(s.since) >= mostPatient {
		return false
	}
	(*p)[group] = span{s.since, now}
	return true
}

// awaitsEnd returns whether an eviction is put off, and schedules the retry of the group.
func (p *Preemptor) awaitsEnd(ctx context.Context, a *place.Attempt, found *solution, representative *v1.Pod) bool {
	if len(found.gone) == 0 {
		return false
	}
	soon := p.fewerSoon(ctx, a, found)
	if soon == nil || !p.patient.mayWait(a.Group.Key, p.Clock.Now()) {
		return false
	}
	p.Cache.Handle(gang.CapacityHeld{Group: a.Group.Key, Places: free(a, soon), For: 2 * cache.EndsWithin})
	p.tryAgain(ctx, a.Group.Key, representative)
	return true
}

// free returns the node assignments of soon on nodes where it evicts no pod. Other nodes are not held: other gangs may evict pods there.
func free(a *place.Attempt, soon *solution) []gang.Assignment {
	own, _ := a.Split(soon.Places)
	gone := map[types.UID]bool{}
	for _, victim := range soon.gone {
		gone[victim.UID] = true
	}
	return slices.DeleteFunc(own, func(at gang.Assignment) bool {
		i, ok := a.Net.Tree.NodeIndex(at.Node)
		return !ok || a.Nodes[i] == nil || hasOne(a.Nodes[i], func(uid types.UID) bool { return gone[uid] }) // also one that is on its way there
	})
}

// tryAgain retries a group after a moment. If a cycle is trying the group just then, the queue retries it after that.
func (p *Preemptor) tryAgain(ctx context.Context, group gang.Ref, representative *v1.Pod) {
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

// fewerSoon returns the solution after the ending pods are gone, if it costs less than found; else nil.
func (p *Preemptor) fewerSoon(ctx context.Context, a *place.Attempt, found *solution) *solution {
	ending := onNodesOf(a, p.Cache.ExpectedToEnd(a.Group.Whole(), p.isGone))
	if len(ending) == 0 {
		return nil
	}
	soon, _ := p.cheapest(ctx, p.candidates(ctx, a, p.Limits().MaxGrace, extent{}, ending))
	if soon == nil || !soon.before(found) {
		return nil
	}
	return soon
}

// onNodesOf returns the pods, given with their nodes, that count on the attempt's nodes. Pods with unknown node are included.
func onNodesOf(a *place.Attempt, pods map[types.UID]string) map[types.UID]bool {
	found := map[types.UID]bool{}
	for uid, node := range pods {
		i, ok := a.Net.Tree.NodeIndex(node)
		if node == "" || ok && a.Nodes[i] != nil && hasOne(a.Nodes[i], func(counted types.UID) bool { return counted == uid }) {
			found[uid] = true
		}
	}
	return found
}

// hasOne returns whether a selected pod counts on a node.
func hasOne(node fwk.NodeInfo, selects func(types.UID) bool) bool {
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool { return selects(info.GetPod().UID) })
}

// isGone returns whether a pod does not exist any more. The informer's store knows that before its handlers are called, and the scheduler
// may retry groups before the cache's handler runs. Finished pods are gone, too.
func (p *Preemptor) isGone(pod string, uid types.UID) bool {
	now, _, err := p.podStore.GetByKey(pod)
	listed, ok := now.(*v1.Pod)
	return err == nil && (!ok || listed.UID != uid)
}
