package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// staged looks for a plan of a job by putting its members on a stage one after the
// other, in the domains that rules 4, 6, 7 and 9 put first, and taking them back where
// that leads nowhere. It is for what tables cannot say: members that depend on one
// another across nodes, or too many classes. Where there is little to look at it looks
// at everything, and else as long as it has tries.
type staged struct {
	*mixed
	stage     Stage
	now       *loads        // the stage where members do not depend on one another, or
	memory    *memory       // else
	dependent bool          // who fits depends on who is elsewhere, and on the order
	hopeful   bool          // members are tried where they do not fit on an empty stage
	free      []offer.Slots // by kind, what all nodes take of it alone
	scarce    []int         // classes, those with the fewest slots first

	// The search in one domain:
	nodes    []int // in the order in which rule 8 fills them when all are free
	place    []int // by node index, where it stands in nodes
	turns    []int // nodes, one of each domain in turn
	turn     []int // by node index, where it stands in turns
	left     []int // by class, those without a place
	homes    []topology.ID
	puts     []Put
	set      set          // of puts, by class
	failed   map[set]bool // sets of puts from which no plan can be reached
	tries    int          // that are left
	inDomain int          // how many one domain has
	cut      bool         // there were not enough
}

// How many tries there are in all, of which one domain of several has a quarter. Where a
// Stage must be asked, they are enough for so many questions and some more by member: one
// costs as much as that many tries of which the outcome is known.
const (
	triesInAll    = 40_000
	askedInAll    = 4_000
	askedByMember = 20
	askingCosts   = 50
)

// maxTargets is how many sets of members are tried where not all of them need a place.
const maxTargets = 256

// Those who must be far from one another come back to the same nodes after at most so
// many domains.
const lately = 16

// homeless is the home of a gang that may still gather anywhere.
const homeless topology.ID = -1

