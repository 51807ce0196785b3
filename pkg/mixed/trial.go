package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// fewerTries is how many of so many tries a search has that is not the first: those that
// come first may leave it a sixteenth, but one for each member and node.
func (s *trials) fewerTries(all int) int {
	if s.Work == nil {
		return all
	}
	each := 1
	if s.dependent {
		each = askingCosts
	}
	least := min(all, all/16+each*(int(s.members())+s.Tree.NumNodes()))
	return max(least, min(all, 2*all-s.Work.tried))
}

// trials looks for a plan of a job by putting its members in a trial one after the
// other, in the domains that rules 4, 6, 7 and 9 put first, and on the nodes with the lowest penalties, and taking them back where
// that leads nowhere. It is for what tables cannot say: members that depend on one
// another across nodes, or too many classes. Where there is little to look at it looks
// at everything, and else as long as it has tries.
type trials struct {
	*search
	trial     Trial
	now       *loads        // the trial where members do not depend on one another, or
	memory    *memory       // else
	dependent bool          // who fits depends on who is elsewhere, and on the order
	hopeful   bool          // members are tried where they do not fit in an empty trial
	free      []offer.Slots // by kind, what all nodes take of it alone
	scarce    []int         // classes, those with the fewest slots first

	// The search in one domain:
	root     topology.ID   // of the Must layer, the domain's own or the one above it
	nodes    []int         // those with lower penalties first, else in the order in which rule 8 fills them when all are free
	place    []int         // by node index, where it stands in nodes
	filled   []int         // by node index, where it would stand without penalties: ranks are in this order
	turns    []int         // nodes, one of each domain in turn
	turn     []int         // by node index, where it stands in turns
	left     []int         // by class, those without a place
	homes    []topology.ID // by set
	puts     []Put
	set      set          // of puts, by class
	failed   map[set]bool // sets of puts from which no plan can be reached
	tries    int          // that are left
	inDomain int          // how many one domain has
	cut      bool         // there were not enough
}

// How many tries there are in all, of which one domain of several has a quarter. Where a
// Trial must be asked, they are enough for so many questions and some more by member: one
// costs as much as that many tries of which the outcome is known.
const (
	triesInAll    = 40_000
	askedInAll    = 4_000
	askedByMember = 20
	askingCosts   = 50
)

// Those who must be far from one another come back to the same nodes after at most so
// many domains.
const lately = 16

// homeless is the home of a set that may still gather anywhere.
const homeless topology.ID = -1

