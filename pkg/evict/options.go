package evict

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Option is one set of a node's victims that may be evicted.
type Option struct {
	Slots offer.Slots // what the node takes once the victims are gone
	Gone  []int       // indexes into the node's victims, ascending
	Cost  Cost
}

// Node is the slots of a node for sets of its victims; see NewNode. The zero Node takes no member.
type Node struct {
	Victims []Victim
	// Options starts with the empty set. The rest follows by price, then youngest first. If two cost the same under some ceiling,
	// the first is better.
	Options  []Option
	Capacity offer.Slots // what the node takes without any victim

	// guessed returns the slots of any set; nil if every set was tried.
	guessed func(gone []int) offer.Slots
}

// maxSets is the number of victim sets up to which all sets of a node are tried.
const maxSets = 256

// NewNode returns the node with the victim sets that can be best. slots returns the node's slots after the victims gone are evicted. slots
// must not fall when more victims are evicted, and must not keep its argument; most bounds the relevant slots. Victims of one shape are
// evicted cheapest first, so there are mostly few sets. If there are many, only small ones and some minimal ones are tried.
func NewNode(victims []Victim, most offer.Slots, slots func(gone []int) offer.Slots) Node {
	return (&nodeMaker{}).node(victims, most, slots)
}

// nodeMaker makes nodes in shared memory.
type nodeMaker struct {
	piece   int // minimum number of options per allocation
	options []Option
	gone    []int // of the options
	// Scratch space for the current node:
	costs         []Cost
	order, prefix []int
}

// pieceOfMaker is the piece when all nodes are made.
const pieceOfMaker = 1 << 10

// node is NewNode in shared memory.
func (m *nodeMaker) node(victims []Victim, most offer.Slots, slots func(gone []int) offer.Slots) Node {
	m.options = withPlace(m.options, 1+len(victims), m.piece)
	n := Node{Victims: victims, Options: append(m.options[len(m.options):], Option{Slots: slots(nil)})}
	m.fill(&n, most, slots)
	if cap(n.Options) == cap(m.options)-len(m.options) { // they still use the shared memory
		m.options = m.options[:len(m.options)+len(n.Options)]
	}
	n.Options = slices.Clip(n.Options)
	return n
}

// withPlace returns a slice with capacity for more elements, in a new allocation if needed.
func withPlace[T any](s []T, more, piece int) []T {
	if cap(s)-len(s) >= more {
		return s
	}
	return make([]T, 0, max(more, piece))
}

// fill appends to n.Options the options with victims, and sets Capacity. n has the option without victims.
func (m *nodeMaker) fill(n *Node, most offer.Slots, slots func(gone []int) offer.Slots) {
	victims := n.Victims
	if n.Capacity = n.free(); len(victims) == 0 {
		return
	}
	n.Capacity = slots(indexes(len(victims)))
	if n.free() >= min(n.Capacity, most) {
		return
	}
	if oneShape(victims) {
		m.keepFirst(n, min(n.Capacity, most), slots)
		return
	}
	sets, every := everySet(victims)
	if !every {
		sets = someSets(victims, n.free(), min(n.Capacity, most), slots)
		n.guessed = slots
	}
	n.keep(sets, min(n.Capacity, most), slots)
}

// free returns the slots without evictions.
func (n Node) free() offer.Slots {
	if len(n.Options) == 0 {
		return 0
	}
	return n.Options[0].Slots
}

