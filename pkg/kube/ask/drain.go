package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// Drain is what it takes to empty a domain: its nodes are cordoned, their pods leave, and with them
// the rest of gangs that cannot run without those; whoever made them makes them anew.
type Drain struct {
	Domain string `json:"domain"` // "" is the whole cluster
	Layer  string `json:"layer"`
	Nodes  int    `json:"nodes"`
	// Pods leave, Here of them from the domain. Stay are those that every node has.
	Pods int `json:"pods"`
	Here int `json:"here"`
	Stay int `json:"stay"`
	// Fits says whether all that leave find another place and nobody is evicted for them. Pods that
	// other schedulers place are not counted.
	Fits  bool   `json:"fits"`
	Gangs []Move `json:"gangs,omitempty"`
	// Others are pods of no gang, and such as other schedulers place.
	Others []PodMove `json:"others,omitempty"`
	// Evicted are those who would have to go for those that come, namespace/name on node.
	Evicted []string `json:"evicted,omitempty"`
	// Alone have no controller: they come back only if somebody makes them.
	Alone []string `json:"alone,omitempty"`
	// Before is what happens without it, and has happened when the domain is emptied.
	Before Before `json:"before,omitzero"`
}

// Before is what the scheduler does with those who wait.
type Before struct {
	Starts  []string `json:"starts,omitempty"`  // gangs
	Evicted []string `json:"evicted,omitempty"` // namespace/name on node
}

// Move is a gang of which members leave.
type Move struct {
	Gang     string `json:"gang"`
	Priority int32  `json:"priority"`
	// Stops says whether it leaves whole; else it goes on with those that stay.
	Stops  bool      `json:"stops"`
	Here   int       `json:"here"` // members in the domain
	Pods   []PodMove `json:"pods"` // that leave
	From   string    `json:"from"` // the deepest domain that holds its bound members, before and
	To     string    `json:"to"`   // after; "" is the whole cluster, or that none is bound
	Fits   bool      `json:"fits"`
	Reason string    `json:"reason,omitempty"` // why not
	// Unknown is the kind that whoever asks may not list, so that nobody knows where it fits.
	Unknown string `json:"unknown,omitempty"`

	ref gang.Ref
	was cache.Report
}

// PodMove is a pod that leaves.
type PodMove struct {
	Pod    string `json:"pod"`
	From   string `json:"from"`
	To     string `json:"to,omitempty"`     // "" if there is no place
	Reason string `json:"reason,omitempty"` // why not
	// Unknown is the kind that whoever asks may not list, so that nobody knows where it goes.
	Unknown string `json:"unknown,omitempty"`
	// Elsewhere says that another scheduler places it: where is not known.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// DrainDomain says what it takes to empty a domain: a path as topology prints it, also after its
// layer, the name of a node, or of a domain if there is only one of that name.
func DrainDomain(ctx context.Context, o Options, set *simulate.Set, name string) (*Drain, error) {
	return drained(ctx, o, set, func(tree *topology.Tree) (topology.ID, error) { return domainNamed(tree, name) })
}

// drained empties a domain of a cluster that is opened for that.
func drained(ctx context.Context, o Options, set *simulate.Set, which func(*topology.Tree) (topology.ID, error)) (*Drain, error) {
	v, err := open(ctx, o, set, false)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	d, err := which(v.cache().Topology().Tree)
	if none := (*noDomainError)(nil); errors.As(err, &none) {
		err = cmp.Or(v.unlisted("a domain "+none.name), err)
	}
	if err != nil {
		return nil, err
	}
	before, err := v.before(ctx)
	if err != nil {
		return nil, err
	}
	out, err := v.drain(ctx, d, before.Evicted)
	if err != nil {
		return nil, err
	}
	out.Before = *before
	return out, nil
}

// before lets the scheduler do what it would do anyway: else it would seem to come of the domain.
func (v *View) before(ctx context.Context) (*Before, error) {
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	b := &Before{Evicted: v.evicted()}
	for _, ref := range v.queue {
		was := v.listed[ref]
		if is, ok := v.cache().Report(ref); ok && was.Bound < was.Min && is.Bound >= is.Min {
			b.Starts = append(b.Starts, ref.String())
		}
	}
	return b, nil
}

// evicted are those whom the scheduler has evicted by now, by name.
func (v *View) evicted() (all []string) {
	for _, p := range v.Result().Pods {
		if p.State == simulate.Evicted {
			all = append(all, p.Namespace+"/"+p.Name+" on "+p.Node)
		}
	}
	return all
}

// domainNamed finds the domain that somebody names.
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
	return 0, fmt.Errorf("there are several domains %s: say one of %s", name, several(paths))
}

// noDomainError says that somebody names a domain that there is not.
type noDomainError struct{ name string }

func (e *noDomainError) Error() string {
	return "there is no domain and no node " + e.name + "; \"topology\" lists them"
}

// emptied are the pods that are evicted when a domain is emptied.
type emptied struct {
	nodes  []string
	pods   []*v1.Pod // by name
	stops  []gang.Ref
	inside map[string]bool // by node
	stay   int
}

