package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Drain is the effect of emptying a domain: its nodes are cordoned and their pods evicted. Gangs that cannot run without these pods
// are evicted whole. The controllers recreate the pods.
type Drain struct {
	Domain string `json:"domain"` // "" is the whole cluster
	// At is the time that the answer is for, if that is not now. Ended are the pods that have ended by then, as declared.
	At    string   `json:"at,omitempty"`
	Ended []string `json:"ended,omitempty"`
	Layer string   `json:"layer"`
	Nodes int      `json:"nodes"`
	// Pods counts the evicted pods, PodsInside the evicted pods in the domain. Stay counts the DaemonSet and static pods.
	Pods       int `json:"pods"`
	PodsInside int `json:"here"`
	Stay       int `json:"stay"`
	// Verdict says whether all evicted pods run elsewhere and no further pod is evicted. Unknown says why that is not known.
	Verdict Verdict    `json:"verdict"`
	Unknown []string   `json:"unknown,omitempty"`
	Gangs   []GangMove `json:"gangs,omitempty"`
	// Others are pods without a gang, and pods of other schedulers.
	Others []PodMove `json:"others,omitempty"`
	// Evicted are the pods that would be evicted for the moved pods, as namespace/name on node.
	Evicted []string `json:"evicted,omitempty"`
	// Uncontrolled are the pods without a controller, which no controller recreates.
	Uncontrolled []string `json:"alone,omitempty"`
	// Before is what the scheduler does in any case, before the domain is emptied.
	Before PriorChanges `json:"before,omitzero"`
}

// Verdict says whether a domain can be emptied.
type Verdict string

// The verdicts. DoesNotFit takes precedence over NotKnown.
const (
	Fits       Verdict = "fits"
	DoesNotFit Verdict = "does not fit"
	NotKnown   Verdict = "not known"
)

// PriorChanges is what the scheduler does with the waiting gangs before a domain is emptied.
type PriorChanges struct {
	Starts  []string `json:"starts,omitempty"`  // gangs
	Evicted []string `json:"evicted,omitempty"` // namespace/name on node
}

// GangMove is a gang with evicted members.
type GangMove struct {
	Gang     string `json:"gang"`
	Priority int32  `json:"priority"`
	// Stops says that the whole gang is evicted. Otherwise the gang continues with the remaining members.
	Stops         bool      `json:"stops"`
	MembersInside int       `json:"here"` // members in the domain
	Pods          []PodMove `json:"pods"` // the evicted members
	From          string    `json:"from"` // the deepest domain that contains its bound members, before and
	To            string    `json:"to"`   // after the drain; "" is the whole cluster, or that no member is bound
	Fits          bool      `json:"fits"`
	Reason        string    `json:"reason,omitempty"` // why it does not fit
	// Unknown is the kind that the caller may not list, so that it is unknown where the gang fits.
	Unknown string `json:"unknown,omitempty"`

	ref    gang.Ref
	before cache.Report
}

