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

// emptyNodes has the nodes of a profile's last snapshot without any pods. Each unschedulable gang is planned on them, to learn whether any
// eviction could help. The outcome changes only with the nodes, the tree or the request, so it is remembered.
type emptyNodes struct {
	mu       sync.Mutex
	tree     *topology.Tree
	nodes    []fwk.NodeInfo // by node index of tree; nil where there is none
	objects  []*v1.Node     // the Node objects of nodes, or objects that are equal for Filters
	changes  int            // version of the fields above
	memory   *fit.Memory
	outcomes memo.Memo[string, int, emptyOutcome] // by Attempt.RequestKey, valid for one version
}

// mostOutcomes bounds outcomes, at a few bytes each.
const mostOutcomes = 4096

// emptyOutcome is the result of an attempt on empty nodes.
type emptyOutcome struct {
	refusal *plan.Refusal  // nil if there is a plan
	lacks   map[string]int // number of nodes that reject members, by Filter message
	plugins []string       // plugins that reject members, sorted
	roles   []Role         // see rolesWithoutNode
	// tooFewNodes says that no plan exists even without topology constraints.
	tooFewNodes bool
}

// update updates the nodes from a snapshot, and returns them with their version. The caller must not change the result.
func (b *emptyNodes) update(tree *topology.Tree, nodes []fwk.NodeInfo) (infos []fwk.NodeInfo, changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tree != tree || len(b.nodes) != len(nodes) {
		b.reindex(tree, nodes)
	}
	cloned := false // callers may hold the previous slice
	for i, n := range nodes {
		var object *v1.Node
		if n != nil {
			object = n.Node()
		}
		if previous := b.objects[i]; previous == object || object != nil && previous != nil && sameToFilters(previous, object) {
			b.objects[i] = object
			continue
		}
		if !cloned {
			b.nodes, cloned = slices.Clone(b.nodes), true
			b.changes++
		}
		b.nodes[i], b.objects[i] = nil, object
		if object != nil {
			info := framework.NewNodeInfo()
			info.SetNode(object)
			b.nodes[i] = info
		}
	}
	return b.nodes, b.changes
}

// reindex reorders the nodes by the indexes of another tree. The caller has locked b.mu.
func (b *emptyNodes) reindex(tree *topology.Tree, nodes []fwk.NodeInfo) {
	indexOf := make(map[string]int, len(b.objects))
	for i, object := range b.objects {
		if object != nil {
			indexOf[object.Name] = i
		}
	}
	infos, objects := make([]fwk.NodeInfo, len(nodes)), make([]*v1.Node, len(nodes))
	for i, n := range nodes {
		if n == nil {
			continue
		}
		if previous, ok := indexOf[n.Node().Name]; ok {
			infos[i], objects[i] = b.nodes[previous], b.objects[previous]
		}
	}
	b.tree = tree
	b.nodes = infos
	b.objects = objects
	b.changes++
}

// sameToFilters returns whether two states of a node are equal for Filters. Conditions, which kubelets write often, are not compared.
func sameToFilters(a, b *v1.Node) bool {
	return a.UID == b.UID && a.Name == b.Name &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// attemptOnEmptyNodes returns the attempt, counted on empty nodes, and the version of these. It returns nil if their capacity is unknown:
// members have devices or volumes (whose allocations may outlast pods), or their Filters depend on more than the node.
func (a *Attempt) attemptOnEmptyNodes(ctx context.Context) (*Attempt, int) {
	if len(a.pages) > 0 || slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Key() == "" }) {
		return nil, 0
	}
	return a.withEmptyNodes(ctx, a.kinds)
}

// upperBoundOnEmptyNodes returns the attempt on empty nodes with an upper bound of their capacity, and the version of these; nil if
// unknown. It uses only Filters that depend on the node alone.
func (a *Attempt) upperBoundOnEmptyNodes(ctx context.Context) (*Attempt, int) {
	kinds := slices.Clone(a.kinds)
	for k := range kinds {
		kinds[k].counter = kinds[k].counter.NodeLocal()
	}
	return a.withEmptyNodes(ctx, kinds)
}

// withEmptyNodes returns the attempt on empty nodes, counted by the counters of kinds; nil if a kind is rejected on all nodes.
func (a *Attempt) withEmptyNodes(ctx context.Context, kinds []kind) (*Attempt, int) {
	if !a.counted || slices.ContainsFunc(kinds, func(k kind) bool { return k.counter.RejectedOnAllNodes() }) {
		return nil, 0
	}
	empty := &a.planner.emptyNodes
	b := *a
	var changes int
	b.Nodes, changes = empty.update(a.Net.Tree, a.allNodes)
	b.excluded, b.spares = false, nil
	b.beside = nil
	b.besideSurplus = nil
	b.limited = activeLimits{}
	b.ignoreLimits = true
	b.work = nil
	b.answers = &answers{}
	b.kinds = slices.Clone(kinds)
	b.counts = make([]fit.Counts, len(kinds))
	b.pages = nil
	for k := range b.kinds {
		b.kinds[k].counter = b.kinds[k].counter.WithoutClosedDomains()
		b.counts[k] = empty.memory.Count(ctx, b.kinds[k].counter, b.Nodes, nil)
		b.kinds[k].slots = b.counts[k].Slots
	}
	b.World.Free, b.sum = b.least(), nil
	return &b, changes
}

// outcomeOnEmpty returns the result of planning on empty nodes: all pods are gone, even the group's running members.
// Without a plan there, no eviction helps: the group needs other nodes or constraints. empty may overestimate the capacity.
func (a *Attempt) outcomeOnEmpty(ctx context.Context, empty *Attempt, changes int) emptyOutcome {
	key := a.RequestKey() // "" marks a request that no other attempt shares
	if outcome, ok := a.planner.emptyNodes.outcomes.Get(key, changes); ok && key != "" {
		return outcome
	}
	outcome := emptyOutcome{}
	_, refusal, err := empty.Choose(ctx, nil)
	if err == nil && refusal != nil && !refusal.Incomplete {
		outcome.refusal, outcome.roles, outcome.lacks = refusal, empty.rolesWithoutNode(), diagnose(empty.Nodes, empty.counts).Lacks
		outcome.tooFewNodes = empty.tooFewNodes(ctx)
		pluginsNow, _ := a.unschedulablePlugins()
		pluginsOnEmpty, _ := empty.unschedulablePlugins()
		outcome.plugins = slices.Compact(slices.Sorted(slices.Values(slices.Concat(pluginsNow, pluginsOnEmpty))))
	}
	if key != "" {
		a.planner.emptyNodes.outcomes.Put(key, changes, outcome)
	}
	return outcome
}

// tooFewNodes returns whether a group that has topology constraints has no plan without them either. It returns false if that is unknown,
// or the members are interdependent.
func (a *Attempt) tooFewNodes(ctx context.Context) bool {
	if a.All.Must == 0 && a.All.MaxMultiple() == 1 && len(a.Sets) == 0 || a.Dependent() {
		return false
	}
	free := *a
	free.All, free.Sets, free.sum, free.answers = plan.Gather{}, nil, nil, &answers{}
	_, refusal, err := free.Choose(ctx, nil)
	return err == nil && refusal != nil && !refusal.Incomplete
}