// emptied returns the pods that are evicted, as the cluster is now.
func (v *View) emptied(tree *topology.Tree, d topology.ID) *emptied {
	l := &emptied{inside: map[string]bool{}}
	for lo, hi := tree.Nodes(d); lo < hi; lo++ {
		l.nodes = append(l.nodes, tree.NodeName(lo))
		l.inside[tree.NodeName(lo)] = true
	}
	for _, pod := range v.Pods() {
		switch {
		case !l.inside[pod.Spec.NodeName] || convert.Finished(pod):
		case everywhere(pod):
			l.stay++
		default:
			l.pods = append(l.pods, pod)
		}
	}
	l.pods, l.stops = eligible.Closed(v.cache(), l.pods)
	slices.SortFunc(l.pods, func(a, b *v1.Pod) int { return topology.CompareNames(convert.PodKey(a), convert.PodKey(b)) })
	return l
}

// drain empties a domain and lets the scheduler go on. Who is gone already was evicted before.
func (v *View) drain(ctx context.Context, d topology.ID, gone []string) (*Drain, error) {
	tree := v.cache().Topology().Tree
	l := v.emptied(tree, d)
	out := &Drain{Domain: tree.Path(d), Layer: tree.LayerNames()[tree.Layer(d)], Nodes: len(l.nodes), Pods: len(l.pods), Stay: l.stay}
	var again []*v1.Pod
	for _, pod := range l.pods {
		if l.inside[pod.Spec.NodeName] {
			out.Here++
		}
		if len(pod.OwnerReferences) == 0 {
			out.Alone = append(out.Alone, convert.PodKey(pod))
		}
		if v.Profile(pod.Spec.SchedulerName) != nil {
			again = append(again, pod)
		}
	}
	out.Gangs = v.moves(l)
	if err := v.Drain(ctx, l.nodes, l.pods, again); err != nil {
		return nil, err
	}
	for i := range out.Gangs {
		out.Gangs[i].was, _ = v.cache().Report(out.Gangs[i].ref)
	}
	if err := v.Settle(ctx, nil); err != nil {
		return nil, err
	}
	return out, v.settled(ctx, out, l, gone)
}

// moves are the gangs of which members leave, by name.
func (v *View) moves(l *emptied) (all []Move) {
	at := map[gang.Ref]int{}
	for _, pod := range l.pods {
		ref := source.Of(pod)
		if ref.IsZero() || v.Profile(pod.Spec.SchedulerName) == nil {
			continue
		}
		i, ok := at[ref]
		if !ok {
			report, _ := v.cache().Report(ref)
			i, at[ref] = len(all), len(all)
			all = append(all, Move{Gang: ref.String(), ref: ref, Priority: v.cache().Priority(pod), Stops: slices.Contains(l.stops, ref), From: report.Domain})
		}
		if l.inside[pod.Spec.NodeName] {
			all[i].Here++
		}
	}
	slices.SortFunc(all, func(a, b Move) int { return a.ref.Compare(b.ref, topology.CompareNames) })
	return all
}

// settled reads off where everybody has gone.
func (v *View) settled(ctx context.Context, out *Drain, l *emptied, gone []string) error {
	now := map[string]simulate.Pod{}
	for _, p := range v.Result().Pods {
		if key := p.Namespace + "/" + p.Name; p.State != simulate.Evicted || now[key].Name == "" {
			now[key] = p
		}
	}
	moved := map[string]bool{}
	out.Fits = true
	for _, pod := range l.pods {
		moved[convert.PodKey(pod)] = true
		m := PodMove{Pod: convert.PodKey(pod), From: pod.Spec.NodeName}
		ours := v.Profile(pod.Spec.SchedulerName) != nil
		switch p := now[m.Pod]; {
		case !ours:
			m.Elsewhere, m.Reason = true, "another scheduler, "+pod.Spec.SchedulerName+", places it"
		case p.State == simulate.Bound:
			m.To = p.Node
		case p.State == simulate.Evicted:
			m.Reason = "it is evicted for a pod of higher priority"
		default:
			m.Reason, m.Unknown = p.Message, p.Unknown
		}
		out.Fits = out.Fits && (m.To != "" || !ours)
		ref := source.Of(pod)
		if i := slices.IndexFunc(out.Gangs, func(g Move) bool { return g.ref == ref }); i >= 0 && ours {
			out.Gangs[i].Pods = append(out.Gangs[i].Pods, m)
		} else {
			out.Others = append(out.Others, m)
		}
	}
	for _, who := range v.evicted() {
		if pod, _, _ := strings.Cut(who, " on "); !moved[pod] && !slices.Contains(gone, who) {
			out.Evicted = append(out.Evicted, who)
		}
	}
	out.Fits = out.Fits && len(out.Evicted) == 0
	for i := range out.Gangs {
		if err := v.arrived(ctx, &out.Gangs[i]); err != nil {
			return err
		}
	}
	return nil
}

// arrived says where a gang is then, and why not all of it is there.
func (v *View) arrived(ctx context.Context, m *Move) error {
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
		if err := v.fate(ctx, e, m.ref, m.was); err != nil {
			return err
		}
		m.Reason = cmp.Or(e.WaitsFor, m.Reason)
		return nil
	}
	trial, err := v.try(ctx, m.ref) // it goes on with those that stay
	if err == nil && trial != nil && trial.Refusal != nil {
		m.Reason = cmp.Or(status.Sentence(v.lookAt(ctx, *trial, true).shortage), m.Reason)
	}
	return err
}
