package preempt

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// A search without victims is remembered with all that it depended on, by domain of the layer that the members must not leave:
//
//	spine-0   generations of its nodes, gangs that run there, budgets    unchanged: not searched
//	spine-1   ...                                                         changed: searched
//
// The members go to one such domain, so that new victims can only be where something has changed. Of the gangs there it matters whether
// they may be evicted and how many members they can spare, on any node. The quota check is repeated for each pod, since the use of quotas
// shows on no node. Nothing is remembered if the quotas themselves are short, or become short after evictions. An entry is compared and
// replaced, and never updated.

// searchMemory holds the failed searches of one profile. Only its scheduling cycles use it, one after the other.
type searchMemory struct {
	seed       maphash.Seed
	questions  int64                    // counts questions, to find the oldest entry
	byRequest  map[string]*failedSearch // by request
	nodeStates []nodeState              // by node index
	tree       *topology.Tree
	paths      []uint64                 // by node index of tree, the position of the node
	domains    map[int]*domainState     // by the index of the first node
	reads      int64                    // counts reads of nodes
	spare      atomic.Pointer[[]onNode] // all empty: reused from a failed search
}

// mostRemembered bounds the entries: a few bytes for each domain.
const mostRemembered = 256

// failedSearch is a search without victims for one request.
type failedSearch struct {
	askedAt int64
	domains map[string]failedDomain // by their first node: trees are replaced
}

// failedDomain is the state of a domain at a failed search.
type failedDomain struct {
	digest        uint64
	hadCandidates bool // there was a candidate
	// untried says that the search reached its limit.
	untried bool
}

// nodeState is what one state of a node shows.
type nodeState struct {
	generation      int64
	readAt          int64 // number of the read
	gangs           []gang.Ref
	namespaces      []string
	podsWithoutGang []*v1.Pod // without a gang
}

// domainState is what one state of all nodes of a domain shows. Invariant: a remembered one misses no node. A node is in domains of several
// layers, each with a state of its own.
type domainState struct {
	end        int    // exclusive
	lastRead   int64  // the last read of a node before the state was made
	base       uint64 // of paths and generations
	gangs      []gang.Ref
	namespaces []string
}

// searchChanged runs shortGraceFirst on the domains that changed since no victims were found there.
func (p *Preemptor) searchChanged(ctx context.Context, a *place.Attempt) (*solution, Verdict) {
	request := a.RequestKey()
	revision := p.quotaRevision()
	claim := p.claim(a.Group, eligible.NoTimeLimit, allBelow)
	if request == "" || claim != nil && (claim.Short() || claim.SeveralQuotas()) { // the memory does not distinguish members
		found, verdict, _ := p.shortGraceFirst(ctx, a)
		return found, verdict
	}
	if claim != nil {
		request += claim.RequestKey()
	}
	previous, now := p.memory.get(request), p.digests(a, p.rights(a, claim))
	changed := map[string]bool{}
	for d, digest := range now {
		if old, ok := previous[d]; !ok || old.digest != digest {
			changed[d] = true
		}
	}
	restricted := a
	if len(changed) < len(now) {
		restricted = a.Without(func(node int) bool { return !changed[firstOf(a, domainOf(a, node))] })
	}
	var c *candidates
	var verdict Verdict
	if len(changed) > 0 {
		var found *solution
		found, verdict, c = p.shortGraceFirst(ctx, restricted)
		if restricted != a && (found != nil || c.lacking) { // the best domain is unknown, and quotas may need victims in any
			found, verdict, c = p.shortGraceFirst(ctx, a)
		}
		if found != nil || verdict == LeftOut {
			return found, verdict
		}
	}
	exist, untried := false, false
	domains := map[string]failedDomain{}
	for d, digest := range now {
		if domains[d] = previous[d]; changed[d] {
			domains[d] = failedDomain{digest, c.anyIn(d), verdict == Untried}
		}
		exist, untried = exist || domains[d].hadCandidates, untried || domains[d].untried
	}
	if c == nil || !c.lacking && p.quotaRevision() == revision {
		p.memory.put(request, domains)
	}
	if c != nil {
		p.memory.spare.Store(c.empty())
	}
	switch {
	case untried:
		return nil, Untried
	case exist:
		return nil, NoHelp
	}
	return nil, NoVictims
}

