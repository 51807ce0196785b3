package place

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cause"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Shortage is the cause of a refusal, for one sentence to the user.
type Shortage struct {
	Plan *plan.Refusal
	// Lacks is the number of nodes by the Filters' message. With Never it counts nodes that take no member even without pods.
	Lacks      map[string]int
	Causes     map[string]string // see fit.Causes
	Unlabelled string            // see network.Topology.Unlabelled
	// Closed says when nodes that are closed for maintenance take members again.
	Closed ClosedUntil
	// Repair says what else may repair an incomplete gang, or when the gang may evict gangs of equal priority, in sentences for the user.
	Repair string
	// ReservedNodes are further nodes, not in Lacks, whose free capacity is reserved.
	ReservedNodes NodesReserved
	// BlockedNodes are the numbers of further nodes used by pods that may not be evicted, by the barrier (why not).
	BlockedNodes map[eligible.Barrier]int
	// Least is the member of lowest priority, if priorities differ: the gang evicts only pods of a lower one. Set with BlockedNodes.
	Least    *v1.Pod
	Priority int32 // of Least
	// Never is why no plan exists even without pods; nil if one does, or it is unknown.
	Never *plan.Refusal
	// TooFewNodes says with Never that no plan exists even without topology constraints.
	TooFewNodes bool
	// Surplus says that the group has started, has lost no member, and needs none of the pending members.
	Surplus bool
	// Roles are the roles with too few members that any node can take without pods.
	Roles []Role
	// MinResourcesBeyondPods is what minResources of gangs requests beyond their pods.
	MinResourcesBeyondPods []string
	// AtMost says that Never has upper bounds of the domains' capacity: members also need devices, volumes or certain neighbors.
	AtMost bool
	// Pin describes running members in a domain that lacks capacity; nil if that is not the cause, or unknown.
	Pin *cause.Pin
	// SplitOver are the domains in which members run that must share one; the first is the one to keep. Set if the plan's refusal is Split.
	SplitOver []cause.RunningIn
	// Joins says that running members, or a smaller last slice, also count for multiples. The pending ones alone need not reach any.
	Joins bool
	// Pending is the number of members that wait.
	Pending offer.Slots
	// Short is as Diagnosis.Short.
	Short []fit.Shortage
	// Separations say that members need separate nodes or domains, of which there are too few; sorted.
	Separations []cause.Separation
	// Ties are the rules that make members interdependent, and SharedClaims the ResourceClaims that do: see package convert.
	Ties, SharedClaims []string
	// Plugins are the plugins that reject members, sorted. With Never they include plugins that do so on empty nodes.
	Plugins []string
}

// Want returns the number of members that a refusal is about. Of a group that may start without some gangs, that is the next number that
// is a multiple as declared, if enough members wait.
func (s Shortage) Want(r *plan.Refusal) offer.Slots {
	want := r.Want
	for _, m := range r.Multiple {
		if rest := want % m.Count; r.Optional != nil && rest > 0 {
			want += m.Count - rest
		}
	}
	if want > s.Pending {
		return r.Want
	}
	return want
}

// UnreachableMultiples returns the multiples of which the wanted number of members is no multiple. No domain can satisfy these.
func (s Shortage) UnreachableMultiples(r *plan.Refusal) (out []plan.Multiple) {
	for _, m := range r.Multiple {
		if !s.Joins && s.Want(r)%m.Count != 0 {
			out = append(out, m)
		}
	}
	return out
}

