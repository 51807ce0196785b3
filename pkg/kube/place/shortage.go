package place

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Shortage is what a refusal comes to: what one plain sentence says of a gang without a plan.
type Shortage struct {
	Plan *plan.Refusal
	// Lacks counts nodes by what they lack, in the Filters' words: with Never, those that would take nobody
	// with every pod gone.
	Lacks map[string]int
	// Held are further nodes whose free room is reserved for others.
	Held Held
	// Stay are further nodes that would have room if pods left that may not be evicted.
	Stay int
	// Least is the member of lowest priority, if members differ in priority: the gang evicts only pods of a lower one. Set with Stay.
	Least    *v1.Pod
	Priority int32 // of Least
	// Never is what stands in the way when every pod has gone; nil if nothing does, or nobody knows.
	Never *plan.Refusal
	// Roles are the roles with too few members that any node has capacity for, when every pod has gone.
	Roles []Role
	// Beyond says what minResources of gangs asks for beyond their pods.
	Beyond []string
	// AtMost says that domains may take even fewer than Never has: members need more than room on nodes.
	AtMost bool
	// Pin is who runs where there is no room for those who must join them; nil if that is not what
	// stands in the way, or nobody knows.
	Pin *Pin
	// Fresh says that no member runs, and none has left a smaller slice: those that wait make up all multiples.
	Fresh bool
	// Short is what members need more of than is free in the best domain, which no node shows.
	Short []fit.Shortage
	// Apart are the reasons why members need a node, or another domain, each of its own, where there are too few of these; sorted.
	Apart []Apart
	// Plugins are those that refuse members, with Never on nodes with nobody on them, too; sorted.
	Plugins []string
}

// Odd are the multiples that as many members cannot make up, wherever they are.
func (s Shortage) Odd(r *plan.Refusal) (out []plan.Multiple) {
	for _, m := range r.Multiple {
		if s.Fresh && r.Want%m.Count != 0 {
			out = append(out, m)
		}
	}
	return out
}

// Shortage says what an attempt's refusal comes to. evicts says that others may be evicted for the
// members. It costs no more than the attempt did: what is not read off the refusal is kept until nodes
// change.
func (a *Attempt) Shortage(ctx context.Context, r *Refusal, evicts bool) Shortage {
	s := Shortage{Plan: r.Plan, Lacks: r.Diagnosis.Lacks, Short: r.Diagnosis.Short, Plugins: r.Plugins, Beyond: a.Group.Beyond}
	s.Fresh = len(a.Group.Bound) == 0 && !slices.ContainsFunc(a.Group.Gangs, func(g gang.Gang) bool { return g.Ref.PartName() == group.LastSlice })
	if r.Plan.Split {
		return s
	}
	if s.Pin = a.pin(r.Plan); s.Pin != nil {
		return s
	}
	bare, changes := a.onBare(ctx)
	most := bare
	if bare == nil {
		most, changes = a.atMost(ctx)
	}
	s.Apart = a.apart(int(r.Plan.Want), most)
	var is never
	if most != nil && !a.tied() {
		is = a.never(ctx, most, changes)
	}
	switch {
	case is.refusal != nil:
		s.Never, s.AtMost, s.Lacks, s.Plugins, s.Roles = is.refusal, bare == nil, is.lacks, is.plugins, is.roles
	default:
		var held []int
		s.Held, held = a.held(ctx)
		s.Lacks = a.lacksBut(held, s.Lacks)
		if evicts && bare != nil {
			if s.Stay, s.Lacks = a.staying(ctx, bare.World.Free, held, s.Lacks); s.Stay > 0 {
				if s.Least = a.lowestOfSeveral(); s.Least != nil {
					s.Priority = a.planner.cache.Priority(s.Least)
				}
			}
		}
	}
	return s
}

// Role is members of a gang for which no node has capacity.
type Role struct {
	Name string // for messages
	Need int    // so many of them must be placed
}

