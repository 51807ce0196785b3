package cache

import (
	"cmp"
	"fmt"
	"maps"
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
	pods   map[string]*v1.Pod                             // members, finished ones too
	gather *scheduling.GatherSpec
	notes  []string // bad values for which a default is used
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
		r = &record{groups: map[schema.GroupVersionResource]*sigs.PodGroup{}, pods: map[string]*v1.Pod{}}
		c.gangs[name] = r
	}
	return r
}

// setPodGroup notes that a PodGroup exists in this state, or with nil that it does not.
func (c *Cache) setPodGroup(gvr schema.GroupVersionResource, name string, pg *sigs.PodGroup) {
	c.mu.Lock()
	r := c.record(name)
	var effects []gang.Effect
	if old := r.groups[gvr]; old != nil && (pg == nil || pg.UID != old.UID) {
		delete(r.groups, gvr) // a PodGroup made anew under an old name is a new gang
		effects = c.redeclare(name)
		r = c.record(name)
	}
	if pg != nil {
		r.groups[gvr] = pg
		effects = append(effects, c.redeclare(name)...)
	}
	notes := c.takeNotes(name)
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// setPod notes a member's state.
func (c *Cache) setPod(pod *v1.Pod) {
	name := convert.GangOf(pod)
	key := convert.PodKey(pod)
	if was := c.Pod(key); was != nil && convert.GangOf(was) != name {
		c.dropPod(was) // its labels name another gang now, or none
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
	if convert.ByAnnotation(pod) && (old == nil || !maps.Equal(old.Annotations, pod.Annotations)) {
		effects = c.redeclare(name)
		notes = c.takeNotes(name)
	}
	now := c.Clock.Now()
	if convert.Finished(pod) {
		effects = append(effects, c.book.Apply(gang.Left{Pod: key, UID: string(pod.UID)}, now)...)
	} else {
		m, err := convert.Member(pod)
		m.Gated = m.Gated || !c.serves[pod.Spec.SchedulerName]
		if err != nil && old == nil {
			notes = append(notes, Note{About: pod, Warning: true, Reason: "InvalidTopologyIndex", Message: err.Error()})
		}
		effects = append(effects, c.book.Apply(gang.Seen{Member: m}, now)...)
	}
	effects = append(effects, gang.Effect{Verb: gang.Report, Gang: name})
	c.mu.Unlock()
	c.do(effects)
	c.tell(notes)
}

// dropPod notes that a pod is gone.
func (c *Cache) dropPod(pod *v1.Pod) {
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
	if convert.ByAnnotation(pod) {
		effects = append(effects, c.redeclare(name)...)
	}
	if len(r.pods) == 0 && len(r.groups) == 0 {
		delete(c.gangs, name)
	}
	c.mu.Unlock()
	c.do(effects)
}

// redeclare tells the book what the gang's objects say now. c.mu is held.
func (c *Cache) redeclare(name string) []gang.Effect {
	r := c.record(name)
	spec, ok := c.spec(name, r)
	if !ok {
		if len(r.pods) == 0 && len(r.groups) == 0 {
			delete(c.gangs, name)
		}
		return c.book.Apply(gang.Removed{Gang: name}, c.Clock.Now())
	}
	return c.book.Apply(gang.Declared{Spec: spec}, c.Clock.Now())
}

// redeclareAll is for when the topology has changed: layers may be known now, or no
// longer. c.mu is held.
func (c *Cache) redeclareAll() (effects []gang.Effect) {
	for _, name := range slices.SortedFunc(maps.Keys(c.gangs), topology.CompareNames) {
		if c.gangs[name].gather != nil {
			effects = append(effects, c.redeclare(name)...)
		}
	}
	return effects
}

// spec reads what is declared of a gang. c.mu is held.
func (c *Cache) spec(name string, r *record) (gang.Spec, bool) {
	s := gang.Spec{Name: name, Min: 1, Wait: c.Wait, Policy: c.Policy}
	r.gather, r.notes = nil, nil
	var say map[string]string
	if pg, _ := r.podGroup(); pg != nil {
		say = pg.Annotations
		s.Created = pg.CreationTimestamp.Time
		s.Min = max(1, int(pg.Spec.MinMember))
		if t := pg.Spec.ScheduleTimeoutSeconds; t != nil && *t > 0 {
			s.Wait = time.Duration(*t) * time.Second
		}
	} else {
		pod := r.declarer()
		if pod == nil {
			return s, false
		}
		say = pod.Annotations
		s.Created = pod.CreationTimestamp.Time
		n, err := scheduling.ParseMinAvailable(say[scheduling.AnnotationMinAvailable])
		if err != nil {
			s.Problem = err.Error()
		}
		s.Min = max(1, n)
	}
	c.read(say, r, &s)
	return s, true
}

// declarer returns the member that describes a gang without a PodGroup: the first by
// name with a legal min-available, else the first.
func (r *record) declarer() (first *v1.Pod) {
	for _, key := range slices.SortedFunc(maps.Keys(r.pods), topology.CompareNames) {
		pod := r.pods[key]
		if !convert.ByAnnotation(pod) {
			continue
		}
		if _, err := scheduling.ParseMinAvailable(pod.Annotations[scheduling.AnnotationMinAvailable]); err == nil {
			return pod
		}
		first = cmp.Or(first, pod)
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

// takeNotes returns the notes on a gang that people have not been told. c.mu is held.
func (c *Cache) takeNotes(name string) (notes []Note) {
	r := c.gangs[name]
	if r == nil {
		return nil
	}
	pg, _ := r.podGroup()
	for _, n := range r.notes {
		if pg != nil {
			notes = append(notes, Note{About: pg, Warning: true, Reason: "InvalidAnnotation", Message: n})
		} else if pod := r.declarer(); pod != nil {
			notes = append(notes, Note{About: pod, Warning: true, Reason: "InvalidAnnotation", Message: n})
		}
	}
	return notes
}

func (c *Cache) tell(notes []Note) {
	for _, n := range notes {
		c.Note(n)
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
	if g, ok := c.book.Group(convert.PodKey(pod)); ok {
		return g.Key
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
		if out.Gather != nil && !slices.Equal(r.gather.Rules, out.Gather.Rules) {
			return nil, fmt.Errorf("TopologySpecConflict: gangs %s and %s of one GangGroup carry different %s",
				from, member.Name, scheduling.AnnotationTopologySpec)
		}
		out.Gather, from = r.gather, member.Name
	}
	if len(g.Gangs) > 1 && out.Gather != nil {
		for _, rule := range out.Gather.Rules {
			if rule.Scope == scheduling.ScopePodGroup {
				return nil, fmt.Errorf("%s: scope PodGroup in a GangGroup of several gangs is not supported yet; legal: GangGroup",
					scheduling.AnnotationTopologySpec)
			}
		}
	}
	return out, nil
}

// Order is a member's place in the queue: its gang's creation, the gang and the rank.
type Order struct {
	Created time.Time
	Gang    string
	Rank    int
}

// Order returns the place of a gang's member in the queue.
func (c *Cache) Order(pod *v1.Pod) Order {
	name := convert.GangOf(pod)
	m, _ := convert.Member(pod)
	o := Order{Created: pod.CreationTimestamp.Time, Gang: name, Rank: m.Rank}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.gangs[name]; r != nil {
		if pg, _ := r.podGroup(); pg != nil {
			o.Created = pg.CreationTimestamp.Time
		}
	}
	return o
}