// Shortage returns the cause of an attempt's refusal. evicts says that pods may be evicted for the members.
// It costs no more than the attempt: results on empty nodes are remembered until nodes change.
func (a *Attempt) Shortage(ctx context.Context, r *Refusal, evicts bool) Shortage {
	s := Shortage{Plan: r.Plan, Lacks: r.Diagnosis.Lacks, Short: r.Diagnosis.Short, Plugins: r.Plugins}
	s.Pending, s.Closed = offer.Slots(len(a.Group.Pending)), a.closedUntil()
	s.MinResourcesBeyondPods = a.Group.MissingRequests
	lost := func(g gang.Gang) bool { return g.Started > 0 && !g.Reached() }
	s.Surplus = len(a.Group.Needed()) == 0 && !slices.ContainsFunc(a.Group.Gangs, lost)
	lastSlice := func(g gang.Gang) bool { return g.Ref.PartName() == group.LastSlice }
	s.Joins = len(a.Group.Bound) > 0 || slices.ContainsFunc(a.Group.Gangs, lastSlice)
	search := cause.Search{Group: a.Group, Tree: a.Net.Tree, Nodes: a.Nodes, All: a.All, Sets: a.Sets}
	if r.Plan.Split {
		s.SplitOver = search.SplitOver(r.Plan)
		return s
	}
	if s.Pin = search.Pin(r.Plan); s.Pin != nil {
		a.setTooSmall(ctx, s.Pin)
		return s
	}
	empty, changes := a.attemptOnEmptyNodes(ctx)
	most := empty
	if empty == nil {
		most, changes = a.upperBoundOnEmptyNodes(ctx)
	}
	var takes func(node int) bool
	if most != nil {
		takes = func(i int) bool { return slices.ContainsFunc(most.kinds, func(k kind) bool { return k.slots[i] > 0 }) }
	}
	s.Separations = search.Separations(int(r.Plan.Want), takes)
	var outcome emptyOutcome
	if most != nil && !search.DependsOnBound() {
		outcome = a.outcomeOnEmpty(ctx, most, changes)
	}
	if outcome.refusal != nil {
		s.Never, s.AtMost, s.Lacks, s.Plugins, s.Roles = outcome.refusal, empty == nil, outcome.lacks, outcome.plugins, outcome.roles
		s.TooFewNodes = outcome.tooFewNodes
	} else {
		var reserved []int
		s.ReservedNodes, reserved = a.nodesReservedForOthers(ctx)
		s.Lacks = a.lacksWithout(reserved, s.Lacks)
		if evicts && empty != nil {
			if s.BlockedNodes, s.Lacks = a.countBlocked(ctx, empty.World.Free, reserved, s.Lacks); len(s.BlockedNodes) > 0 {
				s.Least, s.Priority = a.LowestOfSeveral()
			}
		}
	}
	pods, members := make([]*v1.Pod, len(a.kinds)), make([]*v1.Pod, len(a.Group.Pending))
	for i, m := range a.Group.Pending {
		members[i] = a.Group.Pods[m.Pod]
	}
	for i, k := range a.kinds {
		pods[i] = k.pod
		named := *k.pod // a stand-in has the name of its leader
		named.Name, _, _ = group.Leader(named.Name)
		s.Ties = append(s.Ties, convert.TiesOf(&named, members)...)
	}
	s.Ties = slices.Compact(slices.Sorted(slices.Values(s.Ties)))
	s.SharedClaims = convert.SharedClaims(members)
	s.Causes = fit.Causes(a.allNodes, pods, s.Lacks)
	s.Unlabelled = a.Net.Unlabelled(r.Plan.Layer, a.allNodes)
	return s
}

// setTooSmall sets p.TooSmall: whether the domain of a pin takes too few members even if only the group's running members are there.
func (a *Attempt) setTooSmall(ctx context.Context, p *cause.Pin) {
	most, _ := a.upperBoundOnEmptyNodes(ctx)
	if most == nil || len(a.kinds) > 1 || p.Layer != "" {
		return
	}
	own := map[string]fit.Pods{} // by node
	for _, m := range a.Group.Bound {
		if pod := a.Group.Pods[m.Pod]; pod != nil && !m.Done {
			if info, err := framework.NewPodInfo(pod); err == nil {
				own[m.Node] = append(own[m.Node], info)
			}
		}
	}
	capacity := offer.Slots(0)
	for lo, hi := a.Net.Tree.Nodes(p.Domain); lo < hi; lo++ {
		slots := most.World.Free[lo]
		if pods := own[a.Net.Tree.NodeName(lo)]; slots > 0 && len(pods) > 0 {
			slots, _ = most.kinds[0].counter.Count(ctx, most.Nodes[lo], pods)
		}
		capacity += slots
	}
	p.TooSmall = capacity < p.Want
}

// Role is a part of a gang for whose members no node, or not enough nodes, have capacity: a task, a sub-group or the whole gang.
type Role struct {
	Name string // for messages
	Need int    // number of them that must be placed
	Fits int    // of Need, how many the nodes take
}

