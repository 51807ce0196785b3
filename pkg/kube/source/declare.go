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

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// describing are the annotations that describe a gang, wherever they stand; those of
// itself only on the members of a gang without an object.
var (
	describing = []string{
		scheduling.AnnotationTopologySpec, scheduling.AnnotationGroups, scheduling.AnnotationMode,
		scheduling.AnnotationMatchPolicy, scheduling.AnnotationWaitingTime,
	}
	itself = []string{scheduling.AnnotationMinAvailable, scheduling.AnnotationTotalNumber}
	every  = slices.Concat(describing, itself)
)

// aliases are other names of describing annotations.
var aliases = map[string]string{scheduling.AnnotationMatchPolicy: scheduling.AnnotationMatchPolicyAlias}

// said is what annotations say under a key, or under its other name.
func said(annotations map[string]string, key string) (value string, ok bool) {
	if value, ok = annotations[key]; !ok && aliases[key] != "" {
		value, ok = annotations[aliases[key]]
	}
	return value, ok
}

// saidBy is what a pod says of its gang under a key. The deprecated label counts before the
// annotation.
func saidBy(pod *v1.Pod, key string) (value string, ok bool) {
	if key == scheduling.AnnotationMinAvailable {
		if value, ok = pod.Labels[scheduling.LabelMinAvailable]; ok {
			return value, ok
		}
	}
	return said(pod.Annotations, key)
}

// leastOf is how many members a pod says that its gang needs.
func leastOf(pod *v1.Pod) (int, error) {
	if value, ok := pod.Labels[scheduling.LabelMinAvailable]; ok {
		return scheduling.ParseLabelMinAvailable(value)
	}
	return scheduling.ParseMinAvailable(pod.Annotations[scheduling.AnnotationMinAvailable])
}

// Declare reads what is declared of a gang: nothing, if no object does it and no member
// describes it.
func Declare(g Gang, d Defaults) (*Declaration, bool) {
	out := &Declaration{Spec: gang.Spec{Ref: g.Ref, Min: 1, Wait: d.Wait, Policy: d.Policy}, Says: map[string]string{}}
	s := of(g.Ref.Source)
	switch {
	case s != nil && s.Fill != nil:
		pod := first(g.any(), func(*v1.Pod) bool { return true })
		if pod == nil {
			return nil, false
		}
		out.By, out.Created = convert.PodKey(pod), pod.CreationTimestamp.Time
		if g.Owner == nil && (s.Needs || g.Expected) {
			out.orphaned(g, s, pod)
			return out, true
		}
		out.notRead(g, OwnerKey{s.Owner.Kind, pod.Namespace, s.OwnerName(pod)})
		s.Fill(out, g)
	case g.Object != nil:
		out.fromObject(g)
	case !out.fromPods(g):
		return denied(g, s, out)
	}
	if s == nil || s.Fill == nil {
		out.shrink(g)
	}
	out.read(d)
	out.unread()
	return out, true
}

// shrink lowers the minimum to what the Jobs of the members still make, and members that are of none.
func (d *Declaration) shrink(g Gang) {
	size, left := 0, 0
	for _, job := range g.Children {
		size, left = size+job.Size, left+job.Left
	}
	if least := max(1, left+max(0, d.Min-size)); len(g.Children) > 0 && least < d.Min {
		d.Min, d.Completed = least, d.Min-least
	}
}

// speaker is somebody who says something of the gang, after those who have spoken.
func (d *Declaration) speaker(who string, says words) {
	d.speakers = append(d.speakers, speaker{who: who, says: says})
	d.saySo(says)
}

// speakerPod is the first member that says something, if any does.
func (d *Declaration) speakerPod(g Gang) (pod *v1.Pod) {
	if pod = first(g.any(), speaks); pod != nil {
		d.speaker("pod "+convert.PodKey(pod), func(key string) (string, bool) { return saidBy(pod, key) })
		d.speakers[len(d.speakers)-1].pod = true
	}
	return pod
}

// speakerOwner is the object that owns the gang, if it is known. What is wrong with it is the gang's problem;
// a family says that itself.
func (d *Declaration) speakerOwner(g Gang) {
	if g.Owner == nil {
		return
	}
	d.speaker(g.Owner.Key.String(), g.Owner.says)
	d.speakers[len(d.speakers)-1].owner = true
	if err := g.Owner.Problem; err != nil && !IsFamily(g.Owner.Key.Kind) {
		d.problem(err)
		d.note(InvalidAnnotation, err.Error()) // who looks at the owner does not see its gangs
	}
}

