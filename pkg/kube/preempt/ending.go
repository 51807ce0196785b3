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

// A gang that comes to its end goes pod by pod. Who waits for its nodes is tried at each of them, and as soon as somebody's eviction makes up for
// the rest he would be evicted, though the rest is free a moment later. So nobody is evicted in that moment, if fewer need
// leave after it. Nobody who came later takes the places meanwhile that the gang is to get without anybody's leaving: they are kept for it until it is
// tried again, at each pod that goes, and once it has waited long enough. The same for pods that have gone already, of which the snapshot does not know.

// mostPatient is how long a group waits at the most, however many gangs end one after the other. Whoever did not wait for
// as long may do so again.
const mostPatient = 5 * time.Second

// patient is since when groups have waited for the ends of others, and until when they were seen to. Only scheduling cycles of one profile ask,
// one after the other.
type patient map[gang.Ref]span

type span struct{ since, last time.Time }

// may says whether a group may wait on, and notes that it does.
func (p *patient) may(group gang.Ref, now time.Time) bool {
	if *p == nil {
		*p = patient{}
	}
	for of, s := range *p {
		if now.Sub(s.last) > mostPatient {
			delete(*p, of)
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

// awaitsEnd says whether an eviction is put off, and has the group tried again when it was for long enough.
func (p *Preemptor) awaitsEnd(ctx context.Context, a *place.Attempt, found *solution, speaker *v1.Pod) bool {
	if len(found.gone) == 0 {
		return false
	}
	soon := p.fewerSoon(ctx, a, found)
	if soon == nil || !p.patient.may(a.Group.Key, p.Clock.Now()) {
		return false
	}
	p.Cache.Handle(gang.Saved{Group: a.Group.Key, Places: free(a, soon), For: 2 * cache.EndsWithin})
	p.tryAgain(ctx, a.Group.Key, speaker)
	return true
}

// free are the places that members get where nobody is evicted. On other nodes nothing is kept: others may evict whom they need there.
func free(a *place.Attempt, soon *solution) []gang.Place {
	own, _ := a.Split(soon.Places)
	gone := map[types.UID]bool{}
	for _, victim := range soon.gone {
		gone[victim.UID] = true
	}
	return slices.DeleteFunc(own, func(at gang.Place) bool {
		i, ok := a.Net.Tree.NodeIndex(at.Node)
		return !ok || a.Nodes[i] == nil || hasOne(a.Nodes[i], func(uid types.UID) bool { return gone[uid] }) // also one that is on its way there
	})
}

// tryAgain has a group tried once more in a moment. If it is being tried just then, the queue sees to it that it is tried after that.
func (p *Preemptor) tryAgain(ctx context.Context, group gang.Ref, speaker *v1.Pod) {
	if !p.again.Add(group, speaker) {
		return
	}
	go func() {
		select {
		case <-p.Clock.After(cache.EndsWithin):
			pod, _ := p.again.Take(group)
			p.Profile.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(pod): pod})
		case <-p.Ended:
		}
	}()
}

// fewerSoon is what costs less than an eviction once those have gone who are about to; nil if nothing does.
func (p *Preemptor) fewerSoon(ctx context.Context, a *place.Attempt, found *solution) *solution {
	ending := there(a, p.Cache.Ending(a.Group.Whole(), p.gone))
	if len(ending) == 0 {
		return nil
	}
	soon, _ := p.cheapest(ctx, p.candidates(ctx, a, p.Limits().MaxGrace, extent{}, ending))
	if soon == nil || !soon.before(found) {
		return nil
	}
	return soon
}

// there are those of some pods, by UID with the node of each, that count on one of an attempt's nodes. Of those without a node that is not known.
func there(a *place.Attempt, some map[types.UID]string) map[types.UID]bool {
	is := map[types.UID]bool{}
	for uid, node := range some {
		i, ok := a.Net.Tree.NodeIndex(node)
		if node == "" || ok && a.Nodes[i] != nil && hasOne(a.Nodes[i], func(on types.UID) bool { return on == uid }) {
			is[uid] = true
		}
	}
	return is
}

// hasOne says whether one of some pods counts on a node.
func hasOne(node fwk.NodeInfo, some func(types.UID) bool) bool {
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool { return some(info.GetPod().UID) })
}

// gone says whether there is no such pod any more. The informer knows that before it tells anybody, and it tells the scheduler, which tries
// groups at once, apart from the cache. Whoever has finished is gone for it, too.
func (p *Preemptor) gone(pod string, uid types.UID) bool {
	now, _, err := p.there.GetByKey(pod)
	is, ok := now.(*v1.Pod)
	return err == nil && (!ok || is.UID != uid)
}
