package source

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// sharedKeys are the annotations that describe a gang on any of its objects, memberKeys only on members of a gang without one.
var (
	sharedKeys = []string{
		scheduling.AnnotationTopologySpec, scheduling.AnnotationGroups, scheduling.AnnotationMode,
		scheduling.AnnotationMatchPolicy, scheduling.AnnotationWaitingTime, scheduling.AnnotationRepair,
		scheduling.AnnotationBackfill, scheduling.AnnotationMaxRuntime,
	}
	memberKeys = []string{scheduling.AnnotationMinAvailable, scheduling.AnnotationTotalNumber}
	allKeys    = slices.Concat(sharedKeys, memberKeys)
)

// aliases are other names of annotations.
var aliases = map[string]string{scheduling.AnnotationMatchPolicy: scheduling.AnnotationMatchPolicyAlias}

// annotationValue returns the value under a key, or under its alias.
func annotationValue(annotations map[string]string, key string) (value string, ok bool) {
	if value, ok = annotations[key]; !ok && aliases[key] != "" {
		value, ok = annotations[aliases[key]]
	}
	return value, ok
}

// podValue returns a pod's value under a key. The deprecated label takes precedence over the annotation.
func podValue(pod *v1.Pod, key string) (value string, ok bool) {
	if key == scheduling.AnnotationMinAvailable {
		if value, ok = pod.Labels[scheduling.LabelMinAvailable]; ok {
			return value, ok
		}
	}
	return annotationValue(pod.Annotations, key)
}

// minAvailableOf returns the min-available of a pod.
func minAvailableOf(pod *v1.Pod) (int, error) {
	if value, ok := pod.Labels[scheduling.LabelMinAvailable]; ok {
		return scheduling.ParseLabelMinAvailable(value)
	}
	return scheduling.ParseMinAvailable(pod.Annotations[scheduling.AnnotationMinAvailable])
}

// Declare reads the declaration of a gang. It returns false if no object declares the gang and no member describes it.
func Declare(g Gang, d Defaults) (*Declaration, bool) {
	out := &Declaration{Spec: gang.Spec{Ref: g.Ref, Min: 1, Wait: d.Wait, Policy: d.Policy}, Values: map[string]string{}}
	s := sourceOf(g.Ref.Source)
	switch {
	case s != nil && s.Fill != nil:
		pod := firstPod(g.allPods(), func(*v1.Pod) bool { return true })
		if pod == nil {
			return nil, false
		}
		out.DeclaringPod, out.Created = convert.PodKey(pod), pod.CreationTimestamp.Time
		if g.Owner == nil && (s.NeedsOwner || g.Expected) {
			out.withoutOwner(g, s, pod)
			return out, true
		}
		out.noteUnreadable(g, OwnerKey{s.Owner.Kind, pod.Namespace, s.OwnerName(pod)})
		s.Fill(out, g)
	case g.Object != nil:
		out.fromObject(g)
	case !out.fromPods(g):
		return unreadable(g, s, out)
	}
	if s == nil || s.Fill == nil {
		out.shrink(g)
	}
	out.read(d)
	out.noteIgnoredKeys()
	return out, true
}

// shrink lowers d.Min once Jobs of the gang (g.Children) have completed pods. d.Completed is the difference.
func (d *Declaration) shrink(g Gang) {
	least := max(1, stillNeeded(d.Min, g.Children))
	d.Min, d.Completed = least, d.Min-least
}

// stillNeeded returns how many of the minimum members are still needed: the pods that the Jobs still run, plus the part of minimum beyond
// the size of these Jobs.
func stillNeeded(minimum int, jobs []*Owned) int {
	size, remaining := 0, 0
	for _, job := range jobs {
		size, remaining = size+job.Size, remaining+job.Remaining
	}
	return min(minimum, remaining+max(0, minimum-size))
}

// addOrigin adds an origin, which ranks after the earlier ones.
func (d *Declaration) addOrigin(name string, values lookup) {
	d.origins = append(d.origins, origin{name: name, lookup: values})
	d.addValues(values)
}

// addPod adds the first member that has an annotation of the gang, and returns it; nil if none has.
func (d *Declaration) addPod(g Gang) (pod *v1.Pod) {
	if pod = firstPod(g.allPods(), hasGangKeys); pod != nil {
		d.addOrigin("pod "+convert.PodKey(pod), func(key string) (string, bool) { return podValue(pod, key) })
		d.origins[len(d.origins)-1].pod = true
	}
	return pod
}

