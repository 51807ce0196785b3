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

// A search that found nobody is remembered with all that it depended on, by domain of the
// layer that the members must not leave:
//
//	spine-0   generations of its nodes, gangs that run there, budgets    as it was: not searched
//	spine-1   ...                                                         another one: searched
//
// The members go to one such domain, so another eviction can only be where something has
// changed. Of gangs that are asked for there, what counts is whether they may leave and how
// many they can spare, wherever their members are.
//
// Quotas count as far as they say who may leave, which is asked anew of each pod: what they have shows on no node. Where they are short of something
// themselves, or have too little when others make room, nothing is remembered.
//
// What is remembered ends nothing but work: it is equal or it is not, and nothing of it is
// ever brought up to date.

// vain is what came of the searches of one profile. Only its scheduling cycles ask, one after the
// other.
type vain struct {
	seed  maphash.Seed
	asked int64               // counts questions, to tell which was not asked for longest
	known map[string]*nothing // by what is asked for
	nodes []onNodeNow         // by node index
	tree  *topology.Tree
	paths []uint64                 // by node index of tree, where the node stands
	now   map[int]*domainNow       // by the index of the first node
	looks int64                    // counts looks at nodes
	here  atomic.Pointer[[]onNode] // all empty: of a search that has come to nothing
}

// mostVain bounds what is remembered: a few bytes for each domain.
const mostVain = 256

// nothing is where nobody was found for those who ask for the same.
type nothing struct {
	asked   int64
	domains map[string]fruitless // by their first node: trees come and go
}

// fruitless is a domain as it was.
type fruitless struct {
	digest uint64
	any    bool // there was somebody who may leave
	// untried says that not all ways were tried.
	untried bool
}

// onNodeNow is what one state of a node shows.
type onNodeNow struct {
	generation int64
	looked     int64 // which look it was
	gangs      []gang.Ref
	namespaces []string
	alone      []*v1.Pod // without a gang
}

// domainNow is what one state of all nodes of a domain shows, of which none is missing. Nodes are in domains of several layers, each of
// which is asked about by itself.
type domainNow struct {
	to         int    // the last one is before it
	after      int64  // the last look at a node before it was made
	base       uint64 // of paths and generations
	gangs      []gang.Ref
	namespaces []string
}

// unlessKnownVain asks shortGraceFirst, but on the domains alone that have changed since no victims were found there.
func (p *Preemptor) unlessKnownVain(ctx context.Context, a *place.Attempt) (*solution, Verdict) {
	asks := a.Asks()
	before := p.told()
	claim := p.claim(a.Group, eligible.ForEver, allBelow)
	if asks == "" || claim != nil && (claim.Short() || claim.Several()) { // what is remembered of a pod is whether he may leave, and not for which members
		found, verdict, _ := p.shortGraceFirst(ctx, a)
		return found, verdict
	}
	if claim != nil {
		asks += claim.Of()
	}
	was, now := p.vain.get(asks), p.digests(a, p.rights(a, claim))
	changed := map[string]bool{}
	for d, digest := range now {
		if old, ok := was[d]; !ok || old.digest != digest {
			changed[d] = true
		}
	}
	some := a
	if len(changed) < len(now) {
		some = a.Without(func(node int) bool { return !changed[firstOf(a, domainOf(a, node))] })
	}
	var c *candidates
	var verdict Verdict
	if len(changed) > 0 {
		var found *solution
		found, verdict, c = p.shortGraceFirst(ctx, some)
		if some != a && (found != nil || c.lacking) { // which is best is asked of all domains, and who leaves for the quotas may be in any
			found, verdict, c = p.shortGraceFirst(ctx, a)
		}
		if found != nil || verdict == LeftOut {
			return found, verdict
		}
	}
	any, untried := false, false
	is := map[string]fruitless{}
	for d, digest := range now {
		if is[d] = was[d]; changed[d] {
			is[d] = fruitless{digest, c.anyIn(d), verdict == Untried}
		}
		any, untried = any || is[d].any, untried || is[d].untried
	}
	if c == nil || !c.lacking && p.told() == before {
		p.vain.put(asks, is)
	}
	if c != nil {
		p.vain.here.Store(c.empty())
	}
	switch {
	case untried:
		return nil, Untried
	case any:
		return nil, NoHelp
	}
	return nil, Nobody
}

// told is another number whenever what quotas say may have changed.
func (p *Preemptor) told() uint64 {
	if p.Quotas == nil {
		return 0
	}
	return p.Quotas.Told()
}

// rights are what quotas say of pods that may leave for an attempt, as long as nobody does: the same number for the same answers. nil is that
// they have no say.
type rights func(*v1.Pod) uint8

