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

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// record is what the cluster says of one gang.
type record struct {
	group.Record
	stale   bool               // the book was not told yet what the gang's objects say
	leader  *v1.Pod            // for which the others are made, which may be gone; nil if none was seen
	others  map[types.UID]bool // members that were there before the leader came: made for one before
	foreign bool               // the last member that was seen is another scheduler's
	jobs    map[source.OwnerKey]bool
	owner   source.OwnerKey // the object that may declare something about the gang; zero if there is none
	told    map[string]bool // notes that people were told
	lost    time.Time       // when a member that had a node has gone or finished last; zero if none has
}

// record returns a gang's record, which it starts if need be. c.mu is held.
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

// tidy drops a record of which nothing is left, and declares the gangs anew that need not wait for its gang then. c.mu is held.
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

// setElsewhere notes that a pod names another gang than its controller means it for, or with ""
// that it does not, and declares anew the gangs that wait for that one. c.mu is held.
func (c *Cache) setElsewhere(pod *v1.Pod, names string, meant gang.Ref) (effects []gang.Effect, notes []Note) {
	key := convert.PodKey(pod)
	was := len(c.elsewhere[meant])
	if names != "" {
		if c.elsewhere[meant] == nil {
			c.elsewhere[meant] = map[string]string{}
		}
		c.elsewhere[meant][key] = names
	} else if delete(c.elsewhere[meant], key); len(c.elsewhere[meant]) == 0 {
		delete(c.elsewhere, meant)
	}
	if (was == 0) == (len(c.elsewhere[meant]) == 0) {
		return nil, nil
	}
	owner, _ := source.MeantBy(pod)
	return c.redeclareOf(owner)
}

// redeclareOf declares the gangs of an owner anew. c.mu is held.
func (c *Cache) redeclareOf(owner source.OwnerKey) (effects []gang.Effect, notes []Note) {
	return c.redeclareSome(c.family(owner))
}

// redeclareSome declares gangs anew. c.mu is held.
func (c *Cache) redeclareSome(refs map[gang.Ref]bool) (effects []gang.Effect, notes []Note) {
	for _, ref := range slices.SortedFunc(maps.Keys(refs), compareRefs) {
		if r := c.gangs[ref]; r != nil {
			effects = append(effects, c.redeclare(r)...)
			notes = append(notes, c.takeNotes(r)...)
		}
	}
	return effects, notes
}

// pointer returns how one of the pods names another gang than their controller means them for.
func (c *Cache) pointer(meant gang.Ref) string {
	pods := c.elsewhere[meant]
	if len(pods) == 0 {
		return ""
	}
	return pods[slices.MinFunc(slices.Collect(maps.Keys(pods)), topology.CompareNames)]
}

// setObject notes that the object which declares a gang exists in this state, or with nil
// that it does not.
func (c *Cache) setObject(ref gang.Ref, pg *sigs.PodGroup, more source.More) {
	c.mu.Lock()
	r := c.record(ref)
	old, said, parent := r.Object, r.More, r.owner
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
	c.do(effects)
	c.tell(notes)
}

// redeclareFamily declares anew the gangs of some owners, but for one, where all are declared by
// what all of them say. c.mu is held.
func (c *Cache) redeclareFamily(but gang.Ref, owners ...source.OwnerKey) (effects []gang.Effect, notes []Note) {
	for _, key := range slices.Compact(owners) {
		if !source.IsFamily(key.Kind) {
			continue
		}
		for _, ref := range slices.SortedFunc(maps.Keys(c.family(key)), compareRefs) {
			if r := c.gangs[ref]; ref != but && r.Object != nil {
				effects = append(effects, c.redeclare(r)...)
				notes = append(notes, c.takeNotes(r)...)
			}
		}
	}
	return effects, notes
}

// siblings are the gangs of one owner that objects declare. c.mu is held.
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

