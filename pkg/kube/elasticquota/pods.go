package elasticquota

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// gangOf names whom a pod is admitted with: its gang, or itself.
func gangOf(p *v1.Pod) string {
	if of := source.Of(p).Whole(); !of.IsZero() {
		return named(of)
	}
	return onePod + key(p)
}

// onePod begins the name of a pod without a gang in the book.
const onePod = "pod "

// named is what a gang is called in the book.
func named(of gang.Ref) string { return "gang " + of.Whole().ID() }

// setPod hears of a pod.
func (r *Room) setPod(p *v1.Pod) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	freed := r.set(p)
	var above []*v1.Pod
	if is := r.pods[key(p)]; freed && !r.wild && is != nil && is.state == quota.Keeps { // it may keep more than its quota may have
		above = r.above()
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.say(notes)
	if len(above) > 0 {
		r.cluster.Hear(Event{What: MayNotKeep, Members: above})
	}
	if freed {
		r.changed()
	}
}

// meet counts a pod of which the room is yet to hear: the scheduler's queue may have heard of it before, and what a quota
// is entitled to depends on what its pods ask for. Who has gone meanwhile is not counted. r.mu is held.
func (r *Room) meet(p *v1.Pod) {
	if known := r.pods[key(p)]; known != nil && known.UID == p.UID {
		return
	}
	if is, err := r.lister.Pods(p.Namespace).Get(p.Name); err == nil && is.UID == p.UID {
		r.set(is)
	}
}

// lost notes, once, that a pod names a quota that there is not.
func (r *Room) lost(p *pod, bad string) {
	if p.bad == bad {
		return
	}
	if p.bad = bad; bad != "" {
		r.notes = append(r.notes, cache.Note{
			About: p.Pod, Warning: true, Reason: cache.QuotaNotFound,
			Message: fmt.Sprintf("there is no ElasticQuota named %q, which the pod's label names: the default quota counts", bad),
		})
	}
}

// takeNotes returns the notes to report. It returns none before all quotas are listed: the parent of a quota may be listed after the quota.
func (r *Room) takeNotes() (notes []cache.Note) {
	if !r.cluster.Open() {
		return nil
	}
	if wrong := r.wrong; wrong != nil {
		r.wrong = nil
		for _, k := range sorted(r.objects) {
			o := r.objects[k]
			if w := wrong[k]; w != o.said && w != "" {
				r.notes = append(r.notes, cache.Note{About: o.about, Warning: true, Reason: cache.QuotaNotUsable, Message: w})
			}
			o.said = wrong[k]
		}
	}
	notes, r.notes = r.notes, nil
	return notes
}

// Resume says and writes what could not be said and written before. What is kept for gangs is known now: a max may have been lowered while no
// scheduler ran.
func (r *Room) Resume() {
	if !r.Active() {
		r.mu.Lock()
		notes := r.takeNotes()
		r.mu.Unlock()
		r.say(notes)
		return
	}
	r.lock()
	r.touch()
	r.tell()
}

func (r *Room) say(notes []cache.Note) {
	for _, n := range notes {
		r.cluster.Note(n)
	}
}

// set is setPod with r.mu held. It says whether something was given back.
func (r *Room) set(p *v1.Pod) (freed bool) {
	k := key(p)
	known := r.pods[k]
	if known != nil && known.UID != p.UID {
		r.book.Remove(k)
		delete(r.pods, k)
		r.forget(known)
		known, freed = nil, true
	}
	if done(p) {
		return r.drop(k) || freed
	}
	if known == nil {
		known = &pod{}
		r.pods[k] = known
	}
	if known.Pod = p; p.Spec.NodeName != "" {
		known.assumed = false
	}
	if delete(r.going, k); p.Spec.NodeName != "" && p.DeletionTimestamp != nil {
		r.going[k] = true
	}
	if r.wild { // it is looked at with the tree
		known.asks = nil
		return true
	}
	was := *known
	r.put(known)
	// A waiting pod that asks for something else, or in another quota, may be who is served first no more.
	if was.asks != nil && (was.quota != known.quota || was.fixed != known.fixed || !maps.Equal(was.asks, known.asks)) {
		freed = true
	}
	if off := r.off(p); known.off != off {
		known.off = off
		r.totals()
	}
	return freed
}