func (p *Preemptor) rights(a *place.Attempt, claim Claim) rights {
	if claim == nil {
		return nil
	}
	claims := []Claim{claim}
	if soon := p.claim(a.Group, p.Limits().MaxGrace, allBelow); soon != nil && len(claim.Leaving())+len(soon.Leaving()) > 0 {
		claims = append(claims, soon) // others count as gone there
	}
	if revokes := p.claim(a.Group, eligible.ForEver, extent{revokes: true}); revokes != nil {
		claims = append(claims, revokes)
	}
	ceiling := p.Cache.Priority(a.Lowest())
	return func(pod *v1.Pod) (is uint8) {
		for i, c := range claims {
			if eligible.RuleOf(p.Cache, ceiling, c, nil).Allows(pod) {
				is |= 1 << i
			}
		}
		return is
	}
}

// anyIn says whether somebody in a domain may leave, or does so anyway.
func (c *candidates) anyIn(first string) bool {
	i, _ := c.Net.Tree.NodeIndex(first)
	lo, hi := c.Net.Tree.Nodes(domainOf(c.Attempt, i))
	return slices.ContainsFunc(c.here[lo:hi], func(n onNode) bool { return len(n.victims)+len(n.leaving) > 0 })
}

// empty empties what candidates know of nodes, which nobody asks any more.
func (c *candidates) empty() *[]onNode {
	here := c.here
	clear(here)
	c.here = nil
	return &here
}

// domainOf is the domain that members which are placed on a node must not leave.
func domainOf(a *place.Attempt, node int) topology.ID {
	return a.Net.Tree.Ancestor(a.Net.Tree.Node(node), a.All.Must)
}

// firstOf is the name of a domain's first node.
func firstOf(a *place.Attempt, d topology.ID) string {
	first, _ := a.Net.Tree.Nodes(d)
	return a.Net.Tree.NodeName(first)
}

// digests tells, by domain, one state of the cluster from another.
func (p *Preemptor) digests(a *place.Attempt, may rights) map[string]uint64 {
	if p.vain.known == nil {
		p.vain.known, p.vain.seed = map[string]*nothing{}, maphash.MakeSeed()
	}
	if len(p.vain.nodes) != len(a.Nodes) {
		p.vain.nodes, p.vain.now = make([]onNodeNow, len(a.Nodes)), map[int]*domainNow{}
	}
	s := states{
		vain: &p.vain, gangs: p.gangStates(a, may), may: may, budgets: budgetStates(p.listBudgets()), out: map[string]uint64{},
	}
	barred, came := p.Victims.Barred(p.Clock.Now())
	s.vetoes = [2]int{len(barred), came}
	s.hash.SetSeed(p.vain.seed)
	s.findPaths(a.Net.Tree)
	for first := 0; first < len(a.Nodes); {
		d := domainOf(a, first)
		_, hi := a.Net.Tree.Nodes(d)
		s.out[a.Net.Tree.NodeName(first)] = s.domain(a, first, hi)
		first = hi
	}
	return s.out
}

// states are what one look at the cluster has found out.
type states struct {
	vain    *vain
	gangs   func(gang.Ref) string
	may     rights
	budgets map[string]string // by namespace
	vetoes  [2]int
	hash    maphash.Hash
	out     map[string]uint64
}

// findPaths notes where the nodes of a tree stand.
func (s *states) findPaths(tree *topology.Tree) {
	if s.vain.tree == tree {
		return
	}
	s.vain.tree, s.vain.paths, s.vain.now = tree, make([]uint64, tree.NumNodes()), map[int]*domainNow{}
	for i := range s.vain.paths {
		s.hash.Reset()
		for d := tree.Node(i); d != topology.Root; d = tree.Parent(d) {
			s.write(tree.Name(d))
		}
		s.vain.paths[i] = s.hash.Sum64()
	}
}

// domain is the digest of the nodes from one to before another.
func (s *states) domain(a *place.Attempt, from, to int) uint64 {
	is := s.lookAt(a, from, to)
	s.hash.Reset()
	maphash.WriteComparable(&s.hash, s.vetoes)
	maphash.WriteComparable(&s.hash, is.base)
	if a.AnyBeside() {
		for i := from; i < to; i++ {
			if beside := a.Beside(i); beside != "" {
				maphash.WriteComparable(&s.hash, i-from)
				s.write(beside)
			}
		}
	}
	for _, name := range is.gangs {
		s.write(s.gangs(name))
	}
	for i := from; i < to && s.may != nil; i++ {
		if a.Nodes[i] == nil {
			continue
		}
		for _, pod := range s.vain.nodes[i].alone {
			s.hash.WriteByte(s.may(pod))
		}
	}
	for _, name := range is.namespaces {
		s.write(s.budgets[name])
	}
	return s.hash.Sum64()
}

// lookAt is what the nodes from one to before another show. Where none has changed that is known: nearly all of the time is for reading
// the generations.
func (s *states) lookAt(a *place.Attempt, from, to int) *domainNow {
	known := s.vain.now[from]
	as, whole := known != nil && known.to == to, true
	for i := from; i < to; i++ {
		if a.Nodes[i] == nil {
			as, whole = false, false
			continue
		}
		n := &s.vain.nodes[i]
		if n.generation != a.Generation(i) {
			s.vain.looks++
			n.look(a.Nodes[i], s.vain.looks)
		}
		as = as && n.looked <= known.after // of another layer's domain it may have been asked meanwhile
	}
	if as {
		return known
	}
	is := s.gather(a, from, to)
	if whole {
		s.vain.now[from] = is
	} else {
		delete(s.vain.now, from)
	}
	return is
}