// setPod notes a member's state.
func (c *Cache) setPod(pod *v1.Pod) {
	ref := source.Of(pod)
	key := convert.PodKey(pod)
	if pod.Spec.NodeName == "" {
		c.Nominate(pod, pod.Status.NominatedNodeName)
	} else {
		c.Nominate(pod, "")
		c.ReserveAlone(pod, "")
	}
	moved := false
	if was := c.Pod(key); was != nil && source.Of(was) != ref {
		moved = was.UID == pod.UID
		c.takeOut(was, !moved) // its labels name another gang now, or none
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
	c.gradePod(r, pod)
	r.foreign = !c.serves[pod.Spec.SchedulerName]
	var effects []gang.Effect
	var notes []Note
	if meant, names := source.Implied(pod); names != "" {
		effects, notes = c.setElsewhere(pod, names, meant)
	}
	if old != nil && r.Declared != nil && r.Declared.Counts && (c.held(old) != c.held(pod) || (old.Spec.NodeName == "") != (pod.Spec.NodeName == "")) ||
		old == nil || !maps.Equal(old.Annotations, pod.Annotations) || !maps.Equal(old.Labels, pod.Labels) {
		if key, ok := source.MayOwn(pod); r.Declared.MayChangeWith(pod) || ok && r.Declared != nil && r.jobs != nil && !r.jobs[key] {
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
	if old != nil && pod.Spec.NodeName == "" && asksElse(old, pod) {
		if of, ok := c.book.GroupKey(key); ok {
			effects = append(effects, gang.Effect{Verb: MemberChanged, Gang: of})
		}
	}
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// held says whether a member does not count yet. c.mu is held.
func (c *Cache) held(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && (convert.Gated(pod) || !c.serves[pod.Spec.SchedulerName])
}

// asksElse says whether a pod may need something else than before.
func asksElse(was, is *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(was.Spec, is.Spec) || !maps.Equal(was.Labels, is.Labels) || convert.OtherDeviceWords(was, is) ||
		!equality.Semantic.DeepEqual(was.Status.ResourceClaimStatuses, is.Status.ResourceClaimStatuses)
}

// file notes the state of a member, and the node that it is on; nil is for one that is gone.
// c.mu is held.
func (c *Cache) file(key string, pod *v1.Pod) {
	old := c.pods[key]
	delete(c.templates, old)
	if old != nil && convert.KeepsOffAfar(old) {
		c.afar--
	}
	if pod != nil && convert.KeepsOffAfar(pod) {
		c.afar++
	}
	if old != nil && old.Spec.NodeName != "" {
		on := c.onNode[old.Spec.NodeName]
		if delete(on, key); len(on) == 0 {
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

// see tells the book of a pod's state: that it is a member, or was one and has finished on
// its node; or that it is none any more. c.mu is held.
func (c *Cache) see(pod *v1.Pod, of gang.Ref) []gang.Effect {
	m, _ := convert.Member(pod, of) // what is wrong with it is in the notes
	m.Gated, m.Priority = m.Gated || !c.serves[pod.Spec.SchedulerName], c.Priority(pod)
	var ev gang.Event = gang.Seen{Member: m}
	if pod.DeletionTimestamp != nil || convert.Finished(pod) && !m.Done || c.gangs[of].others[pod.UID] {
		ev = gang.Left{Pod: m.Pod, UID: m.UID}
	}
	return c.book.Apply(ev, c.Clock.Now())
}

// lead is for the leader of a gang that is made once more: the members that were made for the one
// before are none of its gang, which begins anew. Their controller deletes them with that one, a
// little later; the new leader would be taken for one who replaces a member of a gang that runs. Pods are seen in the
// order in which they are made. One that has moved here from another gang, since its labels were changed, is seen late:
// of the members only those are not its own that are older. c.mu is held.
func (c *Cache) lead(r *record, pod *v1.Pod, moved bool) (effects []gang.Effect) {
	switch was := r.leader; {
	case pod.DeletionTimestamp != nil:
		return nil
	case !source.Leads(pod):
		if !c.open.Load() && r.leftOver(pod) {
			r.another(pod)
		}
		return nil
	case was != nil && was.UID == pod.UID:
		r.leader = pod
		return nil
	default:
		r.leader = pod
		for _, key := range slices.SortedFunc(maps.Keys(r.Pods), topology.CompareNames) {
			member := r.Pods[key]
			before := was != nil && (!moved || member.CreationTimestamp.Before(&pod.CreationTimestamp))
			if member.UID != pod.UID && (before || !c.open.Load() && r.leftOver(member)) {
				r.another(member)
				effects = append(effects, c.see(member, r.Ref)...)
			}
		}
		return effects
	}
}

// another notes that a member was made for a leader before the one that is there.
func (r *record) another(member *v1.Pod) {
	if r.others == nil {
		r.others = map[types.UID]bool{}
	}
	r.others[member.UID] = true
}

// skew is how far the clocks of API servers may be apart, which say when pods were made.
const skew = time.Minute

// leftOver says, for a process that begins and knows no order, whether a member runs that is older than
// a leader who waits.
func (r *record) leftOver(member *v1.Pod) bool {
	return r.leader != nil && r.leader.Spec.NodeName == "" && member.Spec.NodeName != "" &&
		r.leader.CreationTimestamp.Sub(member.CreationTimestamp.Time) > skew
}

// Nominate notes for which node a pod is nominated; "" is none.
func (c *Cache) Nominate(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nominated[key] = node; node == "" {
		delete(c.nominated, key)
	}
}

// aloneAt is the node that is reserved for a pod without a gang.
type aloneAt struct {
	pod  *v1.Pod
	node string
}

// ReserveAlone notes which node is reserved for a pod without a gang until victims have terminated; "" is none.
func (c *Cache) ReserveAlone(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	c.mu.Lock()
	was, now := c.alone[key], aloneAt{pod, node}
	if c.alone[key] = now; node == "" {
		now = aloneAt{}
		delete(c.alone, key)
	}
	c.mu.Unlock()
	if was != now {
		c.Do([]gang.Effect{{Verb: gang.Moved, Pod: key}})
	}
}

// Alone returns a pod without a gang for which a node is reserved; nil if there is none.
func (c *Cache) Alone(key string) *v1.Pod { return read(c, func() *v1.Pod { return c.alone[key].pod }) }

// tryAlone has the pods without a gang tried for which a node is reserved that takes no pods any more. c.mu is held.
func (c *Cache) tryAlone(node string) (out []gang.Effect) {
	for _, key := range slices.Sorted(maps.Keys(c.alone)) {
		if c.alone[key].node == node {
			out = append(out, gang.Effect{Verb: gang.Again, Pod: key})
		}
	}
	return out
}

// NominatedNodes lists the nodes for which pods are nominated, of gangs or not.
func (c *Cache) NominatedNodes() []string {
	return read(c, func() []string { return slices.Compact(slices.Sorted(maps.Values(c.nominated))) })
}

// voidNomination takes back a nominated node that stands for no place: one of a plan
// that was given up, which others would go on to respect. What somebody else has nominated is
// theirs to take back; what was there when this process began is thought to be of one before.
// c.mu is held.
func (c *Cache) voidNomination(pod *v1.Pod) []gang.Effect {
	key, node := convert.PodKey(pod), pod.Status.NominatedNodeName
	if pod.Spec.NodeName != "" || node == "" || !c.serves[pod.Spec.SchedulerName] {
		delete(c.found, key)
		return nil
	}
	if !c.open.Load() {
		c.found[key] = node
		return nil
	}
	if place, _ := c.book.Place(key); place == node || c.book.Assumed(key) || !c.book.HadPlace(key, node) && node != c.found[key] {
		return nil
	}
	return []gang.Effect{{Verb: gang.Clear, Pod: key}}
}

// dropPod notes that a pod is gone.
func (c *Cache) dropPod(pod *v1.Pod) {
	c.mu.Lock()
	delete(c.rivals.placed, pod.UID)
	c.mu.Unlock()
	c.takeOut(pod, true)
}

// takeOut takes a pod out of its gang, since it is gone, or else belongs to it no longer.
func (c *Cache) takeOut(pod *v1.Pod, gone bool) {
	c.Nominate(pod, "")
	c.ReserveAlone(pod, "")
	ref, key := source.Of(pod), convert.PodKey(pod)
	if ref.IsZero() {
		c.setStray(key, nil)
		return
	}
	c.mu.Lock()
	r := c.record(ref)
	if p := r.Pods[key]; p != nil && p.UID == pod.UID {
		if gone {
			c.loses(r, p)
		}
		delete(r.Pods, key)
		delete(r.others, p.UID)
		c.grades.Delete(p.UID)
		delete(c.found, key)
		c.file(key, nil)
	}
	var effects []gang.Effect
	if meant, names := source.Implied(pod); names != "" {
		effects, _ = c.setElsewhere(pod, "", meant)
	}
	if done := r.Finished[key]; done == nil || done.UID != pod.UID { // else it has finished, and is there
		effects = append(effects, c.book.Apply(gang.Left{Pod: key, UID: string(pod.UID)}, c.Clock.Now())...)
	}
	if d := r.Declared; d != nil && (d.By == key || d.Counts) {
		effects = append(effects, c.redeclare(r)...)
	}
	effects = append(effects, c.tidy(r)...)
	c.mu.Unlock()
	c.do(effects)
}

// redeclare tells the book what the gang's objects say now. If that is what they said
// before, the gang is only reported: its own status, written to the PodGroup, comes back
// here, and must not have it tried again. c.mu is held.
func (c *Cache) redeclare(r *record) []gang.Effect {
	before, first := r.Declared, r.Declared == nil
	if r.stale {
		before = nil
	}
	r.Declared, r.stale = nil, false
	c.findOwner(r)
	of := r.Gang
	of.Done, of.Expected, of.Denied, of.Pointer, of.Held = r.Finished, c.kinds[r.owner.Kind].expected || c.seeks(r.owner.Kind), c.denied, c.pointer, c.held
	of.Known = func(ref gang.Ref) bool { return c.gangs[ref] != nil }
	of.Siblings, of.Above, of.Children = c.siblings(r.owner), c.above(r.Owner), c.children(r, of)
	d, ok := source.Declare(of, source.Defaults{
		Wait: c.Wait, Policy: c.Policy, Aware: c.Aware, Layers: c.network.Known(), Check: c.network.Check,
	})
	if !ok {
		return append(c.tidy(r), c.book.Apply(gang.Removed{Gang: r.Ref}, c.Clock.Now())...)
	}
	c.resolve(r.Ref, d.Group)
	r.Declared = d
	regraded := c.grade(r)
	c.hint(d)
	if before.Same(d) {
		return append(regraded, gang.Effect{Verb: gang.Report, Gang: r.Ref})
	}
	effects := c.book.Apply(gang.Declared{Spec: d.Spec}, c.Clock.Now())
	for _, other := range d.Group {
		if l := c.gangs[other]; first && l != nil && l.Declared != nil && !slices.Contains(l.Declared.Group, r.Ref) {
			l.stale = true // it may mean this gang, which was not there
			effects = append(effects, c.redeclare(l)...)
		}
	}
	return append(effects, regraded...)
}

// resolve finds out which gangs are meant by the names that a gang lists: itself, those of its
// own API, else of another one that has an object of that name, else of one whose pods are
// gangs without any (a Job's, a LeaderWorkerSet's). c.mu is held.
func (c *Cache) resolve(self gang.Ref, group []gang.Ref) {
	for i, ref := range group {
		if r := c.gangs[ref]; ref.UID != "" || r != nil && (r.Object != nil || r.Declared != nil) {
			continue // whoever knows the UID means no other of that name
		}
		if ref.String() == self.String() && ref.Source == self.Source {
			group[i] = self
			continue
		}
		best, rank := ref, 0
		for other := range c.named[ref.String()] {
			if n := c.meant(ref, other); n > rank || n == rank && n > 0 && compareRefs(other, best) < 0 {
				best, rank = other, n
			}
		}
		group[i] = best
	}
}

// hint notes which gangs an object has, where its own name is listed instead of theirs. c.mu is
// held.
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
				d.Notes = append(d.Notes, source.Note{Reason: InvalidAnnotation, Message: fmt.Sprintf(
					"%s: %q is no gang; did you mean the gangs of %s: %s?", scheduling.AnnotationGroups, ref, key, strings.Join(gangs, ", "))})
			}
		}
	}
}

// meant says how likely it is that a name means a gang; 0 is not at all. c.mu is held.
func (c *Cache) meant(ref, by gang.Ref) int {
	switch r := c.gangs[by]; {
	case r == nil || r.Object == nil && r.Declared == nil:
		return 0
	case by.Source == ref.Source:
		return 3
	case r.Object != nil:
		return 2
	}
	return 1
}

// redeclareAll is for when the topology has changed: layers may be known now, or no
// longer. c.mu is held.
func (c *Cache) redeclareAll() (effects []gang.Effect) {
	for _, ref := range c.refs() {
		if r := c.gangs[ref]; r.Gather() != nil || r.Declared != nil && r.Declared.ReadsLayers {
			r.stale = true // the same words may mean something else
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
