package evict

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Option is one way to make room on a node.
type Option struct {
	Slots offer.Slots // what the node takes once the victims are gone
	Gone  []int       // indexes into the node's victims, in rising order
	Cost  Cost
}

// Node is what a node could take; NewNode makes it. The zero Node takes nobody.
type Node struct {
	Victims []Victim
	// Options starts with the one that evicts nobody; the others follow by price, then
	// youngest first. Of two that cost the same under some ceiling the first is better.
	Options []Option
	Room    offer.Slots // what it would take with every victim gone

	// guessed is how to ask for sets that were not tried; nil if all were.
	guessed func(gone []int) offer.Slots
}

// exact is how many sets of victims are tried on a node at the most; where there are
// more, only some are.
const exact = 256

// NewNode asks what a node takes without some of its victims and keeps the ways that
// can be best. slots must not fall when more victims go, nor keep the list of them; most bounds the slots that
// are of interest. Victims of one shape leave cheapest first, so mostly there are few
// sets to try; where there are many, only small ones are, and larger ones are guessed.
func NewNode(victims []Victim, most offer.Slots, slots func(gone []int) offer.Slots) Node {
	return (&nodeMaker{}).node(victims, most, slots)
}

// nodeMaker makes nodes in memory that they share.
type nodeMaker struct {
	piece   int // so many options share a piece of memory at the least
	options []Option
	gone    []int // of the options
	// Of the node that is being made:
	costs       []Cost
	order, some []int
}

// pieceOfMaker is the piece for who makes all nodes.
const pieceOfMaker = 1 << 10

// node is NewNode.
func (m *nodeMaker) node(victims []Victim, most offer.Slots, slots func(gone []int) offer.Slots) Node {
	m.options = withPlace(m.options, 1+len(victims), m.piece)
	n := Node{Victims: victims, Options: append(m.options[len(m.options):], Option{Slots: slots(nil)})}
	m.fill(&n, most, slots)
	if cap(n.Options) == cap(m.options)-len(m.options) { // they have not grown out of it
		m.options = m.options[:len(m.options)+len(n.Options)]
	}
	n.Options = slices.Clip(n.Options)
	return n
}

// withPlace returns a slice with place for more, in another piece of memory if need be.
func withPlace[T any](had []T, more, piece int) []T {
	if cap(had)-len(had) >= more {
		return had
	}
	return make([]T, 0, max(more, piece))
}

// fill finds the ways to make room on a node of which it is known what it takes when nobody leaves.
func (m *nodeMaker) fill(n *Node, most offer.Slots, slots func(gone []int) offer.Slots) {
	victims := n.Victims
	if n.Room = n.free(); len(victims) == 0 {
		return
	}
	n.Room = slots(indexes(len(victims)))
	if n.free() >= min(n.Room, most) {
		return
	}
	if oneShape(victims) {
		m.keepFirst(n, min(n.Room, most), slots)
		return
	}
	sets, every := everySet(victims)
	if !every {
		sets = someSets(victims, n.free(), min(n.Room, most), slots)
		n.guessed = slots
	}
	n.keep(sets, min(n.Room, most), slots)
}

// free is what the node takes when nobody is evicted.
func (n Node) free() offer.Slots {
	if len(n.Options) == 0 {
		return 0
	}
	return n.Options[0].Slots
}

// keep adds those options that can be best, where no more than most slots count. It
// asks for the slots of a set only if it is not too dear to be of use whatever they
// are.
func (n *Node) keep(sets [][]int, most offer.Slots, slots func([]int) offer.Slots) {
	type dated struct {
		Option
		age []int // places in the order of age, rising
	}
	options := make([]dated, len(sets))
	ages := ages(n.Victims)
	for i, gone := range sets {
		options[i].Option = Option{Slots: most, Gone: gone, Cost: costOf(n.Victims, gone)}
		options[i].age = make([]int, len(gone))
		for k, v := range gone {
			options[i].age[k] = ages[v]
		}
		slices.Sort(options[i].age)
	}
	slices.SortFunc(options, func(a, b dated) int {
		return cmp.Or(a.Cost.comparePrice(b.Cost), cmp.Compare(a.Cost.Released, b.Cost.Released), slices.Compare(a.age, b.age))
	})
	for _, o := range options {
		if n.beats(&o.Option) {
			continue
		}
		if o.Slots = min(slots(o.Gone), most); !n.beats(&o.Option) {
			n.Options = append(n.Options, o.Option)
		}
	}
}

// oneShape says whether all victims free the same room, and may be tried one by one.
func oneShape(victims []Victim) bool {
	for i := range victims {
		if victims[i].Shape != victims[0].Shape || victims[i].Shape == "" {
			return len(victims) == 1
		}
	}
	return len(victims) < exact
}

// keepFirst is keep for victims of one shape, which leave cheapest first: of such sets each costs more than the one before.
func (m *nodeMaker) keepFirst(n *Node, most offer.Slots, slots func([]int) offer.Slots) {
	m.costs, m.order, m.some = m.costs[:0], m.order[:0], m.some[:0]
	for v := range n.Victims {
		m.costs, m.order = append(m.costs, n.Victims[v].cost()), append(m.order, v)
	}
	slices.SortFunc(m.order, func(a, b int) int {
		return cmp.Or(m.costs[a].Compare(m.costs[b]), compareVictims(&n.Victims[a], &n.Victims[b]))
	})
	o := Option{}
	for _, v := range m.order {
		at, _ := slices.BinarySearch(m.some, v)
		m.some = slices.Insert(m.some, at, v)
		o.Cost = o.Cost.Add(m.costs[v])
		if o.Slots = most; n.beats(&o) {
			break // and the others cost more
		}
		if o.Slots = min(slots(m.some), most); n.beats(&o) {
			continue
		}
		m.gone = withPlace(m.gone, len(m.some), 4*m.piece)
		begin := len(m.gone)
		m.gone = append(m.gone, m.some...)
		n.Options = append(n.Options, Option{Slots: o.Slots, Gone: m.gone[begin:len(m.gone):len(m.gone)], Cost: o.Cost})
	}
}