// addOwner adds g.Owner as an origin, unless it is nil. Its problem becomes the gang's; with Owner.Family, AddFamily reports it.
func (d *Declaration) addOwner(g Gang) {
	if g.Owner == nil {
		return
	}
	d.addOrigin(g.Owner.Key.String(), g.Owner.value)
	d.origins[len(d.origins)-1].owner = true
	if err := g.Owner.Problem; err != nil && !IsFamily(g.Owner.Key.Kind) {
		d.setProblem(err)
		d.note(reasons.InvalidAnnotation, err.Error()) // the user may not look at the owner
	}
}

// fromObject reads the PodGroup g.Object, its owner, and a member for the annotations that both do not have.
func (d *Declaration) fromObject(g Gang) {
	pg := g.Object
	if s := sourceOf(g.Ref.Source); s != nil && s.AddFamily != nil && g.More.Owner != (OwnerKey{}) {
		g.More = d.withFamily(g, s.AddFamily)
	}
	d.Group = g.More.Group
	d.EvictWhole = g.More.EvictWhole
	d.Levels = g.More.Above
	d.Priority = g.More.Priority
	d.NeverPreempts = g.More.NeverPreempts
	d.addOrigin("PodGroup "+convert.Key(pg.Namespace, pg.Name), func(key string) (string, bool) {
		if value, ok := g.More.Values[key]; ok {
			return value, ok
		}
		return annotationValue(pg.Annotations, key)
	})
	d.addOwner(g)
	if owner, ok := OwnerOf(g); ok && g.Owner == nil {
		if d.noteUnreadable(g, owner); g.Expected { // without it, its constraint would be missing
			d.setWaiting(fmt.Sprintf("%s, which owns PodGroup %s, was not found", owner, g.Ref))
		}
	}
	for i, key := range slices.Concat([]string{scheduling.AnnotationMinAvailable}, podAnnotations, exclusiveKeys) {
		if _, found := pg.Annotations[key]; found {
			remedy := []string{"write it in its spec", "write it on the pods"}[min(i, 1)]
			d.note(reasons.InvalidAnnotation, withoutEffect([]string{key}, " on PodGroup "+g.Ref.String(), remedy))
		}
	}
	d.readTasks(g)
	d.Resources = pg.Spec.MinResources
	g.Finished = nil
	if pod := d.addPod(g); pod != nil {
		d.DeclaringPod = convert.PodKey(pod)
	}
	d.setProblem(g.More.Problem)
	d.SubGroups, d.branches = slices.Clone(g.More.SubGroups), g.More.Branches
	d.Notes = append(d.Notes, g.More.Notes...)
	d.UID = string(pg.UID)
	d.Created = pg.CreationTimestamp.Time
	d.Min = max(1, int(pg.Spec.MinMember))
	if pg.Spec.MinMember < 0 { // 0 is an absent value, which means the default, 1
		d.note(reasons.InvalidAnnotation, fmt.Sprintf("spec.minMember: %d is invalid; write an integer ≥ 1; 1 is used", pg.Spec.MinMember))
	}
	if t := pg.Spec.ScheduleTimeoutSeconds; t != nil && *t > 0 {
		d.Wait = time.Duration(*t) * time.Second
	}
	d.leaderWithOwner(g)
}

// leaderWithOwner lets the leader start first in a PodGroup of a LeaderWorkerSet that creates the leader before its workers.
// Such a PodGroup has minMember 1, and total-number is the number of its members.
func (d *Declaration) leaderWithOwner(g Gang) {
	if g.Owner == nil || d.Min != 1 {
		return
	}
	why := g.Owner.LeaderFirst
	if _, exclusive := g.Owner.value(lws.ExclusiveKeyAnnotationKey); exclusive && g.Owner.Key.Kind == leaderWorkerSets.Kind {
		why = workloads.LeaderScheduled
	}
	size, err := scheduling.ParseTotalNumber(d.Values[scheduling.AnnotationTotalNumber])
	if why == "" || err != nil || size < 2 {
		return
	}
	d.leads(size)
	d.Follower = g.Owner.Follower
	d.note(reasons.LeaderFirst, fmt.Sprintf("gang minMember is 1 because %s; the leader is placed where all %d pods fit", why, size))
}

