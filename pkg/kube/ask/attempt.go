package ask

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// attemptResult is the result of one scheduling attempt. readAttempt reads it before the attempt's snapshot changes.
type attemptResult struct {
	refusal *place.Refusal // nil if there is a plan, or a plugin has failed

	// The fields below are set only if the attempt was examined in detail.
	shortage      place.Shortage
	domains       []Domain
	heterogeneous bool // the waiting members differ in their requests
	layer         string
	noVictims     bool // no pod may be evicted
	verdict       preempt.Verdict
}

// Domain is the capacity of one domain for a gang.
type Domain struct {
	Path  string `json:"path"` // "" is the whole cluster
	Slots int    `json:"slots"`
	// AtLeast says that Slots is a lower bound, since rules between the members limit the placement, such as anti-affinity.
	AtLeast bool `json:"atLeast,omitempty"`
	// FreeNow counts slots before the gangs ahead in the queue start, as Topology does; nil if it is Slots.
	FreeNow *int           `json:"freeNow,omitempty"`
	Nodes   int            `json:"nodes"`
	Lacks   map[string]int `json:"lacks,omitempty"` // nodes without capacity, by what they lack
	// Eviction is nil if no eviction is considered.
	Eviction *Eviction `json:"eviction,omitempty"`
}

// Eviction is the result of an eviction in a domain.
type Eviction struct {
	Possible bool `json:"possible"`
	Untried  bool `json:"untried,omitempty"` // it is not known whether it is possible
	// Part says that the gang need not be in this domain alone, so no victims are sought for it.
	Part bool `json:"part,omitempty"`
	// Slots are the slots without all pods that may be evicted.
	Slots                int `json:"slots"`
	*status.EvictionCost     // of the cheapest; nil if it is not possible
}

// readAttempt returns the result of an attempt; inDetail also fills the fields that cost more time.
func (v *View) readAttempt(ctx context.Context, t plugin.Trial, inDetail bool) attemptResult {
	a := t.Attempt
	l := attemptResult{refusal: t.Refusal}
	if t.Refusal != nil && inDetail { // Shortage runs the Filters for each node
		l.shortage = t.Shortage(ctx)
	}
	if inDetail && a.CapacityKnown() {
		v.countDomains(ctx, t, &l)
	}
	return l
}

// countDomains fills l.domains, l.layer, l.heterogeneous and the verdict about evictions.
func (v *View) countDomains(ctx context.Context, t plugin.Trial, l *attemptResult) {
	a, tree := t.Attempt, t.Attempt.Net.Tree
	free := offer.Sum(tree, a.World.Free)
	lacks := make([][]string, len(a.Nodes))
	placed := make([]offer.Slots, len(a.Nodes)) // if members differ, some may fit on a node that does not fit the most demanding ones
	for _, p := range t.Found.Places {
		if i, ok := tree.NodeIndex(p.Node); ok {
			placed[i]++
		}
	}
	for i, n := range a.Nodes {
		if (n != nil || a.ClosedForMaintenance(i)) && a.World.Free[i] == 0 && placed[i] == 0 {
			lacks[i] = a.Lacks(i)
		}
	}
	taken := offer.Sum(tree, placed)
	l.heterogeneous = len(a.OneOfEach(a.Group.Pods[a.Group.Pending[0].Pod])) > 0
	var withoutVictims []offer.Slots
	if l.verdict = t.Preemptor.May(a); l.verdict == preempt.Evicts && l.refusal != nil && !l.refusal.Plan.Split {
		victims, noVictims := t.Preemptor.Candidates(ctx, a)
		l.noVictims = noVictims
		withoutVictims = offer.Sum(tree, a.FreeWithout(ctx, victims))
		if l.heterogeneous {
			l.countWithout(ctx, t, victims, withoutVictims)
		}
	}
	planned := countsOf(l.refusal)
	dependent := l.refusal != nil && l.refusal.Plan != nil && l.refusal.Plan.Dependent
	layer, pin := shownLayer(tree, a.All.Must), l.shortage.Pin
	if pin != nil {
		layer = pin.DomainLayer
	}
	l.layer = tree.LayerNames()[layer]
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) != layer || !tree.Named(d) || pin != nil && tree.Path(d) != pin.DomainPath {
			continue
		}
		lo, hi := tree.Nodes(d)
		out := Domain{Path: tree.Path(d), Slots: int(free[d]), Nodes: hi - lo}
		if n, ok := planned[out.Path]; ok && (l.heterogeneous || dependent) {
			out.Slots = n
		}
		out.Slots = max(out.Slots, int(taken[d]))
		out.AtLeast = dependent && out.Slots > 0
		for i := lo; i < hi; i++ {
			for _, reason := range lacks[i] {
				if out.Lacks == nil {
					out.Lacks = map[string]int{}
				}
				out.Lacks[reason]++
			}
		}
		if withoutVictims != nil {
			out.Eviction = &Eviction{Slots: max(int(withoutVictims[d]), out.Slots), Part: layer != a.All.Must}
		}
		l.domains = append(l.domains, out)
	}
	slices.SortStableFunc(l.domains, func(x, y Domain) int { return y.Slots - x.Slots })
}

// countWithout raises counts, the slots of each domain without the pods in without. The members differ, and counts are of the most
// demanding ones. A trial plan shows that a domain takes more members.
func (l *attemptResult) countWithout(ctx context.Context, t plugin.Trial, without [][]*v1.Pod, counts []offer.Slots) {
	found, refusal, err := t.Attempt.Choose(ctx, without)
	if err != nil {
		return
	}
	tree := t.Attempt.Net.Tree
	places := make([]offer.Slots, tree.NumNodes())
	for _, p := range found.Places {
		if i, ok := tree.NodeIndex(p.Node); ok {
			places[i]++
		}
	}
	sum, planned := offer.Sum(tree, places), map[string]offer.Slots{}
	if refusal != nil {
		for _, d := range refusal.Domains {
			planned[d.Path] = d.Slots
		}
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		counts[d] = max(counts[d], sum[d], planned[tree.Path(d)])
	}
}

// countsOf returns, by path, how many waiting members fit in each domain. If members differ, a count may be larger than the sum of
// World.Free, which counts only the most demanding members.
func countsOf(r *place.Refusal) map[string]int {
	out := map[string]int{}
	if r == nil || r.Plan == nil {
		return out
	}
	for _, d := range r.Plan.Domains {
		out[d.Path] = int(d.Slots)
	}
	return out
}

// shownLayer returns the layer whose domains are listed: the gang's MustGather layer, or the first below the cluster.
func shownLayer(tree *topology.Tree, must int) int {
	if must == 0 && tree.Depth() > 1 {
		return 1
	}
	return must
}
