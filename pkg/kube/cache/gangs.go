package cache

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// record is what the cluster says of one gang.
type record struct {
	groups map[schema.GroupVersionResource]*sigs.PodGroup // both kinds have one shape
	pods   map[string]*v1.Pod                             // members
	done   map[string]*v1.Pod                             // those that have succeeded or failed
	gather *scheduling.GatherSpec
	// declared is what the book was told last; nil if it must be told.
	declared *declaration
	say      map[string]string // the annotations that describe the gang
	by       string            // the member that they come from where there is no PodGroup
	notes    []string          // bad values for which a default is used
	told     map[string]bool   // notes that people were told
}

// podGroup returns the PodGroup that declares the gang; of two, Koordinator's.
func (r *record) podGroup() (*sigs.PodGroup, schema.GroupVersionResource) {
	for _, gvr := range []schema.GroupVersionResource{sigs.PodGroups, x.PodGroups} {
		if pg := r.groups[gvr]; pg != nil {
			return pg, gvr
		}
	}
	return nil, schema.GroupVersionResource{}
}

// record returns a gang's record, which it starts if need be. c.mu is held.
func (c *Cache) record(name string) *record {
	r := c.gangs[name]
	if r == nil {
		r = &record{groups: map[schema.GroupVersionResource]*sigs.PodGroup{}, pods: map[string]*v1.Pod{}, done: map[string]*v1.Pod{}}
		c.gangs[name] = r
	}
	return r
}

// tidy drops a record of which nothing is left. c.mu is held.
func (c *Cache) tidy(name string, r *record) {
	if len(r.pods)+len(r.done)+len(r.groups) == 0 {
		delete(c.gangs, name)
	}
}

// setPodGroup notes that a PodGroup exists in this state, or with nil that it does not.
func (c *Cache) setPodGroup(gvr schema.GroupVersionResource, name string, pg *sigs.PodGroup) {
	c.mu.Lock()
	r := c.record(name)
	var effects []gang.Effect
	old := r.groups[gvr]
	if old != nil && (pg == nil || pg.UID != old.UID) {
		delete(r.groups, gvr) // a PodGroup made anew under an old name is a new gang
		effects = c.redeclare(name)
		r = c.record(name)
	}
	if pg != nil {
		r.groups[gvr] = pg
		effects = append(effects, c.redeclare(name)...)
	}
	notes := c.takeNotes(name)
	if pg != nil && (old == nil || !maps.Equal(old.Annotations, pg.Annotations)) {
		for _, key := range slices.SortedFunc(maps.Keys(r.pods), topology.CompareNames) {
			notes = append(notes, c.podNotes(r.pods[key], r)...)
		}
	}
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// setPod notes a member's state.
func (c *Cache) setPod(pod *v1.Pod) {
	name := convert.GangOf(pod)
	key := convert.PodKey(pod)
	if pod.Spec.NodeName == "" {
		c.Nominate(pod, pod.Status.NominatedNodeName)
	} else {
		c.Nominate(pod, "")
	}
	if was := c.Pod(key); was != nil && convert.GangOf(was) != name {
		c.dropPod(was) // its labels name another gang now, or none
		if name == "" && pod.Spec.NodeName == "" && c.Free != nil {
			c.Free(pod)
		}
	}
	if name == "" {
		return
	}
	c.mu.Lock()
	r := c.record(name)
	old := r.pods[key]
	r.pods[key], c.pods[key] = pod, pod
	var effects []gang.Effect
	var notes []Note
	if old == nil || !maps.Equal(old.Annotations, pod.Annotations) {
		if r.describedBy(pod) {
			effects = c.redeclare(name)
			notes = c.takeNotes(name)
		}
		notes = append(notes, c.podNotes(pod, r)...)
	}
	now := c.Clock.Now()
	if convert.Finished(pod) {
		effects = append(effects, c.book.Apply(gang.Left{Pod: key, UID: string(pod.UID)}, now)...)
	} else {
		m, _ := convert.Member(pod) // what is wrong with it is in the notes
		m.Gated = m.Gated || !c.serves[pod.Spec.SchedulerName]
		effects = append(effects, c.book.Apply(gang.Seen{Member: m}, now)...)
		effects = append(effects, c.voidNomination(pod)...)
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: name})
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// Nominate notes for which node a pod is nominated; "" is none.
func (c *Cache) Nominate(pod *v1.Pod, node string) {
	key := convert.PodKey(pod)
	c.mu.RLock()
	known := c.hopes[key] == node
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node == "" {
		delete(c.hopes, key)
	} else {
		c.hopes[key] = node
	}
}

// NominatedNodes lists the nodes for which pods are nominated, of gangs or not.
func (c *Cache) NominatedNodes() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Compact(slices.Sorted(maps.Values(c.hopes)))
}

