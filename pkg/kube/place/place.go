// Package place plans for a whole gang on one snapshot of the cluster. It counts how many members each node takes, chooses nodes with
// package plan or mixed, and assigns members to nodes. It evicts no pods and reports nothing to users.
//
//	place.go       Planner makes the attempts of one profile
//	attempt.go     one attempt, and the plan for members with equal requirements
//	job.go         the plan for heterogeneous or interdependent members
//	reserved.go    whether the reserved nodes still fit
//	capacity.go    domains that could take the gang once other pods finish
//	limits.go      rejections that contradict the counts
//	release.go     capacity that terminated pods have not yet released
//	nominated.go   pods that count on nodes beside the snapshot
//	standin.go     members not yet created
//	claims.go      ResourceClaims that members share
//	surplus.go     members beyond minMember
//	constraint.go  whether assignments still satisfy the constraints
//	attraction.go  pods of the same selector near nodes
//	diagnosis.go   what nodes lack
//	empty.go       what nodes take without pods
//	shortage.go    the cause of a refusal (with package cause)
//	penalty.go     penalties of soft preferences
//	class.go       groups with equal requests
//	spares.go      nodes that new gangs leave unused (package spare)
//	degraded.go    nodes that plans use last (package spare)
//	maintenance.go nodes in or before a maintenance window (package maintenance)
//	layout.go      the snapshot's nodes in the tree
//
// Invariant: an attempt is a value. It changes nothing but its own fields and the memories of its Planner.
package place

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Planner makes the attempts of one profile. It remembers between attempts: Filter results, limits and the layout of nodes.
type Planner struct {
	profile      framework.Framework
	cache        *cache.Cache
	memory       *fit.Memory
	ledgers      []fit.Ledger
	prefer       []Preferrer
	layouts      layouts
	limits       limits
	emptyNodes   emptyNodes
	blockedNodes blockedNodes
	elsewhere    *fit.Memory // of Attempt.Elsewhere
	// MayEvict returns a function that returns whether quotas allow the eviction of a pod for the group. lower says that the pod has a lower
	// priority. MayEvict may be nil, and may return nil if quotas do not apply. Set it before the first attempt.
	MayEvict func(*cache.Group) func(pod *v1.Pod, lower bool) bool
	// Args returns the current arguments of the profile. Set it before the first attempt if they are not the zero value.
	Args func() *config.Args
}

// NewPlanner returns the planner of a profile. The ledgers restrict the capacity of nodes in addition to the profile's Filters.
func NewPlanner(profile framework.Framework, c *cache.Cache, ledgers ...fit.Ledger) *Planner {
	return &Planner{
		profile: profile, cache: c, memory: fit.NewMemory(profile), ledgers: ledgers, elsewhere: fit.NewMemory(profile),
		emptyNodes: emptyNodes{memory: fit.NewMemory(profile), outcomes: memo.Memo[string, int, emptyOutcome]{Most: mostOutcomes}},
		Args:       func() *config.Args { return &config.Args{} },
	}
}

// Avoid returns whether a gang must not use a node.
type Avoid func(fwk.NodeInfo) bool

// NewAttempt returns an attempt for a group with stand-ins for members not yet created. It excludes nodes for which avoid (or nil) is true.
func (p *Planner) NewAttempt(group *cache.Group, nodes []fwk.NodeInfo, avoid Avoid) *Attempt {
	return p.NewAttemptAt(group, nodes, avoid, p.cache.Clock.Now())
}

// NewAttemptAt is NewAttempt for a group that would start at a given time: nodes are closed for maintenance as at that time.
func (p *Planner) NewAttemptAt(group *cache.Group, nodes []fwk.NodeInfo, avoid Avoid, start time.Time) *Attempt {
	group = withStandIns(group)
	l, softTainted := p.layouts.get(p.cache, nodes)
	a := &Attempt{
		Group: group, Net: l.net, Nodes: l.nodes, allNodes: l.nodes,
		planner: p, profile: p.profile, memory: p.memory, softTainted: softTainted, start: start,
	}
	return a.open(avoid)
}

// open sets what depends on the group, and returns the attempt.
func (a *Attempt) open(avoid Avoid) *Attempt {
	if avoid != nil {
		a.exclude(avoid)
	}
	a.closeForMaintenance()
	a.beside, a.besideSurplus = a.planner.podsBeside(a)
	a.findReservedMembers()
	return a
}