func newStaged(m *mixed) *staged {
	s := &staged{mixed: m, stage: m.Stage, dependent: m.Stage != nil}
	s.memory, _ = m.Stage.(*memory)
	if s.stage == nil {
		s.now = &loads{mixed: m, load: make([][]offer.Slots, m.Tree.NumNodes())}
		s.stage = s.now
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
	return s
}

// choose returns the first plan that it finds for more members than so many. Where
// members depend on one another they may come to fit where they do not now, next to
// others or when the rest is as full; but where they do now is where to look first.
func (s *staged) choose(than int) (p *JobPlan) {
	if s.split {
		return nil
	}
	if !s.dependent {
		s.inDomain = triesInAll / 4
		return s.look(than, triesInAll)
	}
	tries := (askedInAll + askedByMember*int(s.members())) * askingCosts
	s.inDomain = tries / 4
	if p = s.look(than, tries/2); p != nil {
		than = len(p.Puts)
	}
	s.hopeful, s.cut = true, false
	return cmp.Or(s.look(than, tries/2), p)
}

// look searches the domains for one target after the other: those that are better than
// what inPart finds, and then that in deeper domains. No target takes all the tries of
// the next, nor a layer those of the layers above it.
func (s *staged) look(than, tries int) (p *JobPlan) {
	targets := slices.DeleteFunc(s.targets(), func(t []int) bool { return sum(t) <= than })
	if len(targets) > 1 || s.dependent && len(targets) == 1 {
		var part []int
		s.tries = tries / 4
		p, part = s.inPart(than, targets[0])
		tries -= tries/4 - s.tries
		if p != nil {
			targets = slices.DeleteFunc(targets, func(t []int) bool { return !s.before(t, part) })
			targets = append(targets, part)
		}
	}
	last := tries / 2 // for the one that has the best chance
	if p != nil {
		last = tries / 8
	}
	for i, target := range targets {
		left, share, layer := tries, 0, -1
		if i < len(targets)-1 {
			left = (tries - last) / 2
		}
		tries -= left
		for _, d := range s.domains(target) {
			if l := s.tree.Layer(d); l != layer {
				if layer, share = l, left; l > s.All.Must {
					share = left / (l - s.All.Must + 2)
				}
			}
			s.tries = share
			if layer > s.All.Must || len(s.roots) > 1 {
				s.tries = min(s.inDomain, share)
			}
			share -= s.tries
			left -= s.tries
			if s.search(d, target) {
				return s.plan()
			}
			share += s.tries
			left += s.tries
		}
		tries += left
	}
	return p
}

// inPart puts members wherever they fit, each class after those that may find no place
// because of it: every class and every two come last once. It returns the best plan for
// more than so many, and how many of each class it places.
func (s *staged) inPart(than int, most []int) (p *JobPlan, part []int) {
	all := make([]int, len(s.Classes))
	for c, class := range s.Classes {
		all[c] = len(class.Ranks)
	}
	roots := slices.SortedStableFunc(slices.Values(s.roots), s.compareDomains)
	for _, order := range s.orders() {
		for _, root := range roots {
			s.begin(root, all)
			for more := true; more; {
				more = s.putAll(order) && s.dependent
				now := minus(all, s.left)
				if sum(now) > than && (part == nil || s.before(now, part)) && s.needed(now) && s.legal() {
					s.puts = slices.Clone(s.puts)
					p, part = s.plan(), now
				}
			}
			for range s.puts {
				s.stage.Undo()
			}
			if s.tries == 0 || part != nil && !s.before(most, part) {
				return p, part
			}
		}
	}
	return p, part
}

// orders lists orders of classes: the scarcest first, but for none, one or two of them.
func (s *staged) orders() (out [][]int) {
	without := func(order []int, class int) []int {
		return slices.DeleteFunc(slices.Clone(order), func(c int) bool { return c == class })
	}
	out = append(out, s.scarce)
	for _, c := range s.scarce {
		out = append(out, append(without(s.scarce, c), c))
	}
	for i, c := range s.scarce {
		for _, d := range s.scarce[:i] {
			out = append(out, append(without(without(s.scarce, c), d), min(c, d), max(c, d)))
		}
	}
	return out
}

// putAll puts as many members of each class as fit, class by class, and says whether
// there were any.
func (s *staged) putAll(order []int) (any bool) {
	for _, class := range order {
		for s.left[class] > 0 && s.putOne(class) {
			any = true
		}
	}
	return any
}

func (s *staged) putOne(class int) bool {
	small := homeless
	kind := s.Classes[class].Kind
	for node := range s.candidates(class) {
		if (s.slots[kind][node] > 0 || s.hopeful) && s.mayGather(class, node, &small) && s.fits(kind, node) {
			s.add(class, node)
			return true
		}
		if s.tries == 0 {
			return false
		}
	}
	return false
}

// needed says whether so many of each class are as many as the gangs need.
func (s *staged) needed(part []int) bool {
	for g, gang := range s.Gangs {
		n := 0
		for c, class := range s.Classes {
			if class.Gang == g {
				n += part[c]
			}
		}
		if n < int(gang.Need) {
			return false
		}
	}
	return true
}

func minus(a, b []int) (out []int) {
	for i := range a {
		out = append(out, a[i]-b[i])
	}
	return out
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// targets lists how many of each class are to be placed, by rule 3 and then by rank:
// all of them, and where some gang can do with fewer, fewer.
func (s *staged) targets() (out [][]int) {
	now := make([]int, len(s.Classes))
	spare := make([]int, len(s.Gangs))
	for g, gang := range s.Gangs {
		spare[g] = -int(gang.Need)
	}
	for c, class := range s.Classes {
		now[c] = len(class.Ranks)
		spare[class.Gang] += now[c]
	}
	if slices.Max(spare) > 0 {
		if s.tables != nil && s.tables.size <= maxTargets {
			return s.everyTarget()
		}
		s.cut = true
	}
	drop := func(class int) bool {
		g := s.Classes[class].Gang
		if now[class] == 0 || spare[g] <= 0 {
			return false
		}
		spare[g]--
		now[class]--
		return true
	}
	for c, class := range s.Classes { // those who fit nowhere
		for slots := s.free[class.Kind]; !s.hopeful && now[c] > int(slots) && drop(c); {
		}
	}
	out = append(out, slices.Clone(now))
	step, dropped := 1+len(s.order)/maxTargets, 0
	for _, m := range slices.Backward(s.order) {
		if int(m.n) >= now[m.class] || !drop(m.class) {
			continue
		}
		if dropped++; dropped%step == 0 {
			out = append(out, slices.Clone(now))
		}
	}
	if dropped%step != 0 {
		out = append(out, now)
	}
	return slices.DeleteFunc(out, func(t []int) bool { return sum(t) == 0 })
}

func (s *staged) everyTarget() (out [][]int) {
	var all []vec
	for i := range s.tables.size {
		v := vec(0)
		for c, stride := range s.tables.stride {
			v += s.tables.one(c, offer.Slots(i/stride)%(s.tables.want[c]+1))
		}
		if s.enough(topology.Root, v) {
			all = append(all, v)
		}
	}
	for _, v := range all {
		target := make([]int, len(s.Classes))
		for c := range target {
			target[c] = int(s.tables.count(v, c))
		}
		out = append(out, target)
	}
	slices.SortFunc(out, func(a, b []int) int {
		switch {
		case s.before(a, b):
			return -1
		case s.before(b, a):
			return 1
		}
		return 0
	})
	return out
}

// before is rule 3, and then the lower ranks.
func (s *staged) before(a, b []int) bool {
	if x, y := sum(a), sum(b); x != y {
		return x > y
	}
	for _, m := range s.order {
		inA, inB := int(m.n) < a[m.class], int(m.n) < b[m.class]
		if inA != inB {
			return inA
		}
	}
	return false
}

// domains lists those that may hold the members, best first.
func (s *staged) domains(target []int) (out []topology.ID) {
	want := make([]offer.Slots, len(s.slots))
	for c, n := range target {
		want[s.Classes[c].Kind] += offer.Slots(n)
	}
	sums := make([][]offer.Slots, len(s.slots))
	for k := range sums {
		sums[k] = offer.Sum(s.Tree, s.slots[k])
	}
	enough := func(d topology.ID) bool {
		for k := range sums {
			if sums[k][d] < want[k] && !s.hopeful {
				return false
			}
		}
		return s.holdsBound(d)
	}
	for _, root := range s.roots {
		for d := root; d < s.tree.End(root); d++ {
			if enough(d) {
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b topology.ID) int {
		if x, y := s.tree.Layer(a), s.tree.Layer(b); x != y {
			return cmp.Compare(y, x)
		}
		return s.compareDomains(a, b)
	})
	return out
}

// search tries to place so many members of each class in a domain. If it can, they
// are in s.puts.
func (s *staged) search(d topology.ID, target []int) bool {
	s.begin(d, target)
	found := s.descend()
	if found {
		for range s.puts {
			s.stage.Undo()
		}
	}
	return found
}

// begin prepares to place so many members of each class in a domain.
func (s *staged) begin(d topology.ID, target []int) {
	s.nodes, s.left, s.puts = s.nodes[:0], slices.Clone(target), nil
	s.listNodes(d)
	s.place = places(s.place, s.nodes, s.Tree.NumNodes())
	if s.dependent {
		s.turns = s.inTurn(d)
		s.turn = places(s.turn, s.turns, s.Tree.NumNodes())
	}
	s.set, s.failed = 0, map[set]bool{}
	s.homes = make([]topology.ID, len(s.Gangs))
	for g := range s.homes {
		s.homes[g] = homeless
		if s.gangs[g] != nil {
			i := slices.IndexFunc(s.Gangs[g].Bound, func(n offer.Slots) bool { return n > 0 })
			s.homes[g] = s.home(i)
		}
	}
}

// home is the domain in which a gang gathers if one of it is on the node.
func (s *staged) home(node int) topology.ID {
	return s.tree.Ancestor(s.tree.Node(node), s.Each.Must)
}

// listNodes lists the nodes of d by size, layer by layer.
func (s *staged) listNodes(d topology.ID) {
	if s.tree.IsNode(d) {
		lo, _ := s.tree.Nodes(d)
		s.nodes = append(s.nodes, lo)
		return
	}
	for _, k := range s.largestFirst(d) {
		s.listNodes(k)
	}
}

// inTurn lists the nodes of d so that those of one domain are as far apart as they can.
func (s *staged) inTurn(d topology.ID) (out []int) {
	if s.tree.IsNode(d) {
		lo, _ := s.tree.Nodes(d)
		return []int{lo}
	}
	var kids [][]int
	for _, k := range s.largestFirst(d) {
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
func (s *staged) descend() bool {
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
// empty stage, or else on the others.
func (s *staged) next(others bool) bool {
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
func (s *staged) candidates(class int) func(yield func(int) bool) {
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
func (s *staged) last(class int) (node int, ok bool) {
	if len(s.puts) == 0 {
		return 0, false
	}
	p := s.puts[len(s.puts)-1]
	return p.Node, p.Class == class
}

// mayGather says whether a member may go there for its gang. A gang that has no home yet
// finds none where one of its classes has too little room; small is the last such one.
func (s *staged) mayGather(class, node int, small *topology.ID) bool {
	g := s.Classes[class].Gang
	home := s.home(node)
	if s.homes[g] != homeless || home == *small {
		return s.homes[g] == home
	}
	if s.dependent || s.Each.Must == 0 {
		return true
	}
	lo, hi := s.tree.Nodes(home)
	for c, left := range s.left {
		if s.Classes[c].Gang != g {
			continue
		}
		for node := lo; node < hi && left > 0 && s.ask(1); node++ {
			left -= int(s.now.takes(s.Classes[c].Kind, node))
		}
		if left > 0 {
			*small = home
			return false
		}
	}
	return true
}

// ask takes so many tries, if there are as many left.
func (s *staged) ask(tries int) bool {
	if s.tries < tries {
		s.tries, s.cut = 0, true
		return false
	}
	s.tries -= tries
	return true
}

// fits says whether a member of a kind fits there now, as long as there are tries.
func (s *staged) fits(kind, node int) bool {
	tries := 1
	if s.dependent && !s.memory.knows(kind, node) {
		tries = askingCosts
	}
	return s.ask(tries) && s.stage.Fits(kind, node)
}

// tryOn puts a member of a class on a node, if it fits, and then places the rest.
func (s *staged) tryOn(class, node int) bool {
	g := s.Classes[class].Gang
	if s.failed[s.set.with(class, node)] {
		s.ask(1)
		return false
	}
	if !s.fits(s.Classes[class].Kind, node) {
		return false
	}
	home := s.homes[g]
	s.add(class, node)
	if s.descend() {
		return true
	}
	s.stage.Undo()
	s.puts = s.puts[:len(s.puts)-1]
	s.set = s.set.without(class, node)
	s.left[class]++
	s.homes[g] = home
	return false
}

// add puts a member of a class on a node.
func (s *staged) add(class, node int) {
	s.stage.Put(s.Classes[class].Kind, node)
	s.puts = append(s.puts, Put{Class: class, Node: node})
	s.set = s.set.with(class, node)
	s.left[class]--
	s.homes[s.Classes[class].Gang] = s.home(node)
}

// legal is rule 2 for the puts, and rule 1 for gangs that some members of were bound.
func (s *staged) legal() bool {
	sums := make([][]offer.Slots, len(s.Gangs)) // by gang and ID
	for g := range sums {
		count := make([]offer.Slots, s.Tree.NumNodes())
		for _, p := range s.puts {
			if s.Classes[p.Class].Gang == g {
				count[p.Node]++
			}
		}
		sums[g] = offer.Sum(s.Tree, count)
		if sums[g][topology.Root] > 0 && s.splitGang(g) {
			return false
		}
	}
	for d := topology.Root; int(d) < s.tree.Len(); d++ {
		l, all := s.tree.Layer(d), offer.Slots(0)
		for g := range sums {
			all += sums[g][d]
			if sums[g][d] > 0 && (sums[g][d]+s.boundOf(g, d))%s.Each.Multiple.At(l) != 0 {
				return false
			}
		}
		if all > 0 && (all+s.boundIn(d))%s.All.Multiple.At(l) != 0 {
			return false
		}
	}
	return true
}

// splitGang says whether bound members of a gang are in several domains of the layer
// in which it must gather.
func (m *mixed) splitGang(gang int) bool {
	if m.gangs[gang] == nil {
		return false
	}
	homes := domainsAt(m.tree, m.Each.Must)
	return len(slices.DeleteFunc(homes, func(d topology.ID) bool { return m.gangs[gang][d] == 0 })) > 1
}

// plan is the plan of what was put. Ranks fill nodes in the order of rule 8.
func (s *staged) plan() *JobPlan {
	p := &JobPlan{Domain: s.tree.Node(s.puts[0].Node), Puts: s.puts, InOrder: s.dependent}
	for _, put := range s.puts {
		p.Domain = s.tree.Common(p.Domain, s.tree.Node(put.Node))
	}
	for !s.holdsBound(p.Domain) {
		p.Domain = s.tree.Parent(p.Domain)
	}
	if !s.dependent {
		slices.SortStableFunc(p.Puts, func(a, b Put) int {
			return cmp.Or(cmp.Compare(s.place[a.Node], s.place[b.Node]), cmp.Compare(a.Class, b.Class))
		})
	}
	return p
}

// loads is a stage for members that depend only on who is on their node.
type loads struct {
	*mixed
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