// withFamily returns g.More, extended with family, which reads the owner and the owner's other gangs. A missing object becomes
// d.Problem, or d.TreeObstacle if running members continue without it.
func (d *Declaration) withFamily(g Gang, family func(Gang) More) More {
	if g.Owner != nil {
		g.More = family(g)
	} else if g.More.Problem == nil {
		g.More.WaitsFor = unknownOwner(g.More.Owner, g.Expected)
	}
	if g.More.WaitsFor != "" && g.More.Problem == nil {
		d.Problem = gang.Obstacle{By: gang.Missing, Words: g.More.WaitsFor}
	}
	if g.More.Missing != "" {
		d.TreeObstacle = gang.Obstacle{By: gang.Missing, Words: g.More.Missing}
	}
	return g.More
}

// unknownOwner returns the message that owner key of a gang is unknown. If none of its kind is known, expected is false.
func unknownOwner(key OwnerKey, expected bool) string {
	if expected {
		return fmt.Sprintf("%s, to which the gang belongs, was not found: the gang waits until it exists", key)
	}
	return fmt.Sprintf(
		"%s, to which the gang belongs, was not found, and Muster has read no object of this kind: "+
			"check that the API is served and Muster may read it (manifests/rbac/sources)", key)
}

// fromPods reads the member that describes the gang. It returns false if there is none.
func (d *Declaration) fromPods(g Gang) bool {
	pod := cmp.Or(Declarer(g.Pods), Declarer(g.Finished))
	if pod == nil {
		return false
	}
	d.DeclaringPod, d.Created = convert.PodKey(pod), pod.CreationTimestamp.Time
	d.addOrigin("pod "+d.DeclaringPod, func(key string) (string, bool) { return podValue(pod, key) })
	d.origins[len(d.origins)-1].pod = true
	n, err := minAvailableOf(pod)
	d.setProblem(err)
	d.noMinAvailable = err != nil
	d.Min = max(1, n)
	return true
}

// Declarer returns the member that describes a gang without an object: the first by name with a valid min-available, else the
// first; nil if none describes it.
func Declarer(pods map[string]*v1.Pod) *v1.Pod {
	legal := firstPod(pods, func(pod *v1.Pod) bool {
		_, err := minAvailableOf(pod)
		return err == nil && Describes(pod)
	})
	return cmp.Or(legal, firstPod(pods, Describes))
}

// firstPod returns the first member by name that matches.
func firstPod(pods map[string]*v1.Pod, matches func(*v1.Pod) bool) (found *v1.Pod) {
	name := ""
	for key, pod := range pods {
		if (found == nil || topology.CompareNames(key, name) < 0) && matches(pod) {
			found, name = pod, key
		}
	}
	return found
}

// addValues adds the values of keys that have none yet.
func (d *Declaration) addValues(values func(key string) (string, bool)) {
	for _, key := range allKeys {
		if value, ok := values(key); ok {
			if _, known := d.Values[key]; !known {
				d.Values[key] = value
			}
		}
	}
}

// hasGangKeys says whether a pod has an annotation that is read even if an object declares its gang.
func hasGangKeys(pod *v1.Pod) bool {
	has := func(key string) bool { _, ok := podValue(pod, key); return ok }
	return len(pod.Annotations) > 0 &&
		(slices.ContainsFunc(sharedKeys, has) || slices.ContainsFunc(constraintKeys, has) || slices.ContainsFunc(ignoredKeys, has))
}

// Reached says whether the gang of pg has reached its minimum once, according to the phase or a condition in pg's status.
func Reached(pg *sigs.PodGroup) bool {
	switch pg.Status.Phase {
	case scheduling.PodGroupScheduled, scheduling.PodGroupRunning, scheduling.PodGroupFailed, scheduling.PodGroupFinished:
		return true
	}
	return slices.ContainsFunc([]string{
		scheduling.ConditionScheduled, scheduling.ConditionStarted, initiallyScheduled,
		initiallyScheduledIn36,
	},
		func(condition string) bool { return meta.IsStatusConditionTrue(pg.Status.Conditions, condition) })
}

// HasKoordinatorKeys says whether an object has one of Koordinator's annotations, or an unknown one in their domain.
func HasKoordinatorKeys(pg *sigs.PodGroup) bool {
	return len(scheduling.Unknown(pg.Annotations, pg.Labels)) > 0 ||
		slices.ContainsFunc(allKeys, func(key string) bool { _, ok := annotationValue(pg.Annotations, key); return ok })
}