// done says that a pod takes nothing any more.
func done(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed }

// put tells the book how a pod is.
func (r *Room) put(p *pod) {
	r.touch()
	state := quota.Waits
	var place Place
	if p.Spec.NodeName == "" {
		place = r.cluster.Place(p.Pod)
	}
	switch {
	case p.Spec.NodeName != "":
		state = quota.Holds
	case p.assumed || place.Assigned && !source.Of(p.Pod).IsZero() || place.Reserved:
		state = quota.Keeps
	case len(p.Spec.SchedulingGates) > 0 || place.Foreign || p.DeletionTimestamp != nil:
		r.book.Remove(key(p.Pod))
		r.forget(p)
		return
	}
	if state != quota.Waits && (p.state == quota.Waits || source.Of(p.Pod).IsZero() && !place.Reserved) {
		r.revoke.gone(gangOf(p.Pod)) // others of the gang that wait ask for something else now
	}
	switch {
	case state == quota.Waits:
		p.since = 0
	case p.since == 0 && state == quota.Holds:
		p.since = convert.Started(p.Pod)
	case p.since == 0:
		p.since = r.clock.Now().UnixNano()
	}
	name, bad := r.quotaOf(p.Pod)
	if state == quota.Waits {
		r.lost(p, bad)
	}
	if _, known := r.book.Gang(gangOf(p.Pod)); !known && state == quota.Waits {
		defer r.book.Passed(gangOf(p.Pod), true) // until the scheduler's queue lets it in
	}
	p.quota, p.state, p.fixed, p.counts = name, state, convert.Fixed(p.Pod), true
	r.use(p)
	r.enter(p)
}

func (r *Room) dropPod(p *v1.Pod) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	freed := false
	if known := r.pods[key(p)]; known != nil && known.UID == p.UID {
		freed = r.drop(key(p))
	}
	r.mu.Unlock()
	if freed {
		r.changed()
	}
}

// drop forgets a pod. r.mu is held.
func (r *Room) drop(k string) bool {
	known := r.pods[k]
	delete(r.pods, k)
	delete(r.waiting, k)
	delete(r.going, k)
	r.book.Remove(k)
	if known != nil {
		r.forget(known)
		if of, _ := r.book.Gang(gangOf(known.Pod)); !of.Waits { // if others of it wait, they still do for another quota's
			delete(r.later, gangOf(known.Pod))
		}
	}
	r.touch()
	if known != nil && known.off {
		r.totals()
	}
	return known != nil
}

// Look is to be called when a pod has got a place or a node, or has lost it.
func (r *Room) Look(key string) {
	if !r.Active() {
		return
	}
	r.lock()
	p, freed := r.pods[key], false
	if p != nil {
		had := p.since != 0
		r.put(p)
		freed = had && p.since == 0 || !had && len(r.later) > 0
	}
	r.mu.Unlock()
	if freed {
		r.changed()
	}
}

// assume notes that the scheduler counts a pod without a gang on a node, or no longer.
func (r *Room) assume(p *v1.Pod, is bool) {
	if !r.Active() {
		return
	}
	r.lock()
	known := r.pods[key(p)]
	if known == nil && is {
		known = &pod{Pod: p}
		r.pods[key(p)] = known
	}
	if known != nil && known.UID == p.UID && known.assumed != is {
		known.assumed = is
		r.put(known)
	}
	if is {
		delete(r.waiting, key(p))
	}
	wait := len(r.later) > 0
	r.mu.Unlock()
	switch {
	case !is:
		r.changed()
	case wait: // this was served, so others may be next
		r.next()
	}
}