// voidNomination takes back a nominated node that stands for no place: one of a plan
// that was given up, which others would go on to respect. c.mu is held.
func (c *Cache) voidNomination(pod *v1.Pod) []gang.Effect {
	key := convert.PodKey(pod)
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == "" || !c.open.Load() || c.book.Assumed(key) {
		return nil
	}
	if node, _ := c.book.Place(key); node == pod.Status.NominatedNodeName {
		return nil
	}
	return []gang.Effect{{Verb: gang.Clear, Pod: key}}
}

// dropPod notes that a pod is gone.
func (c *Cache) dropPod(pod *v1.Pod) {
	c.Nominate(pod, "")
	name := convert.GangOf(pod)
	if name == "" {
		return
	}
	key := convert.PodKey(pod)
	c.mu.Lock()
	r := c.record(name)
	if p := r.pods[key]; p != nil && p.UID == pod.UID {
		delete(r.pods, key)
		delete(c.pods, key)
	}
	effects := c.book.Apply(gang.Left{Pod: key, UID: string(pod.UID)}, c.Clock.Now())
	if r.by == key {
		effects = append(effects, c.redeclare(name)...)
	}
	c.tidy(name, r)
	c.mu.Unlock()
	c.do(effects)
}

// redeclare tells the book what the gang's objects say now. If that is what they said
// before, the gang is only reported: its own status, written to the PodGroup, comes back
// here, and must not have it tried again. c.mu is held.
func (c *Cache) redeclare(name string) []gang.Effect {
	r := c.record(name)
	before := r.declared
	spec, ok := c.spec(name, r)
	if !ok {
		r.declared = nil
		c.tidy(name, r)
		return c.book.Apply(gang.Removed{Gang: name}, c.Clock.Now())
	}
	r.declared = &declaration{spec, r.gather}
	if before.same(r.declared) {
		return []gang.Effect{{Verb: gang.Report, Gang: name}}
	}
	return c.book.Apply(gang.Declared{Spec: spec}, c.Clock.Now())
}

// declaration is what a gang's objects said when the book was told.
type declaration struct {
	gang.Spec
	gather *scheduling.GatherSpec
}

func (d *declaration) same(e *declaration) bool {
	if d == nil || (d.gather == nil) != (e.gather == nil) || d.gather != nil && !slices.Equal(sortedRules(d.gather), sortedRules(e.gather)) {
		return false
	}
	x, y := d.Spec, e.Spec
	x.Group, y.Group = nil, nil
	return slices.Equal(d.Group, e.Group) && reflect.DeepEqual(x, y)
}

// redeclareAll is for when the topology has changed: layers may be known now, or no
// longer. c.mu is held.
func (c *Cache) redeclareAll() (effects []gang.Effect) {
	for _, name := range slices.SortedFunc(maps.Keys(c.gangs), topology.CompareNames) {
		if r := c.gangs[name]; r.gather != nil {
			r.declared = nil // the same words may mean something else
			effects = append(effects, c.redeclare(name)...)
		}
	}
	return effects
}

