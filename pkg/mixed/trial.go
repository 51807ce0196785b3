package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// triesLeft returns how many tries this search may use, at most most. Searches with one Work share 2*most tries together. Each search may
// use at least a sixteenth of most, plus tries for each member and node.
func (s *trials) triesLeft(most int) int {
	if s.Work == nil {
		return most
	}
	cost := 1
	if s.dependent {
		cost = fitsCallCost
	}
	least := min(most, most/16+cost*(int(s.members())+s.Tree.NumNodes()))
	return max(least, min(most, 2*most-s.Work.tried))
}

// trials places members one by one on a trial and undoes placements that lead nowhere. It searches domains in the order of
// ByDepth, ByAttraction, ByBinpack and ByNames, and nodes with low penalties first. It serves what tables cannot express:
// interdependent members, or too many classes. The search is exhaustive unless it runs out of tries.
type trials struct {
	*search
	trial      Trial
	loads      *loads        // the trial, if members are independent
	memory     *memory       // the trial otherwise
	dependent  bool          // whether a member fits depends on other nodes and on the order
	optimistic bool          // also tries nodes where members do not fit on an empty trial
	free       []offer.Slots // by kind, total capacity for this kind alone
	scarce     []int         // classes, fewest slots first

	// State of the search in one domain:
	root           topology.ID   // the domain's ancestor in the Must layer, or the domain itself
	nodes          []int         // sorted by penalty, then in the order of ByFill on empty nodes
	position       []int         // by node index, position in nodes
	fillPosition   []int         // by node index, position without penalties; ranks follow it
	spread         []int         // nodes, alternating between domains
	spreadPosition []int         // by node index, position in spread
	remaining      []int         // by class, members without a node
	homes          []topology.ID // by set
	puts           []Put
	putsHash       placementHash          // of puts by class
	failed         map[placementHash]bool // hashes of puts without a plan
	tries          int                    // remaining
	triesInDomain  int                    // tries per domain
	cut            bool                   // the tries were not enough
}

// Limits of tries. One domain of several has a quarter. A call of Trial.Fits costs fitsCallCost tries.
const (
	triesInAll        = 40_000
	fitsCallsInAll    = 4_000
	fitsCallsByMember = 20
	fitsCallCost      = 50
)

// recentPuts bounds the domains after which members that keep apart return to the same nodes.
const recentPuts = 16

// homeless is the home of a set that may still gather anywhere.
const homeless topology.ID = -1

// newTrials returns trials for m. They use the job's Trial, or loads if members are independent.
func newTrials(m *search) *trials {
	s := &trials{search: m, trial: m.Trial, dependent: m.Trial != nil}
	s.memory, _ = m.Trial.(*memory)
	if s.trial == nil {
		s.loads = &loads{search: m, load: make([][]offer.Slots, m.Tree.NumNodes())}
		s.trial = s.loads
	}
	s.free = make([]offer.Slots, len(m.slots))
	for k := range s.free {
		for _, n := range m.slots[k] {
			s.free[k] += n
		}
	}
	for c := range m.Classes {
		s.scarce = append(s.scarce, c)
	}
	slices.SortStableFunc(s.scarce, func(a, b int) int {
		return cmp.Compare(s.free[m.Classes[a].Kind], s.free[m.Classes[b].Kind])
	})
	s.scarce = s.bySet(s.scarce)
	m.placed = make([]offer.Slots, m.Tree.Len())
	return s
}

// bySet returns classes, the classes of one set adjacent, so that a set is complete before other sets use its domain's capacity.
func (s *trials) bySet(classes []int) (out []int) {
	added := make([]bool, len(s.Classes))
	add := func(c int) {
		if !added[c] {
			added[c] = true
			out = append(out, c)
		}
	}
	for _, c := range classes {
		add(c)
		sets := slices.Clone(s.setsOf[s.Classes[c].Gang])
		slices.SortStableFunc(sets, func(a, b int) int { return cmp.Compare(s.Sets[b].Must, s.Sets[a].Must) })
		for _, set := range sets {
			if s.Sets[set].Must <= s.All.Must {
				continue
			}
			for _, mate := range classes {
				if slices.Contains(s.classesOfSet[set], mate) {
					add(mate)
				}
			}
		}
	}
	return out
}

