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

// A search that finds no victims is remembered with all that it depended on, by domain of the layer that the members must not leave:
//
//	spine-0   generations of its nodes, gangs that run there, budgets    unchanged: not searched
//	spine-1   ...                                                         changed: searched
//
// All members go to one such domain, so that a repeated search finds victims only in domains that have changed. The state of a gang is
// whether it may be evicted and how many members it can spare, on all nodes. The state of a pod includes its quota check, because no node
// shows the use of quotas. Nothing is remembered if a quota lacks capacity before or after evictions. An entry is never updated, only
// replaced.

// searchMemory holds the failed searches of one profile. Only its scheduling cycles use it, one after the other.
type searchMemory struct {
	seed       maphash.Seed
	questions  int64                    // counts calls of put, to find the oldest entry
	byRequest  map[string]*failedSearch // by request
	nodeStates []nodeState              // by node index
	tree       *topology.Tree
	paths      []uint64                 // by node index of tree, the position of the node
	domains    map[int]*domainState     // by the index of the first node
	reads      int64                    // counts reads of nodes
	spare      atomic.Pointer[[]onNode] // cleared data of a failed search, which the next search reuses
}

// mostRemembered bounds the entries of byRequest. An entry takes a few bytes for each domain.
const mostRemembered = 256

// failedSearch is a search without victims for one request.
type failedSearch struct {
	askedAt int64
	domains map[string]failedDomain // by their first node: trees are replaced
}

// failedDomain is the state of a domain at a failed search.
type failedDomain struct {
	digest        uint64
	hadCandidates bool // there was a candidate or a terminating pod
	// inconclusive is the verdict if an eviction that helps may exist although none was found; otherwise 0.
	inconclusive Verdict
}

// nodeState is what a search depends on at one node, as of one generation of the node.
type nodeState struct {
	generation      int64
	readAt          int64 // number of the read
	gangs           []gang.Ref
	namespaces      []string
	podsWithoutGang []*v1.Pod
}

// domainState is what a search depends on at the nodes of a domain. Invariant: a remembered domainState misses no node. Domains of several
// layers that contain one node have a state each.
type domainState struct {
	end        int    // exclusive
	lastRead   int64  // the last read of a node before the state was made
	base       uint64 // hash of the paths and generations of the nodes
	gangs      []gang.Ref
	namespaces []string
}

// searchChanged returns what shortGraceFirst returns. It does not search domains that have not changed since an equal search found no
// victims there.
func (p *Preemptor) searchChanged(ctx context.Context, a *place.Attempt) (*solution, Verdict) {
	request := a.RequestKey()
	revision := p.quotaRevision()
	search := p.search(a.Group, eligible.NoTimeLimit, ignoresMins)
	if request == "" || search != nil && (search.Short() || search.SeveralQuotas()) { // the memory does not distinguish members
		found, verdict, _ := p.shortGraceFirst(ctx, a)
		return found, verdict
	}
	if search != nil {
		request += search.RequestKey()
	}
	previous, now := p.memory.get(request), p.digests(a, p.quotaResults(a, search))
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
		if restricted != a && (found != nil || c.quotaShort) { // the best domain is unknown, and quotas may need victims in any
			found, verdict, c = p.shortGraceFirst(ctx, a)
		}
		if found != nil || verdict == LeftOut {
			return found, verdict
		}
	}
	anyCandidate, inconclusive := false, Verdict(0)
	domains := map[string]failedDomain{}
	for d, digest := range now {
		if domains[d] = previous[d]; changed[d] {
			domains[d] = failedDomain{digest, c.anyIn(d), 0}
			if verdict.Inconclusive() {
				domains[d] = failedDomain{digest, c.anyIn(d), verdict}
			}
		}
		anyCandidate, inconclusive = anyCandidate || domains[d].hadCandidates, max(inconclusive, domains[d].inconclusive)
	}
	if c == nil || !c.quotaShort && p.quotaRevision() == revision {
		p.memory.put(request, domains)
	}
	if c != nil {
		p.memory.spare.Store(c.takeNodesForReuse())
	}
	switch {
	case inconclusive.Inconclusive():
		return nil, inconclusive
	case anyCandidate:
		return nil, NoHelp
	}
	return nil, NoVictims
}

// quotaRevision returns a number that changes whenever results of the quota check may change; 0 without quotas.
func (p *Preemptor) quotaRevision() uint64 {
	if p.Quotas == nil {
		return 0
	}
	return p.Quotas.Revision()
}

// quotaResults returns for a pod one bit for each quota check: whether that check allows the pod's eviction. nil is no quotas.
type quotaResults func(*v1.Pod) uint8

