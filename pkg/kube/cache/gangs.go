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
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// record is what the cluster says about one gang.
type record struct {
	group.Record
	stale     bool               // the book does not know the current declaration yet
	leader    *v1.Pod            // for which the other members are created; it may be deleted; nil if none was seen
	earlier   map[types.UID]bool // members created for an earlier leader
	foreign   bool               // the last seen member belongs to another scheduler
	jobs      map[source.OwnerKey]bool
	owner     source.OwnerKey // the object that may declare something about the gang, or zero
	published map[string]bool // published notes
	lastLoss  time.Time       // when a bound member was last deleted or finished
}

// record returns a gang's record, creating it if it does not exist. c.mu is held.
func (c *Cache) record(ref gang.Ref) *record {
	r := c.gangs[ref]
	if r == nil {
		r = &record{Record: group.Record{Gang: source.Gang{Ref: ref, Pods: map[string]*v1.Pod{}}, Finished: map[string]*v1.Pod{}}}
		c.gangs[ref] = r
		if c.named[ref.String()] == nil {
			c.named[ref.String()] = map[gang.Ref]bool{}
		}
		c.named[ref.String()][ref] = true
	}
	return r
}

// tidy deletes an empty record, and redeclares the gangs that waited for it. c.mu is held.
func (c *Cache) tidy(r *record) (effects []gang.Effect) {
	if len(r.Pods)+len(r.Finished) == 0 && r.Object == nil {
		owner := r.owner
		c.disown(r)
		c.leaveJobs(r)
		delete(c.gangs, r.Ref)
		if delete(c.named[r.Ref.String()], r.Ref); len(c.named[r.Ref.String()]) == 0 {
			delete(c.named, r.Ref.String())
		}
		if source.Releases(owner.Kind) {
			effects, _ = c.redeclareOf(owner)
		}
	}
	return effects
}

// setElsewhere records that a pod names another gang than its controller means, or with "" that it does not. It
// redeclares the gangs that wait for the meant one. c.mu is held.
func (c *Cache) setElsewhere(pod *v1.Pod, names string, meant gang.Ref) (effects []gang.Effect, notes []Note) {
	key := convert.PodKey(pod)
	before := len(c.elsewhere[meant])
	if names != "" {
		if c.elsewhere[meant] == nil {
			c.elsewhere[meant] = map[string]string{}
		}
		c.elsewhere[meant][key] = names
	} else if delete(c.elsewhere[meant], key); len(c.elsewhere[meant]) == 0 {
		delete(c.elsewhere, meant)
	}
	if (before == 0) == (len(c.elsewhere[meant]) == 0) {
		return nil, nil
	}
	owner, _ := source.OwnerMakingPod(pod)
	return c.redeclareOf(owner)
}

// redeclareOf redeclares the gangs of an owner. c.mu is held.
func (c *Cache) redeclareOf(owner source.OwnerKey) (effects []gang.Effect, notes []Note) {
	return c.redeclareSome(c.family(owner))
}

// redeclareSome redeclares gangs. c.mu is held.
func (c *Cache) redeclareSome(refs map[gang.Ref]bool) (effects []gang.Effect, notes []Note) {
	for _, ref := range slices.SortedFunc(maps.Keys(refs), compareRefs) {
		if r := c.gangs[ref]; r != nil {
			effects = append(effects, c.redeclare(r)...)
			notes = append(notes, c.takeNotes(r)...)
		}
	}
	return effects, notes
}

// pointer returns which other gang a pod names instead of the meant one; "" if none does.
func (c *Cache) pointer(meant gang.Ref) string {
	pods := c.elsewhere[meant]
	if len(pods) == 0 {
		return ""
	}
	return pods[slices.MinFunc(slices.Collect(maps.Keys(pods)), topology.CompareNames)]
}

