package mixed

import (
	"cmp"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// addSets notes the sets that ask for anything, and who of them is bound.
func (m *search) addSets() {
	m.Sets = slices.DeleteFunc(slices.Clone(m.Sets), func(s Set) bool { return !s.asks(m.All, m.Tree.Depth()) })
	m.setsOf, m.inSet, m.setBound = make([][]int, len(m.Gangs)), make([][]int, len(m.Sets)), make([][]offer.Slots, len(m.Sets))
	for i, set := range m.Sets {
		for _, g := range set.Gangs {
			m.setsOf[g] = append(m.setsOf[g], i)
			m.setBound[i] = plus(m.setBound[i], m.gangs[g])
		}
		for c, class := range m.Classes {
			if slices.Contains(set.Gangs, class.Gang) {
				m.inSet[i] = append(m.inSet[i], c)
			}
		}
	}
}

// plus adds counts of which either may be nil; it changes neither.
func plus(a, b []offer.Slots) []offer.Slots {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	out := slices.Clone(a)
	add(out, b)
	return out
}

// ofSet is how many of so many members are in a set.
func (m *search) ofSet(v vec, set int) (n offer.Slots) {
	for _, c := range m.inSet[set] {
		n += m.tables.count(v, c)
	}
	return n
}

// boundOfSet is how many members of a set run in a domain already.
func (m *search) boundOfSet(set int, d topology.ID) offer.Slots {
	if m.setBound[set] == nil {
		return 0
	}
	return m.setBound[set][d]
}

// splitSet says whether bound members of a set are in several domains of the layer in which
// it must gather.
func (m *search) splitSet(set int) bool {
	if m.setBound[set] == nil {
		return false
	}
	homes := plan.DomainsAt(m.Tree, m.Sets[set].Must)
	return len(slices.DeleteFunc(homes, func(d topology.ID) bool { return m.setBound[set][d] == 0 })) > 1
}

// splitGang says whether a gang is in a set that is split.
func (m *search) splitGang(gang int) bool { return slices.ContainsFunc(m.setsOf[gang], m.splitSet) }

// apart are the sets, a bit for each, whose members may not be in several domains below one of a
// layer: they gather deeper.
func (m *search) apart(layer int) (sets uint64) {
	for i := range m.Sets {
		if m.Sets[i].Must > layer {
			sets |= 1 << i
		}
	}
	return sets
}

// gathersAt is the layer in one domain of which all members of a gang are.
func (m *search) gathersAt(gang int) int {
	layer := m.All.Must
	for _, i := range m.setsOf[gang] {
		layer = max(layer, m.Sets[i].Must)
	}
	return layer
}

// multipleOf is of what the members of a gang in any domain of the layers down to one are a
// multiple, for all that is known: where others share its sets it is not.
func (m *search) multipleOf(gang, layer int) offer.Slots {
	step := offer.Slots(1)
	for _, i := range m.setsOf[gang] {
		if set := m.Sets[i]; len(set.Gangs) == 1 {
			step = offer.Common(step, set.Multiple.Common(layer))
		}
	}
	return step
}

// divisor is the greatest common one.
func divisor(a, b offer.Slots) offer.Slots {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// OneWork is about what the largest search may do that is the only one.
const OneWork = maxVecsSeen

// search looks for the first plan of a job among all that there are. It is the search
// for like members with a table in place of a curve: what each number of members of
// each class costs a domain. Tables of children are merged up the tree; what a rule
// forbids at a layer is left out there.
type search struct {
	World
	Job
	plan.Ground
	slots    [][]offer.Slots // by kind and node index, what nodes take of one kind alone
	columns  []column        // of a price
	soft     bool            // soft preferences charge for some member somewhere
	gangs    [][]offer.Slots // by gang and ID, who is bound; nil where nobody is
	setsOf   [][]int         // by gang
	inSet    [][]int         // classes, by set
	setBound [][]offer.Slots // by set and ID, who is bound; nil where nobody is
	order    []seat          // all members by rank
	byKind   []int           // classes, those of one kind together, the largest kind last
	never    bool            // no counts are legal, whatever nodes take
	partly   bool            // sets are counted that have not all that they need
	placed   []offer.Slots   // by domain of the Must layer, how many members trials have put there; nil if there were none
	sums     [][]offer.Slots // slots by ID, made when asked for

	tables *tables
	table  []*table // by ID, made when asked for
	ruled  map[ruled]*table
	best   vec   // the members of the plan
	puts   []Put // of the plan that is being made
}

// column is what a number of a price is charged for: all members in a domain together, or
// those of each of some sets.
type column struct {
	plan.Preference
	sets []int // nil is all members
}

// seat is one member: the n-th of its class.
type seat struct {
	class int
	n     offer.Slots
}

// ruled is a table to which the rules of a layer were applied.
type ruled struct {
	*table
	layer int
}

// maxVecsSeen bounds the vecs that are looked at, to about a second.
const maxVecsSeen = 1 << 27

// newOutline prepares what does not depend on how many members nodes take of which kind.
func newOutline(w World, j Job) *search {
	m := &search{World: w, Job: j}
	m.soft = slices.ContainsFunc(w.Penalties, func(of []int64) bool { return slices.ContainsFunc(of, func(n int64) bool { return n > 0 }) })
	m.World.Bound = make([]offer.Slots, w.Tree.NumNodes())
	m.gangs = make([][]offer.Slots, len(j.Gangs))
	for g, gang := range j.Gangs {
		if !gang.runs() {
			continue
		}
		m.gangs[g] = offer.Sum(w.Tree, gang.Bound)
		for i, n := range gang.Bound {
			m.World.Bound[i] += n
		}
	}
	m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.All.Must, nil)
	m.addSets()
	m.addColumns()
	return m
}

// addColumns lists what preferences are charged by: from the top down, and at one layer those of
// all members first.
func (m *search) addColumns() {
	for _, p := range plan.InOrder(m.All.Prefer) {
		m.columns = append(m.columns, column{p, nil})
	}
	sets := map[plan.Preference][]int{}
	for i, set := range m.Sets {
		for _, p := range plan.InOrder(set.Prefer) {
			if p.Layer > set.Must {
				sets[p] = append(sets[p], i)
			}
		}
	}
	for _, p := range plan.InOrder(slices.Collect(maps.Keys(sets))) {
		m.columns = append(m.columns, column{p, sets[p]})
	}
	// Members share the domain of the layers above.
	m.columns = slices.DeleteFunc(m.columns, func(c column) bool { return c.Layer <= m.All.Must })
	slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })
}

// boundOf is how many members of a gang run in a domain already.
func (m *search) boundOf(gang int, d topology.ID) offer.Slots {
	if m.gangs[gang] == nil {
		return 0
	}
	return m.gangs[gang][d]
}
