package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Reporter updates the status of objects and records events. It writes each change once, and gathers frequent changes.
type Reporter struct {
	Writer *Writer

	cache             *cache.Cache
	recorder          events.EventRecorder
	options           ReporterOptions
	memory            *memory
	turns             turns
	topologyWriteTime time.Time // when the topology's status was written; only its writer reads it
}

// ReporterOptions are the settings of the process.
type ReporterOptions struct {
	Clock clock.Clock
	// Settle is how long changes of a gang are gathered before its status is written; below 0: write at once, without rate limits.
	Settle time.Duration
	// Busy says whether bindings are running. The status of gangs and quotas is written after them.
	Busy func() bool
	// Topology says that Muster writes the status of the ClusterNetworkTopology.
	Topology bool
	// SpareProblems returns the entries of the argument spares that have no effect with the topology, as text; "" if there are none.
	SpareProblems func() string
	// Unread says that the status of gangs has no reader: it is not written, and no events are recorded for it.
	Unread bool
}

// NewReporter returns a Reporter. The caller must call SetCache before any other method.
func NewReporter(w *Writer, r events.EventRecorder, o ReporterOptions) *Reporter {
	if o.SpareProblems == nil {
		o.SpareProblems = func() string { return "" }
	}
	return &Reporter{Writer: w, recorder: r, options: o, memory: newMemory(), turns: newTurns()}
}

// SetCache sets the cache that the Reporter reads.
func (t *Reporter) SetCache(c *cache.Cache) { t.cache = c }

// The types of events.
const (
	Normal  = v1.EventTypeNormal
	Warning = v1.EventTypeWarning
)

// longestBusy is how long a status waits for bindings, which are more urgent.
const longestBusy = 5 * time.Second

// DoIdle runs do in the background, once for each key: after delay, when no bindings are running or longestBusy has passed. do may
// call mustYield: true means that bindings run again, so that do should stop.
func (t *Reporter) DoIdle(key string, delay time.Duration, do func(ctx context.Context, mustYield func() bool) error) {
	deadline := t.options.Clock.Now().Add(longestBusy)
	t.doIdle(key, delay, deadline, func(ctx context.Context) error { return do(ctx, func() bool { return t.mustYield(deadline) }) })
}

// mustYield says whether bindings are running and deadline has not passed.
func (t *Reporter) mustYield(deadline time.Time) bool {
	return t.options.Busy() && t.options.Clock.Now().Before(deadline)
}

// doIdle is DoIdle with a given deadline. While mustYield is true, it schedules do again.
func (t *Reporter) doIdle(key string, delay time.Duration, deadline time.Time, do func(context.Context) error) {
	t.Writer.DoAfter(key, delay, func(ctx context.Context) error {
		if t.mustYield(deadline) {
			t.doIdle(key, delay, deadline, do)
			return nil
		}
		return do(ctx)
	})
}

// Report schedules the writing of a gang's status and of the queue positions; with options.Unread it does nothing.
func (t *Reporter) Report(ref gang.Ref) {
	if t.options.Unread {
		return
	}
	t.report(ref, t.options.Clock.Now().Add(longestBusy))
	t.schedulePositions()
}

// report schedules the writing of one gang's status. It waits for bindings until deadline.
func (t *Reporter) report(ref gang.Ref, deadline time.Time) {
	t.doIdle("gang "+ref.ID(), t.options.Settle, deadline, func(ctx context.Context) error { return t.writeGang(ctx, ref) })
}

// Pod schedules the writing of a waiting pod's status. The nominated node is that of the pod's reservation when it is written. If
// waiting.Node is "", the node is cleared even if a later call for the pod replaces this one.
func (t *Reporter) Pod(key string, waiting Waiting) {
	if pod := t.cache.Pod(key); pod != nil && waiting.Node != nil && *waiting.Node == "" {
		t.memory.setVoid(key, pod.UID)
	}
	t.Writer.Do("pod "+key, func(ctx context.Context) error {
		return t.turns.runExclusive(ctx, key, func() error { return t.writePod(ctx, key, waiting) })
	})
}