// MayChangeWith says whether the declaration must be read again after the member pod was added or updated. d is nil if nothing is declared.
func (d *Declaration) MayChangeWith(pod *v1.Pod) bool {
	key := convert.PodKey(pod)
	if d != nil && (d.DeclaringPod == key || d.DependsOnMembers) {
		return true // its annotations may be gone
	}
	if s := sourceOf(GangOf(pod).Source); s != nil && s.Fill != nil &&
		(d == nil || d.DeclaringPod == "" || topology.CompareNames(key, d.DeclaringPod) <= 0) {
		return true
	}
	describes := Describes(pod)
	if !describes && !hasGangKeys(pod) {
		return false
	}
	if d == nil || d.DeclaringPod == "" || d.DeclaringPod == key || topology.CompareNames(key, d.DeclaringPod) < 0 {
		return true
	}
	if d.noMinAvailable && describes {
		return true // this pod's value may be valid
	}
	return slices.ContainsFunc(allKeys, func(k string) bool {
		_, found := podValue(pod, k)
		_, known := d.Values[k]
		return found && !known
	}) || d.ConstraintOrigin == "" && hasGangKeys(pod)
}

// where returns the object and the annotation or field of the constraint.
func (r constraint) where() string {
	if field, ok := strings.CutPrefix(r.key, "spec."); ok {
		field, _, _ = strings.Cut(field, ".")
		return r.origin.name + " field spec." + field
	}
	return r.origin.name + " annotation " + r.key
}

// MaxAhead limits the size of a gang that is planned together with its future members: each of these is a pod in memory.
const MaxAhead = 10_000

// leads lets the leader start first, where all size members of the gang fit. A size above MaxAhead is the gang's problem.
func (d *Declaration) leads(size int) {
	if size > MaxAhead {
		d.setProblem(fmt.Errorf("the gang has %d members, which are created after their leader; use at most %d", size, MaxAhead))
		return
	}
	d.Min, d.Total = 1, size
}

// setProblem makes an error the gang's problem. The first error counts, and takes precedence over what the gang waits for.
func (d *Declaration) setProblem(err error) {
	if err != nil && (!d.Problem.Exists() || d.Problem.By == gang.Missing) {
		d.Problem = gang.Obstacle{By: gang.Declaration, Words: err.Error()}
	}
}

// setWaiting records what the gang waits for before any member starts. The first call counts.
func (d *Declaration) setWaiting(why string) {
	if !d.Problem.Exists() {
		d.Problem = gang.Obstacle{By: gang.Missing, Words: why}
	}
}

// note adds a note for the user.
func (d *Declaration) note(reason, message string) {
	d.Notes = append(d.Notes, Note{reason, message})
}

// noteDefault notes an invalid value for which a default is used.
func (d *Declaration) noteDefault(err error) {
	if err != nil {
		d.note(reasons.InvalidAnnotation, err.Error()+"; the default is used")
	}
}

// read parses the values into the spec. An invalid value becomes the gang's problem, or a note if it has a default.
func (d *Declaration) read(defaults Defaults) {
	if v, ok := d.Values[scheduling.AnnotationGroups]; ok {
		groups, err := scheduling.ParseGroups(v)
		d.setProblem(err)
		for _, name := range groups {
			namespace, name, _ := strings.Cut(name, "/")
			d.Group = append(d.Group, gang.Ref{Source: d.Ref.Source, Namespace: namespace, Name: name})
		}
	}
	if v, ok := d.Values[scheduling.AnnotationMode]; ok {
		mode, err := scheduling.ParseMode(v)
		d.noteDefault(err)
		d.NonStrict = err == nil && mode == scheduling.ModeNonStrict
	}
	if v, ok := d.Values[scheduling.AnnotationMatchPolicy]; ok {
		policy, err := scheduling.ParseMatchPolicy(v)
		if d.noteDefault(err); err == nil {
			d.Policy = gang.MatchPolicy(policy)
		}
	}
	if v, ok := d.Values[scheduling.AnnotationTotalNumber]; ok {
		n, err := scheduling.ParseTotalNumber(v)
		if err == nil && n < d.Min {
			err = fmt.Errorf("%s: %q is invalid; write at least min-available, %d", scheduling.AnnotationTotalNumber, v, d.Min)
		}
		d.noteDefault(err)
	}
	if v, ok := d.Values[scheduling.AnnotationWaitingTime]; ok {
		wait, err := scheduling.ParseWaitingTime(v)
		if d.noteDefault(err); err == nil {
			d.Wait = wait
		}
	}
	d.Moves = defaults.Moves
	if v, ok := d.Values[scheduling.AnnotationRepair]; ok {
		policy, err := scheduling.ParseRepair(v)
		if d.noteDefault(err); err == nil {
			d.Moves = policy == scheduling.RepairMove
		}
	}
	if v, ok := d.Values[scheduling.AnnotationBackfill]; ok {
		_, err := scheduling.ParseBackfill(v)
		d.noteDefault(err)
		d.Evictable = err == nil
	}
	d.readMaxRuntime()
	d.readGather(defaults)
	d.readSubGroups(defaults)
	d.readBranches(defaults)
}