// rolesWithoutNode returns the roles of which more members are needed than the nodes take; nil if all members are equal. A gang that the
// group may start without is left out. So is a part without a name of which nodes take some members: the cause names the whole gang.
func (a *Attempt) rolesWithoutNode() (out []Role) {
	if len(a.kinds) == 1 {
		return nil // the cause holds for all members
	}
	capacity := make([]offer.Slots, len(a.kinds))
	for k, kind := range a.kinds {
		for _, n := range kind.slots {
			capacity[k] += n
		}
	}
	for i, g := range a.Group.Gangs {
		if !a.Group.Choice.Requires(i) {
			continue
		}
		need, left, short, fits := g.Need, slices.Clone(capacity), map[Role]int{}, map[string]int{}
		for _, m := range a.Group.Pending {
			name, k := a.Group.RoleOf(m), a.kindOf[m.Pod]
			switch {
			case m.Gang != g.Ref:
			case left[k] > 0:
				left[k]--
				need--
				fits[name]++
			case capacity[k] == 0:
				short[Role{Name: cmp.Or(name, fmt.Sprintf("gang %s, such as %s", displayName(g.Ref), m.Pod))}]++
			case name != "":
				short[Role{Name: name, Fits: 1}]++
			}
		}
		byName := func(x, y Role) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Fits, y.Fits)) }
		for _, role := range slices.SortedFunc(maps.Keys(short), byName) {
			if role.Need = min(need, short[role]); role.Need > 0 {
				need -= role.Need
				role.Fits *= fits[role.Name]
				role.Need += role.Fits
				out = append(out, role)
			}
		}
	}
	return out
}

// LowestOfSeveral returns the member of lowest priority, and its priority, if priorities differ; nil if all are equal.
func (a *Attempt) LowestOfSeveral() (low *v1.Pod, priority int32) {
	low = a.Lowest()
	priority = a.planner.cache.Priority(low)
	differs := func(m gang.Member) bool { return a.planner.cache.Priority(a.Group.Pods[m.Pod]) != priority }
	if slices.ContainsFunc(a.Group.Pending, differs) {
		return low, priority
	}
	return nil, 0
}

// blockedNodes remembers, for each request, which nodes take no member because of pods that may not be evicted, until the node changes.
type blockedNodes struct {
	mu    sync.Mutex
	known memo.Map[string, *blockedFor] // by needKey
}

// blockedFor is the blocked nodes of one request, by node index.
type blockedFor struct {
	generation []int64
	barriers   []uint64 // hash of the pods' barriers, if quotas apply
	blocked    []eligible.Barrier
}

// mostBlocked bounds the remembered requests. Each takes 17 bytes for each node.
const mostBlocked = 64

// entry returns the remembered nodes of a request, to be read and written with s.mu locked.
func (s *blockedNodes) entry(key string, nodes int) *blockedFor {
	f := s.known.Share(key, &blockedFor{}, mostBlocked)
	if len(f.blocked) != nodes {
		f.generation, f.barriers, f.blocked = make([]int64, nodes), make([]uint64, nodes), make([]eligible.Barrier, nodes)
	}
	return f
}

// lacksWithout returns lacks (numbers of nodes by message) without the given nodes.
func (a *Attempt) lacksWithout(nodes []int, lacks map[string]int) map[string]int {
	rest := maps.Clone(lacks)
	for _, i := range nodes {
		subtract(rest, a.Lacks(i), 1)
	}
	return rest
}

// subtract subtracts by from the number of each reason in lacks, and removes reasons that reach 0.
func subtract(lacks map[string]int, reasons []string, by int) {
	for _, reason := range reasons {
		if lacks[reason] -= by; lacks[reason] <= 0 {
			delete(lacks, reason)
		}
	}
}

