package place

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Whether a gang would have a plan with every pod gone is asked at each refusal, and the answer only
// changes with the nodes themselves, the tree, or the gang. So what nodes take with nobody on them is
// kept, and so is what came of it for those who ask for the same. To find out that nothing has
// changed takes one look at each node.

// bare is the nodes of a profile's last snapshot with nobody on them.
type bare struct {
	mu      sync.Mutex
	tree    *topology.Tree
	nodes   []fwk.NodeInfo // by node index of tree; nil where there is none
	objects []*v1.Node     // which they show, or one that is the same to Filters
	changes int            // counts states of all of that
	memory  *fit.Memory
	known   memo.Memo[string, int, never] // by Attempt.Asks, until changes
}

// mostNevers bounds what is kept: a few bytes each.
const mostNevers = 4096

// never is what came of an attempt on bare nodes.
type never struct {
	refusal *plan.Refusal  // nil if there is a plan
	lacks   map[string]int // nodes that take nobody, by what they lack
	plugins []string       // that have refused members, sorted
	roles   []Role
}

// show brings the nodes up to date with a snapshot. What it returns is not to be changed.
func (b *bare) show(tree *topology.Tree, nodes []fwk.NodeInfo) (bare []fwk.NodeInfo, changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tree != tree || len(b.nodes) != len(nodes) {
		b.move(tree, nodes)
	}
	own := false // the slice: others may hold the last one
	for i, n := range nodes {
		var is *v1.Node
		if n != nil {
			is = n.Node()
		}
		if was := b.objects[i]; was == is || is != nil && was != nil && sameToFilters(was, is) {
			b.objects[i] = is
			continue
		}
		if !own {
			b.nodes, own = slices.Clone(b.nodes), true
			b.changes++
		}
		b.nodes[i], b.objects[i] = nil, is
		if is != nil {
			info := framework.NewNodeInfo()
			info.SetNode(is)
			b.nodes[i] = info
		}
	}
	return b.nodes, b.changes
}

// move brings nodes to where they stand in another tree. b.mu is held.
func (b *bare) move(tree *topology.Tree, nodes []fwk.NodeInfo) {
	at := make(map[string]int, len(b.objects))
	for i, object := range b.objects {
		if object != nil {
			at[object.Name] = i
		}
	}
	infos, objects := make([]fwk.NodeInfo, len(nodes)), make([]*v1.Node, len(nodes))
	for i, n := range nodes {
		if n == nil {
			continue
		}
		if was, ok := at[n.Node().Name]; ok {
			infos[i], objects[i] = b.nodes[was], b.objects[was]
		}
	}
	b.tree, b.nodes, b.objects = tree, infos, objects
	b.changes++
}

// sameToFilters says whether Filters that look at nothing but the node see no difference between two
// states of one: kubelets write conditions and images all the time.
func sameToFilters(a, b *v1.Node) bool {
	return a.UID == b.UID && a.Name == b.Name &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// onBare is a counted attempt in a cluster in which no pod is; nil where nobody can know. What ledgers
// would say there is not asked: what pods hold of them may outlast the pods.
func (a *Attempt) onBare(ctx context.Context) (*Attempt, int) {
	if len(a.pages) > 0 || slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Key() == "" }) {
		return nil, 0
	}
	return a.bareFor(ctx, a.kinds)
}

// atMost is a counted attempt on bare nodes that take no fewer members than they ever will: no more is
// asked than what depends on the node alone. nil where nobody can know.
func (a *Attempt) atMost(ctx context.Context) (*Attempt, int) {
	kinds := slices.Clone(a.kinds)
	for k := range kinds {
		kinds[k].counter = kinds[k].counter.Alone()
	}
	return a.bareFor(ctx, kinds)
}

// bareFor is the attempt on bare nodes, which are asked by the counters of these kinds.
func (a *Attempt) bareFor(ctx context.Context, kinds []kind) (*Attempt, int) {
	if !a.counted || slices.ContainsFunc(kinds, func(k kind) bool { return k.counter.Everywhere() }) {
		return nil, 0
	}
	known := &a.planner.bare
	b := *a
	var changes int
	b.Nodes, changes = known.show(a.Net.Tree, a.all)
	b.leftOut, b.beside, b.others, b.limited, b.unlimited, b.work = false, nil, nil, limited{}, true, nil
	b.answers = &answers{}
	b.kinds, b.counts, b.pages = slices.Clone(kinds), make([]fit.Counts, len(kinds)), nil
	for k := range b.kinds {
		b.kinds[k].counter = b.kinds[k].counter.Anywhere()
		b.counts[k] = known.memory.Count(ctx, b.kinds[k].counter, b.Nodes, nil)
		b.kinds[k].slots = b.counts[k].Slots
	}
	b.World.Free, b.sum = b.least(), nil
	return &b, changes
}

// never says what comes of an attempt with every pod gone, those of the group that run, too: if there
// is no plan then, it waits for other nodes, or other rules, and nobody who leaves helps. bare is the
// attempt on bare nodes, which may take fewer than it says.
func (a *Attempt) never(ctx context.Context, bare *Attempt, changes int) never {
	asks := a.Asks() // "" is what other attempts do not ask
	if is, ok := a.planner.bare.known.Get(asks, changes); ok && asks != "" {
		return is
	}
	is := never{}
	_, refusal, err := bare.Choose(ctx, nil)
	if err == nil && refusal != nil && !refusal.Cut {
		is.roles = bare.withoutNode()
		is.refusal, is.lacks = refusal, diagnose(bare.Nodes, bare.counts).Lacks
		now, _ := a.refusedBy()
		then, _ := bare.refusedBy()
		is.plugins = slices.Compact(slices.Sorted(slices.Values(slices.Concat(now, then))))
	}
	if asks != "" {
		a.planner.bare.known.Put(asks, changes, is)
	}
	return is
}