// fromObject reads a PodGroup. What it does not say its members may.
func (d *Declaration) fromObject(g Gang) {
	pg := g.Object
	if s := of(g.Ref.Source); s != nil && s.Family != nil && g.More.Owner != (OwnerKey{}) {
		g.More = d.withFamily(g, s.Family)
	}
	d.Group, d.Whole, d.Above, d.Priority, d.Never = g.More.Group, g.More.Whole, g.More.Above, g.More.Priority, g.More.Never
	d.speaker("PodGroup "+convert.Key(pg.Namespace, pg.Name), func(key string) (string, bool) {
		if value, ok := g.More.Words[key]; ok {
			return value, ok
		}
		return said(pg.Annotations, key)
	})
	d.speakerOwner(g)
	if owner, ok := OwnerOf(g); ok && g.Owner == nil {
		if d.notRead(g, owner); g.Expected { // its rule would be missing
			d.waits(fmt.Sprintf("%s, which owns PodGroup %s, is not known", owner, g.Ref))
		}
	}
	d.tasks(g)
	d.Resources = pg.Spec.MinResources
	g.Done = nil
	if pod := d.speakerPod(g); pod != nil {
		d.By = convert.PodKey(pod)
	}
	d.problem(g.More.Problem)
	d.SubGroups, d.branches = slices.Clone(g.More.SubGroups), g.More.Branches
	d.Notes = append(d.Notes, g.More.Notes...)
	d.UID, d.Created, d.Min = string(pg.UID), pg.CreationTimestamp.Time, max(1, int(pg.Spec.MinMember))
	if pg.Spec.MinMember < 0 { // without a value it is 0, and the default 1
		d.note(InvalidAnnotation, fmt.Sprintf("spec.minMember: %d is invalid; supported values: an integer ≥ 1; 1 is used", pg.Spec.MinMember))
	}
	if t := pg.Spec.ScheduleTimeoutSeconds; t != nil && *t > 0 {
		d.Wait = time.Duration(*t) * time.Second
	}
	d.leaderOfOwner(g)
}

// leaderOfOwner is for a PodGroup of a LeaderWorkerSet that makes the leader before its workers: a minimum of 1 says that it
// starts alone, total-number how many there will be.
func (d *Declaration) leaderOfOwner(g Gang) {
	if g.Owner == nil || d.Min != 1 {
		return
	}
	why := g.Owner.LeaderFirst
	if _, exclusive := g.Owner.says(lws.ExclusiveKeyAnnotationKey); exclusive && g.Owner.Key.Kind == leaderWorkerSets.Kind {
		why = workloads.LeaderScheduled
	}
	size, err := scheduling.ParseTotalNumber(d.Says[scheduling.AnnotationTotalNumber])
	if why == "" || err != nil || size < 2 {
		return
	}
	d.leads(size)
	d.Follower = g.Owner.Follower
	d.note(LeaderFirst, fmt.Sprintf("gang minMember is 1 because %s; the leader goes where all %d pods find room", why, size))
}

// withFamily is what an object says together with its owner and the other gangs of that.
func (d *Declaration) withFamily(g Gang, family func(Gang) More) More {
	if g.Owner != nil {
		g.More = family(g)
	} else if g.More.Problem == nil {
		g.More.Waits = unknownOwner(g.More.Owner, g.Expected)
	}
	if g.More.Waits != "" && g.More.Problem == nil {
		d.Problem = gang.Refusal{By: gang.Missing, Words: g.More.Waits}
	}
	if g.More.Lacks != "" {
		d.Lacks = gang.Refusal{By: gang.Missing, Words: g.More.Lacks}
	}
	return g.More
}

// unknownOwner says that an object is not known which a gang names.
func unknownOwner(key OwnerKey, expected bool) string {
	if expected {
		return fmt.Sprintf("%s, which the gang names, is not known", key)
	}
	return fmt.Sprintf("%s, which the gang names, is not known: none is read; is its API served, and is that permitted (manifests/rbac/sources)?", key)
}