// countBlocked returns, by barrier, how many nodes take no member because of pods that may not be evicted; rest is lacks without these
// nodes. emptyFree is the capacity of nodes without pods. The nodes in reserved, in ascending order, are not counted.
func (a *Attempt) countBlocked(
	ctx context.Context, emptyFree []offer.Slots, reserved []int, lacks map[string]int,
) (counts map[eligible.Barrier]int, rest map[string]int) {
	p := a.planner
	p.blockedNodes.mu.Lock()
	defer p.blockedNodes.mu.Unlock()
	known := p.blockedNodes.entry(a.needKey(), len(a.Nodes))
	blocked := slices.Clone(known.blocked)
	barrierOf, quotas := a.barriers()
	a.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		if a.World.Free[i] > 0 || emptyFree[i] == 0 || a.reservedFor[i] != "" {
			blocked[i] = eligible.NoBarrier
			return
		}
		generation, barriers := fit.Generation(n), uint64(0)
		if quotas { // quotas may change while the node does not
			barriers = hashBarriers(n, barrierOf)
		}
		if known.generation[i] == generation && known.barriers[i] == barriers && len(a.beside[i]) == 0 {
			return
		}
		blocked[i] = a.blockedBy(ctx, i, n, barrierOf)
		if len(a.beside[i]) == 0 {
			known.generation[i], known.barriers[i], known.blocked[i] = generation, barriers, blocked[i]
		}
	})
	nodesByReasons := map[*fit.Reasons]int{} // nodes by what they lack; most lack the same
	rest = maps.Clone(lacks)
	for _, i := range reserved {
		blocked[i] = eligible.NoBarrier
	}
	counts = map[eligible.Barrier]int{}
	for i, barrier := range blocked {
		if barrier == eligible.NoBarrier || a.Nodes[i] == nil {
			continue
		}
		if counts[barrier]++; len(a.counts) == 1 {
			nodesByReasons[a.counts[0].Why(i)]++
		} else {
			subtract(rest, a.Lacks(i), 1)
		}
	}
	for reasons, n := range nodesByReasons {
		subtract(rest, reasons.All(), n)
	}
	if n := lacks[nodeports.ErrReason]; n > 0 { // said also of a port whose holder may not be evicted: free resources do not help
		rest[nodeports.ErrReason] = n
	}
	return counts, rest
}

// needKey returns a key for the members' requirements and the priority below which they evict.
func (a *Attempt) needKey() string {
	key := strconv.Itoa(int(a.planner.cache.Priority(a.Lowest())))
	for _, k := range a.kinds {
		key += "\n" + k.counter.Key()
	}
	return key
}

// barriers returns a function for why a pod may not be evicted for the members (terminating pods have no barrier); and if quotas apply.
func (a *Attempt) barriers() (barrierOf func(*v1.Pod) eligible.Barrier, quotas bool) {
	rule := eligible.RuleOf(a.planner.cache, a.planner.cache.Priority(a.Lowest()), nil, nil)
	if quotaRule := a.planner.MayEvict; quotaRule != nil {
		rule.Quotas = quotaRule(a.Group)
	}
	return func(pod *v1.Pod) eligible.Barrier {
		if pod.DeletionTimestamp != nil {
			return eligible.NoBarrier
		}
		return rule.Barrier(pod)
	}, rule.Quotas != nil
}

// hashBarriers returns a hash of the barriers of a node's pods.
func hashBarriers(n fwk.NodeInfo, barrierOf func(*v1.Pod) eligible.Barrier) uint64 {
	h := fnv.New64a()
	for _, info := range n.GetPods() {
		_, _ = h.Write([]byte{byte(barrierOf(info.GetPod()))})
	}
	return h.Sum64()
}

// blockedBy returns the lowest barrier of the node's pods; NoBarrier if the node takes a member without the pods that have no barrier.
func (a *Attempt) blockedBy(ctx context.Context, node int, n fwk.NodeInfo, barrierOf func(*v1.Pod) eligible.Barrier) eligible.Barrier {
	var gone []*v1.Pod
	first := eligible.NoBarrier
	for _, info := range n.GetPods() {
		switch barrier := barrierOf(info.GetPod()); {
		case barrier == eligible.NoBarrier:
			gone = append(gone, info.GetPod())
		case first == eligible.NoBarrier || barrier < first:
			first = barrier
		}
	}
	if first != eligible.NoBarrier && len(gone) > 0 && a.CountWithout(ctx, node, gone) > 0 {
		return eligible.NoBarrier
	}
	return first
}