// readMaxRuntime sets d.MaxRuntime to the shortest run time that an object of the gang declares. The value of a member counts for that
// member only: here it is checked, if it is the first one.
func (d *Declaration) readMaxRuntime() {
	for _, s := range d.origins {
		value, ok := s.lookup(scheduling.AnnotationMaxRuntime)
		if !ok || s.pod && value != d.Values[scheduling.AnnotationMaxRuntime] {
			continue
		}
		runtime, err := scheduling.ParseMaxRuntime(value)
		if d.noteDefault(err); err == nil && !s.pod && (d.MaxRuntime == 0 || runtime < d.MaxRuntime) {
			d.MaxRuntime = runtime
		}
	}
}

// readGather parses the first of the origins' topology constraints into d.Gather, and notes the others that differ from it.
func (d *Declaration) readGather(defaults Defaults) {
	all := constraints(d.origins)
	if len(all) == 0 {
		return
	}
	first := all[0]
	got := first.format.read(first.origin.lookup, defaults.Layers)
	d.ReadsLayers = first.key != scheduling.AnnotationTopologySpec
	d.setProblem(got.err)
	if got.err != nil && first.origin.owner { // the user may not look at the owner
		d.note(reasons.InvalidAnnotation, got.err.Error())
	}
	if got.err == nil && !defaults.NetworkTopologyAware {
		d.note(reasons.InvalidAnnotation, first.key+" has no effect: CoschedulingArgs.awareNetworkTopology is false")
		return
	}
	d.Notes = append(d.Notes, got.notes...)
	d.ConstraintOrigin = first.where()
	d.constraint, d.PerGang = first, first.format.perGang
	if d.ReadsLayers || first.origin.owner {
		d.note(reasons.TopologyRule, "rule from "+d.ConstraintOrigin)
	}
	for _, other := range all[1:] {
		if other.key == first.key && other.origin.pod {
			continue // Contradictions reports each pod
		}
		if otherGot := other.format.read(other.origin.lookup, defaults.Layers); !SameGather(otherGot.gather, got.gather) {
			d.note(reasons.InvalidAnnotation, fmt.Sprintf("%s contradicts %s, which is used; remove one of them", other.where(), d.ConstraintOrigin))
		}
	}
	if d.Gather = got.gather; d.Gather == nil {
		return
	}
	d.Multiples = d.Multiples || slices.ContainsFunc(d.Gather.Rules, func(r scheduling.GatherRule) bool { return r.PodCountMultiple > 1 })
	if defaults.Check != nil {
		d.setProblem(defaults.Check(d.Gather))
	}
}

// Same says whether d and e have the same effect on scheduling: notes and origins may differ. nil equals no declaration.
func (d *Declaration) Same(e *Declaration) bool {
	if d == nil || e == nil || d.Moves != e.Moves || d.Evictable != e.Evictable || d.MaxRuntime != e.MaxRuntime ||
		!SameGather(d.Gather, e.Gather) || !slices.Equal(d.Group, e.Group) ||
		!reflect.DeepEqual(d.SubGroups, e.SubGroups) || !maps.Equal(d.Tasks, e.Tasks) || !reflect.DeepEqual(d.Branches, e.Branches) {
		return false
	}
	x, y := d.Spec, e.Spec
	x.Group, y.Group = nil, nil
	return reflect.DeepEqual(x, y)
}

// sortRefs sorts refs in place, by name.
func sortRefs(refs []gang.Ref) {
	slices.SortFunc(refs, func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) })
}

// SameGather says whether two specs have the same constraints.
func SameGather(x, y *scheduling.GatherSpec) bool {
	if x == nil || y == nil {
		return x == y
	}
	return slices.Equal(sortedRules(x), sortedRules(y))
}

