package cache

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/note"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// record has the pods and objects of one gang.
type record struct {
	group.Record
	stale     bool               // the book must get the declaration again, even if it is unchanged
	leader    *v1.Pod            // the latest leader, for which the other members are created; it may be deleted; nil without one
	earlier   map[types.UID]bool // members that were created for an earlier leader
	foreign   bool               // another scheduler schedules the member that was added or updated last
	jobs      map[source.OwnerKey]bool
	owner     source.OwnerKey // the object that may declare something about the gang, or zero
	published note.Published
	faults    map[string]time.Time // by node, when it last ran a lost member; see noteMissing
	recreated types.UID            // the latest leader for which noteRecreated has requested nodes
	lastLoss  time.Time            // when a bound member was last deleted or finished
}

// record returns the record of a gang, and creates it if it does not exist. c.mu is locked.
func (c *Cache) record(ref gang.Ref) *record {
	r := c.gangs[ref]
	if r == nil {
		r = &record{
			Record:    group.Record{Gang: source.Gang{Ref: ref, Pods: map[string]*v1.Pod{}}, Finished: map[string]*v1.Pod{}},
			published: note.Published{},
		}
		c.gangs[ref] = r
		if c.named[ref.String()] == nil {
			c.named[ref.String()] = map[gang.Ref]bool{}
		}
		c.named[ref.String()][ref] = true
	}
	return r
}

// deleteIfEmpty deletes a record without pods and object, and redeclares the gangs that waited for that. c.mu is locked.
func (c *Cache) deleteIfEmpty(r *record) (effects []gang.Effect) {
	if len(r.Pods)+len(r.Finished) == 0 && r.Object == nil {
		owner := r.owner
		c.keepLost(r, 0)
		c.removeOwner(r)
		c.removeJobs(r)
		delete(c.gangs, r.Ref)
		if delete(c.named[r.Ref.String()], r.Ref); len(c.named[r.Ref.String()]) == 0 {
			delete(c.named, r.Ref.String())
		}
		if source.Releases(owner.Kind) {
			effects, _ = c.redeclareSome(c.lineage.Related(owner))
		}
	}
	return effects
}

// setOtherGangName records, for the gang intended for which the controller makes the pod, that the pod has the name of another gang:
// written. If written is "", it removes the record of the pod. It redeclares the gangs of the pod's controller when intended gets its first
// such pod or loses its last; a change from one other name to another redeclares none. c.mu is locked.
func (c *Cache) setOtherGangName(pod *v1.Pod, written string, intended gang.Ref) (effects []gang.Effect, notes []Note) {
	key := convert.PodKey(pod)
	before := len(c.otherGangNames[intended])
	if written != "" {
		if c.otherGangNames[intended] == nil {
			c.otherGangNames[intended] = map[string]string{}
		}
		c.otherGangNames[intended][key] = written
	} else if delete(c.otherGangNames[intended], key); len(c.otherGangNames[intended]) == 0 {
		delete(c.otherGangNames, intended)
	}
	if (before == 0) == (len(c.otherGangNames[intended]) == 0) {
		return nil, nil
	}
	owner, _ := source.OwnerMakingPod(pod)
	return c.redeclareSome(c.lineage.Related(owner))
}

// redeclareSome redeclares the given gangs, and returns the effects and the unpublished notes. c.mu is locked.
func (c *Cache) redeclareSome(refs map[gang.Ref]bool) (effects []gang.Effect, notes []Note) {
	for _, ref := range slices.SortedFunc(maps.Keys(refs), compareRefs) {
		if r := c.gangs[ref]; r != nil {
			effects = append(effects, c.redeclare(r)...)
			notes = append(notes, c.takeNotes(r)...)
		}
	}
	return effects, notes
}

// otherGangName returns the other gang that a pod names although its controller makes it for the gang intended; "" if no pod does.
func (c *Cache) otherGangName(intended gang.Ref) string {
	pods := c.otherGangNames[intended]
	if len(pods) == 0 {
		return ""
	}
	return pods[slices.MinFunc(slices.Collect(maps.Keys(pods)), topology.CompareNames)]
}