// beats says that one of the kept options, all of which come before o, is never worse
// than o, whatever else is evicted on other nodes. The highest priority counts only
// between equal counts, and which of two is better then depends on the other nodes.
func (n *Node) beats(o *Option) bool {
	return slices.ContainsFunc(n.Options, func(kept Option) bool {
		return kept.Slots >= o.Slots &&
			(kept.Cost.compareCount(o.Cost) < 0 || kept.Cost.Highest <= o.Cost.Highest)
	})
}

// cheapest returns the best option for so many members without victims above the
// ceiling. There must be one.
func (n Node) cheapest(members offer.Slots, ceiling int32) Option {
	i := slices.IndexFunc(n.Options, func(o Option) bool { return o.Slots >= members && o.Cost.under(ceiling) })
	return n.Options[i]
}

// everySet returns all sets of victims that can be best, but the empty one: of each
// shape so and so many, the cheapest. every is false if that is too many.
func everySet(victims []Victim) (sets [][]int, every bool) {
	sets = [][]int{nil}
	for _, alike := range shapes(victims) {
		if len(sets)*(len(alike)+1) > exact {
			return nil, false
		}
		for _, set := range sets { // the range is over the sets so far
			for n := range alike {
				more := slices.Concat(set, alike[:n+1])
				slices.Sort(more)
				sets = append(sets, more)
			}
		}
	}
	return sets[1:], true
}

// shapes groups victims that free the same room, each group cheapest first.
func shapes(victims []Victim) (groups [][]int) {
	place := map[string]int{}
	for i, v := range victims {
		g, known := place[v.Shape]
		if !known || v.Shape == "" {
			g = len(groups)
			place[v.Shape] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	for _, g := range groups {
		sortByCost(victims, g)
	}
	return groups
}

// someSets returns all small sets of victims and, for each number of slots up to most,
// sets that are enough and of which nobody may stay: the cheapest leave one by one
// until it is enough, or all leave, and then they are put back, the dearest or the
// cheapest first.
func someSets(victims []Victim, free, most offer.Slots, slots func([]int) offer.Slots) [][]int {
	sets := smallSets(len(victims))
	order := indexes(len(victims))
	sortByCost(victims, order)
	n := 0
	for want := free + 1; want <= most; want++ {
		for slots(sorted(order[:n])) < want {
			n++
		}
		sets = append(sets, needed(reversed(order[:n]), want, slots), needed(reversed(order), want, slots), needed(order, want, slots))
	}
	return sets
}

// smallSets returns all sets of one of n victims, of two, and so on, as far as they
// are not too many.
func smallSets(n int) (sets [][]int) {
	larger := [][]int{nil}
	for len(sets)+len(larger) <= exact {
		sets = append(sets, larger...)
		smaller := larger
		larger = nil
		for _, s := range smaller {
			for v := range n {
				if len(s) == 0 || v > s[len(s)-1] {
					larger = append(larger, append(slices.Clone(s), v))
				}
			}
		}
	}
	return sets[1:]
}

// needed puts victims back one by one, where enough slots remain without them, and
// returns the others.
func needed(gone []int, want offer.Slots, slots func([]int) offer.Slots) []int {
	gone = slices.Clone(gone)
	for i := 0; i < len(gone); {
		without := slices.Delete(slices.Clone(gone), i, i+1)
		if slots(sorted(without)) < want {
			i++
			continue
		}
		gone = without
	}
	return sorted(gone)
}

func reversed(s []int) []int {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// sortByCost sorts indexes of victims by their costs, the younger of equals first.
func sortByCost(victims []Victim, some []int) {
	slices.SortFunc(some, func(a, b int) int {
		return victims[a].Compare(victims[b])
	})
}

// Compare puts the cheaper victim first, then the younger one, then the first by name.
func (v Victim) Compare(o Victim) int {
	return cmp.Or(v.cost().Compare(o.cost()), compareVictims(&v, &o))
}

func sorted(s []int) []int {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// compareVictims puts the victim first that is evicted rather than another one of the same cost: no leader of a gang, the smaller, the
// younger one, the higher rank, then the first by name.
func compareVictims(a, b *Victim) int {
	return cmp.Or(cmp.Compare(btoi(a.Leads), btoi(b.Leads)), cmp.Compare(a.Size, b.Size), cmp.Compare(b.Started, a.Started),
		cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Name, b.Name))
}

// second is when a victim started, to the second: the API server keeps no more, and less says nothing about work that is lost.
func (v *Victim) second() int64 { return v.Started / 1e9 }

// ages returns each victim's place in the order of compareVictims.
func ages(victims []Victim) []int {
	order := indexes(len(victims))
	slices.SortFunc(order, func(a, b int) int { return compareVictims(&victims[a], &victims[b]) })
	age := make([]int, len(victims))
	for place, v := range order {
		age[v] = place
	}
	return age
}

// indexes returns 0 to n-1.
func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