// withoutNode lists the roles that need members for which no node has capacity: tasks, sub-groups and gangs of the group, and where these
// are not told apart, members that need the same.
func (a *Attempt) withoutNode() (out []Role) {
	takes := func(m gang.Member) bool {
		return slices.ContainsFunc(a.kinds[a.kindOf[m.Pod]].slots, func(n offer.Slots) bool { return n > 0 })
	}
	if len(a.kinds) == 1 || a.Group.Choice.Any() {
		return nil // it is said of all, or no gang is needed for sure
	}
	for _, g := range a.Group.Gangs {
		need, named := g.Need, map[string]int{}
		for _, m := range a.Group.Pending {
			if m.Gang == g.Ref && takes(m) {
				need--
			} else if m.Gang == g.Ref {
				named[a.Group.RoleOf(m)]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if n := min(need, named[name]); n > 0 {
				out = append(out, Role{Name: cmp.Or(name, "gang "+nameOf(g.Ref)), Need: n})
				need -= n
			}
		}
	}
	return out
}

// lowestOfSeveral returns the member of lowest priority where members differ in priority; nil if all are equal.
func (a *Attempt) lowestOfSeveral() *v1.Pod {
	low := a.Lowest()
	for _, m := range a.Group.Pending {
		if a.planner.cache.Priority(a.Group.Pods[m.Pod]) != a.planner.cache.Priority(low) {
			return low
		}
	}
	return nil
}

// stays remembers on which nodes those who may not be evicted are in the way, by what is asked for,
// until the node changes.
type stays struct {
	mu    sync.Mutex
	asked int64
	known map[string]*staysFor
}

// staysFor is by node index.
type staysFor struct {
	asked      int64
	generation []int64
	leave      []uint64 // who may be evicted there, as far as quotas say
	stay       []bool
}

// mostStays bounds the memory: 17 bytes for each node.
const mostStays = 64

// of is what is known for members of a priority that need the same.
func (s *stays) of(key string, nodes int) *staysFor {
	s.asked++
	f := s.known[key]
	if f == nil {
		if s.known == nil || len(s.known) >= mostStays {
			s.forget()
		}
		f = &staysFor{}
		s.known[key] = f
	}
	if f.asked = s.asked; len(f.stay) != nodes {
		f.generation, f.leave, f.stay = make([]int64, nodes), make([]uint64, nodes), make([]bool, nodes)
	}
	return f
}

// forget makes room for one more.
func (s *stays) forget() {
	oldest := ""
	for key, f := range s.known {
		if oldest == "" || f.asked < s.known[oldest].asked {
			oldest = key
		}
	}
	delete(s.known, oldest)
	if s.known == nil {
		s.known = map[string]*staysFor{}
	}
}

// lacksBut counts nodes by what they lack without some of them.
func (a *Attempt) lacksBut(nodes []int, lacks map[string]int) map[string]int {
	if len(nodes) == 0 {
		return lacks
	}
	rest := maps.Clone(lacks)
	for _, i := range nodes {
		lessen(rest, a.Lacks(i), 1)
	}
	return rest
}

func lessen(lacks map[string]int, reasons []string, by int) {
	for _, reason := range reasons {
		if lacks[reason] -= by; lacks[reason] <= 0 {
			delete(lacks, reason)
		}
	}
}

// staying counts the nodes that take nobody, would if nobody were there, and would not if everybody
// left who may be evicted; and takes them out of those that lack something. bare is what nodes take
// with nobody on them; of those that are held for others, in their order, something else is said.
func (a *Attempt) staying(ctx context.Context, bare []offer.Slots, held []int, lacks map[string]int) (many int, rest map[string]int) {
	p := a.planner
	p.stays.mu.Lock()
	defer p.stays.mu.Unlock()
	known := p.stays.of(a.need(), len(a.Nodes))
	stay := slices.Clone(known.stay)
	may, quotas := a.mayLeave()
	a.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		if a.World.Free[i] > 0 || bare[i] == 0 || a.kept[i] != "" {
			stay[i] = false
			return
		}
		now, leave := fit.Generation(n), uint64(0)
		if quotas { // what they say changes, and the node does not
			leave = whoLeaves(n, may)
		}
		if known.generation[i] == now && known.leave[i] == leave && len(a.beside[i]) == 0 {
			return
		}
		stay[i] = a.stays(ctx, i, n, may)
		if len(a.beside[i]) == 0 {
			known.generation[i], known.leave[i], known.stay[i] = now, leave, stay[i]
		}
	})
	alike := map[*fit.Reasons]int{} // of nodes that lack the same, as most do
	rest = maps.Clone(lacks)
	for _, i := range held {
		stay[i] = false
	}
	for i, is := range stay {
		if !is || a.Nodes[i] == nil {
			continue
		}
		if many++; len(a.counts) == 1 {
			alike[a.counts[0].Why(i)]++
		} else {
			lessen(rest, a.Lacks(i), 1)
		}
	}
	for reasons, n := range alike {
		lessen(rest, reasons.All(), n)
	}
	return many, rest
}

// need tells apart members that need something else, or may evict others.
func (a *Attempt) need() string {
	key := strconv.Itoa(int(a.planner.cache.Priority(a.Lowest())))
	for _, k := range a.kinds {
		key += "\n" + k.counter.Key()
	}
	return key
}

// mayLeave says who leaves, or may be evicted for the members; quotas says that quotas have a say in that.
func (a *Attempt) mayLeave() (may func(*v1.Pod) bool, quotas bool) {
	rule := eligible.RuleOf(a.planner.cache, a.planner.cache.Priority(a.Lowest()), nil, nil)
	if ask := a.planner.MayLeave; ask != nil {
		rule.Quotas = ask(a.Group)
	}
	return func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil || rule.Allows(pod) }, rule.Quotas != nil
}

// whoLeaves tells apart which of a node's pods may leave.
func whoLeaves(n fwk.NodeInfo, may func(*v1.Pod) bool) uint64 {
	h := fnv.New64a()
	for i, info := range n.GetPods() {
		if may(info.GetPod()) {
			_, _ = h.Write(binary.AppendUvarint(nil, uint64(i)))
		}
	}
	return h.Sum64()
}

// stays says whether those who may not be evicted keep a node from taking anybody.
func (a *Attempt) stays(ctx context.Context, node int, n fwk.NodeInfo, may func(*v1.Pod) bool) bool {
	pods := n.GetPods()
	var gone []*v1.Pod
	for _, info := range pods {
		if pod := info.GetPod(); may(pod) {
			gone = append(gone, pod)
		}
	}
	switch len(gone) {
	case len(pods):
		return false
	case 0:
		return true
	}
	return a.CountWithout(ctx, node, gone) == 0
}