// writePod writes waiting into the status of a pod that is not bound. The pod's reserved node replaces waiting.Node. The nominated node of
// a pod that is being bound does not change. Without a reserved node, the nominated node of a pod for which Pod called setVoid is cleared.
func (t *Reporter) writePod(ctx context.Context, key string, waiting Waiting) error {
	pod := t.cache.Pod(key)
	if pod == nil || pod.Spec.NodeName != "" {
		t.memory.setVoid(key, "")
		return nil
	}
	node, confirmed := t.cache.Place(pod)
	switch {
	case node != "" && confirmed: // the pod is being bound: no later write would clear a nominated node
		waiting.Node = nil
	case node != "":
		waiting.Node = &node // the node of the reservation, whatever waiting says
	case t.memory.isVoid(key, pod.UID):
		waiting.Node = new(string)
	}
	err := t.Writer.Pod(ctx, pod, waiting)
	if err == nil || Permanent(err) {
		t.memory.setVoid(key, "")
	}
	return err
}

// Siblings writes into the status of the representative's pending siblings why they wait. It writes only if nodes are reserved for
// their gang, or if their status still mentions an earlier eviction. Other gangs do not cost a write for each member.
func (t *Reporter) Siblings(representative *v1.Pod, explanation Explained, result Preemption) {
	group, refusal := t.cache.Group(representative)
	if refusal.Exists() {
		return
	}
	preemption := ""
	if result == PreemptionEvicts || result == PreemptionWaits {
		preemption = result.Says(group.Held, len(group.Pending))
	} else {
		explanation.Text = result.After(explanation.Text)
	}
	for _, m := range group.Pending {
		if m.Pod != convert.PodKey(representative) && (len(group.Places) > 0 || mentionsAttempt(group.Pods[m.Pod])) {
			t.Pod(m.Pod, Waiting{Message: Sibling(m.Gang, representative, explanation, preemption, group.Held)})
		}
	}
}

// mentionsAttempt says whether the pod's status mentions an eviction that another member attempted.
func mentionsAttempt(pod *v1.Pod) bool {
	_, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	return condition != nil && strings.Contains(condition.Message, attemptedBy)
}

// Refused returns the text to show for a refused group. A text is shown for textInterval before explanation replaces it. delay is
// the time until then; 0 if explanation is shown.
func (t *Reporter) Refused(group gang.Ref, explanation Explained) (words Explained, delay time.Duration) {
	if t.options.Settle < 0 {
		return explanation, 0
	}
	return t.memory.words(group.ID(), explanation, t.options.Clock.Now())
}

// Placed records that a group has a plan. spread is reported when the group is bound; nil keeps the known spread.
func (t *Reporter) Placed(group gang.Ref, spread []place.Spread) {
	text := spreadText(spread)
	if spread == nil {
		text = t.memory.spreadOf(group)
	}
	t.memory.recordPlan(group, text)
}

// maxDomainNames bounds how many domains are named.
const maxDomainNames = 8

// nameList returns the names of domains for a message, shortened; "" if there are none.
func nameList(names []string) string {
	if len(names) == 0 {
		return ""
	}
	suffix := ""
	if n := len(names) - maxDomainNames; n > 0 {
		names, suffix = names[:maxDomainNames], fmt.Sprintf(" and %d more", n)
	}
	return ": " + strings.Join(names, ", ") + suffix
}

