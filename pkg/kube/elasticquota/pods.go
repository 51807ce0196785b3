package elasticquota

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// GangName returns the name of a pod's gang in the book. A pod without a gang is in the book as a gang of its own.
func GangName(p *v1.Pod) string {
	if ref := source.GangOf(p).Whole(); !ref.IsZero() {
		return gangName(ref)
	}
	return onePod + key(p)
}

// onePod is the prefix of the name of a pod without a gang in the book.
const onePod = "pod "

// gangName returns the name of a gang in the book.
func gangName(ref gang.Ref) string { return "gang " + ref.Whole().ID() }

func (r *Manager) setPod(p *v1.Pod) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	freed := r.recordPod(p)
	var above []*v1.Pod
	if current := r.pods[key(p)]; freed && !r.treeStale && current != nil && current.state == quota.Reserved { // it may exceed its quota now
		above = r.gangsAboveMax()
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.reportNotes(notes)
	if len(above) > 0 {
		r.cluster.Hear(Event{Kind: MayNotKeep, Members: above})
	}
	if freed {
		r.notifyMayBeAdmitted()
	}
}

// ensureKnown counts a pod if its event has not arrived yet: the scheduler's queue may have it earlier. A pod that the informer does not
// list is not counted. r.mu is locked.
func (r *Manager) ensureKnown(p *v1.Pod) {
	if known := r.pods[key(p)]; known != nil && known.UID == p.UID {
		return
	}
	if listed, err := r.lister.Pods(p.Namespace).Get(p.Name); err == nil && listed.UID == p.UID {
		r.recordPod(listed)
	}
}

// noteMissingQuota adds a note, once, that a pod names the quota missing, which does not exist; "" is none.
func (r *Manager) noteMissingQuota(p *pod, missing string) {
	if p.missingQuota == missing {
		return
	}
	if p.missingQuota = missing; missing != "" {
		var names []string
		for _, k := range sortedKeys(r.objects) {
			names = append(names, r.objects[k].Name)
		}
		message := convert.QuotaNotFound(missing, p.quota, names)
		r.notes = append(r.notes, cache.Note{About: p.Pod, Warning: true, Reason: reasons.QuotaNotFound, Message: message})
	}
}

// takeNotes returns the notes to report, and removes them. It returns none until all quotas are listed, because parents may be listed late.
func (r *Manager) takeNotes() (notes []cache.Note) {
	if !r.cluster.Open() {
		return nil
	}
	if problems := r.problems; problems != nil {
		r.problems = nil
		for _, k := range sortedKeys(r.objects) {
			o := r.objects[k]
			if w := problems[k]; w != o.reported && w != "" {
				r.notes = append(r.notes, cache.Note{About: o.raw, Warning: true, Reason: reasons.QuotaNotUsable, Message: w})
			}
			o.reported = problems[k]
		}
	}
	notes, r.notes = r.notes, nil
	return notes
}

// Resume reports and writes what the Manager held back while Events.Open returned false.
func (r *Manager) Resume() {
	if !r.Active() {
		r.mu.Lock()
		notes := r.takeNotes()
		r.mu.Unlock()
		r.reportNotes(notes)
		return
	}
	r.lock()
	r.scheduleWrite()
	r.report() // unlocks r.mu
}

func (r *Manager) reportNotes(notes []cache.Note) {
	for _, n := range notes {
		r.cluster.Note(n)
	}
}

// recordPod records an added or updated pod, and returns whether waiting gangs may be admitted because of that. r.mu is locked.
func (r *Manager) recordPod(p *v1.Pod) (freed bool) {
	k := key(p)
	known := r.pods[k]
	if known != nil && known.UID != p.UID {
		r.book.Remove(k)
		delete(r.pods, k)
		r.dropClaims(known)
		known, freed = nil, true
	}
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return r.removePod(k) || freed
	}
	if known == nil {
		known = &pod{}
		r.pods[k] = known
	}
	if known.Pod = p; p.Spec.NodeName != "" {
		known.assumed = false
	}
	if delete(r.terminating, k); p.Spec.NodeName != "" && p.DeletionTimestamp != nil {
		r.terminating[k] = true
	}
	if r.treeStale { // counted with the new tree
		known.requests = nil
		return true
	}
	previous := *known
	r.update(known)
	// A waiting pod whose request or quota changed may no longer be the one that is served first.
	same := previous.quota == known.quota && previous.fixed == known.fixed && maps.Equal(previous.requests, known.requests)
	if previous.requests != nil && !same {
		freed = true
	}
	if unready := r.onUnreadyNode(p); known.onUnreadyNode != unready {
		known.onUnreadyNode = unready
		r.markTotalsStale()
	}
	return freed
}