func newTrials(m *search) *trials {
	s := &trials{search: m, trial: m.Trial, dependent: m.Trial != nil}
	s.memory, _ = m.Trial.(*memory)
	if s.trial == nil {
		s.now = &loads{search: m, load: make([][]offer.Slots, m.Tree.NumNodes())}
		s.trial = s.now
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

// bySet has the classes of one set follow one another: a set that has found a home is placed whole
// before others take the rest of it.
func (s *trials) bySet(classes []int) (out []int) {
	seen := make([]bool, len(s.Classes))
	add := func(c int) {
		if !seen[c] {
			seen[c] = true
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
				if slices.Contains(s.inSet[set], mate) {
					add(mate)
				}
			}
		}
	}
	return out
}

// domains lists those that may hold the members, best first.
func (s *trials) domains(target []int) (out []topology.ID) {
	want := make([]offer.Slots, len(s.slots))
	for c, n := range target {
		want[s.Classes[c].Kind] += offer.Slots(n)
	}
	sums := make([][]offer.Slots, len(want))
	for k := range sums {
		sums[k] = s.sumOf(k)
	}
	enough := func(d topology.ID) bool {
		for k, many := range want {
			if sums[k][d] < many && !s.hopeful {
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

// guessPenalties returns, by domain, the least that soft preferences charge for so many members of each kind, if each kind is
// there alone; nil if soft preferences charge no member.
func (s *trials) guessPenalties(domains []topology.ID, want []offer.Slots) map[topology.ID]int64 {
	if !s.soft {
		return nil
	}
	out := map[topology.ID]int64{}
	for _, d := range domains {
		lo, hi := s.Tree.Nodes(d)
		nodes := make([]int, hi-lo)
		for k, left := range want {
			for i := range nodes {
				nodes[i] = lo + i
			}
			slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(s.penalty(k, a), s.penalty(k, b)) })
			for i := 0; i < len(nodes) && left > 0; i++ {
				n := min(left, s.slots[k][nodes[i]])
				left -= n
				out[d] += int64(n) * s.penalty(k, nodes[i])
			}
		}
	}
	return out
}

// mildestFirst sorts nodes by what soft preferences charge there for one member of each kind.
func (s *trials) mildestFirst(nodes []int) {
	if s.soft {
		slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(s.ofAllKinds(a), s.ofAllKinds(b)) })
	}
}

func (s *trials) ofAllKinds(node int) (n int64) {
	for k := range s.Penalties {
		n += s.penalty(k, node)
	}
	return n
}

// searchIn tries to place so many members of each class in a domain. If it can, they
// are in s.puts.
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

// begin prepares to place so many members of each class in a domain.
func (s *trials) begin(d topology.ID, target []int) {
	s.nodes, s.left, s.puts = s.nodes[:0], slices.Clone(target), nil
	s.root = s.Tree.Ancestor(d, s.All.Must)
	s.listNodes(d)
	s.filled = places(s.filled, s.nodes, s.Tree.NumNodes())
	s.mildestFirst(s.nodes)
	s.place = places(s.place, s.nodes, s.Tree.NumNodes())
	if s.dependent {
		s.turns = s.inTurn(d)
		s.mildestFirst(s.turns)
		s.turn = places(s.turn, s.turns, s.Tree.NumNodes())
	}
	s.set, s.failed = 0, map[set]bool{}
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

// home is the domain in which a set gathers if one of it is on the node.
func (s *trials) home(set, node int) topology.ID {
	return s.Tree.Ancestor(s.Tree.Node(node), s.Sets[set].Must)
}

// listNodes lists the nodes of d by size, layer by layer.
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

// inTurn lists the nodes of d so that those of one domain are as far apart as they can.
func (s *trials) inTurn(d topology.ID) (out []int) {
	if s.Tree.IsNode(d) {
		lo, _ := s.Tree.Nodes(d)
		return []int{lo}
	}
	var kids [][]int
	for _, k := range s.LargestFirst(d) {
		kids = append(kids, s.inTurn(k))
	}
	for i := 0; len(kids) > 0; i++ {
		kids = slices.DeleteFunc(kids, func(nodes []int) bool { return i == len(nodes) })
		for _, nodes := range kids {
			out = append(out, nodes[i])
		}
	}
	return out
}

// places says by node index where nodes stand in a list.
func places(had, list []int, nodes int) []int {
	if had == nil {
		had = make([]int, nodes)
	}
	for i, n := range list {
		had[n] = i
	}
	return had
}

// descend places the rest. Members that do not depend on one another are placed class
// by class, and those of one class from the node of the last one on: every set of puts
// is then reached in one way.
func (s *trials) descend() bool {
	if !slices.ContainsFunc(s.left, func(n int) bool { return n > 0 }) {
		return s.legal()
	}
	if s.next(false) || s.hopeful && s.next(true) {
		return true
	}
	if s.cut && s.tries == 0 || !s.dependent {
		return false
	}
	s.failed[s.set] = true
	return false
}

// next puts the next member on each node in turn: on those that take its kind on an
// empty trial, or else on the others.
func (s *trials) next(others bool) bool {
	for _, class := range s.scarce {
		if s.left[class] == 0 {
			continue
		}
		slots := s.slots[s.Classes[class].Kind]
		small := homeless
		for node := range s.candidates(class) {
			if (slots[node] == 0) != others || !s.mayGather(class, node, &small) {
				continue
			}
			if s.tryOn(class, node) {
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

// candidates lists nodes for the next member of a class in the order in which it tries
// them: from that of the last one on. A node that has no more room may have a neighbour
// that has; but where members must be far from one another all neighbours refuse alike.
// So those that depend on one another soon go on to where some were put of late, one
// domain in turn, after the last one first.
func (s *trials) candidates(class int) func(yield func(int) bool) {
	if !s.dependent {
		from := 0
		if last, ok := s.last(class); ok {
			from = s.place[last]
		}
		return slices.Values(s.nodes[from:])
	}
	begin, next, end := len(s.turns), 0, 0
	for i, p := range slices.Backward(s.puts) {
		if p.Class != class || i < len(s.puts)-lately {
			break
		}
		begin, end = min(begin, s.turn[p.Node]), max(end, s.turn[p.Node]+1)
	}
	near := s.nodes
	if last, ok := s.last(class); ok {
		near, next = s.nodes[s.place[last]:], s.turn[last]+1
		if len(near) > 1 && s.ofAllKinds(near[1]) > s.ofAllKinds(last) {
			near = near[:1]
		}
	} else {
		begin = 0
	}
	lists := [][]int{near[:min(2, len(near))], s.turns[min(next, end):end], s.turns[begin:], s.turns[:begin]}
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

// last is the node of the last member that was put, if it is of the class.
func (s *trials) last(class int) (node int, ok bool) {
	if len(s.puts) == 0 {
		return 0, false
	}
	p := s.puts[len(s.puts)-1]
	return p.Node, p.Class == class
}

// mayGather says whether a member may go there for its sets. A set that has no home yet
// finds none where one of its classes has too little room; small is the last such one.
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

// takesSet says whether those of a set who have no place find room in a domain class by class.
func (s *trials) takesSet(home topology.ID, set int) bool {
	lo, hi := s.Tree.Nodes(home)
	for _, c := range s.inSet[set] {
		left := s.left[c]
		for node := lo; node < hi && left > 0 && s.ask(1); node++ {
			left -= int(s.now.takes(s.Classes[c].Kind, node))
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// ask takes so many tries, if there are as many left.
func (s *trials) ask(tries int) bool {
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

// fits says whether a member of a kind fits there now, as long as there are tries.
func (s *trials) fits(kind, node int) bool {
	tries := 1
	if s.dependent && !s.memory.knows(kind, node) {
		tries = askingCosts
	}
	return s.ask(tries) && s.trial.Fits(kind, node)
}

// tryOn puts a member of a class on a node, if it fits, and then places the rest.
func (s *trials) tryOn(class, node int) bool {
	if s.failed[s.set.with(class, node)] {
		s.ask(1)
		return false
	}
	if !s.fits(s.Classes[class].Kind, node) {
		return false
	}
	var few [4]topology.ID
	homes := few[:0]
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
	s.set = s.set.without(class, node)
	s.left[class]++
	for at, i := range sets {
		s.homes[i] = homes[at]
	}
	return false
}

// add puts a member of a class on a node.
func (s *trials) add(class, node int) {
	s.trial.Put(s.Classes[class].Kind, node)
	s.puts = append(s.puts, Put{Class: class, Node: node})
	s.set = s.set.with(class, node)
	s.left[class]--
	for _, i := range s.setsOf[s.Classes[class].Gang] {
		s.homes[i] = s.home(i, node)
	}
	if n := offer.Slots(len(s.puts)); n > s.placed[s.root] && s.legal() {
		s.placed[s.root] = n
	}
}

// legal is rule 2 for the puts, and rule 1 for sets that some members of were bound.
func (s *trials) legal() bool {
	for i := range s.Sets {
		isIn := func(p Put) bool { return slices.Contains(s.inSet[i], p.Class) }
		if s.splitSet(i) && slices.ContainsFunc(s.puts, isIn) {
			return false
		}
		if !s.areMultiples(s.Sets[i].Multiple, isIn, func(d topology.ID) offer.Slots { return s.boundOfSet(i, d) }) {
			return false
		}
	}
	return s.areMultiples(s.All.Multiple, func(Put) bool { return true }, s.BoundIn)
}

// areMultiples says whether some of the puts make up the multiples with those who are bound.
func (s *trials) areMultiples(of offer.Multiples, isIn func(Put) bool, bound func(topology.ID) offer.Slots) bool {
	if of.Common(s.Tree.Depth()) == 1 {
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
		if n > 0 && (n+bound(d))%of.At(s.Tree.Layer(d)) != 0 {
			return false
		}
	}
	return true
}

// plan is the plan of what was put. Ranks fill nodes in the order of rule 8.
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
			return cmp.Or(cmp.Compare(s.filled[a.Node], s.filled[b.Node]), cmp.Compare(a.Class, b.Class))
		})
	}
	return p
}

// loads is a trial for members that depend only on who is on their node.
type loads struct {
	*search
	load [][]offer.Slots // by node index and kind; nil where nobody is
	puts [][2]int        // kind and node
}

func (l *loads) Fits(kind, node int) bool { return l.takes(kind, node) > 0 }

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