// domains returns the domains with enough capacity for each kind of target alone, best first. An optimistic search includes all domains.
func (s *trials) domains(target []int) (out []topology.ID) {
	want := make([]offer.Slots, len(s.slots))
	for c, n := range target {
		want[s.Classes[c].Kind] += offer.Slots(n)
	}
	sums := make([][]offer.Slots, len(want))
	for k := range sums {
		sums[k] = s.kindSums(k)
	}
	enough := func(d topology.ID) bool {
		for k, many := range want {
			if sums[k][d] < many && !s.optimistic {
				return false
			}
		}
		return s.HoldsBound(d)
	}
	for _, root := range s.Roots {
		for d := root; d < s.Tree.End(root); d++ {
			if enough(d) {
				out = append(out, d)
			}
		}
	}
	penalty := s.guessPenalties(out, want)
	slices.SortStableFunc(out, func(a, b topology.ID) int {
		if x, y := s.Tree.Layer(a), s.Tree.Layer(b); x != y {
			return cmp.Compare(y, x)
		}
		return cmp.Or(-s.CompareAttraction(a, b), cmp.Compare(penalty[a], penalty[b]), s.CompareDomains(a, b))
	})
	return out
}

// guessPenalties returns, by domain, the least penalty for these members if each kind were alone; nil without soft preferences.
func (s *trials) guessPenalties(domains []topology.ID, want []offer.Slots) map[topology.ID]int64 {
	if !s.soft {
		return nil
	}
	out := map[topology.ID]int64{}
	for _, d := range domains {
		lo, hi := s.Tree.Nodes(d)
		nodes := make([]int, hi-lo)
		for k, remaining := range want {
			for i := range nodes {
				nodes[i] = lo + i
			}
			slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(s.penalty(k, a), s.penalty(k, b)) })
			for i := 0; i < len(nodes) && remaining > 0; i++ {
				n := min(remaining, s.slots[k][nodes[i]])
				remaining -= n
				out[d] += int64(n) * s.penalty(k, nodes[i])
			}
		}
	}
	return out
}

// mildestFirst sorts nodes in place by totalPenalty, lowest first.
func (s *trials) mildestFirst(nodes []int) {
	if s.soft {
		slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(s.totalPenalty(a), s.totalPenalty(b)) })
	}
}

// totalPenalty returns what soft preferences charge on a node for one member of each kind.
func (s *trials) totalPenalty(node int) (n int64) {
	for k := range s.Penalties {
		n += s.penalty(k, node)
	}
	return n
}

// searchIn returns whether it can place target in domain d. On success the members are in puts. The trial is unchanged.
func (s *trials) searchIn(d topology.ID, target []int) bool {
	s.begin(d, target)
	found := s.descend()
	if found {
		for range s.puts {
			s.trial.Undo()
		}
	}
	return found
}

// begin resets the state of the search, to place target in domain d.
func (s *trials) begin(d topology.ID, target []int) {
	s.nodes = s.nodes[:0]
	s.remaining = slices.Clone(target)
	s.puts = nil
	s.root = s.Tree.Ancestor(d, s.All.Must)
	s.listNodes(d)
	s.fillPosition = positions(s.fillPosition, s.nodes, s.Tree.NumNodes())
	s.mildestFirst(s.nodes)
	s.position = positions(s.position, s.nodes, s.Tree.NumNodes())
	if s.dependent {
		s.spread = s.spreadNodes(d)
		s.mildestFirst(s.spread)
		s.spreadPosition = positions(s.spreadPosition, s.spread, s.Tree.NumNodes())
	}
	s.putsHash, s.failed = 0, map[placementHash]bool{}
	s.homes = make([]topology.ID, len(s.Sets))
	for i, set := range s.Sets {
		s.homes[i] = homeless
		for _, g := range set.Gangs {
			if node := slices.IndexFunc(s.Gangs[g].Bound, func(n offer.Slots) bool { return n > 0 }); node >= 0 {
				s.homes[i] = s.home(i, node)
			}
		}
	}
}

// home returns the domain in which a set gathers if it has a member on node.
func (s *trials) home(set, node int) topology.ID {
	return s.Tree.Ancestor(s.Tree.Node(node), s.Sets[set].Must)
}

// listNodes appends the nodes of d to nodes, the largest child domain first at every layer.
func (s *trials) listNodes(d topology.ID) {
	if s.Tree.IsNode(d) {
		lo, _ := s.Tree.Nodes(d)
		s.nodes = append(s.nodes, lo)
		return
	}
	for _, k := range s.LargestFirst(d) {
		s.listNodes(k)
	}
}

// spreadNodes lists the nodes of d so that nodes of one domain are far apart in the list.
func (s *trials) spreadNodes(d topology.ID) (out []int) {
	if s.Tree.IsNode(d) {
		lo, _ := s.Tree.Nodes(d)
		return []int{lo}
	}
	var kids [][]int
	for _, k := range s.LargestFirst(d) {
		kids = append(kids, s.spreadNodes(k))
	}
	for i := 0; len(kids) > 0; i++ {
		kids = slices.DeleteFunc(kids, func(nodes []int) bool { return i == len(nodes) })
		for _, nodes := range kids {
			out = append(out, nodes[i])
		}
	}
	return out
}

