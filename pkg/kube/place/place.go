// Package place tries to find places for a whole gang on one snapshot of the cluster: it
// counts what each node takes, has the core choose, and gives the members their nodes.
//
//	place.go       a Planner makes the attempts of one profile
//	attempt.go     one attempt, and the plan for members that need the same
//	job.go         the plan for members that differ, or depend on one another
//	reserved.go    whether places that were chosen before can be taken now
//	capable.go     where a gang could be if others had finished
//	limits.go      what refusals have told of nodes that were counted wrong, and whether a refusal is nothing new
//	settled.go     what is to be given back by those who have gone
//	nominated.go   who counts on nodes besides the snapshot
//	ahead.go       members that are still to be made
//	joint.go       what members have together
//	surplus.go     what members may not take that the gang can do without
//	holds.go       whether places still obey the rules
//	attract.go     how near nodes are to pods that attract others
//	diagnosis.go   what nodes lack that take nobody
//	bare.go        what nodes take with nobody on them, and whether the group ever fits
//	shortage.go    what a refusal comes to in one sentence
//	pin.go         who runs where there is no room for the rest
//	soft.go        what soft preferences charge
//	class.go       which groups ask for the same
//	layout.go      where the nodes of a snapshot stand in the tree
//
// An attempt is a value: it is made with all that it needs, changes nothing outside of
// itself, and is forgotten. The package decides nothing about domains (plan), evicts
// nobody and tells nobody.
package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Planner makes the attempts of one profile. It keeps what stays true from one to the
// next: what the Filters said of nodes, and where nodes stand in the tree.
type Planner struct {
	profile framework.Framework
	cache   *cache.Cache
	memory  *fit.Memory
	ledgers []fit.Ledger
	prefer  []Preferrer
	layouts layouts
	limits  limits
	bare    bare
	stays   stays
	// MayLeave is what quotas say of who may be evicted for a group: of a pod, and whether its priority is lower. It may be
	// nil, and give nil where quotas have no say. To be set before the first attempt.
	MayLeave func(*cache.Group) func(pod *v1.Pod, lower bool) bool
}

// NewPlanner returns the planner of a profile. The ledgers are asked beside its Filters.
func NewPlanner(profile framework.Framework, c *cache.Cache, ledgers ...fit.Ledger) *Planner {
	return &Planner{profile: profile, cache: c, memory: fit.NewMemory(profile), ledgers: ledgers, bare: bare{memory: fit.NewMemory(profile), known: memo.Memo[string, int, never]{Most: mostNevers}}}
}

// Avoid says whether a gang must not go to a node.
type Avoid func(fwk.NodeInfo) bool

// NewAttempt begins an attempt to place a group on the nodes of a snapshot, but for those
// that it must avoid; nil is none.
func (p *Planner) NewAttempt(group *cache.Group, nodes []fwk.NodeInfo, avoid Avoid) *Attempt {
	group = withAhead(group)
	l, suspects := p.layouts.of(p.cache, nodes)
	a := &Attempt{Group: group, Net: l.net, Nodes: l.nodes, all: l.nodes, planner: p, profile: p.profile, memory: p.memory, suspects: suspects}
	if avoid != nil {
		a.leaveOut(avoid)
	}
	a.beside, a.others = p.besides(a)
	a.findComers()
	return a
}

func (a *Attempt) leaveOut(avoid Avoid) {
	out := map[int]fwk.NodeInfo{}
	for i, n := range a.all {
		if n != nil && avoid(n) {
			out[i] = nil
		}
	}
	a.Replace(out)
	a.leftOut = len(out) > 0
}

// Attempt is one try to place a group on one snapshot of the cluster.
type Attempt struct {
	Group *cache.Group
	Net   *cache.Topology
	Nodes []fwk.NodeInfo // by node index of Net's tree; nil where there is none, or one to avoid

	// World, All and Sets are what the plan is made on, once the members were counted.
	World plan.World
	All   plan.Gather
	Sets  []mixed.Set

	planner   *Planner
	profile   framework.Framework
	memory    *fit.Memory
	all       []fwk.NodeInfo // with those to avoid
	leftOut   bool           // some are
	suspects  bool           // some node has a PreferNoSchedule taint
	kinds     []kind
	kindOf    map[string]int // by member
	pages     fit.Pages      // what ledgers say of the members
	counted   bool
	counts    []fit.Counts // by kind
	limited   limited
	unlimited bool             // they do not count
	refusers  []string         // plugins that refused members on a trial
	beside    map[int]fit.Pods // by node index, who is counted there besides the snapshot
	comers    *fit.Comers      // for whom reservations keep places; nil if they keep no member off other nodes
	kept      map[int]string   // by node index, which of them keep members off it
	others    map[int]fit.Pods // and who is only for members that the gang can do without
	answers   *answers
	owners    *Owners       // nil if all members may use what any pods leave
	sum       []offer.Slots // of what is free, by domain; nil if nobody has added it up
	work      *mixed.Work   // what it shares with other plans; nil if it is the only one
}