// setObject records the object that declares a gang; nil if it was deleted.
func (c *Cache) setObject(ref gang.Ref, pg *sigs.PodGroup, more source.More) {
	c.mu.Lock()
	r := c.record(ref)
	old := r.Object
	said := r.More
	parent := r.owner
	r.Object, r.More = pg, more
	effects := c.redeclare(r)
	notes := c.takeNotes(r)
	if old == nil || pg == nil || !reflect.DeepEqual(said, more) {
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

// redeclareFamily redeclares the gangs of some owners, except one, if their declarations depend on each other. c.mu
// is held.
func (c *Cache) redeclareFamily(except gang.Ref, owners ...source.OwnerKey) (effects []gang.Effect, notes []Note) {
	for _, key := range slices.Compact(owners) {
		if !source.IsFamily(key.Kind) {
			continue
		}
		for _, ref := range slices.SortedFunc(maps.Keys(c.family(key)), compareRefs) {
			if r := c.gangs[ref]; ref != except && r.Object != nil {
				effects = append(effects, c.redeclare(r)...)
				notes = append(notes, c.takeNotes(r)...)
			}
		}
	}
	return effects, notes
}

// siblings returns the gangs of an owner that have an object. c.mu is held.
func (c *Cache) siblings(owner source.OwnerKey) (all []source.Gang) {
	if !source.IsFamily(owner.Kind) {
		return nil
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.family(owner)), compareRefs) {
		if r := c.gangs[ref]; r.Object != nil {
			g := r.Gang
			g.Above = c.above(g.Owner)
			all = append(all, g)
		}
	}
	return all
}

// setPod records the state of a pod.
func (c *Cache) setPod(pod *v1.Pod) {
	ref := source.GangOf(pod)
	key := convert.PodKey(pod)
	if pod.Spec.NodeName == "" {
		c.Nominate(pod, pod.Status.NominatedNodeName)
	} else {
		c.Nominate(pod, "")
		c.ReserveSinglePod(pod, "")
	}
	moved := false
	if old := c.Pod(key); old != nil && source.GangOf(old) != ref {
		moved = old.UID == pod.UID
		c.takeOut(old, !moved) // its labels name another gang now, or none
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
	c.file(key, pod)
	c.keep(pod, template)
	r.Pods[key] = pod
	c.setPriority(r, pod)
	r.foreign = !c.serves[pod.Spec.SchedulerName]
	var effects []gang.Effect
	var notes []Note
	if meant, names := source.Implied(pod); names != "" {
		effects, notes = c.setElsewhere(pod, names, meant)
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
	effects = append(effects, c.lead(r, pod, moved)...)
	effects = append(effects, c.see(pod, ref)...)
	if !convert.Finished(pod) {
		effects = append(effects, c.voidNomination(pod)...)
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: ref})
	if old != nil && pod.Spec.NodeName == "" && requestChanged(old, pod) {
		if groupKey, ok := c.book.GroupKey(key); ok {
			effects = append(effects, gang.Effect{Verb: MemberChanged, Gang: groupKey})
		}
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.publish(notes)
}

// gate says why a member does not count yet; "" if it does. c.mu is held.
func (c *Cache) gate(pod *v1.Pod) string {
	switch {
	case pod.Spec.NodeName != "":
		return ""
	case !c.serves[pod.Spec.SchedulerName]:
		return fmt.Sprintf("schedulerName is %s, expected %s", pod.Spec.SchedulerName, strings.Join(slices.Sorted(maps.Keys(c.serves)), " or "))
	}
	return convert.Gate(pod)
}

// requestChanged says whether a pod may need something else than before.
func requestChanged(old, current *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(old.Spec, current.Spec) || !maps.Equal(old.Labels, current.Labels) ||
		convert.OtherDeviceWords(old, current) ||
		!equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, current.Status.ResourceClaimStatuses)
}

// file records a member and its node; nil deletes it. c.mu is held.
func (c *Cache) file(key string, pod *v1.Pod) {
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

// see tells the book the state of a pod: a member, a finished member, or none any more. c.mu is held.
func (c *Cache) see(pod *v1.Pod, ref gang.Ref) []gang.Effect {
	m, _ := convert.Member(pod, ref) // its errors are published as notes
	m.Gate, m.Priority = c.gate(pod), c.Priority(pod)
	var ev gang.Event = gang.Seen{Member: m}
	if pod.DeletionTimestamp != nil || convert.Finished(pod) && !m.Done || c.gangs[ref].earlier[pod.UID] {
		ev = gang.MemberDeleted{Pod: m.Pod, UID: m.UID}
	}
	return c.book.Apply(ev, c.Clock.Now())
}

// lead handles the leader of a gang. A new leader starts the gang over: members that were created for an earlier
// leader do not belong to it. Their controller deletes them a little later. Pods are seen in the order of their
// creation, except a leader whose labels changed: then only older members do not belong to it. c.mu is held.
func (c *Cache) lead(r *record, pod *v1.Pod, moved bool) (effects []gang.Effect) {
	switch old := r.leader; {
	case pod.DeletionTimestamp != nil:
		return nil
	case !source.IsLeader(pod):
		if !c.open.Load() && r.leftOver(pod) {
			r.markEarlier(pod)
		}
		return nil
	case old != nil && old.UID == pod.UID:
		r.leader = pod
		return nil
	default:
		r.leader = pod
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			member := r.Pods[key]
			before := old != nil && (!moved || member.CreationTimestamp.Before(&pod.CreationTimestamp))
			if member.UID != pod.UID && (before || !c.open.Load() && r.leftOver(member)) {
				r.markEarlier(member)
				effects = append(effects, c.see(member, r.Ref)...)
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

// skew is how much the clocks of API servers may differ.
const skew = time.Minute

// leftOver says, at the start of the process, whether a bound member is older than its waiting leader.
func (r *record) leftOver(member *v1.Pod) bool {
	return r.leader != nil && r.leader.Spec.NodeName == "" && member.Spec.NodeName != "" &&
		r.leader.CreationTimestamp.Sub(member.CreationTimestamp.Time) > skew
}

// Nominate records the nominated node of a pod; "" is none.
func (c *Cache) Nominate(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nominated[key] = node; node == "" {
		delete(c.nominated, key)
	}
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
	old, current := c.singles[key], singleReservation{pod, node}
	if c.singles[key] = current; node == "" {
		current = singleReservation{}
		delete(c.singles, key)
	}
	c.mu.Unlock()
	if old != current {
		c.Do([]gang.Effect{{Verb: gang.Moved, Pod: key}})
	}
}

// SinglePod returns the pod without a gang with that key if it has a reserved node, else nil.
func (c *Cache) SinglePod(key string) *v1.Pod {
	return read(c, func() *v1.Pod { return c.singles[key].pod })
}

// retryAlone retries the pods without a gang whose reserved node was closed. c.mu is held.
func (c *Cache) retryAlone(node string) (out []gang.Effect) {
	for _, key := range slices.Sorted(maps.Keys(c.singles)) {
		if c.singles[key].node == node {
			out = append(out, gang.Effect{Verb: gang.WakeLater, Pod: key})
		}
	}
	return out
}

// NominatedNodes returns the names of the nodes for which pods of any kind are nominated, sorted, each once.
func (c *Cache) NominatedNodes() []string {
	return read(c, func() []string { return slices.Compact(slices.Sorted(maps.Values(c.nominated))) })
}

// voidNomination removes a nomination without an assignment, left by a dropped plan. Nominations of other
// components stay. Nominations found at the start are taken for those of an earlier process. c.mu is held.
func (c *Cache) voidNomination(pod *v1.Pod) []gang.Effect {
	key, node := convert.PodKey(pod), pod.Status.NominatedNodeName
	if pod.Spec.NodeName != "" || node == "" || !c.serves[pod.Spec.SchedulerName] {
		delete(c.foundNominations, key)
		return nil
	}
	if !c.open.Load() {
		c.foundNominations[key] = node
		return nil
	}
	if place, _ := c.book.Place(key); place == node || c.book.Assumed(key) || !c.book.HadPlace(key, node) && node != c.foundNominations[key] {
		return nil
	}
	return []gang.Effect{{Verb: gang.Clear, Pod: key}}
}

// dropPod deletes a pod.
func (c *Cache) dropPod(pod *v1.Pod) {
	c.mu.Lock()
	delete(c.rivals.binding, pod.UID)
	c.mu.Unlock()
	c.takeOut(pod, true)
}

// takeOut removes a pod from its gang, because it was deleted (gone) or names another gang.
func (c *Cache) takeOut(pod *v1.Pod, gone bool) {
	c.Nominate(pod, "")
	c.ReserveSinglePod(pod, "")
	ref, key := source.GangOf(pod), convert.PodKey(pod)
	if ref.IsZero() {
		c.setStray(key, nil)
		return
	}
	c.mu.Lock()
	r := c.record(ref)
	if p := r.Pods[key]; p != nil && p.UID == pod.UID {
		if gone {
			c.noteLoss(r, p)
		}
		delete(r.Pods, key)
		delete(r.earlier, p.UID)
		c.priorities.Delete(p.UID)
		delete(c.foundNominations, key)
		c.file(key, nil)
	}
	var effects []gang.Effect
	if meant, names := source.Implied(pod); names != "" {
		effects, _ = c.setElsewhere(pod, "", meant)
	}
	if done := r.Finished[key]; done == nil || done.UID != pod.UID { // it finished otherwise, and still exists
		effects = append(effects, c.book.Apply(gang.MemberDeleted{Pod: key, UID: string(pod.UID)}, c.Clock.Now())...)
	}
	if d := r.Declared; d != nil && (d.DeclaringPod == key || d.DependsOnMembers) {
		effects = append(effects, c.redeclare(r)...)
	}
	effects = append(effects, c.tidy(r)...)
	c.mu.Unlock()
	c.carryOut(effects)
}

// redeclare tells the book what the gang's objects declare. Without a change the gang is only reported: the status
// that this process writes comes back here and must not retry the gang. c.mu is held.
func (c *Cache) redeclare(r *record) []gang.Effect {
	before, listed := r.Declared, []gang.Ref{}
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
	declaring.Pointer = c.pointer
	declaring.Gate = c.gate
	declaring.Expected = c.kinds[r.owner.Kind].expected || c.seeks(r.owner.Kind)
	declaring.Known = func(ref gang.Ref) bool { return c.gangs[ref] != nil }
	declaring.Siblings, declaring.Above, declaring.Children = c.siblings(r.owner), c.above(r.Owner), c.children(r, declaring)
	d, ok := source.Declare(declaring, source.Defaults{
		Wait: c.Wait, Policy: c.Policy, NetworkTopologyAware: c.Aware, Layers: c.network.Known(), Check: c.network.Check,
	})
	if !ok {
		return append(c.tidy(r), c.book.Apply(gang.Removed{Gang: r.Ref}, c.Clock.Now())...)
	}
	c.resolve(r.Ref, d.Group)
	r.Declared = d
	priorityEffects := c.setPriorities(r)
	c.hint(d)
	if before.Same(d) {
		return append(priorityEffects, gang.Effect{Verb: gang.Report, Gang: r.Ref})
	}
	effects := c.book.Apply(gang.Declared{Spec: d.Spec}, c.Clock.Now())
	for _, other := range d.Group {
		if l := c.gangs[other]; !slices.Contains(listed, other) && l != nil && l.Declared != nil && !slices.Contains(l.Declared.Group, r.Ref) {
			l.stale = true // it may mean this gang, which did not exist, or was not known to list it
			effects = append(effects, c.redeclare(l)...)
		}
	}
	return append(effects, priorityEffects...)
}

// resolve finds the gangs that are meant by the names in refs: self, then gangs of the same API, then gangs with
// an object, then gangs of pods without one. c.mu is held.
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
			if n := c.meaning(ref, other); n > rank || n == rank && n > 0 && compareRefs(other, best) < 0 {
				best, rank = other, n
			}
		}
		refs[i] = best
	}
}

// hint adds a note if group lists the name of an object instead of its gangs. c.mu is held.
func (c *Cache) hint(d *source.Declaration) {
	for _, ref := range d.Group {
		if r := c.gangs[ref]; r != nil && r.Declared != nil || ref == d.Ref {
			continue
		}
		for _, kind := range source.Owners {
			key := source.OwnerKey{Kind: kind.Kind, Namespace: ref.Namespace, Name: ref.Name}
			var gangs []string
			for _, g := range slices.SortedFunc(maps.Keys(c.owned[key]), compareRefs) {
				gangs = append(gangs, g.String())
			}
			if len(gangs) > 0 {
				d.Notes = append(d.Notes, source.Note{Reason: reasons.InvalidAnnotation, Message: fmt.Sprintf(
					"%s: %q is no gang; did you mean the gangs of %s: %s?", scheduling.AnnotationGroups, ref, key, strings.Join(gangs, ", "))})
			}
		}
	}
}

// meant rates how likely a name means a gang; 0 is not at all. c.mu is held.
func (c *Cache) meaning(ref, candidate gang.Ref) int {
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

// redeclareAll redeclares the gangs that read layers, after the topology changed. c.mu is held.
func (c *Cache) redeclareAll() (effects []gang.Effect) {
	for _, ref := range c.refs() {
		if r := c.gangs[ref]; r.Gather() != nil || r.Declared != nil && r.Declared.ReadsLayers {
			r.stale = true // the same declaration may mean something else
			effects = append(effects, c.redeclare(r)...)
		}
	}
	return effects
}

// refs lists the gangs by name. c.mu is held.
func (c *Cache) refs() []gang.Ref {
	return slices.SortedFunc(maps.Keys(c.gangs), compareRefs)
}

func compareRefs(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) }
