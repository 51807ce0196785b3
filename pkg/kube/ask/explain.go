package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// State is what a gang does, or would do.
type State string

// The states.
const (
	Scheduled     State = "Scheduled"     // it runs
	Starts        State = "Starts"        // it waits, and the scheduler would start it now
	Preempting    State = "Preempting"    // its places are reserved until victims have left
	Evicts        State = "Evicts"        // it waits, and the scheduler would evict for it now
	Waiting       State = "Waiting"       // for members, or other gangs, such as those of its group that have places
	Unschedulable State = "Unschedulable" // there is no room
	NeverFits     State = "NeverFits"     // there would be none with every pod gone
	Rejected      State = "Rejected"      // what its users wrote cannot be carried out
)

// Explanation is why a gang waits, or where it is.
type Explanation struct {
	Gang     string    `json:"gang"`
	State    State     `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Members  Members   `json:"members"`
	WaitsFor string    `json:"waitsFor,omitempty"` // one sentence
	// Next is what the scheduler would do now if nothing else happens; nil if that is nothing.
	Next *Next `json:"next,omitempty"`
	// Reason is what the scheduler itself says.
	Reason  string   `json:"reason,omitempty"`
	Cure    *Cure    `json:"cure,omitempty"`
	Domains []Domain `json:"domains,omitempty"`
	Layer   string   `json:"layer,omitempty"` // of the domains
	// Unlike says that the members differ in what they need: slots are for the largest members, but
	// where it is said how many of them all have room.
	Unlike  bool     `json:"unlike,omitempty"`
	Queue   *Place   `json:"queue,omitempty"`
	Holders []Holder `json:"holders,omitempty"` // of places that it must respect
	Where   *Where   `json:"where,omitempty"`
	// Told is what a live cluster was told of it earlier, the latest last.
	Told []Told `json:"told,omitempty"`
	at   time.Time
}

// At is when the cluster was as it is explained.
func (e *Explanation) At() time.Time { return e.at }

// Members are counted.
type Members struct {
	Exist    int `json:"exist"`
	Bound    int `json:"bound"`
	Finished int `json:"finished,omitempty"` // they count as bound
	Min      int `json:"min"`
}

func (m Members) String() string { return fmt.Sprintf("%d/%d", m.Bound, m.Min) }

// Next is what would happen.
type Next struct {
	Domain string   `json:"domain"` // where the gang starts; "" is the whole cluster
	Nodes  []string `json:"nodes"`  // of its own members, not of its group's
	// Evicts are, as namespace/name on node, who leaves: first those whose places it takes, then who goes
	// with them.
	Evicts []string `json:"evicts,omitempty"`
	Leave  []string `json:"leave,omitempty"` // who is on its places too, and leaves for others, or by itself
	// Takers are the gangs of which members may take its places before it starts.
	Takers []string `json:"takers,omitempty"`
	// Why says why they; nil if they leave already, or nobody does.
	Why *status.Explanation `json:"why,omitempty"`

	inTheWay int // so many of Evicts
}

// Cure is what would have the gang tried again.
type Cure struct {
	Words   string   `json:"words"`
	Plugins []string `json:"plugins,omitempty"` // that refuse it
	Events  []string `json:"events,omitempty"`  // that these wait for
}

// Place is a gang's place in the queue.
type Place struct {
	Position int      `json:"position"` // from 1; 0 if nobody tries it
	Of       int      `json:"of"`
	Ahead    []string `json:"ahead,omitempty"`
}

// Holder is a gang that holds places.
type Holder struct {
	Gang     string   `json:"gang"`
	Priority int32    `json:"priority"`
	Nodes    []string `json:"nodes"`
}

// Where is where a gang runs.
type Where struct {
	Domain string `json:"domain"` // the deepest that holds all of it; "" is the whole cluster
	// Touched counts the domains of each layer in which it has members, LeastPossible those that
	// it would need at least on empty nodes; from the top down.
	Touched       []Layer `json:"touched"`
	LeastPossible []Layer `json:"leastPossible"`
}

// Layer counts domains of a layer.
type Layer struct {
	Layer   string `json:"layer"`
	Domains int    `json:"domains"`
}

// Explain has the scheduler go on until it is known what becomes of a gang.
func (v *View) Explain(ctx context.Context, t Target) (*Explanation, error) {
	return v.explain(ctx, t, v.evicts)
}

// explain is Explain for who may know early what SettleOr asks.
func (v *View) explain(ctx context.Context, t Target, early func(gang.Ref) bool) (*Explanation, error) {
	ref, err := v.find(t)
	if err != nil {
		return nil, err
	}
	was, members := v.listed[ref], v.members(ref)
	e := &Explanation{Gang: ref.String(), at: v.at, Since: v.since(ref, was, members), Queue: v.placeOf(ref)}
	pending := v.cache().Pending(ref)
	running, _ := v.cache().Running(ref)
	if len(pending) == 0 && whole(was) {
		e.fill(was)
		e.State = Scheduled
		if len(running) == 0 {
			e.WaitsFor = "Nothing: its members have finished."
			return e, nil
		}
		e.Where, err = v.where(ctx, ref, running)
		return e, err
	}
	e.Holders = v.holders(pending)
	v.about = v.group(ref)
	if err := v.SettleOr(ctx, func() bool { return early(ref) }, func() bool { return v.decided(ref) }); err != nil {
		return nil, err
	}
	if err := v.fate(ctx, e, ref, was); err != nil {
		return nil, err
	}
	if len(running) > 0 {
		if e.Where, err = v.where(ctx, ref, running); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// whole says whether a gang has what it needs, those who have finished counted.
func whole(r cache.Report) bool {
	return status.Condition(r.State, "").Status == metav1.ConditionTrue
}

// decided says whether nothing can become of a gang any more but what already has.
func (v *View) decided(ref gang.Ref) bool {
	r, ok := v.cache().Report(ref)
	last, tried := v.looks[v.group(ref)]
	switch {
	case !ok:
		return true
	case r.Reserved: // a reservation that was found may yet be given up, or lost to somebody more important
		return tried && !v.robbers(ref)
	case whole(r):
		// Of one that was whole when it was found the others that wait are asked about.
		return len(v.cache().Pending(ref)) == 0 || r.Planned == 0 && (tried || !whole(v.listed[ref]))
	case r.Planned > 0:
		return false // it is on its way
	}
	// Who was refused since some node is left out for a while is tried once more when the while is over.
	if r.Refusal.By == gang.Veto || r.Refusal.By == gang.Quota && !r.Refusal.Evictable {
		return true
	}
	return last.refusal != nil && len(last.refusal.Avoided) == 0 && (r.Refusal.By == gang.Plan || r.Refusal.By == gang.Template)
}

// evicts says whether an eviction for a gang was decided of which all is known that is said of it before anybody is asked to leave: the
// requests, which are some for each victim and each member, change nothing of it. Where somebody may come between, or leaves
// without being asked for it, what is said goes by what is seen then.
func (v *View) evicts(ref gang.Ref) bool {
	r, ok := v.cache().Report(ref)
	return ok && r.Reserved && !whole(r) && v.Eviction(ref) != nil && v.decided(ref) && v.hasPlaces(ref) && !v.Waiting() && len(v.rivals(ref)) == 0
}

// robbers says whether somebody comes after a gang who may take places that are reserved for it: one that was
// bound in part when the scheduler began is tried before those who are more important.
func (v *View) robbers(ref gang.Ref) bool {
	mine := v.members(ref)
	return len(mine) > 0 && slices.ContainsFunc(v.queue[slices.Index(v.queue, ref)+1:], func(other gang.Ref) bool {
		theirs := v.members(other)
		return len(theirs) > 0 && !v.listed[other].Refusal.Waits() && v.cache().Priority(theirs[0]) > v.cache().Priority(mine[0])
	})
}

func (e *Explanation) fill(r cache.Report) {
	e.Members = Members{Exist: r.Exist, Bound: r.Bound, Finished: r.Done, Min: r.Min}
}

// fate reads off what has become of a gang that waited.
func (v *View) fate(ctx context.Context, e *Explanation, ref gang.Ref, was cache.Report) error {
	e.fill(was)
	r, ok := v.cache().Report(ref)
	if !ok {
		e.State = Waiting
		return nil
	}
	if missed := v.Unlisted(ref, r); missed != "" {
		e.unknown(missed)
		return nil
	}
	key := v.group(ref)
	l := v.looks[key]
	refused := !whole(r) && !r.Reserved && !r.Refusal.Waits() && r.Refusal.By != gang.Conflict
	if refused && l.domains == nil { // another one was tried in its place
		trial, err := v.try(ctx, ref)
		if err != nil {
			return err
		}
		l = look{} // it cannot be planned, and the condition says why
		if trial != nil {
			l = v.lookAt(ctx, *trial, true)
		}
	}
	e.Domains, e.Layer, e.Unlike = l.domains, l.layer, l.unlike
	condition := status.Condition(status.State(r), r.Domain)
	e.Reason = condition.Message
	if r.Refusal.Says != "" {
		e.Reason = status.Clip(r.Refusal.String()) // the sentence is what it waits for
	}
	switch {
	case whole(r) && !whole(was):
		e.State, e.Reason = Starts, ""
		e.Next = v.started(ref, was, r)
		when := "the scheduler comes to it"
		if was.Refusal.Waits() {
			when = "what it waits for has come"
		}
		e.WaitsFor = "Nothing: it starts in " + in(e.Next.Domain) + " when " + when + "."
	case r.Reserved && v.hasPlaces(ref):
		return v.reserved(ctx, e, ref, was)
	case whole(r):
		e.State, e.WaitsFor = Scheduled, "It runs; "+further(was, r)
	case r.Reserved:
		if err := v.leftOut(ctx, e, ref); err != nil {
			return err
		}
	case r.Refusal.By == gang.Declaration:
		e.State, e.WaitsFor = Rejected, sentence(r.Refusal.Words)
		e.Cure = &Cure{Words: "fix the field named above"}
	case r.Refusal.Waits() || r.Refusal.By == gang.Conflict:
		e.State, e.WaitsFor = Waiting, sentence(condition.Message)
		e.Cure = &Cure{Words: map[gang.Refuser]string{
			gang.Missing:  "create the missing pods: check the controller (parallelism of a Job), ResourceQuota and webhooks",
			gang.Consent:  "list this gang in the gang group of each gang that it lists",
			gang.Conflict: "give all gangs of the group the same topology constraint",
		}[r.Refusal.By]}
	case r.Refusal.By == gang.Quota:
		e.State, e.WaitsFor = Unschedulable, r.Refusal.Says
		if r.Refusal.Never {
			e.State = NeverFits
		}
		if group, none := v.cache().GroupOf(key); !none.Is() {
			if words := v.Shared().QuotaCure(group); words != "" {
				e.Cure = &Cure{Words: words}
			}
		}
	case r.Refusal.By == gang.Veto:
		e.State, e.WaitsFor = Unschedulable, sentence(r.Refusal.Words)
		e.Cure = &Cure{Words: "what plugin " + strings.Join(r.Refusal.Plugins, ", ") + " waits for"}
	case l.refusal != nil:
		e.State = Unschedulable
		if l.shortage.Never != nil {
			e.State = NeverFits
		}
		e.WaitsFor = status.Sentence(l.shortage)
		e.Cure = v.cure(ctx, ref, l, r.Refusal)
		for i := range e.Domains {
			if d := e.Domains[i].Eviction; d != nil && !d.Part {
				d.Untried = untried(r.Refusal)
			}
		}
	default:
		e.State, e.WaitsFor = Waiting, sentence(condition.Message)
	}
	v.costs(e, ref)
	return nil
}

// further says what becomes of members that wait although their gang has what it needs.
func further(was, is cache.Report) string {
	switch n := is.Bound - was.Bound; {
	case n == 1:
		return "1 more member gets a place when the scheduler comes to it."
	case n > 1:
		return fmt.Sprintf("%d more members get places when the scheduler comes to them.", n)
	}
	return "members beyond its minMember wait for free places."
}

// costs adds to the domains what evictions there would cost, where the scheduler has compared them.
// For a gang that has its places nobody is sought.
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
		d.Eviction.Possible, d.Eviction.Untried, d.Eviction.EvictionCost = c.Possible, c.Untried, c.EvictionCost
	}
}

// try makes an attempt for a gang that was not tried itself; nil if it cannot be planned.
func (v *View) try(ctx context.Context, ref gang.Ref) (*plugin.Trial, error) {
	group, refusal := v.cache().GroupOf(v.group(ref))
	if refusal.Is() || len(group.Pending) == 0 {
		return nil, nil
	}
	return v.trial(ctx, group, group.Pods[group.Pending[0].Pod])
}

func (v *View) trial(ctx context.Context, group *cache.Group, speaker *v1.Pod) (*plugin.Trial, error) {
	profile, p := v.Profile(speaker.Spec.SchedulerName), v.Shared().Profile(speaker.Spec.SchedulerName)
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

// started is where a gang has gone that waited.
func (v *View) started(ref gang.Ref, was, is cache.Report) *Next {
	n := &Next{Domain: is.Domain, Nodes: []string{}}
	pods, _ := v.cache().Running(ref)
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n.Nodes = append(n.Nodes, p.Spec.NodeName)
		}
	}
	return n
}

// sentence ends a text with one stop, and begins it with a capital unless it begins with a name.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.TrimSuffix(text, ".") + "."
	if first, _, _ := strings.Cut(text, " "); strings.ContainsAny(first, "./") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// placeOf is a gang's place in the queue; nil if it is not in it.
func (v *View) placeOf(ref gang.Ref) *Place {
	i := slices.Index(v.queue, ref)
	if i < 0 {
		return nil
	}
	p := &Place{Of: len(v.queue)}
	if v.listed[ref].Refusal.Waits() {
		return p
	}
	p.Position = i + 1
	for _, other := range v.queue[:i] {
		p.Ahead = append(p.Ahead, other.String())
	}
	return p
}

// holders are the gangs with reserved places that the waiting members of a gang must respect.
func (v *View) holders(pending []*v1.Pod) (all []Holder) {
	if len(pending) == 0 {
		return nil
	}
	tree := v.cache().Topology().Tree
	for _, h := range place.Holders(v.cache(), v.cache().PlacesIn(tree, pending[0])) {
		is := Holder{Gang: h.Name, Priority: h.Priority}
		for _, i := range h.Nodes {
			is.Nodes = append(is.Nodes, tree.NodeName(i))
		}
		all = append(all, is)
	}
	return all
}