// spreadText returns, for each layer with several domains, their number, in parentheses; "" if there is no such layer.
func spreadText(spread []place.Spread) string {
	var parts []string
	for _, layer := range spread {
		if layer.Touched > 1 {
			parts = append(parts, fmt.Sprintf("%d of %s%s, least possible %d", layer.Touched, layer.Layer, nameList(layer.Names), layer.Least))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (domains touched: " + strings.Join(parts, "; ") + ")"
}

// writeGang updates the status of a gang's PodGroup and records an event if its condition changed.
func (t *Reporter) writeGang(ctx context.Context, ref gang.Ref) error {
	name := ref.ID()
	open := t.cache.Open() // read first: the report of a cache that opens a moment later is incomplete
	r, ok := t.cache.Report(ref)
	if !ok {
		t.memory.forgetGang(ref)
		return nil
	}
	if !open || !r.Served {
		return nil // the cache is incomplete, another process leads, or the gang is another scheduler's
	}
	state := State(r)
	c := Condition(state, r.Domain)
	switch c.Reason {
	case reasons.Scheduled:
		t.memory.forgetMembers(name)
		t.Gang(ref, Normal, c.Reason, c.Message+t.memory.spreadOf(t.cache.Together(ref)[0]))
	case reasons.Preempting:
		t.Gang(ref, Normal, reasons.Reserved, c.Message)
	case reasons.Binding, reasons.Ready, reasons.Finished:
		t.Gang(ref, Normal, c.Reason, c.Message)
	default:
		t.Gang(ref, Warning, c.Reason, c.Message)
	}
	repairing, isRepaired := Repairing(r)
	t.reportRepair(r, repairing, isRepaired)
	promise, isPromised := promiseCondition(state.Promise)
	t.reportPromise(r, promise, isPromised)
	if members := membersSubject(name); t.options.Settle >= 0 && t.memory.isNews(members, memberMessage(r)) {
		t.Writer.DoAfter(members, memberSettle*t.options.Settle, func(context.Context) error { t.reportMembers(ref); return nil })
	}
	if score, ok := t.cache.Score(ref); ok {
		t.Writer.DoAfter("score "+string(score.Object.UID), t.options.Settle, func(ctx context.Context) error { return t.writeScore(ctx, ref) })
	}
	now := metav1.NewTime(t.options.Clock.Now())
	if r.PodGroup != nil && r.Condition != "" {
		old := Conditions{r.PodGroup.Status.Conditions}
		written := InitialConditions(old, r.Condition, c, state.Started, r.PodGroup.Generation, now)
		return t.Writer.Custom(ctx, r.Resource, r.PodGroup, old, withPromise(written, promise, isPromised, now))
	}
	if r.PodGroup == nil || r.ReadOnly {
		return nil
	}
	n := Counts{Bound: r.Bound, Running: r.Running, Succeeded: r.Succeeded, Failed: r.Failed, Owners: r.Owners, Domain: r.Domain}
	n.Position = t.memory.position(ref, r.PodGroup.Status.Position)
	written := PodGroup(r.PodGroup.Status, state, n, now)
	setRepairing(&written, repairing, isRepaired, now)
	setPromise(&written.Conditions, promise, isPromised, now)
	return t.Writer.Custom(ctx, r.Resource, r.PodGroup, r.PodGroup.Status, written)
}

// memberSettle times Settle is how long changes are gathered before the status of a gang's members is written.
const memberSettle = 10

// reportMembers writes into the status of an incomplete gang's members what they wait for, and updates it once the gang is complete.
// A refusal is written to each member once.
func (t *Reporter) reportMembers(ref gang.Ref) {
	r, ok := t.cache.Report(ref)
	if !ok || !t.cache.Open() {
		return
	}
	if isRefused(r.State) {
		t.reportRefusal(r)
		return
	}
	for _, pod := range t.cache.Pending(ref) {
		if len(pod.Spec.SchedulingGates) > 0 || !t.cache.Serves(pod) || !r.Refusal.WaitsForUser() && !hasWaitingCondition(pod) {
			continue
		}
		if ok, reason := t.cache.Admit(pod); !ok {
			t.Pod(convert.PodKey(pod), Waiting{Message: reason + Hint(r), Gated: true})
		} else if !t.cache.State(ref).Refusal.Exists() && r.Refusal.WaitsForUser() {
			// the pod is not in the scheduler's queue, although the gang itself has no obstacle
			t.Pod(convert.PodKey(pod), Waiting{Message: r.Refusal.String(), Gated: true})
		}
	}
}

// Gang records an event on the gang's PodGroup, or on a member if it has none. It records a repeated event at most once a minute.
func (t *Reporter) Gang(ref gang.Ref, kind, reason, message string) {
	name := ref.ID()
	r, ok := t.cache.Report(ref)
	if !ok || !r.Served {
		return
	}
	object, uid := eventObject(r)
	if object == nil {
		return
	}
	if !t.memory.isNews(name, string(uid)+reason+message) || reason == reasons.Ready || reason == reasons.Binding {
		return
	}
	if t.options.Settle >= 0 && t.memory.isRepeated(name, string(uid)+eventKey(reason, message), t.options.Clock.Now()) {
		return // the condition has the message
	}
	t.Note(cache.Note{About: object, Warning: kind == Warning, Reason: reason, Message: message})
}

// eventKey returns the key under which one event a minute is recorded. Refusals of one reason share a key, whatever the message.
func eventKey(reason, message string) string {
	if reason == reasons.Unschedulable || reason == reasons.NeverFits {
		return reason
	}
	return reason + " " + message
}

// eventObject returns the object that events about a gang are on: its PodGroup, or a member; nil if it has neither.
func eventObject(r cache.Report) (runtime.Object, types.UID) {
	switch {
	case r.PodGroup != nil:
		return podGroup(r), r.PodGroup.UID
	case r.EventMember != nil:
		return r.EventMember, r.EventMember.UID
	}
	return nil, ""
}

// PodGroup returns a copy of the gang's PodGroup with the API version and kind that events need; nil if it has none.
func (t *Reporter) PodGroup(ref gang.Ref) *sigs.PodGroup {
	r, ok := t.cache.Report(ref)
	if !ok || r.PodGroup == nil {
		return nil
	}
	return podGroup(r)
}

// podGroup returns Reporter.PodGroup of a gang that has one.
func podGroup(r cache.Report) *sigs.PodGroup {
	pg := r.PodGroup.DeepCopy()
	pg.APIVersion, pg.Kind = r.Resource.GroupVersion().String(), "PodGroup"
	return pg
}

// Note records an event, unless another process leads.
func (t *Reporter) Note(n cache.Note) {
	if !t.cache.Open() {
		return
	}
	kind := Normal
	if n.Warning {
		kind = Warning
	}
	t.recorder.Eventf(n.About, nil, kind, n.Reason, "Scheduling", "%s", Clip(n.Message))
}

// Once records an event if its message differs from the last one under key.
func (t *Reporter) Once(key string, n cache.Note) {
	if t.memory.isNews(key, n.Message) {
		t.Note(n)
	}
}

// topologyInterval is the shortest time between two writes of the ClusterNetworkTopology's status, which is large.
const topologyInterval = time.Second

// Topology schedules the update of the ClusterNetworkTopology's status.
func (t *Reporter) Topology() { t.scheduleTopology(t.options.Settle) }

// scheduleTopology schedules writeTopology after settle. It waits longer if the last write is less than topologyInterval ago.
func (t *Reporter) scheduleTopology(settle time.Duration) {
	t.Writer.DoAfter("topology", settle, func(ctx context.Context) error {
		if delay := t.topologyWriteTime.Add(topologyInterval).Sub(t.options.Clock.Now()); t.options.Settle >= 0 && delay > 0 {
			t.scheduleTopology(delay)
			return nil
		}
		err := t.writeTopology(ctx)
		if err == nil { // else it is retried with growing delays
			t.topologyWriteTime = t.options.Clock.Now()
		}
		return err
	})
}

// writeTopology writes the status of every ClusterNetworkTopology, and records an event if the used one is invalid.
func (t *Reporter) writeTopology(ctx context.Context) error {
	if !t.options.Topology || !t.cache.Open() {
		return nil
	}
	if err := t.writeUnused(ctx); err != nil {
		return err
	}
	net, now := t.cache.Topology(), metav1.NewTime(t.options.Clock.Now())
	spares := t.options.SpareProblems()
	sparesAreNews := t.memory.isNews("spares", spares) && spares != ""
	if sparesAreNews {
		klog.FromContext(ctx).Info("Entries of the argument spares have no effect", "problem", spares)
	}
	if net.Object == nil {
		t.memory.forget("topology")
		return nil
	}
	status := Topology(net.Object, net.Tree, net.Problem, now)
	setSpares(&status.Conditions, net.Object.Generation, spares, now)
	if net.Problem != "" && t.memory.isNews("topology", net.Problem) {
		t.Note(topologyNote(net.Object, reasons.InvalidSpec, net.Problem))
	}
	if sparesAreNews {
		t.Note(topologyNote(net.Object, reasons.InvalidSpares, spares))
	}
	return t.Writer.Custom(ctx, koordinator.ClusterNetworkTopologies, net.Object, net.Object.Status, status)
}

// writeUnused writes into the status of each ClusterNetworkTopology with another name that it has no effect.
func (t *Reporter) writeUnused(ctx context.Context) error {
	for _, object := range t.cache.Unused() {
		status := Unused(object, metav1.NewTime(t.options.Clock.Now()))
		if meta.IsStatusConditionPresentAndEqual(object.Status.Conditions, Ready, metav1.ConditionFalse) &&
			meta.FindStatusCondition(object.Status.Conditions, Ready).Reason == reasons.NotUsed {
			continue // already written
		}
		t.Once("topology "+string(object.UID), topologyNote(object, reasons.NotUsed, notUsedMessage))
		if err := t.Writer.Custom(ctx, koordinator.ClusterNetworkTopologies, object, object.Status, status); err != nil {
			return err
		}
	}
	return nil
}

// topologyNote returns a note about an invalid ClusterNetworkTopology.
func topologyNote(object *koordinator.ClusterNetworkTopology, reason, message string) cache.Note {
	reference := object.DeepCopy()
	reference.APIVersion, reference.Kind = koordinator.GroupVersion.String(), "ClusterNetworkTopology"
	return cache.Note{About: reference, Warning: true, Reason: reason, Message: message}
}