// setObject records the object that declares a gang; nil says that it was deleted.
func (c *Cache) setObject(ref gang.Ref, pg *sigs.PodGroup, more source.More) {
	c.mu.Lock()
	r := c.record(ref)
	old := r.Object
	oldMore := r.More
	parent := r.owner
	r.Object, r.More = pg, more
	effects := c.redeclare(r)
	notes := c.takeNotes(r)
	if old == nil || pg == nil || !reflect.DeepEqual(oldMore, more) {
		more, others := c.redeclareFamily(r.Ref, parent, r.owner)
		effects, notes = append(effects, more...), append(notes, others...)
	}
	if pg != nil && (old == nil || !maps.Equal(old.Annotations, pg.Annotations)) {
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.Pods[key], r)...)
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// redeclareFamily redeclares the gangs with an object of these owners, but not the gang except. It skips owners of kinds whose gangs do not
// depend on each other. c.mu is locked.
func (c *Cache) redeclareFamily(except gang.Ref, owners ...source.OwnerKey) (effects []gang.Effect, notes []Note) {
	for _, key := range slices.Compact(owners) {
		if !source.IsFamily(key.Kind) {
			continue
		}
		for _, ref := range slices.SortedFunc(maps.Keys(c.lineage.Related(key)), compareRefs) {
			if r := c.gangs[ref]; ref != except && r.Object != nil {
				effects = append(effects, c.redeclare(r)...)
				notes = append(notes, c.takeNotes(r)...)
			}
		}
	}
	return effects, notes
}

// siblings returns the gangs with an object of an owner; nil if gangs of its kind do not depend on each other. c.mu is locked.
func (c *Cache) siblings(owner source.OwnerKey) (all []source.Gang) {
	if !source.IsFamily(owner.Kind) {
		return nil
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.lineage.Related(owner)), compareRefs) {
		if r := c.gangs[ref]; r.Object != nil {
			g := r.Gang
			g.Above = c.lineage.Above(g.Owner)
			all = append(all, g)
		}
	}
	return all
}