// fromPods reads the member that describes the gang, and says whether there is one.
func (d *Declaration) fromPods(g Gang) bool {
	pod := cmp.Or(Declarer(g.Pods), Declarer(g.Done))
	if pod == nil {
		return false
	}
	d.By, d.Created = convert.PodKey(pod), pod.CreationTimestamp.Time
	d.speaker("pod "+d.By, func(key string) (string, bool) { return saidBy(pod, key) })
	n, err := leastOf(pod)
	d.problem(err)
	d.noLeast = err != nil
	d.Min = max(1, n)
	return true
}

// Declarer returns the member that describes a gang without an object: the first by name
// with a legal min-available, else the first; nil if none describes it.
func Declarer(pods map[string]*v1.Pod) *v1.Pod {
	legal := first(pods, func(pod *v1.Pod) bool {
		_, err := leastOf(pod)
		return err == nil && Describes(pod)
	})
	return cmp.Or(legal, first(pods, Describes))
}

// first returns the first member by name for which is holds.
func first(pods map[string]*v1.Pod, is func(*v1.Pod) bool) (first *v1.Pod) {
	name := ""
	for key, pod := range pods {
		if (first == nil || topology.CompareNames(key, name) < 0) && is(pod) {
			first, name = pod, key
		}
	}
	return first
}

// saySo adds what is not said yet.
func (d *Declaration) saySo(says func(key string) (string, bool)) {
	for _, key := range every {
		if value, ok := says(key); ok {
			if _, already := d.Says[key]; !already {
				d.Says[key] = value
			}
		}
	}
}

// speaks says whether a pod has something to say of its gang.
func speaks(pod *v1.Pod) bool {
	says := func(key string) bool { _, ok := saidBy(pod, key); return ok }
	return len(pod.Annotations) > 0 && (slices.ContainsFunc(describing, says) || slices.ContainsFunc(ruleKeys, says) || slices.ContainsFunc(unreadKeys, says))
}

// Reached says whether an object says that its gang was whole once.
func Reached(pg *sigs.PodGroup) bool {
	switch pg.Status.Phase {
	case scheduling.PodGroupScheduled, scheduling.PodGroupRunning, scheduling.PodGroupFailed, scheduling.PodGroupFinished:
		return true
	}
	return slices.ContainsFunc([]string{scheduling.ConditionScheduled, scheduling.ConditionStarted, initiallyScheduled, initiallyScheduledIn36},
		func(condition string) bool { return meta.IsStatusConditionTrue(pg.Status.Conditions, condition) })
}

// Speaks says whether an object says anything in Koordinator's words, or tries to.
func Speaks(pg *sigs.PodGroup) bool {
	return len(scheduling.Unknown(pg.Annotations, pg.Labels)) > 0 || slices.ContainsFunc(every, func(key string) bool { _, ok := said(pg.Annotations, key); return ok })
}

// MayChangeWith says whether the declaration may be another one because of a member that is
// new, or says something else now. d is nil if nothing is declared.
func (d *Declaration) MayChangeWith(pod *v1.Pod) bool {
	key := convert.PodKey(pod)
	if d != nil && (d.By == key || d.Counts) {
		return true // it may have nothing to say any more
	}
	if s := of(Of(pod).Source); s != nil && s.Fill != nil && (d == nil || d.By == "" || topology.CompareNames(key, d.By) <= 0) {
		return true
	}
	describes := Describes(pod)
	if !describes && !speaks(pod) {
		return false
	}
	if d == nil || d.By == "" || d.By == key || topology.CompareNames(key, d.By) < 0 {
		return true
	}
	if d.noLeast && describes {
		return true // this one's may be legal
	}
	return slices.ContainsFunc(every, func(k string) bool {
		_, says := saidBy(pod, k)
		_, already := d.Says[k]
		return says && !already
	}) || d.Rule == "" && speaks(pod)
}

// where names who says the rule, and where.
func (r rule) where() string {
	if field, ok := strings.CutPrefix(r.key, "spec."); ok {
		field, _, _ = strings.Cut(field, ".")
		return r.speaker.who + " field spec." + field
	}
	return r.speaker.who + " annotation " + r.key
}

// MaxAhead is the largest gang whose first member is planned together with all that are to come: each
// of them is a pod in memory, and anybody may write a size.
const MaxAhead = 10_000