// spec reads what is declared of a gang. c.mu is held.
func (c *Cache) spec(name string, r *record) (gang.Spec, bool) {
	s := gang.Spec{Name: name, Min: 1, Wait: c.Wait, Policy: c.Policy}
	r.gather, r.notes, r.say, r.by = nil, nil, map[string]string{}, ""
	if pg, _ := r.podGroup(); pg != nil {
		r.saySo(pg.Annotations)
		if pod := r.first(speaks); pod != nil {
			r.by = convert.PodKey(pod)
			r.saySo(pod.Annotations)
		}
		s.Created = pg.CreationTimestamp.Time
		s.Min = max(1, int(pg.Spec.MinMember))
		if pg.Spec.MinMember < 0 { // without a value it is 0, and the default 1
			r.notes = append(r.notes, fmt.Sprintf("spec.minMember: %d is not legal; legal: an integer ≥ 1; 1 is used", pg.Spec.MinMember))
		}
		if t := pg.Spec.ScheduleTimeoutSeconds; t != nil && *t > 0 {
			s.Wait = time.Duration(*t) * time.Second
		}
	} else {
		pod := r.declarer()
		if pod == nil {
			return s, false
		}
		r.by = convert.PodKey(pod)
		r.saySo(pod.Annotations)
		s.Created = pod.CreationTimestamp.Time
		n, err := scheduling.ParseMinAvailable(r.say[scheduling.AnnotationMinAvailable])
		if err != nil {
			s.Problem = err.Error()
		}
		s.Min = max(1, n)
	}
	c.read(r.say, r, &s)
	return s, true
}

// describing are the annotations that describe a gang, wherever they stand; those of
// own only on the members of a gang without PodGroup.
var (
	describing = []string{
		scheduling.AnnotationTopologySpec, scheduling.AnnotationGroups, scheduling.AnnotationMode,
		scheduling.AnnotationMatchPolicy, scheduling.AnnotationWaitingTime,
	}
	own = []string{scheduling.AnnotationMinAvailable, scheduling.AnnotationTotalNumber}
)

// saySo adds what is not said yet.
func (r *record) saySo(annotations map[string]string) {
	for _, key := range slices.Concat(describing, own) {
		if v, ok := annotations[key]; ok {
			if _, said := r.say[key]; !said {
				r.say[key] = v
			}
		}
	}
}

// speaks says whether a pod has something to say of its gang.
func speaks(pod *v1.Pod) bool {
	return slices.ContainsFunc(describing, func(key string) bool { _, ok := pod.Annotations[key]; return ok })
}

// describedBy says whether the gang's description may change with this member.
func (r *record) describedBy(pod *v1.Pod) bool {
	if !convert.ByAnnotation(pod) && !speaks(pod) {
		return false
	}
	key := convert.PodKey(pod)
	if r.say == nil || r.by == "" || r.by == key || topology.CompareNames(key, r.by) < 0 {
		return true
	}
	if _, err := scheduling.ParseMinAvailable(r.say[scheduling.AnnotationMinAvailable]); err != nil && convert.ByAnnotation(pod) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(describing, own), func(k string) bool {
		_, says := pod.Annotations[k]
		_, said := r.say[k]
		return says && !said
	})
}

// declarer returns the member that describes a gang without a PodGroup: the first by
// name with a legal min-available, else the first.
func (r *record) declarer() *v1.Pod {
	legal := r.first(func(pod *v1.Pod) bool {
		_, err := scheduling.ParseMinAvailable(pod.Annotations[scheduling.AnnotationMinAvailable])
		return err == nil && convert.ByAnnotation(pod)
	})
	return cmp.Or(legal, r.first(convert.ByAnnotation))
}

// first returns the first member by name for which is holds.
func (r *record) first(is func(*v1.Pod) bool) (first *v1.Pod) {
	name := ""
	for key, pod := range r.pods {
		if (first == nil || topology.CompareNames(key, name) < 0) && is(pod) {
			first, name = pod, key
		}
	}
	return first
}