// setPod handles a pod that was added or updated.
func (c *Cache) setPod(pod *v1.Pod) {
	ref := source.GangOf(pod)
	key := convert.PodKey(pod)
	if pod.Spec.NodeName == "" {
		if c.Nominate(pod, pod.Status.NominatedNodeName) && source.GangOf(pod).IsZero() {
			c.Do([]gang.Effect{{Verb: gang.Freed}}) // members beyond minMember respect nominations of any priority
		}
	} else {
		c.Nominate(pod, "")
		c.ReserveSinglePod(pod, "")
	}
	moved := false
	if old := c.Pod(key); old != nil && source.GangOf(old) != ref {
		moved = old.UID == pod.UID
		c.removeFromGang(old, !moved) // its labels name another gang now, or none
		if ref.IsZero() && pod.Spec.NodeName == "" && c.Free != nil {
			c.Free(pod)
		}
	}
	if ref.IsZero() {
		c.setStray(key, pod)
		return
	}
	c.setStray(key, nil)
	template := c.templateOf(pod)
	c.mu.Lock()
	r := c.record(ref)
	old := r.Pods[key]
	c.storePod(key, pod)
	if pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" {
		c.terminating[key] = pod
	}
	c.storeTemplate(pod, template)
	r.Pods[key] = pod
	c.setPriority(r, pod)
	r.foreign = !c.serves[pod.Spec.SchedulerName]
	var effects []gang.Effect
	var notes []Note
	if meant, names := source.Implied(pod); names != "" {
		effects, notes = c.setOtherGangName(pod, names, meant)
	}
	counted := old != nil && r.Declared != nil && r.Declared.DependsOnMembers
	if counted && (c.gate(old) != c.gate(pod) || (old.Spec.NodeName == "") != (pod.Spec.NodeName == "")) ||
		old == nil || !maps.Equal(old.Annotations, pod.Annotations) || !maps.Equal(old.Labels, pod.Labels) {
		if key, ok := source.JobOf(pod); r.Declared.MayChangeWith(pod) || ok && r.Declared != nil && r.jobs != nil && !r.jobs[key] {
			effects = append(effects, c.redeclare(r)...)
		}
		notes = append(notes, c.takeNotes(r)...)
		notes = append(notes, c.podNotes(pod, r)...)
	}
	if pod.DeletionTimestamp != nil {
		c.noteRecreated(r, pod)
	}
	if old == nil && pod.Spec.NodeName == "" {
		c.returnLost(r, pod)
	}
	effects = append(effects, c.handleLeader(r, pod, moved)...)
	effects = append(effects, c.applyPod(pod, ref)...)
	if convert.Terminating(pod) && !c.isReady(pod.Spec.NodeName) {
		effects = append(effects, c.noteMissing(r, pod, false)...)
	}
	if !convert.Finished(pod) {
		effects = append(effects, c.clearStaleNomination(pod)...)
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	if old != nil && pod.Spec.NodeName == "" && (requestChanged(old, pod) || endChanged(old, pod)) {
		if groupKey, ok := c.book.GroupKey(key); ok {
			effects = append(effects, gang.Effect{Verb: MemberChanged, Gang: groupKey})
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// gate returns why a member is not counted yet; "" if it is. c.mu is locked.
func (c *Cache) gate(pod *v1.Pod) string {
	switch {
	case pod.Spec.NodeName != "":
		return ""
	case !c.serves[pod.Spec.SchedulerName]:
		served := strings.Join(slices.Sorted(maps.Keys(c.serves)), ", ")
		return fmt.Sprintf("schedulerName is %s; supported values: %s", pod.Spec.SchedulerName, served)
	}
	return convert.Gate(pod)
}

// requestChanged returns whether a pod's update may change what it needs from a node.
func requestChanged(old, current *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(old.Spec, current.Spec) || !maps.Equal(old.Labels, current.Labels) ||
		convert.OtherDeviceWords(old, current) ||
		!equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, current.Status.ResourceClaimStatuses)
}

// storePod records a member by its key and its node; nil deletes it. c.mu is locked.
func (c *Cache) storePod(key string, pod *v1.Pod) {
	old := c.pods[key]
	delete(c.templates, old)
	if old != nil && convert.KeepsOffAfar(old) {
		c.farReaching--
	}
	if pod != nil && convert.KeepsOffAfar(pod) {
		c.farReaching++
	}
	if old != nil && old.Spec.NodeName != "" {
		pods := c.onNode[old.Spec.NodeName]
		if delete(pods, key); len(pods) == 0 {
			delete(c.onNode, old.Spec.NodeName)
		}
	}
	delete(c.terminating, key)
	if pod == nil {
		delete(c.pods, key)
		return
	}
	c.pods[key] = pod
	if node := pod.Spec.NodeName; node != "" {
		if c.onNode[node] == nil {
			c.onNode[node] = map[string]bool{}
		}
		c.onNode[node][key] = true
	}
}

// applyPod gives the book the state of a pod: a member, a finished member, or no longer a member. c.mu is locked.
func (c *Cache) applyPod(pod *v1.Pod, ref gang.Ref) []gang.Effect {
	m, _ := convert.Member(pod, ref) // its errors are published as notes
	m.Gate, m.Priority = c.gate(pod), c.Priority(pod)
	var ev gang.Event = gang.Seen{Member: m}
	if pod.DeletionTimestamp != nil || convert.Finished(pod) && !m.Done || c.gangs[ref].earlier[pod.UID] {
		ev = gang.MemberDeleted{Pod: m.Pod, UID: m.UID}
	}
	return c.book.Apply(ev, c.Clock.Now())
}

// handleLeader records pod if it is the gang's leader. Members that were created for an earlier leader are then no members any more; their
// controller deletes them soon. These are all recorded members, or only older ones if moved is true: if the leader's labels have changed.
// c.mu is locked.
func (c *Cache) handleLeader(r *record, pod *v1.Pod, moved bool) (effects []gang.Effect) {
	switch old := r.leader; {
	case pod.DeletionTimestamp != nil:
		return nil
	case !source.IsLeader(pod):
		if !c.open.Load() && r.olderThanLeader(pod) {
			r.markEarlier(pod)
		}
		return nil
	case old != nil && old.UID == pod.UID:
		r.leader = pod
		return nil
	default:
		r.leader = pod
		effects = c.endEarlierRevision(pod)
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			member := r.Pods[key]
			before := old != nil && (!moved || member.CreationTimestamp.Before(&pod.CreationTimestamp))
			if member.UID != pod.UID && (before || !c.open.Load() && r.olderThanLeader(member)) {
				r.markEarlier(member)
				effects = append(effects, c.applyPod(member, r.Ref)...)
			}
		}
		return effects
	}
}

// markEarlier records that a member was created for an earlier leader.
func (r *record) markEarlier(member *v1.Pod) {
	if r.earlier == nil {
		r.earlier = map[types.UID]bool{}
	}
	r.earlier[member.UID] = true
}

// skew is the maximal difference between the clocks of API servers.
const skew = time.Minute

// olderThanLeader returns whether a bound member is older than its leader, which is not bound. It is used only until the cache opens.
func (r *record) olderThanLeader(member *v1.Pod) bool {
	return r.leader != nil && r.leader.Spec.NodeName == "" && member.Spec.NodeName != "" &&
		r.leader.CreationTimestamp.Sub(member.CreationTimestamp.Time) > skew
}

// Nominate records the nominated node of a pod; "" is none. It returns whether another nomination of the pod has ended.
func (c *Cache) Nominate(pod *v1.Pod, node string) (ended bool) {
	key := convert.PodKey(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.nominated[key]
	if c.nominated[key] = node; node == "" {
		delete(c.nominated, key)
	}
	return old != "" && old != node
}

// singleReservation is the node that is reserved for a pod without a gang.
type singleReservation struct {
	pod  *v1.Pod
	node string
}

// ReserveSinglePod records the reserved node of a pod without a gang; "" is none.
func (c *Cache) ReserveSinglePod(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	c.mu.Lock()
	old, current := c.singleReservations[key], singleReservation{pod, node}
	if c.singleReservations[key] = current; node == "" {
		current = singleReservation{}
		delete(c.singleReservations, key)
	}
	c.mu.Unlock()
	if old != current {
		c.Do([]gang.Effect{{Verb: gang.Moved, Pod: key}})
	}
}

// SinglePod returns the pod without a gang with that key if it has a reserved node, else nil.
func (c *Cache) SinglePod(key string) *v1.Pod {
	return read(c, func() *v1.Pod { return c.singleReservations[key].pod })
}

// retrySinglePods returns effects that retry the pods without a gang for which the node is reserved. c.mu is locked.
func (c *Cache) retrySinglePods(node string) (out []gang.Effect) {
	for _, key := range slices.Sorted(maps.Keys(c.singleReservations)) {
		if c.singleReservations[key].node == node {
			out = append(out, gang.Effect{Verb: gang.WakeLater, Pod: key})
		}
	}
	return out
}

// NominatedNodes returns the names of the nodes for which pods of any kind are nominated, sorted, each once.
func (c *Cache) NominatedNodes() []string {
	return read(c, func() []string { return slices.Compact(slices.Sorted(maps.Values(c.nominated))) })
}

// clearStaleNomination returns an effect that clears a pod's nominated node if a dropped plan of this or an earlier process nominated it.
// Nominations of other components are not cleared. Nominations at the start count as those of an earlier process. c.mu is locked.
func (c *Cache) clearStaleNomination(pod *v1.Pod) []gang.Effect {
	key, node := convert.PodKey(pod), pod.Status.NominatedNodeName
	if pod.Spec.NodeName != "" || node == "" || !c.serves[pod.Spec.SchedulerName] {
		delete(c.nominationsAtStart, key)
		return nil
	}
	if !c.open.Load() {
		c.nominationsAtStart[key] = node
		return nil
	}
	dropped := c.book.HadPlace(key, node) || node == c.nominationsAtStart[key]
	if place, _ := c.book.Place(key); place == node || c.book.Assumed(key) || !dropped {
		return nil
	}
	return []gang.Effect{{Verb: gang.Clear, Pod: key}}
}

// dropPod handles a deleted pod.
func (c *Cache) dropPod(pod *v1.Pod) {
	c.mu.Lock()
	delete(c.rivals.binding, pod.UID)
	c.mu.Unlock()
	c.removeFromGang(pod, true)
}

// removeFromGang removes a pod from its gang, because it was deleted (gone) or now names another gang.
func (c *Cache) removeFromGang(pod *v1.Pod, gone bool) {
	c.Nominate(pod, "")
	c.ReserveSinglePod(pod, "")
	ref, key := source.GangOf(pod), convert.PodKey(pod)
	if ref.IsZero() {
		c.setStray(key, nil)
		return
	}
	c.mu.Lock()
	r, ran := c.record(ref), false
	if p := r.Pods[key]; p != nil && p.UID == pod.UID {
		if gone {
			c.noteRecreated(r, p)
			c.noteLoss(r, p)
			ran = p.Spec.NodeName != ""
		}
		delete(r.Pods, key)
		delete(r.earlier, p.UID)
		c.priorities.Delete(p.UID)
		delete(c.nominationsAtStart, key)
		c.storePod(key, nil)
	}
	var effects []gang.Effect
	if meant, names := source.Implied(pod); names != "" {
		effects, _ = c.setOtherGangName(pod, "", meant)
	}
	if done := r.Finished[key]; done == nil || done.UID != pod.UID { // it finished otherwise, and still exists
		effects = append(effects, c.book.Apply(gang.MemberDeleted{Pod: key, UID: string(pod.UID)}, c.Clock.Now())...)
		if ran {
			effects = append(effects, c.noteMissing(r, pod, true)...)
		}
	}
	if d := r.Declared; d != nil && (d.DeclaringPod == key || d.DependsOnMembers) {
		effects = append(effects, c.redeclare(r)...)
	}
	effects = append(effects, c.deleteIfEmpty(r)...)
	c.mu.Unlock()
	c.carryOut(effects)
}

// redeclare reads what the objects of a gang declare, and gives the book the declaration if it has changed. Without a change the gang is
// only reported: a status update by this process must not retry the gang. c.mu is locked.
func (c *Cache) redeclare(r *record) []gang.Effect {
	before, old, listed := r.Declared, r.Declared, []gang.Ref{}
	if before != nil {
		listed = before.Group
	}
	if r.stale {
		before = nil
	}
	r.Declared, r.stale = nil, false
	c.findOwner(r)
	declaring := r.Gang
	declaring.Finished = r.Finished
	declaring.Denied = c.denied
	declaring.Pointer = c.otherGangName
	declaring.Gate = c.gate
	declaring.Expected = c.kinds[r.owner.Kind].expected || c.awaitsDiscovery(r.owner.Kind)
	declaring.Known = func(ref gang.Ref) bool { return c.gangs[ref] != nil }
	declaring.Siblings, declaring.Above, declaring.Children = c.siblings(r.owner), c.lineage.Above(r.Owner), c.children(r, declaring)
	d, ok := source.Declare(declaring, source.Defaults{
		Wait: c.Wait, Policy: c.Policy, Moves: c.Moves, NetworkTopologyAware: c.Aware, Layers: c.network.Known(), Check: c.network.Check,
	})
	if !ok {
		return append(c.deleteIfEmpty(r), c.book.Apply(gang.Removed{Gang: r.Ref}, c.Clock.Now())...)
	}
	c.resolve(r.Ref, d.Group)
	r.Declared = d
	priorityEffects := c.setPriorities(r)
	if old != nil && (old.MaxRuntime != d.MaxRuntime || old.Evictable != d.Evictable) {
		priorityEffects = append(priorityEffects, c.endsChanged(true, r.Ref)...)
	}
	c.addGroupHint(d)
	if before.Same(d) {
		return append(priorityEffects, gang.Effect{Verb: gang.Report, Gang: r.Ref})
	}
	effects := c.book.Apply(gang.Declared{Spec: d.Spec}, c.Clock.Now())
	if old == nil {
		effects = append(effects, c.redeclareListers(r.Ref)...)
	}
	for _, other := range d.Group {
		if l := c.gangs[other]; !slices.Contains(listed, other) && l != nil && l.Declared != nil && !slices.Contains(l.Declared.Group, r.Ref) {
			l.stale = true // its list may have r by name only: r was unknown before, or did not list it
			effects = append(effects, c.redeclare(l)...)
		}
	}
	return append(effects, priorityEffects...)
}

// redeclareListers redeclares the gangs of other APIs that list a gang by its name, and were declared before it. c.mu is locked.
func (c *Cache) redeclareListers(ref gang.Ref) (effects []gang.Effect) {
	for i := range source.All {
		unknown := gang.Ref{Source: source.All[i].Space, Namespace: ref.Namespace, Name: ref.Name}
		for _, lister := range c.book.Listers(unknown) {
			if l := c.gangs[lister]; unknown != ref && l != nil {
				l.stale = true
				effects = append(effects, c.redeclare(l)...)
			}
		}
	}
	return effects
}

// resolve replaces each name in refs by the gang that it most likely names: self, else a gang of the same API, else a gang with an object,
// else a gang without one. c.mu is locked.
func (c *Cache) resolve(self gang.Ref, refs []gang.Ref) {
	for i, ref := range refs {
		if r := c.gangs[ref]; ref.UID != "" || r != nil && (r.Object != nil || r.Declared != nil) {
			continue // a UID names one gang
		}
		if ref.String() == self.String() && ref.Source == self.Source {
			refs[i] = self
			continue
		}
		best, rank := ref, 0
		for other := range c.named[ref.String()] {
			if n := c.matchRank(ref, other); n > rank || n == rank && n > 0 && compareRefs(other, best) < 0 {
				best, rank = other, n
			}
		}
		refs[i] = best
	}
}

// addGroupHint adds a note to d if its group lists the name of an owner instead of the owner's gangs. c.mu is locked.
func (c *Cache) addGroupHint(d *source.Declaration) {
	for _, ref := range d.Group {
		if r := c.gangs[ref]; r != nil && r.Declared != nil || ref == d.Ref {
			continue
		}
		for _, kind := range source.Owners {
			key := source.OwnerKey{Kind: kind.Kind, Namespace: ref.Namespace, Name: ref.Name}
			var gangs []string
			for _, g := range slices.SortedFunc(maps.Keys(c.lineage.Gangs(key)), compareRefs) {
				gangs = append(gangs, g.String())
			}
			if len(gangs) > 0 {
				d.Notes = append(d.Notes, source.Note{Reason: reasons.InvalidAnnotation, Message: fmt.Sprintf(
					"%s: %q is no gang; did you mean the gangs of %s: %s?", scheduling.AnnotationGroups, ref, key, strings.Join(gangs, ", "))})
			}
		}
	}
}

// matchRank returns how likely the name ref means the gang candidate, from 0 (not at all) to 3. c.mu is locked.
func (c *Cache) matchRank(ref, candidate gang.Ref) int {
	switch r := c.gangs[candidate]; {
	case r == nil || r.Object == nil && r.Declared == nil:
		return 0
	case candidate.Source == ref.Source:
		return 3
	case r.Object != nil:
		return 2
	}
	return 1
}

// redeclareAll redeclares the gangs whose declarations depend on the layers. It is called after the layers changed. c.mu is locked.
func (c *Cache) redeclareAll() (effects []gang.Effect) {
	for _, ref := range c.refs() {
		if r := c.gangs[ref]; r.Gather() != nil || r.Declared != nil && r.Declared.ReadsLayers {
			r.stale = true // the same declaration may mean something else
			effects = append(effects, c.redeclare(r)...)
		}
	}
	return effects
}

// refs returns all gangs, sorted by name. c.mu is locked.
func (c *Cache) refs() []gang.Ref {
	return slices.SortedFunc(maps.Keys(c.gangs), compareRefs)
}

func compareRefs(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) }