// gather puts together what the nodes show.
func (s *states) gather(a *place.Attempt, from, to int) *domainNow {
	is := &domainNow{to: to, after: s.vain.looks}
	gangs, namespaces := map[gang.Ref]bool{}, map[string]bool{}
	s.hash.Reset()
	for i := from; i < to; i++ {
		maphash.WriteComparable(&s.hash, s.vain.paths[i])
		if a.Nodes[i] == nil {
			maphash.WriteComparable(&s.hash, int64(0))
			continue
		}
		n := &s.vain.nodes[i]
		maphash.WriteComparable(&s.hash, n.generation)
		for _, name := range n.gangs {
			if !gangs[name] {
				gangs[name], is.gangs = true, append(is.gangs, name)
			}
		}
		for _, name := range n.namespaces {
			if !namespaces[name] {
				namespaces[name], is.namespaces = true, append(is.namespaces, name)
			}
		}
	}
	is.base = s.hash.Sum64()
	return is
}

// write adds a text that cannot run into the next.
func (s *states) write(text string) {
	maphash.WriteComparable(&s.hash, len(text))
	s.hash.WriteString(text)
}

// look notes what a node shows now.
func (n *onNodeNow) look(node fwk.NodeInfo, number int64) {
	*n = onNodeNow{generation: node.GetGeneration(), looked: number}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		switch name := source.Of(pod); {
		case name.IsZero():
			n.alone = append(n.alone, pod)
		case !slices.Contains(n.gangs, name):
			n.gangs = append(n.gangs, name)
		}
		if !slices.Contains(n.namespaces, pod.Namespace) {
			n.namespaces = append(n.namespaces, pod.Namespace)
		}
	}
}

// gangStates says, of a gang that runs, all that decides who of it and of its group may be
// evicted for an attempt. Time makes no difference: where members would take long to leave,
// those are asked for last, but asked for.
func (p *Preemptor) gangStates(a *place.Attempt, may rights) func(gang.Ref) string {
	known, waits := map[gang.Ref]string{}, p.waiting()
	rule := eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), nil, nil)
	mayEvict := func(pod *v1.Pod) bool {
		if may != nil {
			return may(pod) > 0
		}
		return rule.Allows(pod)
	}
	return func(name gang.Ref) string {
		if s, ok := known[name]; ok {
			return s
		}
		c := &candidates{Attempt: a, cache: p.Cache, waits: waits}
		together := p.Cache.Together(name)
		var b strings.Builder
		for _, of := range together {
			for _, is := range eligible.Gangs(p.Cache, []gang.Ref{of}, c.running) {
				leave := 0
				for _, pod := range is.Pods {
					if mayEvict(pod) {
						leave++
					}
					if may != nil {
						b.WriteByte('0' + may(pod))
					}
				}
				fmt.Fprint(&b, is.Ref, " ", len(is.Pods), " ", is.Min, " ", is.Spare, " ", leave, is.Above)
			}
			placed, _ := p.Cache.Placed(of)
			for _, pod := range placed {
				if !c.placed(pod) {
					fmt.Fprint(&b, " ", pod.UID)
				}
			}
			b.WriteByte(';')
		}
		for _, of := range together {
			known[of] = b.String()
		}
		return b.String()
	}
}

// budgetStates says, by namespace, what the budgets allow.
func budgetStates(budgets map[string][]budget) map[string]string {
	out := map[string]string{}
	for namespace, some := range budgets {
		var b strings.Builder
		for _, is := range some {
			fmt.Fprintln(&b, is.Name, is.Allowed, is.selects, slices.Sorted(maps.Keys(is.leaves)))
		}
		out[namespace] = b.String()
	}
	return out
}

// takeHere is room for the candidates of so many nodes.
func (v *vain) takeHere(nodes int) []onNode {
	if here := v.here.Swap(nil); here != nil && len(*here) == nodes {
		return *here
	}
	return make([]onNode, nodes)
}

// get returns what is remembered of those who ask for the same. It is not to be changed.
func (v *vain) get(asks string) map[string]fruitless {
	if n := v.known[asks]; n != nil {
		return n.domains
	}
	return nil
}

// put remembers that nobody was found, and forgets what was not asked for longest.
func (v *vain) put(asks string, domains map[string]fruitless) {
	v.asked++
	if v.known[asks] == nil && len(v.known) >= mostVain {
		oldest := ""
		for key, n := range v.known {
			if oldest == "" || n.asked < v.known[oldest].asked {
				oldest = key
			}
		}
		delete(v.known, oldest)
	}
	v.known[asks] = &nothing{asked: v.asked, domains: domains}
}