// read takes the annotations that PodGroups and pods share into a spec. What cannot
// be ignored becomes the gang's problem, what has a default a note.
func (c *Cache) read(say map[string]string, r *record, s *gang.Spec) {
	problem := func(err error) {
		if err != nil && s.Problem == "" {
			s.Problem = err.Error()
		}
	}
	note := func(err error) {
		if err != nil {
			r.notes = append(r.notes, err.Error()+"; the default is used")
		}
	}
	if v, ok := say[scheduling.AnnotationGroups]; ok {
		groups, err := scheduling.ParseGroups(v)
		problem(err)
		s.Group = groups
	}
	if v, ok := say[scheduling.AnnotationMode]; ok {
		mode, err := scheduling.ParseMode(v)
		note(err)
		s.NonStrict = err == nil && mode == scheduling.ModeNonStrict
	}
	if v, ok := say[scheduling.AnnotationMatchPolicy]; ok {
		policy, err := scheduling.ParseMatchPolicy(v)
		if note(err); err == nil {
			s.Policy = gang.MatchPolicy(policy)
		}
	}
	if v, ok := say[scheduling.AnnotationTotalNumber]; ok {
		n, err := scheduling.ParseTotalNumber(v)
		if err == nil && n < s.Min {
			err = fmt.Errorf("%s: %q is not legal; legal: at least min-available, %d", scheduling.AnnotationTotalNumber, v, s.Min)
		}
		note(err)
	}
	if v, ok := say[scheduling.AnnotationWaitingTime]; ok {
		wait, err := scheduling.ParseWaitingTime(v)
		if note(err); err == nil {
			s.Wait = wait
		}
	}
	if v, ok := say[scheduling.AnnotationTopologySpec]; ok {
		gather, err := scheduling.ParseGatherSpec(v)
		problem(err)
		r.gather = gather
		if !c.Aware && err == nil {
			r.gather = nil
			r.notes = append(r.notes, scheduling.AnnotationTopologySpec+" has no effect: CoschedulingArgs.awareNetworkTopology is false")
		}
	}
	if r.gather != nil {
		problem(c.network.check(r.gather))
	}
}

// Group is a gang group with the objects that a planner needs.
type Group struct {
	gang.Group
	Pods   map[string]*v1.Pod // members, pending and bound
	Gather *scheduling.GatherSpec
}

// GroupKey names the group of a pod, as its plan and its refusal are filed.
func (c *Cache) GroupKey(pod *v1.Pod) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if key, ok := c.book.GroupKey(convert.PodKey(pod)); ok {
		return key
	}
	return convert.GangOf(pod)
}

// Group returns the group of a pod. The error says why it cannot be planned.
func (c *Cache) Group(pod *v1.Pod) (*Group, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	g, ok := c.book.Group(convert.PodKey(pod))
	if !ok {
		return nil, fmt.Errorf("gang %s is not known", convert.GangOf(pod))
	}
	out := &Group{Group: *g, Pods: map[string]*v1.Pod{}}
	from := ""
	for _, member := range g.Gangs {
		r := c.gangs[member.Name]
		if r == nil {
			return nil, fmt.Errorf("gang %s is not known", member.Name)
		}
		maps.Copy(out.Pods, r.pods)
		if r.gather == nil {
			continue
		}
		if out.Gather != nil && !slices.Equal(sortedRules(r.gather), sortedRules(out.Gather)) {
			return nil, fmt.Errorf("TopologySpecConflict: gangs %s and %s of one GangGroup carry different %s",
				from, member.Name, scheduling.AnnotationTopologySpec)
		}
		out.Gather, from = r.gather, member.Name
	}
	return out, nil
}

// sortedRules are the rules in one order: theirs has no meaning.
func sortedRules(g *scheduling.GatherSpec) []scheduling.GatherRule {
	return slices.SortedFunc(slices.Values(g.Rules), func(a, b scheduling.GatherRule) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Scope, b.Scope))
	})
}

// Order is a member's place in the queue: its gang's creation, the gang and the rank;
// before them all, gangs that were half bound when this process began.
type Order struct {
	Resumed bool
	Created time.Time
	Gang    string
	Rank    int
	Pod     string
}

// Order returns the place of a gang's member in the queue.
func (c *Cache) Order(pod *v1.Pod) Order {
	name := convert.GangOf(pod)
	m, _ := convert.Member(pod)
	o := Order{Created: pod.CreationTimestamp.Time, Gang: name, Rank: m.Rank, Pod: m.Pod}
	c.mu.RLock()
	defer c.mu.RUnlock()
	o.Resumed = c.book.Resumed(name)
	if r := c.gangs[name]; r != nil {
		if pg, _ := r.podGroup(); pg != nil {
			o.Created = pg.CreationTimestamp.Time
		}
	}
	return o
}