// PodMove is an evicted pod and its next node.
type PodMove struct {
	Pod    string `json:"pod"`
	From   string `json:"from"`
	To     string `json:"to,omitempty"`     // "" if no node fits
	Reason string `json:"reason,omitempty"` // why no node fits
	// Unknown is the kind that the caller may not list, so that the next node is unknown.
	Unknown string `json:"unknown,omitempty"`
	// Elsewhere says that another scheduler places it, so that the next node is unknown.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// DrainDomain returns the effect of emptying a domain. name is a path as topology prints it, with or without its layer. It may also be
// a node's name, or a domain's name that is unique.
func DrainDomain(ctx context.Context, o Options, set *simulate.Set, name string) (*Drain, error) {
	return drained(ctx, o, set, func(tree *topology.Tree) (topology.ID, error) { return domainNamed(tree, name) })
}

// drained opens a view and returns the effect of emptying the domain that which returns.
func drained(ctx context.Context, o Options, set *simulate.Set, which func(*topology.Tree) (topology.ID, error)) (*Drain, error) {
	v, err := open(ctx, o, set, false)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	d, err := which(v.cache().Topology().Tree)
	if none := (*noDomainError)(nil); errors.As(err, &none) {
		err = cmp.Or(v.unlistedError("a domain "+none.name), err)
	}
	if err != nil {
		return nil, err
	}
	before, err := v.runPending(ctx)
	if err != nil {
		return nil, err
	}
	out, err := v.drain(ctx, d, before.Evicted)
	if err != nil {
		return nil, err
	}
	out.Before = *before
	if o.At != (simulate.Moment{}) {
		out.At, out.Ended = v.at.UTC().Format(time.RFC3339), v.Ended()
	}
	return out, nil
}

// runPending runs the scheduler before a domain is emptied, and returns what it did: those are no effects of emptying the domain.
func (v *View) runPending(ctx context.Context) (*PriorChanges, error) {
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	b := &PriorChanges{Evicted: v.evicted()}
	for _, ref := range v.queue {
		atStart := v.initial[ref]
		if current, ok := v.cache().Report(ref); ok && atStart.Bound < atStart.Min && current.Bound >= current.Min {
			b.Starts = append(b.Starts, ref.String())
		}
	}
	return b, nil
}

// evicted lists the pods that the scheduler has evicted so far, as namespace/name on node.
func (v *View) evicted() (all []string) {
	for _, p := range v.Result().Pods {
		if p.State == simulate.Evicted {
			all = append(all, p.Namespace+"/"+p.Name+" on "+p.Node)
		}
	}
	return all
}

// domainNamed returns the domain with a name in one of DrainDomain's forms. It returns an error if there is none, or several.
func domainNamed(tree *topology.Tree, name string) (topology.ID, error) {
	var same []topology.ID
	for d := topology.Root + 1; int(d) < tree.Len(); d++ {
		path := tree.Path(d)
		switch {
		case !tree.Named(d):
		case path == name, tree.LayerNames()[tree.Layer(d)]+"/"+path == name, tree.IsNode(d) && tree.Name(d) == name:
			return d, nil
		case tree.Name(d) == name:
			same = append(same, d)
		}
	}
	switch len(same) {
	case 0:
		return 0, &noDomainError{name}
	case 1:
		return same[0], nil
	}
	paths := make([]string, len(same))
	for i, d := range same {
		paths[i] = tree.Path(d)
	}
	return 0, fmt.Errorf("there are several domains %s: write one of %s", name, joinNames(paths))
}

// noDomainError says that a domain does not exist.
type noDomainError struct{ name string }

func (e *noDomainError) Error() string {
	return "there is no domain and no node " + e.name + "; \"topology\" lists them"
}

// emptied describes a domain to empty: its nodes, and the pods that are evicted with it.
type emptied struct {
	nodes  []string
	pods   []*v1.Pod       // sorted by name
	stops  []gang.Ref      // the gangs that are evicted whole
	inside map[string]bool // by node
	stay   int             // the number of DaemonSet and static pods, which are kept
}

// emptied returns the pods that emptying domain d would evict in the current state, with the bundles of these pods.
func (v *View) emptied(tree *topology.Tree, d topology.ID) *emptied {
	l := &emptied{inside: map[string]bool{}}
	for lo, hi := tree.Nodes(d); lo < hi; lo++ {
		l.nodes = append(l.nodes, tree.NodeName(lo))
		l.inside[tree.NodeName(lo)] = true
	}
	for _, pod := range v.Pods() {
		switch {
		case !l.inside[pod.Spec.NodeName] || convert.Finished(pod):
		case convert.OnEveryNode(pod):
			l.stay++
		default:
			l.pods = append(l.pods, pod)
		}
	}
	l.pods, l.stops = eligible.WithBundles(v.cache(), l.pods)
	slices.SortFunc(l.pods, func(a, b *v1.Pod) int { return topology.CompareNames(convert.PodKey(a), convert.PodKey(b)) })
	return l
}

// drain empties domain d, runs the scheduler, and returns the effect. evictedBefore lists earlier evictions, which are no effect.
func (v *View) drain(ctx context.Context, d topology.ID, evictedBefore []string) (*Drain, error) {
	tree := v.cache().Topology().Tree
	l := v.emptied(tree, d)
	out := &Drain{Domain: tree.Path(d), Layer: tree.LayerNames()[tree.Layer(d)], Nodes: len(l.nodes), Stay: l.stay}
	gangs := v.moves(l)
	if err := v.evict(ctx, gangs, l.nodes, l.first()); err != nil {
		return nil, err
	}
	if rest := l.keepRepaired(v.cache()); len(rest) > 0 {
		if err := v.evict(ctx, gangs, nil, rest); err != nil {
			return nil, err
		}
	}
	for _, pod := range l.pods {
		out.Pods++
		if l.inside[pod.Spec.NodeName] {
			out.PodsInside++
		}
		if len(pod.OwnerReferences) == 0 {
			out.Uncontrolled = append(out.Uncontrolled, convert.PodKey(pod))
		}
	}
	for _, g := range gangs {
		if g.Stops = slices.Contains(l.stops, g.ref); g.Stops || g.MembersInside > 0 {
			out.Gangs = append(out.Gangs, g)
		}
	}
	return out, v.recordMoves(ctx, out, l, evictedBefore)
}

// evict cordons nodes, evicts pods, has their controllers recreate them, and runs the scheduler.
func (v *View) evict(ctx context.Context, gangs []GangMove, nodes []string, pods []*v1.Pod) error {
	recreate := slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return v.Profile(pod.Spec.SchedulerName) == nil })
	if err := v.Drain(ctx, nodes, pods, recreate); err != nil {
		return err
	}
	for i := range gangs {
		gangs[i].before, _ = v.cache().Report(gangs[i].ref)
	}
	return v.Settle(ctx, nil)
}

