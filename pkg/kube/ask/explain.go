package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// State is the state of a gang (see simulate.State), or what the scheduler would do with the gang now.
type State = simulate.State

// States of gangs. Only Starts and Evicts are not reasons of conditions.
const (
	Scheduled           = simulate.Scheduled
	Waiting             = simulate.Waiting
	Starts        State = "Starts" // the gang waits, and would be Scheduled now
	Evicts        State = "Evicts" // the gang waits, and would be Preempting now
	Preempting    State = reasons.Preempting
	Unschedulable State = reasons.Unschedulable
	NeverFits     State = reasons.NeverFits
	Rejected      State = reasons.Rejected
	conflict      State = reasons.TopologySpecConflict
)

// Explanation says why a gang waits, or where it runs.
type Explanation struct {
	Gang     string    `json:"gang"`
	State    State     `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Members  Members   `json:"members"`
	WaitsFor string    `json:"waitsFor,omitempty"` // one sentence
	// Warnings are the mistakes in what the user wrote of the gang, as events report them.
	Warnings []string `json:"warnings,omitempty"`
	// Next is what the scheduler would do now if nothing else happens; nil if it would do nothing.
	Next *Next `json:"next,omitempty"`
	// Reason is the scheduler's own message.
	Reason  string   `json:"reason,omitempty"`
	Remedy  *Remedy  `json:"cure,omitempty"`
	Domains []Domain `json:"domains,omitempty"`
	Layer   string   `json:"layer,omitempty"` // of the domains
	// Heterogeneous says that the members differ in their requests. Slots then count the most demanding members, except where a plan has
	// counted all members.
	Heterogeneous bool           `json:"unlike,omitempty"`
	Queue         *QueuePosition `json:"queue,omitempty"`
	Start         *Start         `json:"start,omitempty"`   // of an unschedulable gang
	Holders       []Holder       `json:"holders,omitempty"` // of reserved nodes that the gang must respect
	Placement     *Placement     `json:"where,omitempty"`
	// PastEvents are earlier events of the gang in a live cluster, the latest last.
	PastEvents []PastEvent `json:"told,omitempty"`
	at         time.Time
}

// At returns the time of the explained state.
func (e *Explanation) At() time.Time { return e.at }

// Members are counts of members.
type Members struct {
	Exist    int `json:"exist"`
	Bound    int `json:"bound"`
	Finished int `json:"finished,omitempty"` // counted as bound
	Min      int `json:"min"`
}

func (m Members) String() string { return fmt.Sprintf("%d/%d", m.Bound, m.Min) }

// Next is what the scheduler would do with a waiting gang.
type Next struct {
	Domain string   `json:"domain"` // where the gang starts; "" is the whole cluster
	Nodes  []string `json:"nodes"`  // of the gang's own members
	// Evicts are the victims, as namespace/name on node: first those on its nodes, then the rest of their bundles.
	Evicts      []string `json:"evicts,omitempty"`
	Terminating []string `json:"leave,omitempty"` // pods on its nodes that terminate for another reason
	// Rivals are the gangs whose members may take its nodes before it starts.
	Rivals []string `json:"takers,omitempty"`
	// Why explains the choice of victims; nil if they already terminate, or if there are none.
	Why *status.Explanation `json:"why,omitempty"`

	inTheWay int // number of victims on its nodes, the first in Evicts
}

// Remedy is what makes the scheduler retry the gang.
type Remedy struct {
	Message string   `json:"words"`
	Plugins []string `json:"plugins,omitempty"` // that reject it
	Events  []string `json:"events,omitempty"`  // that these plugins wait for
}

// QueuePosition is a gang's position in the queue.
type QueuePosition struct {
	Position int      `json:"position"` // from 1; 0 if the gang is not tried
	Of       int      `json:"of"`
	Ahead    []string `json:"ahead,omitempty"`
}

// Holder is a gang with reserved nodes.
type Holder struct {
	Gang     string   `json:"gang"`
	Priority int32    `json:"priority"`
	Nodes    []string `json:"nodes"`
}

// Placement is the placement of a gang that runs.
type Placement struct {
	Domain string `json:"domain"` // the deepest that holds all members; "" is the whole cluster
	// Touched counts the domains of each layer that hold members. LeastPossible counts the domains that the gang would need on
	// empty nodes. Both go from the top layer down.
	Touched       []Layer `json:"touched"`
	LeastPossible []Layer `json:"leastPossible"`
}

// Layer counts domains of a layer.
type Layer struct {
	Layer   string `json:"layer"`
	Domains int    `json:"domains"`
}

// Explain returns why a gang waits or where it runs. It runs the scheduler until the gang's state is final.
func (v *View) Explain(ctx context.Context, t Target) (*Explanation, error) {
	return v.explain(ctx, t, v.evicts)
}

// explain is Explain. The scheduler also stops when early is true for the gang (see SettleEarly).
func (v *View) explain(ctx context.Context, t Target, early func(gang.Ref) bool) (*Explanation, error) {
	ref, err := v.find(t)
	if err != nil {
		return nil, err
	}
	atStart, members := v.initial[ref], v.members(ref)
	e := &Explanation{Gang: ref.String(), at: v.at, Since: v.since(ref, atStart, members), Queue: v.placeOf(ref)}
	pending := v.cache().Pending(ref)
	running, _ := v.cache().Running(ref)
	if len(pending) == 0 && hasMinimum(atStart) {
		e.setMembers(atStart)
		e.State = State(status.Condition(atStart.State, "").Reason)
		if len(running) == 0 {
			e.WaitsFor = "Nothing: its members have finished."
			return e, nil
		}
		e.Placement, err = v.placementOf(ctx, ref, running)
		return e, err
	}
	now := &Topology{}
	if e.Queue != nil && len(e.Queue.Ahead) > 0 {
		if now, err = v.Topology(ctx, SlotSize{Gang: &t}); err != nil {
			return nil, err
		}
	}
	e.Holders = v.holders(pending)
	v.examined = v.group(ref)
	known := func() bool { return v.decided(ref) && !v.Shared().RevokesLater() }
	if err := v.SettleEarly(ctx, func() bool { return early(ref) }, known); err != nil {
		return nil, err
	}
	if err := v.explainWaiting(ctx, e, ref, atStart); err != nil {
		return nil, err
	}
	if e.State == Unschedulable {
		if err := v.explainStart(ctx, e, ref); err != nil {
			return nil, err
		}
	}
	v.showRepair(ref, &e.State, &e.WaitsFor)
	e.Warnings = warningsAbout(v.Warnings(), ref, slices.Concat(members, running))
	for i := range e.Domains {
		d := &e.Domains[i]
		if b := now.Find(d.Path); b != nil && b.Layer != "" && b.Free != d.Slots && !e.Heterogeneous {
			d.FreeNow = &b.Free
		}
	}
	if len(running) > 0 {
		if e.Placement, err = v.placementOf(ctx, ref, running); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// explainStart sets e.Start. If ends are declared, the scheduler runs on first: gangs behind this one may take nodes before it.
func (v *View) explainStart(ctx context.Context, e *Explanation, ref gang.Ref) error {
	if v.anyEnd() {
		if err := v.Settle(ctx, nil); err != nil {
			return err
		}
	}
	starts, err := v.starts(ctx, v.group(ref))
	e.Start = starts[v.group(ref)]
	return err
}

// showRepair sets an incomplete gang's state and sentence to the reason and message of its condition Repairing. A gang whose replacements
// start now or evict pods keeps its state and sentence.
func (v *View) showRepair(ref gang.Ref, state *State, waitsFor *string) {
	r, _ := v.cache().Report(ref)
	repair := simulate.RepairOf(r)
	if repair == nil || *state != reasons.Ready && *state != Waiting && *state != Unschedulable {
		return
	}
	*state, *waitsFor = repair.State, sentence(repair.Message)
	if pg := v.initial[ref].PodGroup; pg != nil {
		c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionRepairing)
		if c != nil && State(c.Reason) == repair.State { // it has the time at which the hold ends
			*waitsFor = sentence(c.Message)
		}
	}
}

// warningsAbout returns the texts of the warnings about the gang's PodGroup, members and their controllers, each message once.
func warningsAbout(warnings []simulate.Event, ref gang.Ref, members []*v1.Pod) (all []string) {
	about := map[string]bool{"PodGroup " + ref.Namespace + "/" + ref.Name: true}
	for _, pod := range members {
		about["Pod "+convert.PodKey(pod)] = true
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			about[owner.Kind+" "+convert.Key(pod.Namespace, owner.Name)] = true
		}
	}
	said := map[string]bool{}
	for _, w := range warnings {
		if about[w.Object] && !said[w.Message] {
			said[w.Message] = true
			all = append(all, w.Object+": "+w.Message)
		}
	}
	return all
}

// hasMinimum says whether a gang has minMember bound members, including finished members.
func hasMinimum(r cache.Report) bool {
	return status.Condition(r.State, "").Status == metav1.ConditionTrue
}

// decided says whether the gang's state is final: more scheduling cycles do not change it unless the cluster changes.
func (v *View) decided(ref gang.Ref) bool {
	r, ok := v.cache().Report(ref)
	last, tried := v.lastAttempts[v.group(ref)]
	switch {
	case !ok:
		return true
	case r.Reserved: // a reservation from the start may be dropped, or lost to a gang of higher priority
		return tried && !v.higherPriorityBehind(ref)
	case hasMinimum(r):
		// For a gang that had its minimum at the start, the question is about its remaining members.
		return len(v.cache().Pending(ref)) == 0 || r.Planned == 0 && (tried || !hasMinimum(v.initial[ref]))
	case r.Planned > 0:
		return false // members are being bound
	}
	// A plan that excludes nodes for a while (Avoided) is not final.
	if r.Refusal.By == gang.Veto || r.Refusal.By == gang.Quota && !r.Refusal.Evictable {
		return true
	}
	return last.refusal != nil && len(last.refusal.Avoided) == 0 && (r.Refusal.By == gang.Plan || r.Refusal.By == gang.Template)
}

// evicts says whether the scheduler has decided all evictions for the gang, and no other gang may take the nodes. Then the answer is
// known before any eviction is requested, and the requests need not be simulated.
func (v *View) evicts(ref gang.Ref) bool {
	r, ok := v.cache().Report(ref)
	return ok && r.Reserved && !hasMinimum(r) && v.Eviction(ref) != nil && v.decided(ref) &&
		v.hasPlaces(ref) && !v.BindingInProgress() && len(v.rivals(ref)) == 0
}

// higherPriorityBehind says whether a gang behind ref in the queue has higher priority, so that it may take ref's reserved nodes.
// (A gang that was partly bound at the start is tried before gangs of higher priority.)
func (v *View) higherPriorityBehind(ref gang.Ref) bool {
	mine := v.members(ref)
	return len(mine) > 0 && slices.ContainsFunc(v.queue[slices.Index(v.queue, ref)+1:], func(other gang.Ref) bool {
		theirs := v.members(other)
		return len(theirs) > 0 && !v.initial[other].Refusal.WaitsForUser() && v.cache().Priority(theirs[0]) > v.cache().Priority(mine[0])
	})
}

// setMembers sets e.Members from a report.
func (e *Explanation) setMembers(r cache.Report) {
	e.Members = Members{Exist: r.Exist, Bound: r.Bound, Finished: r.Done, Min: r.Min}
}

// explainWaiting fills e for a gang that waited at the start (report atStart), from its state after the scheduler has run.
func (v *View) explainWaiting(ctx context.Context, e *Explanation, ref gang.Ref, atStart cache.Report) error {
	e.setMembers(atStart)
	r, ok := v.cache().Report(ref)
	if !ok {
		e.State = Waiting
		return nil
	}
	var missed string
	if e.State, missed = v.StateOf(ref, r); missed != "" {
		e.unknown(missed)
		return nil
	}
	switch {
	case e.State == Scheduled && !hasMinimum(atStart):
		e.State = Starts
	case e.State == Preempting && v.hasPlaces(ref) && v.Eviction(ref) != nil:
		e.State = Evicts
	}
	l := v.lastAttempts[v.group(ref)]
	if (e.State == Unschedulable || e.State == NeverFits) && l.domains == nil { // the scheduler did not try this gang in detail
		trial, err := v.try(ctx, ref)
		if err != nil {
			return err
		}
		l = attemptResult{} // the gang cannot be planned, and the condition says why
		if trial != nil {
			l = v.readAttempt(ctx, *trial, true)
		}
	}
	e.Domains = l.domains
	e.Layer = l.layer
	e.Heterogeneous = l.heterogeneous
	condition := status.Condition(status.State(r), r.Domain)
	e.Reason = condition.Message
	if r.Refusal.Summary != "" {
		e.Reason = status.Clip(r.Refusal.String()) // WaitsFor has the sentence
	}
	switch e.State {
	case Starts:
		e.Reason = ""
		e.Next = v.started(ref, atStart, r)
		when := "the scheduler tries it"
		if atStart.Refusal.WaitsForUser() {
			when = "the missing objects exist"
		}
		e.WaitsFor = "Nothing. The gang starts in " + domainText(e.Next.Domain) + " when " + when + "."
	case Scheduled:
		e.WaitsFor = "It runs; " + further(atStart, r)
	case Preempting, Evicts:
		if v.hasPlaces(ref) {
			return v.reserved(ctx, e, ref)
		}
		if err := v.leftOut(ctx, e, ref); err != nil {
			return err
		}
	case Rejected:
		e.WaitsFor = sentence(r.Refusal.Words)
		e.Remedy = &Remedy{Message: "correct or create what is named above"}
	case Waiting, conflict:
		e.Remedy = &Remedy{Message: map[gang.ObstacleKind]string{
			gang.Missing:  missingRemedy(r),
			gang.Consent:  "list this gang in the gang group of each gang that it lists",
			gang.Conflict: "give all gangs of the group the same topology constraint",
		}[r.Refusal.By]}
	case Unschedulable, NeverFits:
		v.explainObstacle(ctx, e, ref, r.Refusal, l)
	}
	if e.WaitsFor == "" {
		e.WaitsFor = sentence(condition.Message)
	}
	v.costs(e, ref)
	return nil
}

// explainObstacle sets e.WaitsFor and e.Remedy for an unschedulable gang with obstacle r and last attempt l.
func (v *View) explainObstacle(ctx context.Context, e *Explanation, ref gang.Ref, r gang.Obstacle, l attemptResult) {
	switch {
	case r.By == gang.Quota:
		e.WaitsFor = r.Summary
		if group, none := v.cache().GroupOf(v.group(ref)); !none.Exists() {
			if words := v.Shared().QuotaCure(group); words != "" {
				e.Remedy = &Remedy{Message: words}
			}
		}
	case r.By == gang.Veto:
		e.WaitsFor = sentence(r.Words)
		e.Remedy = &Remedy{Message: "what plugin " + strings.Join(r.Plugins, ", ") + " waits for"}
	case l.refusal != nil:
		e.WaitsFor = status.Sentence(l.shortage)
		e.Remedy = v.remedy(ctx, ref, l, r)
		for i := range e.Domains {
			if d := e.Domains[i].Eviction; d != nil && !d.Part {
				d.Untried = untried(r) || repelled(r)
			}
		}
	}
}

// missingRemedy returns what the user can do for a gang that waits for missing objects.
func missingRemedy(r cache.Report) string {
	switch {
	case r.Misnamed != "":
		return "correct the name, key or namespace; a pod's template takes effect when its controller recreates the pod"
	case strings.Contains(r.Refusal.Words, "schedulerName is "):
		return "recreate the pods with a served spec.schedulerName: that of a pod cannot be changed"
	case strings.Contains(r.Refusal.Words, "does not exist"), strings.Contains(r.Refusal.Words, "was not found"),
		strings.Contains(r.Refusal.Words, "PodGroups that it needs"):
		return "create what is missing, or correct the name"
	case strings.Contains(r.Refusal.Words, "can be placed"):
		return "what the pods wait for"
	case strings.Contains(r.Refusal.Words, "selects none"):
		return "correct what is named above"
	}
	return "create the missing pods: check the controller (parallelism of a Job), ResourceQuota and webhooks"
}

// further returns a sentence on the waiting members of a gang with minMember bound members: how many of them start.
func further(before, current cache.Report) string {
	switch n := current.Bound - before.Bound; {
	case n == 1:
		return "1 more member starts when the scheduler tries it."
	case n > 1:
		return fmt.Sprintf("%d more members start when the scheduler tries them.", n)
	}
	return "members beyond minMember do not evict: they start when they fit."
}

// costs sets the Eviction of each domain in e.Domains to the cost that the scheduler computed for it. For a gang in state Preempting,
// which needs no further victims, it removes them.
func (v *View) costs(e *Explanation, ref gang.Ref) {
	why := v.Eviction(ref)
	if e.State == Preempting {
		for i := range e.Domains {
			e.Domains[i].Eviction = nil
		}
	}
	for i := range e.Domains {
		d := &e.Domains[i]
		if why == nil || d.Eviction == nil || d.Eviction.Part {
			continue
		}
		at := slices.IndexFunc(why.Considered, func(c status.ConsideredDomain) bool { return c.Domain == d.Path })
		if at < 0 {
			d.Eviction.Untried = len(why.Considered) == 0
			continue
		}
		c := why.Considered[at]
		d.Eviction.Possible = c.Possible
		d.Eviction.Untried = c.Untried
		d.Eviction.EvictionCost = c.EvictionCost
	}
}

// try makes a trial plan for a gang in the current state, without effect on the scheduler. It returns nil if there is nothing to plan.
func (v *View) try(ctx context.Context, ref gang.Ref) (*plugin.Trial, error) {
	group, refusal := v.cache().GroupOf(v.group(ref))
	if refusal.Exists() || len(group.Pending) == 0 {
		return nil, nil
	}
	return v.trial(ctx, group, group.Pods[group.Pending[0].Pod])
}

// trial makes a trial plan for group with the profile of its representative; nil if that profile is not Muster's.
func (v *View) trial(ctx context.Context, group *cache.Group, representative *v1.Pod) (*plugin.Trial, error) {
	profile, p := v.Profile(representative.Spec.SchedulerName), v.Shared().Profile(representative.Spec.SchedulerName)
	if profile == nil || p == nil {
		return nil, nil
	}
	nodes, err := v.Nodes(ctx, profile)
	if err != nil {
		return nil, err
	}
	t := p.Try(ctx, group, nodes)
	return &t, nil
}

// started returns the domain and the nodes of a gang that waited at the start and runs now.
func (v *View) started(ref gang.Ref, atStart, current cache.Report) *Next {
	n := &Next{Domain: current.Domain, Nodes: []string{}}
	pods, _ := v.cache().Running(ref)
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n.Nodes = append(n.Nodes, p.Spec.NodeName)
		}
	}
	return n
}

// sentence returns text with one stop at its end. It capitalizes the first word unless that is a name (contains "." or "/").
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, "?") {
		text = strings.TrimSuffix(text, ".") + "."
	}
	if first, _, _ := strings.Cut(text, " "); strings.ContainsAny(first, "./") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// placeOf returns the gang's position in the queue; nil if it is not queued.
func (v *View) placeOf(ref gang.Ref) *QueuePosition {
	i := slices.Index(v.queue, ref)
	if i < 0 {
		return nil
	}
	p := &QueuePosition{Of: len(v.queue)}
	if v.initial[ref].Refusal.WaitsForUser() {
		return p
	}
	p.Position = i + 1
	for _, other := range v.queue[:i] {
		p.Ahead = append(p.Ahead, other.String())
	}
	return p
}

// holders returns the gangs with reserved nodes that the waiting members must respect.
func (v *View) holders(pending []*v1.Pod) (all []Holder) {
	if len(pending) == 0 {
		return nil
	}
	tree := v.cache().Topology().Tree
	for _, h := range place.Holders(v.cache(), v.cache().PlacesIn(tree, pending[0])) {
		holder := Holder{Gang: h.Name, Priority: h.Priority}
		for _, i := range h.Nodes {
			holder.Nodes = append(holder.Nodes, tree.NodeName(i))
		}
		all = append(all, holder)
	}
	return all
}