// update recomputes a pod's state, quota and requests, and records them in the book. A pod with scheduling gates, and a pod of another
// scheduler without a node, is removed from the book. r.mu is locked.
func (r *Manager) update(p *pod) {
	r.scheduleWrite()
	state := quota.Waiting
	var place Place
	if p.Spec.NodeName == "" {
		place = r.cluster.Place(p.Pod)
	}
	switch {
	case p.Spec.NodeName != "":
		state = quota.Bound
	case p.assumed || place.Assigned && !source.GangOf(p.Pod).IsZero() || place.Reserved:
		state = quota.Reserved
	case len(p.Spec.SchedulingGates) > 0 || place.Foreign || p.DeletionTimestamp != nil:
		r.book.Remove(key(p.Pod))
		r.dropClaims(p)
		return
	}
	if state != quota.Waiting && (p.state == quota.Waiting || source.GangOf(p.Pod).IsZero() && !place.Reserved) {
		r.revoke.forgetGang(GangName(p.Pod)) // the gang's waiting members request something else now
	}
	switch {
	case state == quota.Waiting:
		p.since = 0
	case p.since == 0 && state == quota.Bound:
		p.since = convert.Started(p.Pod)
	case p.since == 0:
		p.since = r.clock.Now().UnixNano()
	}
	name, missing := r.quotaOf(p.Pod)
	if p.quota = name; state == quota.Waiting {
		r.noteMissingQuota(p, missing)
	}
	if _, known := r.book.Waits(GangName(p.Pod)); !known && state == quota.Waiting {
		defer r.book.SetPassedOver(GangName(p.Pod), true) // until the scheduler's queue admits the pod
	}
	p.state, p.fixed, p.inBook = state, convert.Fixed(p.Pod), true
	r.updateClaims(p)
	r.enterBook(p)
}

func (r *Manager) dropPod(p *v1.Pod) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	known := r.pods[key(p)]
	freed := known != nil && known.UID == p.UID && r.removePod(key(p))
	r.mu.Unlock()
	if freed {
		r.notifyMayBeAdmitted()
	}
}

// removePod removes a pod from all records, and returns whether it was known. r.mu is locked.
func (r *Manager) removePod(name string) bool {
	known := r.pods[name]
	delete(r.pods, name)
	delete(r.waiting, name)
	delete(r.terminating, name)
	r.book.Remove(name)
	if known != nil {
		r.dropClaims(known)
		if waits, _ := r.book.Waits(GangName(known.Pod)); !waits { // its waiting members still wait for that turn
			delete(r.gangsWaitingForTurn, GangName(known.Pod))
		}
	}
	r.scheduleWrite()
	if known != nil && known.onUnreadyNode {
		r.markTotalsStale()
	}
	return known != nil
}

// UpdatePod records that a pod got or lost its node assignment.
func (r *Manager) UpdatePod(key string) {
	if !r.Active() {
		return
	}
	r.lock()
	p, freed := r.pods[key], false
	if p != nil {
		hadNode := p.since != 0
		r.update(p)
		freed = hadNode && p.since == 0 || !hadNode && len(r.gangsWaitingForTurn) > 0
	}
	r.mu.Unlock()
	if freed {
		r.notifyMayBeAdmitted()
	}
}

// assume records that the scheduler has assumed a pod without a gang on a node, or no longer assumes it.
func (r *Manager) assume(p *v1.Pod, assumed bool) {
	if !r.Active() {
		return
	}
	r.lock()
	known := r.pods[key(p)]
	if known == nil && assumed {
		known = &pod{Pod: p}
		r.pods[key(p)] = known
	}
	if known != nil && known.UID == p.UID && known.assumed != assumed {
		known.assumed = assumed
		r.update(known)
	}
	if assumed {
		delete(r.waiting, key(p))
	}
	wait := len(r.gangsWaitingForTurn) > 0
	r.mu.Unlock()
	switch {
	case !assumed:
		r.notifyMayBeAdmitted()
	case wait: // this turn is over
		r.notifyMayBeNext()
	}
}