// quotaResults returns the results of all quota checks that a search for the attempt uses: the given one, one that counts only pods as gone
// that terminate within MaxGrace, and one for overdue quotas. Checks that cannot differ are omitted.
func (p *Preemptor) quotaResults(a *place.Attempt, search VictimSearch) quotaResults {
	if search == nil {
		return nil
	}
	searches := []VictimSearch{search}
	if withinGrace := p.search(a.Group, p.Limits().MaxGrace, ignoresMins); withinGrace != nil &&
		len(search.CountedAsGone())+len(withinGrace.CountedAsGone()) > 0 {
		searches = append(searches, withinGrace) // other pods count as gone there
	}
	if onlyOverdue := p.search(a.Group, eligible.NoTimeLimit, victimLimits{onlyOverdue: true}); onlyOverdue != nil {
		searches = append(searches, onlyOverdue)
	}
	ceiling := p.Cache.Priority(a.Lowest())
	return func(pod *v1.Pod) (bits uint8) {
		for i, c := range searches {
			if eligible.RuleOf(p.Cache, ceiling, c, nil).Allows(pod) {
				bits |= 1 << i
			}
		}
		return bits
	}
}

// anyIn returns whether the domain with the given first node has a candidate or a terminating pod.
func (c *candidates) anyIn(first string) bool {
	i, _ := c.Net.Tree.NodeIndex(first)
	lo, hi := c.Net.Tree.Nodes(domainOf(c.Attempt, i))
	return slices.ContainsFunc(c.byNode[lo:hi], func(n onNode) bool { return len(n.victims)+len(n.terminating) > 0 })
}

// takeNodesForReuse clears c.byNode and returns it. c.byNode is nil afterwards.
func (c *candidates) takeNodesForReuse() *[]onNode {
	spare := c.byNode
	clear(spare)
	c.byNode = nil
	return &spare
}

// domainOf returns the domain that contains a node and that all members must stay in if one of them is on the node.
func domainOf(a *place.Attempt, node int) topology.ID {
	return a.Net.Tree.Ancestor(a.Net.Tree.Node(node), a.All.Must)
}

// firstOf returns the name of a domain's first node.
func firstOf(a *place.Attempt, d topology.ID) string {
	first, _ := a.Net.Tree.Nodes(d)
	return a.Net.Tree.NodeName(first)
}

// digests returns a digest of all that a search in a domain depends on, by the name of the domain's first node. A domain with the digest
// of a failed search is not searched again.
func (p *Preemptor) digests(a *place.Attempt, check quotaResults) map[string]uint64 {
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

// states computes the digests of all domains for one search.
type states struct {
	memory  *searchMemory
	gangs   func(gang.Ref) string
	check   quotaResults
	budgets map[string]string // by namespace
	vetoes  [2]int            // how many evictions are vetoed, and how often that has changed
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

// domain returns the digest of the domain with the nodes from index from up to, but not including, end.
func (s *states) domain(a *place.Attempt, from, end int) uint64 {
	state := s.lookAt(a, from, end)
	s.hash.Reset()
	maphash.WriteComparable(&s.hash, s.vetoes)
	maphash.WriteComparable(&s.hash, state.base)
	if a.AnyBeside() {
		for i := from; i < end; i++ {
			if beside := a.Beside(i); beside != "" {
				maphash.WriteComparable(&s.hash, i-from)
				s.write(beside)
			}
		}
	}
	for _, name := range state.gangs {
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
	for _, name := range state.namespaces {
		s.write(s.budgets[name])
	}
	return s.hash.Sum64()
}

// lookAt returns the state of the domain with the nodes from index from up to, but not including, end. It is the remembered state, or a new
// one if a node has changed. A new state is remembered unless a node is missing. Of unchanged nodes only the generation is read.
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
			n.readNode(a.Nodes[i], s.memory.reads)
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

// stateOfDomain computes the state of the domain with the nodes from index from up to, but not including, end: a hash of their paths and
// generations, and the gangs and namespaces of their pods.
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

// write adds a text and its length to the hash. With the length, "a" and "bc" hash differently from "ab" and "c".
func (s *states) write(text string) {
	maphash.WriteComparable(&s.hash, len(text))
	s.hash.WriteString(text)
}

// readNode sets the state from the node. number is the number of this read, which becomes readAt.
func (n *nodeState) readNode(node fwk.NodeInfo, number int64) {
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

// gangStates returns a function that describes, for a running gang, which members of its group may be evicted for an attempt. Equal strings
// mean equal states. Grace periods are ignored, because a search also tries members with long ones.
func (p *Preemptor) gangStates(a *place.Attempt, check quotaResults) func(gang.Ref) string {
	known, waits := map[gang.Ref]string{}, p.podsAtPermit()
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

// budgetStates returns a text for each namespace that differs if a disruption budget of the namespace differs.
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

// takeSpare returns cleared data for so many nodes: the nodes in v.spare if their number fits, else new ones.
func (v *searchMemory) takeSpare(nodes int) []onNode {
	if spare := v.spare.Swap(nil); spare != nil && len(*spare) == nodes {
		return *spare
	}
	return make([]onNode, nodes)
}

// get returns the domains of the last failed search for a request; nil if none is remembered. Callers must not change them.
func (v *searchMemory) get(request string) map[string]failedDomain {
	if n := v.byRequest[request]; n != nil {
		return n.domains
	}
	return nil
}

// put records a failed search. It removes the oldest entry if there are more than mostRemembered.
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