// quotaRevision changes whenever the quota check may have changed.
func (p *Preemptor) quotaRevision() uint64 {
	if p.Quotas == nil {
		return 0
	}
	return p.Quotas.Revision()
}

// rights returns a number for the quota check of a pod: equal numbers for equal results, as long as no pod is evicted. nil is no quotas.
type rights func(*v1.Pod) uint8

// rights returns the rights of an attempt's members by its claims: the given one, and others that give other results.
func (p *Preemptor) rights(a *place.Attempt, claim VictimSearch) rights {
	if claim == nil {
		return nil
	}
	claims := []VictimSearch{claim}
	if withinGrace := p.claim(a.Group, p.Limits().MaxGrace, allBelow); withinGrace != nil &&
		len(claim.CountedAsGone())+len(withinGrace.CountedAsGone()) > 0 {
		claims = append(claims, withinGrace) // other pods count as gone there
	}
	if revokes := p.claim(a.Group, eligible.NoTimeLimit, extent{revokes: true}); revokes != nil {
		claims = append(claims, revokes)
	}
	ceiling := p.Cache.Priority(a.Lowest())
	return func(pod *v1.Pod) (bits uint8) {
		for i, c := range claims {
			if eligible.RuleOf(p.Cache, ceiling, c, nil).Allows(pod) {
				bits |= 1 << i
			}
		}
		return bits
	}
}

// anyIn returns whether a domain has a candidate or a terminating pod.
func (c *candidates) anyIn(first string) bool {
	i, _ := c.Net.Tree.NodeIndex(first)
	lo, hi := c.Net.Tree.Nodes(domainOf(c.Attempt, i))
	return slices.ContainsFunc(c.byNode[lo:hi], func(n onNode) bool { return len(n.victims)+len(n.terminating) > 0 })
}

// empty takes the node data from the candidates, and returns it cleared, for reuse.
func (c *candidates) empty() *[]onNode {
	spare := c.byNode
	clear(spare)
	c.byNode = nil
	return &spare
}

// domainOf returns the domain of a node that members placed there must not leave.
func domainOf(a *place.Attempt, node int) topology.ID {
	return a.Net.Tree.Ancestor(a.Net.Tree.Node(node), a.All.Must)
}

// firstOf returns the name of a domain's first node.
func firstOf(a *place.Attempt, d topology.ID) string {
	first, _ := a.Net.Tree.Nodes(d)
	return a.Net.Tree.NodeName(first)
}

// digests returns, by domain, a digest of the state that a search depends on.
func (p *Preemptor) digests(a *place.Attempt, check rights) map[string]uint64 {
	if p.memory.byRequest == nil {
		p.memory.byRequest, p.memory.seed = map[string]*failedSearch{}, maphash.MakeSeed()
	}
	if len(p.memory.nodeStates) != len(a.Nodes) {
		p.memory.nodeStates, p.memory.domains = make([]nodeState, len(a.Nodes)), map[int]*domainState{}
	}
	s := states{
		memory: &p.memory, gangs: p.gangStates(a, check), check: check, budgets: budgetStates(p.listBudgets()), digests: map[string]uint64{},
	}
	barred, changes := p.Victims.Vetoed(p.Clock.Now())
	s.vetoes = [2]int{len(barred), changes}
	s.hash.SetSeed(p.memory.seed)
	s.findPaths(a.Net.Tree)
	for first := 0; first < len(a.Nodes); {
		d := domainOf(a, first)
		_, hi := a.Net.Tree.Nodes(d)
		s.digests[a.Net.Tree.NodeName(first)] = s.domain(a, first, hi)
		first = hi
	}
	return s.digests
}