// first returns the pods that are evicted first: the pods in the domain, and whole groups of LeaderWorkerSets, which their controller
// recreates whole.
func (l *emptied) first() (pods []*v1.Pod) {
	for _, pod := range l.pods {
		if _, ok := source.LeaderWorkerSetOf(pod); ok || l.inside[pod.Spec.NodeName] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// keepRepaired is called when the pods of first() are evicted and the scheduler has run. If each gang of a group has minMember bound
// members again, the group's other members need not be evicted: keepRepaired removes them from l.pods, and their gangs from l.stops. It
// returns the members of all other gangs that are still to be evicted.
func (l *emptied) keepRepaired(c *cache.Cache) (rest []*v1.Pod) {
	first := eligible.UIDs([][]*v1.Pod{l.first()})
	repaired := func(ref gang.Ref) bool { // with all gangs of its group
		return !slices.ContainsFunc(c.Together(ref), func(ref gang.Ref) bool {
			report, ok := c.Report(ref)
			return !ok || report.Bound < report.Min
		})
	}
	kept := map[gang.Ref]bool{} // gangs of which members run on
	l.pods = slices.DeleteFunc(l.pods, func(pod *v1.Pod) bool {
		ref := source.GangOf(pod)
		switch {
		case first[pod.UID]:
		case repaired(ref):
			kept[ref] = true
		default:
			rest = append(rest, pod)
		}
		return kept[ref] && !first[pod.UID]
	})
	l.stops = slices.DeleteFunc(l.stops, func(ref gang.Ref) bool { return kept[ref] })
	return rest
}

// moves returns an entry for each gang with evicted members, sorted by name. Stops is set later, and Pods by recordMoves.
func (v *View) moves(l *emptied) (all []GangMove) {
	at := map[gang.Ref]int{}
	for _, pod := range l.pods {
		ref := source.GangOf(pod)
		if ref.IsZero() || v.Profile(pod.Spec.SchedulerName) == nil {
			continue
		}
		i, ok := at[ref]
		if !ok {
			report, _ := v.cache().Report(ref)
			i, at[ref] = len(all), len(all)
			all = append(all, GangMove{Gang: ref.String(), ref: ref, Priority: v.cache().Priority(pod), From: report.Domain})
		}
		if l.inside[pod.Spec.NodeName] {
			all[i].MembersInside++
		}
	}
	slices.SortFunc(all, func(a, b GangMove) int { return a.ref.Compare(b.ref, topology.CompareNames) })
	return all
}

// recordMoves sets in out where each evicted pod runs after the scheduler has run, the further evictions, and the verdict.
func (v *View) recordMoves(ctx context.Context, out *Drain, l *emptied, evictedBefore []string) error {
	current := map[string]simulate.Pod{}
	for _, p := range v.Result().Pods {
		if key := p.Namespace + "/" + p.Name; p.State != simulate.Evicted || current[key].Name == "" {
			current[key] = p
		}
	}
	moved := map[string]bool{}
	lost, foreign, unlisted := 0, map[string]int{}, map[string]int{} // pods without a node; by other scheduler; by unlisted kind
	for _, pod := range l.pods {
		moved[convert.PodKey(pod)] = true
		m := PodMove{Pod: convert.PodKey(pod), From: pod.Spec.NodeName}
		ours := v.Profile(pod.Spec.SchedulerName) != nil
		switch p := current[m.Pod]; {
		case !ours:
			m.Elsewhere, m.Reason = true, "another scheduler, "+pod.Spec.SchedulerName+", places it"
			foreign[pod.Spec.SchedulerName]++
		case p.State == simulate.Bound:
			m.To = p.Node
		case p.State == simulate.Evicted:
			m.Reason = "it is evicted for a pod of higher priority"
		default:
			m.Reason, m.Unknown = p.Message, p.Unknown
		}
		switch {
		case m.Unknown != "":
			unlisted[m.Unknown]++
		case m.To == "" && ours:
			lost++
		}
		ref := source.GangOf(pod)
		if i := slices.IndexFunc(out.Gangs, func(g GangMove) bool { return g.ref == ref }); i >= 0 && ours {
			out.Gangs[i].Pods = append(out.Gangs[i].Pods, m)
		} else {
			out.Others = append(out.Others, m)
		}
	}
	for _, victim := range v.evicted() {
		if pod, _, _ := strings.Cut(victim, " on "); !moved[pod] && !slices.Contains(evictedBefore, victim) {
			out.Evicted = append(out.Evicted, victim)
		}
	}
	out.setVerdict(lost > 0 || len(out.Evicted) > 0, foreign, unlisted)
	for i := range out.Gangs {
		if err := v.recordDestination(ctx, &out.Gangs[i]); err != nil {
			return err
		}
	}
	return nil
}

// setVerdict sets d.Verdict and d.Unknown. stays says that a pod certainly does not fit elsewhere. foreign and unlisted count the
// pods whose next node is unknown, by scheduler and by the kind that is not listed.
func (d *Drain) setVerdict(stays bool, foreign, unlisted map[string]int) {
	unknown := func(n int, why string) { d.Unknown = append(d.Unknown, counted(n)+": "+why) }
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		unknown(foreign[name], "scheduler "+name+" decides")
	}
	for _, kind := range slices.Sorted(maps.Keys(unlisted)) {
		unknown(unlisted[kind], "no permission to list "+kind)
	}
	if n := len(d.Uncontrolled); n > 0 {
		unknown(n, "no controller recreates what is evicted")
	}
	switch {
	case stays:
		d.Verdict = DoesNotFit
	case len(d.Unknown) > 0:
		d.Verdict = NotKnown
	default:
		d.Verdict = Fits
	}
}

func counted(pods int) string {
	if pods == 1 {
		return "1 pod"
	}
	return fmt.Sprint(pods, " pods")
}

// recordDestination sets the gang's domain after the scheduler has run, and why members have no node.
func (v *View) recordDestination(ctx context.Context, m *GangMove) error {
	report, _ := v.cache().Report(m.ref)
	m.To = report.Domain
	lost := slices.IndexFunc(m.Pods, func(p PodMove) bool { return p.To == "" })
	if m.Fits = lost < 0; m.Fits {
		return nil
	}
	m.Reason, m.Unknown = m.Pods[lost].Reason, m.Pods[lost].Unknown
	if m.Unknown != "" {
		return nil
	}
	if len(v.cache().Pending(m.ref)) == 0 {
		return nil
	}
	if report.Bound < report.Min {
		e := &Explanation{}
		if err := v.explainWaiting(ctx, e, m.ref, m.before); err != nil {
			return err
		}
		m.Reason = cmp.Or(e.WaitsFor, m.Reason)
		return nil
	}
	trial, err := v.try(ctx, m.ref) // the gang continues with the remaining members
	if err == nil && trial != nil && trial.Refusal != nil {
		m.Reason = cmp.Or(status.Sentence(v.readAttempt(ctx, *trial, true).shortage), m.Reason)
	}
	return err
}