// positions returns, by node index, the position of each node in list. It reuses out unless that is nil.
func positions(out, list []int, nodes int) []int {
	if out == nil {
		out = make([]int, nodes)
	}
	for i, n := range list {
		out[n] = i
	}
	return out
}

// descend places the remaining members and returns whether it succeeded. Independent members are placed class by class, each from the node
// of the previous one on, so that every set of puts is reached once.
func (s *trials) descend() bool {
	if !slices.ContainsFunc(s.remaining, func(n int) bool { return n > 0 }) {
		return s.valid()
	}
	if s.placeNext(false) || s.optimistic && s.placeNext(true) {
		return true
	}
	if s.cut && s.tries == 0 || !s.dependent {
		return false
	}
	s.failed[s.putsHash] = true
	return false
}

// placeNext places one member and then the remaining ones; it returns whether it succeeded. It tries nodes that take the kind on an empty
// trial; with otherNodes, it tries only the other nodes.
func (s *trials) placeNext(otherNodes bool) bool {
	for _, class := range s.scarce {
		if s.remaining[class] == 0 {
			continue
		}
		slots := s.slots[s.Classes[class].Kind]
		small := homeless
		for node := range s.candidates(class) {
			if (slots[node] == 0) != otherNodes || !s.mayGather(class, node, &small) {
				continue
			}
			if s.tryNode(class, node) {
				return true
			}
			if s.cut && s.tries == 0 {
				return false
			}
		}
		if !s.dependent {
			return false
		}
	}
	return false
}

