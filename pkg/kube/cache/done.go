package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// setDone notes that a member has succeeded or failed.
func (c *Cache) setDone(pod *v1.Pod) {
	ref := source.Of(pod)
	if ref.IsZero() || !convert.Finished(pod) {
		return
	}
	c.mu.Lock()
	r := c.record(ref)
	key := convert.PodKey(pod)
	if was := r.Finished[key]; was == nil || was.UID != pod.UID { // else it is one that is listed again, or that somebody has changed
		c.loses(r, pod)
	}
	r.Finished[key] = pod
	var effects []gang.Effect
	if r.Object == nil && r.Declared == nil || r.Declared != nil && r.Declared.Counts {
		effects = c.redeclare(r)
	}
	if other := r.Pods[key]; other == nil || other.UID == pod.UID { // else there is another one of its name already
		effects = append(effects, c.see(pod, ref)...)
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	c.mu.Unlock()
	c.do(effects)
}

// dropDone notes that a finished member is gone. Of all others the scheduler's own informer says so: what it
// has still to tell of one would bring it back otherwise.
func (c *Cache) dropDone(pod *v1.Pod) {
	ref := source.Of(pod)
	if ref.IsZero() || !convert.Finished(pod) {
		return
	}
	key := convert.PodKey(pod)
	c.mu.Lock()
	r := c.record(ref)
	if p := r.Finished[key]; p != nil && p.UID == pod.UID {
		delete(r.Finished, key)
	}
	effects := c.book.Apply(gang.Left{Pod: key, UID: string(pod.UID)}, c.Clock.Now())
	if d := r.Declared; d != nil && (d.By == key || d.Counts) {
		effects = append(effects, c.redeclare(r)...)
	}
	effects = append(effects, c.tidy(r)...)
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	c.mu.Unlock()
	c.do(effects)
}