// states collects the digests of one moment.
type states struct {
	memory  *searchMemory
	gangs   func(gang.Ref) string
	check   rights
	budgets map[string]string // by namespace
	vetoes  [2]int
	hash    maphash.Hash
	digests map[string]uint64
}

// findPaths sets the memory's tree and the hash of each node's path in it. It forgets the domains if the tree is another one.
func (s *states) findPaths(tree *topology.Tree) {
	if s.memory.tree == tree {
		return
	}
	s.memory.tree = tree
	s.memory.paths = make([]uint64, tree.NumNodes())
	s.memory.domains = map[int]*domainState{}
	for i := range s.memory.paths {
		s.hash.Reset()
		for d := tree.Node(i); d != topology.Root; d = tree.Parent(d) {
			s.write(tree.Name(d))
		}
		s.memory.paths[i] = s.hash.Sum64()
	}
}

// domain returns the digest of the nodes from one index to before another.
func (s *states) domain(a *place.Attempt, from, end int) uint64 {
	shown := s.lookAt(a, from, end)
	s.hash.Reset()
	maphash.WriteComparable(&s.hash, s.vetoes)
	maphash.WriteComparable(&s.hash, shown.base)
	if a.AnyBeside() {
		for i := from; i < end; i++ {
			if beside := a.Beside(i); beside != "" {
				maphash.WriteComparable(&s.hash, i-from)
				s.write(beside)
			}
		}
	}
	for _, name := range shown.gangs {
		s.write(s.gangs(name))
	}
	for i := from; i < end && s.check != nil; i++ {
		if a.Nodes[i] == nil {
			continue
		}
		for _, pod := range s.memory.nodeStates[i].podsWithoutGang {
			s.hash.WriteByte(s.check(pod))
		}
	}
	for _, name := range shown.namespaces {
		s.write(s.budgets[name])
	}
	return s.hash.Sum64()
}

// lookAt returns the state of the domain with the nodes from one index to before another: the remembered one, or a new one if a node has
// changed. It remembers a new state unless a node is missing. Unchanged nodes cost only the read of their generations.
func (s *states) lookAt(a *place.Attempt, from, end int) *domainState {
	known := s.memory.domains[from]
	unchanged, complete := known != nil && known.end == end, true
	for i := from; i < end; i++ {
		if a.Nodes[i] == nil {
			unchanged, complete = false, false
			continue
		}
		n := &s.memory.nodeStates[i]
		if n.generation != a.Generation(i) {
			s.memory.reads++
			n.look(a.Nodes[i], s.memory.reads)
		}
		unchanged = unchanged && n.readAt <= known.lastRead // the node may have been read for another layer's domain
	}
	if unchanged {
		return known
	}
	fresh := s.stateOfDomain(a, from, end)
	if complete {
		s.memory.domains[from] = fresh
	} else {
		delete(s.memory.domains, from)
	}
	return fresh
}

// stateOfDomain returns the state of the domain with the nodes from one index to before another: a hash of their paths and generations, and
// the gangs and namespaces on them.
func (s *states) stateOfDomain(a *place.Attempt, from, end int) *domainState {
	state := &domainState{end: end, lastRead: s.memory.reads}
	gangs, namespaces := map[gang.Ref]bool{}, map[string]bool{}
	s.hash.Reset()
	for i := from; i < end; i++ {
		maphash.WriteComparable(&s.hash, s.memory.paths[i])
		if a.Nodes[i] == nil {
			maphash.WriteComparable(&s.hash, int64(0))
			continue
		}
		n := &s.memory.nodeStates[i]
		maphash.WriteComparable(&s.hash, n.generation)
		for _, name := range n.gangs {
			if !gangs[name] {
				gangs[name], state.gangs = true, append(state.gangs, name)
			}
		}
		for _, name := range n.namespaces {
			if !namespaces[name] {
				namespaces[name], state.namespaces = true, append(state.namespaces, name)
			}
		}
	}
	state.base = s.hash.Sum64()
	return state
}