// leads is for a gang of so many members whose first one comes before the others.
func (d *Declaration) leads(size int) {
	if size > MaxAhead {
		d.problem(fmt.Errorf("the gang has %d members, which come after their leader; supported values: at most %d", size, MaxAhead))
		return
	}
	d.Min, d.Total = 1, size
}

// problem notes what cannot be ignored. The first one counts, and before it nothing that is
// only waited for.
func (d *Declaration) problem(err error) {
	if err != nil && (!d.Problem.Is() || d.Problem.By == gang.Missing) {
		d.Problem = gang.Refusal{By: gang.Declaration, Words: err.Error()}
	}
}

// waits notes what must come before anybody starts. The first counts.
func (d *Declaration) waits(why string) {
	if !d.Problem.Is() {
		d.Problem = gang.Refusal{By: gang.Missing, Words: why}
	}
}

// note notes what people should know.
func (d *Declaration) note(reason, message string) {
	d.Notes = append(d.Notes, Note{reason, message})
}

// bad notes a value for which a default is used.
func (d *Declaration) bad(err error) {
	if err != nil {
		d.note(InvalidAnnotation, err.Error()+"; the default is used")
	}
}

// read takes what is said under the annotations' keys into the spec. What cannot be ignored
// becomes the gang's problem, what has a default a note.
func (d *Declaration) read(defaults Defaults) {
	if v, ok := d.Says[scheduling.AnnotationGroups]; ok {
		groups, err := scheduling.ParseGroups(v)
		d.problem(err)
		for _, name := range groups {
			namespace, name, _ := strings.Cut(name, "/")
			d.Group = append(d.Group, gang.Ref{Source: d.Ref.Source, Namespace: namespace, Name: name})
		}
	}
	if v, ok := d.Says[scheduling.AnnotationMode]; ok {
		mode, err := scheduling.ParseMode(v)
		d.bad(err)
		d.NonStrict = err == nil && mode == scheduling.ModeNonStrict
	}
	if v, ok := d.Says[scheduling.AnnotationMatchPolicy]; ok {
		policy, err := scheduling.ParseMatchPolicy(v)
		if d.bad(err); err == nil {
			d.Policy = gang.MatchPolicy(policy)
		}
	}
	if v, ok := d.Says[scheduling.AnnotationTotalNumber]; ok {
		n, err := scheduling.ParseTotalNumber(v)
		if err == nil && n < d.Min {
			err = fmt.Errorf("%s: %q is invalid; supported values: at least min-available, %d", scheduling.AnnotationTotalNumber, v, d.Min)
		}
		d.bad(err)
	}
	if v, ok := d.Says[scheduling.AnnotationWaitingTime]; ok {
		wait, err := scheduling.ParseWaitingTime(v)
		if d.bad(err); err == nil {
			d.Wait = wait
		}
	}
	d.readGather(defaults)
	d.readSubGroups(defaults)
	d.readBranches(defaults)
}

// readGather reads how the members gather: the rule that counts.
func (d *Declaration) readGather(defaults Defaults) {
	all := rules(d.speakers)
	if len(all) == 0 {
		return
	}
	r := all[0]
	says := r.language.read(r.speaker.says, defaults.Layers)
	d.ReadsLayers = r.key != scheduling.AnnotationTopologySpec
	d.problem(says.err)
	if says.err != nil && r.speaker.owner { // who looks at that does not see its gangs
		d.note(InvalidAnnotation, says.err.Error())
	}
	if says.err == nil && !defaults.Aware {
		d.note(InvalidAnnotation, r.key+" has no effect: CoschedulingArgs.awareNetworkTopology is false")
		return
	}
	d.Notes = append(d.Notes, says.notes...)
	d.Rule = r.where()
	d.rule, d.Apart = r, r.language.apart
	if d.ReadsLayers || r.speaker.owner {
		d.note(TopologyRule, "rule from "+d.Rule)
	}
	for _, other := range all[1:] {
		if other.key == r.key && other.speaker.pod {
			continue // each pod is told for itself, see Contradictions
		}
		if got := other.language.read(other.speaker.says, defaults.Layers); !SameGather(got.gather, says.gather) {
			d.note(InvalidAnnotation, fmt.Sprintf("%s says something else than %s, which is used", other.where(), d.Rule))
		}
	}
	if d.Gather = says.gather; d.Gather == nil {
		return
	}
	d.Multiples = d.Multiples || slices.ContainsFunc(d.Gather.Rules, func(r scheduling.GatherRule) bool { return r.PodCountMultiple > 1 })
	if defaults.Check != nil {
		d.problem(defaults.Check(d.Gather))
	}
}

