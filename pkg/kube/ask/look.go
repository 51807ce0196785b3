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

// look is what one attempt says, read off while its snapshot is as it was.
type look struct {
	refusal *place.Refusal // nil if there is a plan, or a plugin has failed

	// All below only if it was looked at closely.
	shortage place.Shortage
	domains  []Domain
	unlike   bool // the members that wait differ in what they need
	layer    string
	nobody   bool // who may be evicted
	may      preempt.Verdict
}

// Domain is what one domain has for a gang.
type Domain struct {
	Path  string         `json:"path"` // "" is the whole cluster
	Slots int            `json:"slots"`
	Nodes int            `json:"nodes"`
	Lacks map[string]int `json:"lacks,omitempty"` // nodes that take nobody, by what they lack
	// Eviction is nil where nobody is sought.
	Eviction *Eviction `json:"eviction,omitempty"`
}

// Eviction is what an eviction in a domain would come to.
type Eviction struct {
	Possible bool `json:"possible"`
	Untried  bool `json:"untried,omitempty"` // nobody knows
	// Part says that the gang need not be in this domain alone: nobody is sought for that.
	Part bool `json:"part,omitempty"`
	// Slots are those that there would be if everybody had left who may be evicted.
	Slots                int `json:"slots"`
	*status.EvictionCost     // of the cheapest; nil if it is not possible
}

// lookAt reads what an attempt has found.
func (v *View) lookAt(ctx context.Context, t plugin.Trial, closely bool) look {
	a := t.Attempt
	l := look{refusal: t.Refusal}
	if t.Refusal != nil && closely { // what it comes to is a question to each node
		l.shortage = t.Shortage(ctx)
	}
	if closely && a.Counted() {
		v.close(ctx, t, &l)
	}
	return l
}

// close looks at each domain.
func (v *View) close(ctx context.Context, t plugin.Trial, l *look) {
	a, tree := t.Attempt, t.Attempt.Net.Tree
	free := offer.Sum(tree, a.World.Free)
	lacks := make([][]string, len(a.Nodes))
	placed := make([]offer.Slots, len(a.Nodes)) // of members that differ some have room where those that need most have none
	for _, p := range t.Found.Places {
		if i, ok := tree.NodeIndex(p.Node); ok {
			placed[i]++
		}
	}
	for i, n := range a.Nodes {
		if n != nil && a.World.Free[i] == 0 && placed[i] == 0 {
			lacks[i] = a.Lacks(i)
		}
	}
	taken := offer.Sum(tree, placed)
	l.unlike = len(a.OneOfEach(a.Group.Pods[a.Group.Pending[0].Pod])) > 0
	var then []offer.Slots
	if l.may = t.Preemptor.May(a); l.may == preempt.Evicts && l.refusal != nil && !l.refusal.Plan.Split {
		gone, nobody := t.Preemptor.Leavers(ctx, a)
		l.nobody = nobody
		then = offer.Sum(tree, a.FreeWithout(ctx, gone))
		if l.unlike {
			l.thenOf(ctx, t, gone, then)
		}
	}
	could := offers(l.refusal)
	layer, pin := shown(tree, a.All.Must), l.shortage.Pin
	if pin != nil {
		layer = pin.At
	}
	l.layer = tree.LayerNames()[layer]
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) != layer || !tree.Named(d) || pin != nil && tree.Path(d) != pin.In {
			continue
		}
		lo, hi := tree.Nodes(d)
		out := Domain{Path: tree.Path(d), Slots: int(free[d]), Nodes: hi - lo}
		if n, ok := could[out.Path]; ok && l.unlike {
			out.Slots = n
		}
		out.Slots = max(out.Slots, int(taken[d]))
		for i := lo; i < hi; i++ {
			for _, reason := range lacks[i] {
				if out.Lacks == nil {
					out.Lacks = map[string]int{}
				}
				out.Lacks[reason]++
			}
		}
		if then != nil {
			out.Eviction = &Eviction{Slots: max(int(then[d]), out.Slots), Part: layer != a.All.Must}
		}
		l.domains = append(l.domains, out)
	}
	slices.SortStableFunc(l.domains, func(x, y Domain) int { return y.Slots - x.Slots })
}

// thenOf counts in each domain how many of members that differ there would be room for if some had left: more than for
// those that need most.
func (l *look) thenOf(ctx context.Context, t plugin.Trial, gone [][]*v1.Pod, then []offer.Slots) {
	found, refusal, err := t.Attempt.Choose(ctx, gone)
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
	sum, could := offer.Sum(tree, places), map[string]offer.Slots{}
	if refusal != nil {
		for _, d := range refusal.Domains {
			could[d.Path] = d.Slots
		}
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		then[d] = max(then[d], sum[d], could[tree.Path(d)])
	}
}

// offers are how many members of those that wait have room in each domain that they might gather in, as
// a refusal has it: of members that differ more than there are slots for those that need most.
func offers(r *place.Refusal) map[string]int {
	out := map[string]int{}
	if r == nil || r.Plan == nil {
		return out
	}
	for _, d := range r.Plan.Domains {
		out[d.Path] = int(d.Slots)
	}
	return out
}

// shown is the layer whose domains are listed for a gang that must gather in one: it, or the first
// below the cluster.
func shown(tree *topology.Tree, must int) int {
	if must == 0 && tree.Depth() > 1 {
		return 1
	}
	return must
}