// kind is members that need the same.
type kind struct {
	pod     *v1.Pod // the first of them
	counter *fit.Counter
	slots   []offer.Slots // by node index
	penalty []int64       // by node index, see plan.World; nil if it is 0
	owner   string
}

// Outcome is what an attempt has found.
type Outcome struct {
	Places  []gang.Place
	InOrder bool // members must come in the order of the places
}

// Refusal says why an attempt has found no plan.
type Refusal struct {
	Plan      *plan.Refusal
	Diagnosis Diagnosis
	Avoided   map[string]string // nodes that were left out, and why
	// Plugins are those that refused members, sorted. Everywhere says that one of them refuses
	// some member on all nodes, whatever is on them.
	Plugins    []string
	Everywhere bool
}

// Replace puts other states of nodes into the attempt, by node index, or takes nodes out of it. The layout has the same nodes, and so have
// attempts for other members: theirs are not changed.
func (a *Attempt) Replace(with map[int]fwk.NodeInfo) {
	if len(with) == 0 {
		return
	}
	a.Nodes = slices.Clone(a.Nodes)
	for i, n := range with {
		a.Nodes[i] = n
	}
}

// Without is a counted attempt in a cluster that lacks some nodes.
func (a *Attempt) Without(out func(node int) bool) *Attempt {
	some := *a
	some.kinds, some.answers = slices.Clone(a.kinds), &answers{}
	for k := range some.kinds {
		some.kinds[k].slots = slices.Clone(a.kinds[k].slots)
	}
	gone := map[int]fwk.NodeInfo{}
	for i := range a.Nodes {
		if !out(i) {
			continue
		}
		gone[i] = nil
		for k := range some.kinds {
			some.kinds[k].slots[i] = 0
		}
	}
	some.Replace(gone)
	some.World.Free, some.sum = some.least(), nil
	return &some
}

// Beside tells apart who is counted on a node besides the snapshot.
func (a *Attempt) Beside(node int) string { return a.beside[node].Key() }

// Generation is the number that the scheduler has given to the state of a node that is there, and to no other.
func (a *Attempt) Generation(node int) int64 { return fit.Generation(a.Nodes[node]) }

// AnyBeside says whether anybody is counted besides the snapshot.
func (a *Attempt) AnyBeside() bool { return len(a.beside) > 0 }

// Counted says whether the attempt got so far that it knows what nodes take.
func (a *Attempt) Counted() bool { return a.counted }

// For is the attempt for some of the pending members only.
func (a *Attempt) For(pending []gang.Member) *Attempt {
	some, group := *a, *a.Group
	group.Pending = pending
	some.Group = &group
	return &some
}

// Sharing is the attempt as one of several whose plans share their work.
func (a *Attempt) Sharing(work *mixed.Work) *Attempt {
	some := *a
	some.work = work
	return &some
}

// OnEach calls do for every node of the snapshot, in parallel.
func (a *Attempt) OnEach(ctx context.Context, do func(i int, n fwk.NodeInfo)) {
	a.InParallel(ctx, len(a.Nodes), func(i int) {
		if a.Nodes[i] != nil {
			do(i, a.Nodes[i])
		}
	})
}

// InParallel does something for each of so many, several at a time.
func (a *Attempt) InParallel(ctx context.Context, n int, do func(i int)) {
	a.profile.Parallelizer().Until(ctx, n, do, "Coscheduling")
}

// Domain is the path of the deepest named domain that holds places and the members that
// run; "" if that is the cluster.
func (a *Attempt) Domain(places []gang.Place) string { return a.Net.Tree.Path(a.Enclosing(places)) }

// Enclosing is the deepest domain that holds places and the members that run; the whole
// cluster if there are none.
func (a *Attempt) Enclosing(places []gang.Place) topology.ID {
	names := make([]string, 0, len(places)+len(a.Group.Bound))
	for _, p := range places {
		names = append(names, p.Node)
	}
	for _, m := range a.Group.Bound {
		names = append(names, m.Node)
	}
	domain, _ := a.Net.Tree.Enclosing(indexes(a.Net.Tree, slices.Values(names)))
	return domain
}

// Preferrer says by what plans for a group are chosen where there is a choice, beside what the group itself says. The tree's layers are the
// network's, by index; a preference for layer 0 or less, or for one that there is not, is left out.
type Preferrer interface {
	Prefer(group *cache.Group, tree *topology.Tree) []plan.Preference
}

// Extend has the planner ask more ledgers, and whom else to please. It is to be called before the first attempt.
func (p *Planner) Extend(ledgers []fit.Ledger, prefer []Preferrer) {
	p.ledgers, p.prefer = append(p.ledgers, ledgers...), append(p.prefer, prefer...)
}

// preferred adds to what the group prefers what others do for it.
func (a *Attempt) preferred() {
	for _, who := range a.planner.prefer {
		for _, p := range who.Prefer(a.Group, a.Net.Tree) {
			if p.Layer > 0 && p.Layer <= a.Net.Tree.Depth() && !slices.Contains(a.All.Prefer, p) {
				a.All.Prefer = append(a.All.Prefer, p)
			}
		}
	}
}