// Same says whether two declarations mean the same gang to the book.
func (d *Declaration) Same(e *Declaration) bool {
	if d == nil || e == nil || !SameGather(d.Gather, e.Gather) || !slices.Equal(d.Group, e.Group) ||
		!reflect.DeepEqual(d.SubGroups, e.SubGroups) || !maps.Equal(d.Tasks, e.Tasks) || !reflect.DeepEqual(d.Branches, e.Branches) {
		return false
	}
	x, y := d.Spec, e.Spec
	x.Group, y.Group = nil, nil
	return reflect.DeepEqual(x, y)
}

// sortRefs orders the gangs of a group.
func sortRefs(refs []gang.Ref) {
	slices.SortFunc(refs, func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) })
}

// SameGather says whether two specs ask for the same.
func SameGather(x, y *scheduling.GatherSpec) bool {
	if x == nil || y == nil {
		return x == y
	}
	return slices.Equal(sortedRules(x), sortedRules(y))
}

// sortedRules are the rules in one order: theirs has no meaning.
func sortedRules(g *scheduling.GatherSpec) []scheduling.GatherRule {
	return slices.SortedFunc(slices.Values(g.Rules), func(a, b scheduling.GatherRule) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Scope, b.Scope))
	})
}

// Contradictions lists where a member says something else of its gang than what counts.
func (d *Declaration) Contradictions(g Gang, pod *v1.Pod) (out []string) {
	if class := g.More.PriorityClass; g.Object != nil && class != "" && class != pod.Spec.PriorityClassName {
		out = append(out, fmt.Sprintf("spec.priorityClassName: %q of PodGroup %s has no effect: the pod's, %q, counts; supported values: the same on both", class, g.Ref, pod.Spec.PriorityClassName))
	}
	if d.Priority != nil && pod.Spec.PriorityClassName != "" && *d.Priority != convert.Priority(pod) {
		out = append(out, fmt.Sprintf("spec.priorityClassName: %q has no effect: the priority of gang %s, %d, counts; supported values: the same on both", pod.Spec.PriorityClassName, g.Ref, *d.Priority))
	}
	return append(out, d.others(g, pod)...)
}

// others lists where a member says something else under the keys of annotations than what counts.
func (d *Declaration) others(g Gang, pod *v1.Pod) (out []string) {
	if g.Object == nil && d.By == "" {
		return nil // nothing describes the gang
	}
	_, sized := d.Says[lws.SizeAnnotationKey]
	if len(d.speakers) == 0 && !sized {
		return nil // its owner is not known, and nobody was asked
	}
	keys := describing
	if Describes(pod) {
		keys = every
	}
	if sized {
		keys = append(slices.Clip(keys), lws.SizeAnnotationKey)
	}
	if d.Rule != "" && d.rule.key != scheduling.AnnotationTopologySpec { // which is one of keys
		for _, key := range d.rule.language.keys {
			v, says := saidBy(pod, key)
			if counts, _ := d.rule.speaker.says(key); says && v != counts {
				out = append(out, fmt.Sprintf("%s: %q is not what counts; supported values: the same on all members; %s is used", key, v, d.Rule))
			}
		}
	}
	for _, key := range keys {
		who := d.By
		if g.Object != nil {
			if _, its := said(g.Object.Annotations, key); its {
				who = "PodGroup " + g.Ref.String()
			}
		}
		if i := slices.IndexFunc(d.speakers, func(s speaker) bool { _, its := s.says(key); return its }); i >= 0 && d.speakers[i].owner {
			who = d.speakers[i].who
		}
		v, says := saidBy(pod, key)
		if counts := d.Says[key]; says && v != counts {
			out = append(out, fmt.Sprintf("%s: %q is not what %s says; supported values: the same on all members; %q is used", key, v, who, counts))
		}
	}
	return out
}