// sortedRules returns the rules sorted, since their order has no meaning.
func sortedRules(g *scheduling.GatherSpec) []scheduling.GatherRule {
	return slices.SortedFunc(slices.Values(g.Rules), func(a, b scheduling.GatherRule) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Scope, b.Scope))
	})
}

// Contradictions returns a message for each annotation or PriorityClass of the member pod that contradicts its gang's declaration.
func (d *Declaration) Contradictions(g Gang, pod *v1.Pod) (out []string) {
	class, declarer := g.More.PriorityClass, "PodGroup "+g.Ref.String()
	if g.Object == nil && g.Owner != nil {
		class, declarer = g.Owner.PriorityClass, g.Owner.Key.String()
	}
	if class != "" && class != pod.Spec.PriorityClassName {
		counts := fmt.Sprintf("%q", pod.Spec.PriorityClassName)
		if pod.Spec.PriorityClassName == "" {
			counts = fmt.Sprintf("no PriorityClass and priority %d", convert.Priority(pod))
		}
		out = append(out,
			fmt.Sprintf("spec.priorityClassName: %q of %s has no effect: the pod has %s, which counts; use one existing PriorityClass in both",
				class, declarer, counts))
	}
	if d.Priority != nil && pod.Spec.PriorityClassName != "" && *d.Priority != convert.Priority(pod) {
		out = append(out,
			fmt.Sprintf("spec.priorityClassName: %q of the pod has no effect: gang %s has priority %d, which counts; use one PriorityClass in both",
				pod.Spec.PriorityClassName, g.Ref, *d.Priority))
	}
	return append(out, d.contradictingKeys(g, pod)...)
}

// contradictingKeys returns a message for each annotation of pod with another value than the gang's declaration uses.
func (d *Declaration) contradictingKeys(g Gang, pod *v1.Pod) (out []string) {
	if g.Object == nil && d.DeclaringPod == "" {
		return nil // nothing describes the gang
	}
	sizedBy := ""
	switch {
	case g.Object != nil:
		sizedBy = "PodGroup " + g.Ref.String()
	case g.Owner != nil && g.Owner.Key.Kind != jobs.Kind:
		sizedBy = g.Owner.Key.String()
	}
	if value, found := podValue(pod, scheduling.AnnotationMinAvailable); found && sizedBy != "" {
		if n, err := minAvailableOf(pod); err != nil || n != d.Min+d.Completed && n != d.Total {
			out = append(out, fmt.Sprintf("%s: %q has no effect: %s says how many members start together: %d",
				scheduling.AnnotationMinAvailable, value, sizedBy, max(d.Min+d.Completed, d.Total)))
		}
	}
	_, sized := d.Values[lws.SizeAnnotationKey]
	if len(d.origins) == 0 && !sized {
		return out // its owner is unknown
	}
	keys := sharedKeys
	if Describes(pod) {
		keys = allKeys
	}
	if sized {
		keys = append(slices.Clip(keys), lws.SizeAnnotationKey)
	}
	if d.ConstraintOrigin != "" && d.constraint.key != scheduling.AnnotationTopologySpec { // which sharedKeys contain
		for _, key := range d.constraint.format.keys {
			v, found := podValue(pod, key)
			if counts, _ := d.constraint.origin.lookup(key); found && v != counts {
				out = append(out,
					fmt.Sprintf("%s: %q has no effect: %s is used; write the same on all members", key, v, d.ConstraintOrigin))
			}
		}
	}
	for _, key := range keys {
		name := d.DeclaringPod
		if g.Object != nil {
			if _, found := annotationValue(g.Object.Annotations, key); found {
				name = "PodGroup " + g.Ref.String()
			}
		}
		if i := slices.IndexFunc(d.origins, func(s origin) bool { _, found := s.lookup(key); return found }); i >= 0 && d.origins[i].owner {
			name = d.origins[i].name
		}
		v, found := podValue(pod, key)
		counts := d.Values[key]
		if key == scheduling.AnnotationMinAvailable && sizedBy != "" {
			continue
		}
		if key == scheduling.AnnotationMaxRuntime { // each member's own counts
			if _, err := scheduling.ParseMaxRuntime(v); found && v != counts && err != nil {
				out = append(out, err.Error()+"; it has no effect")
			}
			continue
		}
		if found && v != counts {
			out = append(out, fmt.Sprintf("%s: %q has no effect: %s says %q, which is used; write the same on all members", key, v, name, counts))
		}
	}
	return out
}