// Elsewhere returns an attempt for another group on the same snapshot, as if the pods in gone did not run. It excludes nodes for which
// avoid (or nil) is true.
func (a *Attempt) Elsewhere(ctx context.Context, group *cache.Group, gone []*v1.Pod, avoid Avoid) *Attempt {
	b := &Attempt{
		Group: group, Net: a.Net, Nodes: a.allNodes, allNodes: a.allNodes,
		planner: a.planner, profile: a.profile, memory: a.planner.elsewhere, softTainted: a.softTainted, start: a.start,
	}
	b.open(avoid)
	changed := map[int]fwk.NodeInfo{}
	for _, pod := range gone {
		i, ok := b.Net.Tree.NodeIndex(pod.Spec.NodeName)
		if !ok || b.Nodes[i] == nil {
			continue
		}
		if changed[i] == nil {
			changed[i] = b.Nodes[i].Snapshot()
		}
		_ = changed[i].RemovePod(klog.FromContext(ctx), pod) // a pod that the snapshot lacks is gone
	}
	b.Replace(changed)
	return b
}

func (a *Attempt) exclude(avoid Avoid) {
	excluded := map[int]fwk.NodeInfo{}
	for i, n := range a.allNodes {
		if n != nil && avoid(n) {
			excluded[i] = nil
		}
	}
	a.Replace(excluded)
	a.excluded = len(excluded) > 0
}

// Attempt is one try to place a group on one snapshot of the cluster.
type Attempt struct {
	Group *cache.Group
	Net   *cache.Topology
	Nodes []fwk.NodeInfo // by node index of Net's tree; nil if missing or excluded

	// World, All and Sets are the input of the plan, valid once members were counted.
	World plan.World
	All   plan.Gather
	Sets  []mixed.Set

	planner         *Planner
	profile         framework.Framework
	memory          *fit.Memory
	allNodes        []fwk.NodeInfo // with excluded nodes
	excluded        bool           // some nodes are excluded
	start           time.Time      // when the group would start
	maintained      maintained     // excluded nodes
	softTainted     bool           // some node has a PreferNoSchedule taint
	kinds           []kind
	kindOf          map[string]int // by member
	pages           fit.Pages      // the ledgers' data about the members
	counted         bool
	counts          []fit.Counts // by kind
	limited         activeLimits
	spares          []bool               // by node index, excluded spare nodes; nil if not sought
	ignoreLimits    bool                 // limits are ignored
	trialPlugins    []string             // plugins that rejected members in a trial
	beside          map[int]fit.Pods     // by node index, planned and nominated pods that the snapshot lacks; see podsBeside
	reservedMembers *fit.ReservedMembers // members with reserved nodes; nil if they keep no member off other nodes
	reservedFor     map[int]string       // by node index, the reservation that keeps members off
	besideSurplus   map[int]fit.Pods     // as beside, for members beyond minMember only
	answers         *answers
	owners          *Owners       // nil if all members may use the capacity of any victim
	sum             []offer.Slots // free slots by domain; nil if not summed
	work            *mixed.Work   // search limit shared with other plans; nil if not shared
}

// kind is the members with equal requirements.
type kind struct {
	pod     *v1.Pod // the first member
	counter *fit.Counter
	slots   []offer.Slots // by node index
	penalty []int64       // by node index, see plan.World; nil if all are 0
	owner   string        // see Owners; "" without
}

// Outcome is the plan of an attempt.
type Outcome struct {
	Places  []gang.Assignment
	InOrder bool // members must bind in the order of Places
}

// Refusal says why an attempt found no plan.
type Refusal struct {
	Plan      *plan.Refusal
	Diagnosis Diagnosis
	Avoided   map[string]string // excluded nodes, with the reason
	// Plugins are the plugins that reject members, sorted. Everywhere says that one rejects some member on all nodes, whatever runs there.
	Plugins    []string
	Everywhere bool
}

// Replace changes the states of this attempt's nodes, by node index; nil removes a node. Other attempts do not change.
func (a *Attempt) Replace(states map[int]fwk.NodeInfo) {
	if len(states) == 0 {
		return
	}
	a.Nodes = slices.Clone(a.Nodes)
	for i, n := range states {
		a.Nodes[i] = n
	}
}