// keep appends the options of those sets that can be best, with at most most slots. It calls slots only for sets whose cost is useful.
func (n *Node) keep(sets [][]int, most offer.Slots, slots func([]int) offer.Slots) {
	type dated struct {
		Option
		age []int // positions in the order of age, ascending
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

// oneShape returns whether all victims free the same capacity and may be tried one by one.
func oneShape(victims []Victim) bool {
	for i := range victims {
		if victims[i].Shape != victims[0].Shape || victims[i].Shape == "" {
			return len(victims) == 1
		}
	}
	return len(victims) < maxSets
}

// keepFirst is keep for victims of one shape, evicted cheapest first: each set costs more than the one before.
func (m *nodeMaker) keepFirst(n *Node, most offer.Slots, slots func([]int) offer.Slots) {
	m.costs = m.costs[:0]
	m.order = m.order[:0]
	m.prefix = m.prefix[:0]
	for v := range n.Victims {
		m.costs, m.order = append(m.costs, n.Victims[v].cost()), append(m.order, v)
	}
	slices.SortFunc(m.order, func(a, b int) int {
		return cmp.Or(m.costs[a].Compare(m.costs[b]), compareVictims(&n.Victims[a], &n.Victims[b]))
	})
	o := Option{}
	for _, v := range m.order {
		position, _ := slices.BinarySearch(m.prefix, v)
		m.prefix = slices.Insert(m.prefix, position, v)
		o.Cost = o.Cost.Add(m.costs[v])
		if o.Slots = most; n.beats(&o) {
			break // and the rest costs more
		}
		if o.Slots = min(slots(m.prefix), most); n.beats(&o) {
			continue
		}
		m.gone = withPlace(m.gone, len(m.prefix), 4*m.piece)
		begin := len(m.gone)
		m.gone = append(m.gone, m.prefix...)
		n.Options = append(n.Options, Option{Slots: o.Slots, Gone: m.gone[begin:len(m.gone):len(m.gone)], Cost: o.Cost})
	}
}

// beats returns whether a kept option is never worse than o, whatever is evicted on other nodes. All kept options precede o. The highest
// priority matters only between equal counts, and then other nodes decide.
func (n *Node) beats(o *Option) bool {
	return slices.ContainsFunc(n.Options, func(kept Option) bool {
		return kept.Slots >= o.Slots &&
			(kept.Cost.compareCount(o.Cost) < 0 || kept.Cost.Highest <= o.Cost.Highest)
	})
}

// cheapest returns the first option with slots for the members and no victim above the ceiling. There must be one.
func (n Node) cheapest(members offer.Slots, ceiling int32) Option {
	i := slices.IndexFunc(n.Options, func(o Option) bool { return o.Slots >= members && o.Cost.under(ceiling) })
	return n.Options[i]
}

// everySet returns all non-empty sets that can be best: the cheapest n victims of each shape. every is false if there are too many.
func everySet(victims []Victim) (sets [][]int, every bool) {
	sets = [][]int{nil}
	for _, shape := range shapes(victims) {
		if len(sets)*(len(shape)+1) > maxSets {
			return nil, false
		}
		for _, set := range sets { // ranges over the sets so far
			for n := range shape {
				more := slices.Concat(set, shape[:n+1])
				slices.Sort(more)
				sets = append(sets, more)
			}
		}
	}
	return sets[1:], true
}

// shapes returns victims as indexes, grouped by Shape, each group cheapest first.
func shapes(victims []Victim) (groups [][]int) {
	groupOf := map[string]int{}
	for i, v := range victims {
		g, known := groupOf[v.Shape]
		if !known || v.Shape == "" {
			g = len(groups)
			groupOf[v.Shape] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	for _, g := range groups {
		sortByCost(victims, g)
	}
	return groups
}

// someSets returns all small sets and, for each number of slots up to most, minimal sets that free them. It evicts the cheapest victims
// until these suffice, or all victims, and puts those back that are not needed.
func someSets(victims []Victim, free, most offer.Slots, slots func([]int) offer.Slots) [][]int {
	sets := smallSets(len(victims))
	order := indexes(len(victims))
	sortByCost(victims, order)
	n := 0
	for want := free + 1; want <= most; want++ {
		for slots(sorted(order[:n])) < want {
			n++
		}
		sets = append(sets, minimal(reversed(order[:n]), want, slots), minimal(reversed(order), want, slots), minimal(order, want, slots))
	}
	return sets
}

// smallSets returns sets of n victims, as ascending indexes: all sets of one victim, then all sets of two, and so on. It ends before the
// first size with which the number of sets would exceed maxSets. The empty set counts, but is not returned.
func smallSets(n int) (sets [][]int) {
	larger := [][]int{nil}
	for len(larger) > 0 && len(sets)+len(larger) <= maxSets {
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

// minimal returns gone without the victims that are not needed for want slots. It puts victims back in the order of gone.
func minimal(gone []int, want offer.Slots, slots func([]int) offer.Slots) []int {
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

// reversed returns a reversed copy.
func reversed(s []int) []int {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// sortByCost sorts indexes of victims by cost, then by compareVictims.
func sortByCost(victims []Victim, order []int) {
	slices.SortFunc(order, func(a, b int) int {
		return victims[a].Compare(victims[b])
	})
}

// Compare returns a negative number if v is preferred for eviction: the cheaper victim, then by compareVictims.
func (v Victim) Compare(o Victim) int {
	return cmp.Or(v.cost().Compare(o.cost()), compareVictims(&v, &o))
}

// sorted returns a sorted copy.
func sorted(s []int) []int {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// compareVictims is negative if a is preferred at equal cost: no leader, smaller, younger, higher rank, then first by name.
func compareVictims(a, b *Victim) int {
	return cmp.Or(cmp.Compare(btoi(a.Leads), btoi(b.Leads)), cmp.Compare(a.Size, b.Size), cmp.Compare(b.Started, a.Started),
		cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Name, b.Name))
}

// second returns the start of a victim in seconds, the resolution of the API server.
func (v *Victim) second() int64 { return v.Started / 1e9 }

// ages returns each victim's position in the order of compareVictims.
func ages(victims []Victim) []int {
	order := indexes(len(victims))
	slices.SortFunc(order, func(a, b int) int { return compareVictims(&victims[a], &victims[b]) })
	age := make([]int, len(victims))
	for position, v := range order {
		age[v] = position
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
