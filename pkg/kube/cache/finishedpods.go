package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// setFinished records a member that has succeeded or failed.
func (c *Cache) setFinished(pod *v1.Pod) {
	ref := source.GangOf(pod)
	if ref.IsZero() || !convert.Finished(pod) {
		return
	}
	c.mu.Lock()
	r := c.record(ref)
	key := convert.PodKey(pod)
	if old := r.Finished[key]; old == nil || old.UID != pod.UID { // not for a repeated or changed report
		c.noteLoss(r, pod)
	}
	r.Finished[key] = pod
	var effects []gang.Effect
	if r.Object == nil && r.Declared == nil || r.Declared != nil && r.Declared.DependsOnMembers {
		effects = c.redeclare(r)
	}
	if other := r.Pods[key]; other == nil || other.UID == pod.UID { // a new pod of that name exists otherwise
		effects = append(effects, c.applyPod(pod, ref)...)
		if other != nil && pod.Status.Phase == v1.PodFailed {
			effects = append(effects, c.noteMissing(r, other, true)...)
		}
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	c.mu.Unlock()
	c.carryOut(effects)
}

// dropFinished removes a finished member. It ignores other members, which the handler of the scheduler's own informer removes: a late event
// of that informer could otherwise add them again.
func (c *Cache) dropFinished(pod *v1.Pod) {
	ref := source.GangOf(pod)
	if ref.IsZero() || !convert.Finished(pod) {
		return
	}
	key := convert.PodKey(pod)
	c.mu.Lock()
	r := c.record(ref)
	if p := r.Finished[key]; p != nil && p.UID == pod.UID {
		delete(r.Finished, key)
	}
	effects := c.book.Apply(gang.MemberDeleted{Pod: key, UID: string(pod.UID)}, c.Clock.Now())
	if d := r.Declared; d != nil && (d.DeclaringPod == key || d.DependsOnMembers) {
		effects = append(effects, c.redeclare(r)...)
	}
	effects = append(effects, c.deleteIfEmpty(r)...)
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	c.mu.Unlock()
	c.carryOut(effects)
}