// Without returns a copy of the attempt without the nodes for which excluded returns true. The attempt must have counted.
func (a *Attempt) Without(excluded func(node int) bool) *Attempt {
	reduced := *a
	reduced.kinds, reduced.answers = slices.Clone(a.kinds), &answers{}
	gone := map[int]fwk.NodeInfo{}
	for i := range a.Nodes {
		if excluded(i) {
			gone[i] = nil
		}
	}
	reduced.remove(gone)
	reduced.World.Free, reduced.sum = reduced.least(), nil
	return &reduced
}

// remove removes nodes from an attempt that has counted, with their capacity. The attempt's kinds must not be another attempt's.
func (a *Attempt) remove(gone map[int]fwk.NodeInfo) {
	a.Replace(gone)
	for k := range a.kinds {
		a.kinds[k].slots = slices.Clone(a.kinds[k].slots)
		for i := range gone {
			a.kinds[k].slots[i] = 0
		}
	}
}

// Beside returns a key for the pods that count on a node although the snapshot lacks them; "" if there are none.
func (a *Attempt) Beside(node int) string { return a.beside[node].Key() }

// Generation returns the scheduler's version number of a node's state. The node must exist.
func (a *Attempt) Generation(node int) int64 { return fit.Generation(a.Nodes[node]) }

// AnyBeside returns whether pods count on any node although the snapshot lacks them.
func (a *Attempt) AnyBeside() bool { return len(a.beside) > 0 }

// CapacityKnown returns whether the attempt knows how many members each node takes.
func (a *Attempt) CapacityKnown() bool { return a.counted }

// For returns a copy of the attempt that has only these pending members.
func (a *Attempt) For(pending []gang.Member) *Attempt {
	restricted := *a.Group
	restricted.Pending = pending
	return a.Of(&restricted)
}

// Of returns the attempt for a variant of its group with the same members or some of them.
func (a *Attempt) Of(variant *cache.Group) *Attempt {
	copied := *a
	copied.Group = variant
	return &copied
}

// Sharing returns a copy of the attempt whose plans together do no more work than work allows.
func (a *Attempt) Sharing(work *mixed.Work) *Attempt {
	copied := *a
	copied.work = work
	return &copied
}

// OnEach calls do for every node of the snapshot, in parallel.
func (a *Attempt) OnEach(ctx context.Context, do func(i int, n fwk.NodeInfo)) {
	a.InParallel(ctx, len(a.Nodes), func(i int) {
		if a.Nodes[i] != nil {
			do(i, a.Nodes[i])
		}
	})
}

// InParallel calls do for each index below n, in parallel.
func (a *Attempt) InParallel(ctx context.Context, n int, do func(i int)) {
	a.profile.Parallelizer().Until(ctx, n, do, "Coscheduling")
}

// Domain returns the path of the smallest named domain that contains the assigned nodes and the running members; "" is the cluster.
func (a *Attempt) Domain(places []gang.Assignment) string {
	return a.Net.Tree.Path(a.Enclosing(places))
}

// Enclosing returns the smallest domain that contains the assigned nodes and the running members; the root if there are none.
func (a *Attempt) Enclosing(places []gang.Assignment) topology.ID {
	nodes := make([]int, 0, len(places)+len(a.Group.Bound))
	add := func(name string) {
		if i, ok := a.Net.Tree.NodeIndex(name); ok {
			nodes = append(nodes, i)
		}
	}
	for _, p := range places {
		add(p.Node)
	}
	for _, m := range a.Group.Bound {
		add(m.Node)
	}
	domain, _ := a.Net.Tree.Enclosing(slices.Values(nodes))
	return domain
}

// Preferrer returns preferred layers of a group in addition to the group's own ones. Layers are indexes in the tree.
// A preference for layer 0 or less, or for a missing layer, is ignored.
type Preferrer interface {
	Prefer(group *cache.Group, tree *topology.Tree) []plan.Preference
}

// Extend adds ledgers and preferrers. Call it before the first attempt.
func (p *Planner) Extend(ledgers []fit.Ledger, prefer []Preferrer) {
	p.ledgers, p.prefer = append(p.ledgers, ledgers...), append(p.prefer, prefer...)
}

// addPreferences adds the valid preferences of all preferrers to a.All.Prefer.
func (a *Attempt) addPreferences() {
	for _, preferrer := range a.planner.prefer {
		for _, p := range preferrer.Prefer(a.Group, a.Net.Tree) {
			if p.Layer > 0 && p.Layer <= a.Net.Tree.Depth() && !slices.Contains(a.All.Prefer, p) {
				a.All.Prefer = append(a.All.Prefer, p)
			}
		}
	}
}
