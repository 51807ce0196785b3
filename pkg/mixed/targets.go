package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// choose returns the first plan found with more than moreThan members; nil if none was found. The search first uses nodes where members fit
// now. Interdependent members may fit elsewhere later, beside other members.
func (s *trials) choose(moreThan int) (p *Plan) {
	if s.Split {
		return nil
	}
	if !s.dependent {
		tries := s.triesLeft(triesInAll)
		s.triesInDomain = tries / 4
		if p = s.searchTargets(moreThan, tries); p != nil {
			p.NotAll = s.cut || len(s.columns) > 0 // preferences do not guide the search
		}
		return p
	}
	tries := s.triesLeft((fitsCallsInAll + fitsCallsByMember*int(s.members())) * fitsCallCost)
	s.triesInDomain = tries / 4
	if p = s.searchTargets(moreThan, tries/2); p != nil {
		moreThan = len(p.Puts)
	}
	s.optimistic, s.cut = true, false
	if p = cmp.Or(s.searchTargets(moreThan, tries/2), p); p != nil {
		p.NotAll = true // deeper domains that fit only beside other members were not searched
	}
	return p
}

// searchTargets returns a plan for the first target that can be placed, else the greedy plan. It searches targets that precede the greedy
// plan, then the greedy plan's counts in deeper domains. Each target leaves tries for the next one, and each layer for higher layers.
func (s *trials) searchTargets(moreThan, tries int) (p *Plan) {
	targets := slices.DeleteFunc(s.targets(), func(t []int) bool { return sum(t) <= moreThan || !s.validTarget(t) })
	if len(targets) > 1 || s.dependent && len(targets) == 1 {
		var part []int
		s.tries = tries / 4
		p, part = s.placeGreedily(moreThan, targets[0])
		tries -= tries/4 - s.tries
		if p != nil {
			targets = slices.DeleteFunc(targets, func(t []int) bool { return !s.before(t, part) })
			targets = append(targets, part)
		}
	}
	last := tries / 2 // for the last target, the most likely one
	if p != nil {
		last = tries / 8
	}
	for i, target := range targets {
		available := tries
		share := 0
		layer := -1
		if i < len(targets)-1 {
			available = (tries - last) / 2
		}
		tries -= available
		for _, d := range s.domains(target) {
			if l := s.Tree.Layer(d); l != layer {
				if layer, share = l, available; l > s.All.Must {
					share = available / (l - s.All.Must + 2)
				}
			}
			s.tries = share
			if layer > s.All.Must || len(s.Roots) > 1 {
				s.tries = min(s.triesInDomain, share)
			}
			share -= s.tries
			available -= s.tries
			if s.searchIn(d, target) {
				return s.plan()
			}
			share += s.tries
			available += s.tries
		}
		tries += available
	}
	return p
}

// maxTargets bounds the targets if some members are optional.
const maxTargets = 256

// placeGreedily puts members wherever they fit, in several orders of classes, and returns the best plan with more than moreThan members.
// part is the plan's members per class. The search ends early if nothing in most precedes that plan.
func (s *trials) placeGreedily(moreThan int, most []int) (p *Plan, part []int) {
	all := make([]int, len(s.Classes))
	for c, class := range s.Classes {
		all[c] = len(class.Ranks)
	}
	roots := slices.SortedStableFunc(slices.Values(s.Roots), s.CompareDomains)
	for _, order := range s.orders() {
		for _, root := range roots {
			s.begin(root, all)
			for again := true; again; {
				again = s.putAll(order) && s.dependent
				placed := minus(all, s.remaining)
				if sum(placed) > moreThan && (part == nil || s.before(placed, part)) && s.meetsNeeds(placed) && s.valid() {
					s.puts = slices.Clone(s.puts)
					p, part = s.plan(), placed
				}
			}
			for range s.puts {
				s.trial.Undo()
			}
			if s.tries == 0 || part != nil && !s.before(most, part) {
				return p, part
			}
		}
	}
	return p, part
}

// orders returns orders of classes to try: the scarcest class first, then with one or two classes moved to the end.
func (s *trials) orders() (out [][]int) {
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

// putAll puts as many members of each class as fit, class by class in the given order. It returns whether any member was placed.
func (s *trials) putAll(order []int) (placed bool) {
	for _, class := range order {
		for s.remaining[class] > 0 && s.putOne(class) {
			placed = true
		}
	}
	return placed
}

// putOne puts one member of a class on the first candidate node that takes it. It returns false if there is none or no tries are left.
func (s *trials) putOne(class int) bool {
	small := homeless
	kind := s.Classes[class].Kind
	for node := range s.candidates(class) {
		if (s.slots[kind][node] > 0 || s.optimistic) && s.mayGather(class, node, &small) && s.fits(kind, node) {
			s.add(class, node)
			return true
		}
		if s.tries == 0 {
			return false
		}
	}
	return false
}

// meetsNeeds returns whether the member counts by class reach Need of every gang.
func (s *trials) meetsNeeds(counts []int) bool {
	for g, gang := range s.Gangs {
		n := 0
		for c, class := range s.Classes {
			if class.Gang == g {
				n += counts[c]
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

// targets returns the member counts per class to try, best first: all members, then fewer where a gang allows it.
func (s *trials) targets() (out [][]int) {
	counts := make([]int, len(s.Classes))
	spare := make([]int, len(s.Gangs))
	for g, gang := range s.Gangs {
		spare[g] = -int(gang.Need)
	}
	for c, class := range s.Classes {
		counts[c] = len(class.Ranks)
		spare[class.Gang] += counts[c]
	}
	if slices.Max(spare) > 0 {
		if s.tables != nil && s.tables.size <= maxTargets {
			return s.everyTarget()
		}
		s.cut = true
	}
	drop := func(class int) bool {
		g := s.Classes[class].Gang
		if counts[class] == 0 || spare[g] <= 0 {
			return false
		}
		spare[g]--
		counts[class]--
		return true
	}
	for c, class := range s.Classes { // members that fit nowhere
		for slots := s.free[class.Kind]; !s.optimistic && counts[c] > int(slots) && drop(c); {
		}
	}
	out = append(out, slices.Clone(counts))
	step, dropped := 1+len(s.order)/maxTargets, 0
	for _, m := range slices.Backward(s.order) {
		if int(m.n) >= counts[m.class] || !drop(m.class) {
			continue
		}
		if dropped++; dropped%step == 0 {
			out = append(out, slices.Clone(counts))
		}
	}
	if dropped%step != 0 {
		out = append(out, counts)
	}
	return slices.DeleteFunc(out, func(t []int) bool { return sum(t) == 0 })
}

// everyTarget returns all member counts per class with which each gang has at least Need members, in the order of before.
func (s *trials) everyTarget() (out [][]int) {
	var all []vec
	for i := range s.tables.size {
		v := vec(0)
		for c, stride := range s.tables.stride {
			v += s.tables.vecOf(c, offer.Slots(i/stride)%(s.tables.want[c]+1))
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

// before returns whether member counts a precede b: they have more members, or as many members of lower ranks.
func (s *trials) before(a, b []int) bool {
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