// write adds a text to the hash, with its length, so that two texts never hash like one.
func (s *states) write(text string) {
	maphash.WriteComparable(&s.hash, len(text))
	s.hash.WriteString(text)
}

// look sets the state from the node. number is the number of the read.
func (n *nodeState) look(node fwk.NodeInfo, number int64) {
	*n = nodeState{generation: node.GetGeneration(), readAt: number}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		switch name := source.GangOf(pod); {
		case name.IsZero():
			n.podsWithoutGang = append(n.podsWithoutGang, pod)
		case !slices.Contains(n.gangs, name):
			n.gangs = append(n.gangs, name)
		}
		if !slices.Contains(n.namespaces, pod.Namespace) {
			n.namespaces = append(n.namespaces, pod.Namespace)
		}
	}
}

// gangStates returns a function that describes, for a running gang, which members of its group may be evicted for an attempt. Grace periods
// do not matter: members with long ones are victims, too.
func (p *Preemptor) gangStates(a *place.Attempt, check rights) func(gang.Ref) string {
	known, waits := map[gang.Ref]string{}, p.waiting()
	rule := eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), nil, nil)
	mayEvict := func(pod *v1.Pod) bool {
		if check != nil {
			return check(pod) > 0
		}
		return rule.Allows(pod)
	}
	return func(name gang.Ref) string {
		if s, ok := known[name]; ok {
			return s
		}
		c := &candidates{Attempt: a, cache: p.Cache, atPermit: waits}
		together := p.Cache.Together(name)
		var b strings.Builder
		for _, ref := range together {
			for _, running := range eligible.Gangs(p.Cache, []gang.Ref{ref}, c.running) {
				evictable := 0
				for _, pod := range running.Pods {
					if mayEvict(pod) {
						evictable++
					}
					if check != nil {
						b.WriteByte('0' + check(pod))
					}
				}
				fmt.Fprint(&b, running.Ref, " ", len(running.Pods), " ", running.Min, " ", running.Spare, " ", evictable, running.Above)
			}
			placed, _ := p.Cache.Placed(ref)
			for _, pod := range placed {
				if !c.placed(pod) {
					fmt.Fprint(&b, " ", pod.UID)
				}
			}
			b.WriteByte(';')
		}
		for _, ref := range together {
			known[ref] = b.String()
		}
		return b.String()
	}
}

// budgetStates describes the budgets by namespace.
func budgetStates(budgets map[string][]budget) map[string]string {
	out := map[string]string{}
	for namespace, inNamespace := range budgets {
		var b strings.Builder
		for _, limit := range inNamespace {
			fmt.Fprintln(&b, limit.Name, limit.Allowed, limit.selects, slices.Sorted(maps.Keys(limit.disrupted)))
		}
		out[namespace] = b.String()
	}
	return out
}

// takeSpare returns empty node data for so many nodes.
func (v *searchMemory) takeSpare(nodes int) []onNode {
	if spare := v.spare.Swap(nil); spare != nil && len(*spare) == nodes {
		return *spare
	}
	return make([]onNode, nodes)
}

// get returns the entry of a request. Invariant: callers do not change it.
func (v *searchMemory) get(request string) map[string]failedDomain {
	if n := v.byRequest[request]; n != nil {
		return n.domains
	}
	return nil
}

// put records a failed search, and drops the oldest entry if there are too many.
func (v *searchMemory) put(request string, domains map[string]failedDomain) {
	v.questions++
	if v.byRequest[request] == nil && len(v.byRequest) >= mostRemembered {
		oldest := ""
		for key, n := range v.byRequest {
			if oldest == "" || n.askedAt < v.byRequest[oldest].askedAt {
				oldest = key
			}
		}
		delete(v.byRequest, oldest)
	}
	v.byRequest[request] = &failedSearch{askedAt: v.questions, domains: domains}
}