// candidates yields nodes for the next member of a class, from the node of the last one on. Interdependent members first try the last node
// and its neighbour, then recently used nodes, then all nodes, one domain in turn. With anti-affinity or spread, all neighbours may reject
// a member.
func (s *trials) candidates(class int) func(yield func(int) bool) {
	if !s.dependent {
		from := 0
		if last, ok := s.lastNode(class); ok {
			from = s.position[last]
		}
		return slices.Values(s.nodes[from:])
	}
	first := len(s.spread)
	resume := 0
	end := 0
	for i, p := range slices.Backward(s.puts) {
		if p.Class != class || i < len(s.puts)-recentPuts {
			break
		}
		first, end = min(first, s.spreadPosition[p.Node]), max(end, s.spreadPosition[p.Node]+1)
	}
	near := s.nodes
	if last, ok := s.lastNode(class); ok {
		near, resume = s.nodes[s.position[last]:], s.spreadPosition[last]+1
		if len(near) > 1 && s.totalPenalty(near[1]) > s.totalPenalty(last) {
			near = near[:1]
		}
	} else {
		first = 0
	}
	lists := [][]int{near[:min(2, len(near))], s.spread[min(resume, end):end], s.spread[first:], s.spread[:first]}
	return func(yield func(int) bool) {
		for _, nodes := range lists {
			for _, n := range nodes {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// lastNode returns the node of the last put; ok is false if that put is of another class.
func (s *trials) lastNode(class int) (node int, ok bool) {
	if len(s.puts) == 0 {
		return 0, false
	}
	p := s.puts[len(s.puts)-1]
	return p.Node, p.Class == class
}

// mayGather returns whether the topology constraints of a member's sets allow the node. For a set without a home, it rejects domains too
// small for one of the set's classes, and stores the last such domain in small.
func (s *trials) mayGather(class, node int, small *topology.ID) bool {
	for _, set := range s.setsOf[s.Classes[class].Gang] {
		home := s.home(set, node)
		switch {
		case s.homes[set] == home:
		case s.homes[set] != homeless || home == *small:
			return false
		case s.dependent || s.Sets[set].Must == 0:
		case !s.takesSet(home, set):
			*small = home
			return false
		}
	}
	return true
}

// takesSet returns whether the remaining members of each class of a set, taken alone, fit into the domain home.
func (s *trials) takesSet(home topology.ID, set int) bool {
	lo, hi := s.Tree.Nodes(home)
	for _, c := range s.classesOfSet[set] {
		remaining := s.remaining[c]
		for node := lo; node < hi && remaining > 0 && s.spendTries(1); node++ {
			remaining -= int(s.loads.takes(s.Classes[c].Kind, node))
		}
		if remaining > 0 {
			return false
		}
	}
	return true
}

// spendTries subtracts tries and returns true. If fewer are left, it sets cut and returns false.
func (s *trials) spendTries(tries int) bool {
	if s.tries < tries {
		s.tries, s.cut = 0, true
		return false
	}
	s.tries -= tries
	if s.Work != nil {
		s.Work.tried += tries
	}
	return true
}

// fits returns whether a member of a kind fits on the node now; false if no tries are left.
func (s *trials) fits(kind, node int) bool {
	tries := 1
	if s.dependent && !s.memory.knows(kind, node) {
		tries = fitsCallCost
	}
	return s.spendTries(tries) && s.trial.Fits(kind, node)
}

// tryNode puts a member of a class on a node, places the remaining members, and returns true. On failure it undoes the put.
func (s *trials) tryNode(class, node int) bool {
	if s.failed[s.putsHash.with(class, node)] {
		s.spendTries(1)
		return false
	}
	if !s.fits(s.Classes[class].Kind, node) {
		return false
	}
	var buffer [4]topology.ID
	homes := buffer[:0]
	sets := s.setsOf[s.Classes[class].Gang]
	for _, i := range sets {
		homes = append(homes, s.homes[i])
	}
	s.add(class, node)
	if s.descend() {
		return true
	}
	s.trial.Undo()
	s.puts = s.puts[:len(s.puts)-1]
	s.putsHash = s.putsHash.without(class, node)
	s.remaining[class]++
	for k, i := range sets {
		s.homes[i] = homes[k]
	}
	return false
}

// add puts a member of a class on a node.
func (s *trials) add(class, node int) {
	s.trial.Put(s.Classes[class].Kind, node)
	s.puts = append(s.puts, Put{Class: class, Node: node})
	s.putsHash = s.putsHash.with(class, node)
	s.remaining[class]--
	for _, i := range s.setsOf[s.Classes[class].Gang] {
		s.homes[i] = s.home(i, node)
	}
	if n := offer.Slots(len(s.puts)); n > s.placed[s.root] && s.valid() {
		s.placed[s.root] = n
	}
}

// valid returns whether the puts satisfy podCountMultiple, and the MustGather constraints of sets with bound members.
func (s *trials) valid() bool {
	for i := range s.Sets {
		isIn := func(p Put) bool { return slices.Contains(s.classesOfSet[i], p.Class) }
		if s.splitSet(i) && slices.ContainsFunc(s.puts, isIn) {
			return false
		}
		if !s.areMultiples(s.Sets[i].Multiple, isIn, func(d topology.ID) offer.Slots { return s.boundInSet(i, d) }) {
			return false
		}
	}
	return s.areMultiples(s.All.Multiple, func(Put) bool { return true }, s.BoundIn)
}

// areMultiples returns whether in every domain with puts selected by isIn, these puts and bound members satisfy the multiple.
func (s *trials) areMultiples(multiples offer.Multiples, isIn func(Put) bool, bound func(topology.ID) offer.Slots) bool {
	if multiples.Common(s.Tree.Depth()) == 1 {
		return true
	}
	count := make([]offer.Slots, s.Tree.NumNodes())
	for _, p := range s.puts {
		if isIn(p) {
			count[p.Node]++
		}
	}
	for d, n := range offer.Sum(s.Tree, count) {
		d := topology.ID(d)
		if n > 0 && (n+bound(d))%multiples.At(s.Tree.Layer(d)) != 0 {
			return false
		}
	}
	return true
}

// plan returns the plan of the puts. Independent members are sorted by node in the order of ByFill.
func (s *trials) plan() *Plan {
	p := &Plan{Puts: s.puts, InOrder: s.dependent}
	p.Domain, _ = s.Tree.Enclosing(func(yield func(int) bool) {
		for _, put := range s.puts {
			if !yield(put.Node) {
				return
			}
		}
		for i, n := range s.World.Bound {
			if n > 0 && !yield(i) {
				return
			}
		}
	})
	if !s.dependent {
		slices.SortStableFunc(p.Puts, func(a, b Put) int {
			return cmp.Or(cmp.Compare(s.fillPosition[a.Node], s.fillPosition[b.Node]), cmp.Compare(a.Class, b.Class))
		})
	}
	return p
}

// loads is a trial for independent members: only the load of their own node matters.
type loads struct {
	*search
	load [][]offer.Slots // by node index and kind; nil for an empty node
	puts [][2]int        // kind and node
}

func (l *loads) Fits(kind, node int) bool { return l.takes(kind, node) > 0 }

// takes returns how many members of a kind fit on the node, beside the members placed there.
func (l *loads) takes(kind, node int) offer.Slots {
	if l.load[node] == nil {
		return l.slots[kind][node]
	}
	return l.Take(node, l.load[node], kind)
}

func (l *loads) Put(kind, node int) {
	if l.load[node] == nil {
		l.load[node] = make([]offer.Slots, len(l.slots))
	}
	l.load[node][kind]++
	l.puts = append(l.puts, [2]int{kind, node})
}

func (l *loads) Undo() {
	last := l.puts[len(l.puts)-1]
	l.puts = l.puts[:len(l.puts)-1]
	l.load[last[1]][last[0]]--
}
