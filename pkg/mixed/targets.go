package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// choose returns the first plan that it finds for more members than so many. Where
// members depend on one another they may come to fit where they do not now, next to
// others or when the rest is as full; but where they do now is where to look first.
func (s *trials) choose(than int) (p *Plan) {
	if s.Split {
		return nil
	}
	if !s.dependent {
		tries := s.fewerTries(triesInAll)
		s.inDomain = tries / 4
		if p = s.look(than, tries); p != nil {
			p.NotAll = s.cut || len(s.columns) > 0 // preferences do not guide the search
		}
		return p
	}
	tries := s.fewerTries((askedInAll + askedByMember*int(s.members())) * askingCosts)
	s.inDomain = tries / 4
	if p = s.look(than, tries/2); p != nil {
		than = len(p.Puts)
	}
	s.hopeful, s.cut = true, false
	if p = cmp.Or(s.look(than, tries/2), p); p != nil {
		p.NotAll = true // nobody looked for deeper domains in which members make room for others
	}
	return p
}

// look searches the domains for one target after the other: those that are better than
// what inPart finds, and then that in deeper domains. No target takes all the tries of
// the next, nor a layer those of the layers above it.
func (s *trials) look(than, tries int) (p *Plan) {
	targets := slices.DeleteFunc(s.targets(), func(t []int) bool { return sum(t) <= than || !s.countsAre(t) })
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
			if l := s.Tree.Layer(d); l != layer {
				if layer, share = l, left; l > s.All.Must {
					share = left / (l - s.All.Must + 2)
				}
			}
			s.tries = share
			if layer > s.All.Must || len(s.Roots) > 1 {
				s.tries = min(s.inDomain, share)
			}
			share -= s.tries
			left -= s.tries
			if s.searchIn(d, target) {
				return s.plan()
			}
			share += s.tries
			left += s.tries
		}
		tries += left
	}
	return p
}

// maxTargets is how many sets of members are tried where not all of them need a place.
const maxTargets = 256

// inPart puts members wherever they fit, each class after those that may find no place
// because of it: every class and every two come last once. It returns the best plan for
// more than so many, and how many of each class it places.
func (s *trials) inPart(than int, most []int) (p *Plan, part []int) {
	all := make([]int, len(s.Classes))
	for c, class := range s.Classes {
		all[c] = len(class.Ranks)
	}
	roots := slices.SortedStableFunc(slices.Values(s.Roots), s.CompareDomains)
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
				s.trial.Undo()
			}
			if s.tries == 0 || part != nil && !s.before(most, part) {
				return p, part
			}
		}
	}
	return p, part
}

// orders lists orders of classes: the scarcest first, but for none, one or two of them.
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

// putAll puts as many members of each class as fit, class by class, and says whether
// there were any.
func (s *trials) putAll(order []int) (any bool) {
	for _, class := range order {
		for s.left[class] > 0 && s.putOne(class) {
			any = true
		}
	}
	return any
}

func (s *trials) putOne(class int) bool {
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
func (s *trials) needed(part []int) bool {
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
func (s *trials) targets() (out [][]int) {
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

func (s *trials) everyTarget() (out [][]int) {
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
