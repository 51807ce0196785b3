package cache

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// PromiseOf returns the promise to the group for which capacity is held in the name of a pod; ok is false if none is held.
func (c *Cache) PromiseOf(pod *v1.Pod) (promise gang.Promise, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.book.HeldFor(convert.PodKey(pod))
}

// HeldNodes returns the nodes on which capacity is held for starving gangs.
func (c *Cache) HeldNodes() map[string]bool { return read(c, c.book.HeldNodes) }

// Backfills returns whether a pod that gets a node now uses capacity there that is held for a gang.
func (c *Cache) Backfills(pod *v1.Pod, node string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	self, use := convert.PodKey(pod), c.backfillOf(pod)
	return slices.ContainsFunc(c.book.PlacesOn(node), func(key string) bool {
		return c.respected(key, self, pod) != nil && c.mayBackfill(key, use)
	})
}

// backfill is how a pod that gets a node now may use held capacity. It looks at each gang at most once. c.mu must be locked during calls.
type backfill struct {
	end    func() time.Time        // the declared end of the pod
	yields func(key gang.Ref) bool // Yields
}

// backfillOf returns how a pod may use held capacity. c.mu is locked.
func (c *Cache) backfillOf(pod *v1.Pod) backfill {
	var known map[gang.Ref]bool // made if needed: most nodes are not held
	return backfill{
		end: sync.OnceValue(func() time.Time { return c.declaredEnd(pod, c.Clock.Now(), nil) }),
		yields: func(key gang.Ref) bool {
			yields, ok := known[key]
			if !ok {
				yields = c.yields(pod, key)
				if known == nil {
					known = map[gang.Ref]bool{}
				}
				known[key] = yields
			}
			return yields
		},
	}
}

// mayBackfill returns whether a pod may use the capacity that is held for the member with that key. It may if it yields to the member's
// group, or if it ends before the start that is promised to that group. c.mu is locked.
func (c *Cache) mayBackfill(key string, pod backfill) bool {
	promise, held := c.book.HeldFor(key)
	if !held {
		return false
	}
	group, ok := c.book.GroupKey(key)
	return ok && pod.yields(group) || pod.endsBy(promise)
}

// NodesToYield returns the names of the nodes that a pod may use only until it is evicted: capacity is held there for gangs to which the
// pod yields.
func (c *Cache) NodesToYield(pod *v1.Pod) map[string]bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.book.AnyPlaces() || !c.evictable(pod) {
		return nil
	}
	nodes, use := map[string]bool{}, c.backfillOf(pod)
	for name := range c.nodes {
		if slices.ContainsFunc(c.book.PlacesOn(name), func(key string) bool { return c.wouldYield(key, use) }) {
			nodes[name] = true
		}
	}
	return nodes
}

// wouldYield returns whether a pod is evicted for the member with that key, if it uses the capacity that is held for the member.
func (c *Cache) wouldYield(key string, pod backfill) bool {
	promise, held := c.book.HeldFor(key)
	group, ok := c.book.GroupKey(key)
	return held && ok && pod.yields(group) && !pod.endsBy(promise)
}

// endsBy returns whether the pod ends before a promised start.
func (b backfill) endsBy(promise gang.Promise) bool {
	end := b.end()
	return promise.Exists() && !end.IsZero() && !end.After(promise.At)
}

// Yields returns whether a pod may be evicted for a gang group because it is Evictable: when the group's promised start has come, or for
// its repair. No label protects the pod, or a member of its gang group. The other group may evict, and is not Evictable itself.
func (c *Cache) Yields(pod *v1.Pod, to gang.Ref) bool {
	return read(c, func() bool { return c.yields(pod, to) })
}

// yields is Yields with c.mu locked.
func (c *Cache) yields(pod *v1.Pod, to gang.Ref) bool {
	ref := source.GangOf(pod)
	if !c.evictable(pod) || ref.IsZero() && convert.Protected(pod) {
		return false
	}
	for _, one := range c.book.GroupOfGang(ref) {
		if r := c.gangs[one]; r != nil && anyPod(r.Pods, convert.Protected) {
			return false
		}
	}
	return !c.evictableGroup(to) && c.mayEvict(to)
}

// evictable is Evictable with c.mu locked.
func (c *Cache) evictable(pod *v1.Pod) bool {
	ref := source.GangOf(pod)
	if ref.IsZero() {
		return pod.Annotations[scheduling.AnnotationBackfill] == scheduling.BackfillEvictable
	}
	return c.evictableGroup(ref)
}

// evictableGroup returns whether all gangs of the group of ref declare that they are evicted first. c.mu is locked.
func (c *Cache) evictableGroup(ref gang.Ref) bool {
	return !slices.ContainsFunc(c.book.GroupOfGang(ref), func(one gang.Ref) bool {
		r := c.gangs[one]
		return r == nil || r.Declared == nil || !r.Declared.Evictable
	})
}

// mayEvict returns whether pods may be evicted for the group of ref: its profile evicts, and each waiting member preempts. c.mu is locked.
func (c *Cache) mayEvict(ref gang.Ref) bool {
	for _, one := range c.book.GroupOfGang(ref) {
		r := c.gangs[one]
		if r == nil {
			continue
		}
		never := convert.NeverPreempts
		if r.Declared != nil && r.Declared.NeverPreempts != nil {
			never = func(*v1.Pod) bool { return *r.Declared.NeverPreempts }
		}
		forbids := func(pod *v1.Pod) bool {
			return pod.Spec.NodeName == "" && (never(pod) || c.Evicts != nil && !c.Evicts(pod.Spec.SchedulerName))
		}
		if anyPod(r.Pods, forbids) {
			return false
		}
	}
	return true
}

// anyPod returns whether has is true for a pod that has not finished.
func anyPod(pods map[string]*v1.Pod, has func(*v1.Pod) bool) bool {
	for _, pod := range pods {
		if !convert.Finished(pod) && has(pod) {
			return true
		}
	}
	return false
}

// Overdue returns the declared end of a running pod, if the pod still runs after it and after its grace period; ok is false for others.
func (c *Cache) Overdue(pod *v1.Pod, now time.Time) (end time.Time, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	end = c.declaredEnd(pod, now, nil)
	return end, !end.IsZero() && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !now.Before(end.Add(grace(pod)))
}

// grace returns how long a pod may take to end.
func grace(pod *v1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return v1.DefaultTerminationGracePeriodSeconds * time.Second
}

// restorePromises gives the book the promises that the objects of gangs state. c.mu is locked.
func (c *Cache) restorePromises() (effects []gang.Effect) {
	now := c.Clock.Now()
	for _, ref := range c.refs() {
		r := c.gangs[ref]
		if r.Object == nil {
			continue
		}
		// A time that is past promises nothing. Shortly after it, pods may still be in their grace period.
		if promise, ok := source.PromiseOf(r.Object); ok && now.Before(promise.At.Add(skew)) {
			key := c.book.GroupOfGang(ref)[0]
			effects = append(effects, c.book.Apply(gang.Promised{Group: key, Promise: promise}, now)...)
		}
	}
	return effects
}
