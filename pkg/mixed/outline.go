package mixed

import (
	"cmp"
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// addSets drops the sets that add no constraint, and fills setsOf, classesOfSet and setBound for the other sets.
func (m *search) addSets() {
	m.Sets = slices.DeleteFunc(slices.Clone(m.Sets), func(s Set) bool { return !s.addsConstraint(m.All, m.Tree.Depth()) })
	m.setsOf = make([][]int, len(m.Gangs))
	m.classesOfSet = make([][]int, len(m.Sets))
	m.setBound = make([][]offer.Slots, len(m.Sets))
	for i, set := range m.Sets {
		for _, g := range set.Gangs {
			m.setsOf[g] = append(m.setsOf[g], i)
			m.setBound[i] = plus(m.setBound[i], m.boundOfGang[g])
		}
		for c, class := range m.Classes {
			if slices.Contains(set.Gangs, class.Gang) {
				m.classesOfSet[i] = append(m.classesOfSet[i], c)
			}
		}
	}
}

// plus returns the elementwise sum of a and b in a new slice. Nil counts as zeros.
func plus(a, b []offer.Slots) []offer.Slots {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	out := slices.Clone(a)
	add(out, b)
	return out
}

// countInSet returns how many members of v belong to the set.
func (m *search) countInSet(v vec, set int) (n offer.Slots) {
	for _, c := range m.classesOfSet[set] {
		n += m.tables.count(v, c)
	}
	return n
}

// boundInSet returns how many members of the set run in a domain.
func (m *search) boundInSet(set int, d topology.ID) offer.Slots {
	if m.setBound[set] == nil {
		return 0
	}
	return m.setBound[set][d]
}

// splitSet returns whether bound members of a set are in several domains of its Must layer.
func (m *search) splitSet(set int) bool {
	if m.setBound[set] == nil {
		return false
	}
	homes := plan.DomainsAt(m.Tree, m.Sets[set].Must)
	return len(slices.DeleteFunc(homes, func(d topology.ID) bool { return m.setBound[set][d] == 0 })) > 1
}

// splitGang returns whether a gang belongs to a set for which splitSet is true.
func (m *search) splitGang(gang int) bool { return slices.ContainsFunc(m.setsOf[gang], m.splitSet) }

// unsplittable returns a bit for each set that gathers below layer: only one child of a domain of layer may have its members.
func (m *search) unsplittable(layer int) (sets uint64) {
	for i := range m.Sets {
		if m.Sets[i].Must > layer {
			sets |= 1 << i
		}
	}
	return sets
}

// gatherLayer returns the deepest layer at which all members of a gang share one domain.
func (m *search) gatherLayer(gang int) int {
	layer := m.All.Must
	for _, i := range m.setsOf[gang] {
		layer = max(layer, m.Sets[i].Must)
	}
	return layer
}

// gangMultiple returns the divisor of a gang's member count by podCountMultiple of layers 0 to layer, without sets of several gangs.
func (m *search) gangMultiple(gang, layer int) offer.Slots {
	step := offer.Slots(1)
	for _, i := range m.setsOf[gang] {
		if set := m.Sets[i]; len(set.Gangs) == 1 {
			step = offer.Common(step, set.Multiple.Common(layer))
		}
	}
	return step
}

// divisor returns the greatest common divisor.
func divisor(a, b offer.Slots) offer.Slots {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// SingleSearchEffort is the effort of a single search.
const SingleSearchEffort = maxVecsSeen

// search finds the first plan of a job. A table holds the cost of each vector, where package plan has a curve for equal members. Tables of
// child domains are merged up the tree; each layer removes the entries that its constraint forbids.
type search struct {
	World
	Job
	plan.Ground
	slots        [][]offer.Slots // by kind and node index, capacity for this kind alone
	columns      []column        // of a price
	soft         bool            // some member on some node violates a soft preference
	boundOfGang  [][]offer.Slots // bound members by gang and domain ID; nil if there are none
	setsOf       [][]int         // by gang
	classesOfSet [][]int         // classes by set
	setBound     [][]offer.Slots // bound members by set and domain ID; nil if there are none
	order        []seat          // all members by rank
	byKind       []int           // classes, sorted by kind, the largest kind last
	impossible   bool            // no member count is valid on any node
	partialSets  bool            // tables include incomplete sets
	placed       []offer.Slots   // by domain of the Must layer, most members placed by trials; nil without trials
	sums         [][]offer.Slots // slots by domain ID, computed on demand

	tables      *tables
	table       []*table // by domain ID, computed on demand
	constrained map[tableAtLayer]*table
	best        vec   // members of the plan, by class
	puts        []Put // of the plan under construction
}

// column is one number of a price. It charges for all members in a domain together, or for the members of each of some sets.
type column struct {
	plan.Preference
	sets []int // nil for all members
}

// seat is one member: the n-th of its class.
type seat struct {
	class int
	n     offer.Slots
}

// tableAtLayer is the key of constrained: a table before the constraints of a layer are applied.
type tableAtLayer struct {
	*table
	layer int
}

// maxVecsSeen bounds the vectors examined, to about one second.
const maxVecsSeen = 1 << 27

// newOutline returns a search with sets, preferences and bound members, but without the capacity of nodes.
func newOutline(w World, j Job) *search {
	m := &search{World: w, Job: j}
	m.soft = slices.ContainsFunc(w.Penalties, func(penalties []int64) bool {
		return slices.ContainsFunc(penalties, func(n int64) bool { return n > 0 })
	})
	m.World.Bound = make([]offer.Slots, w.Tree.NumNodes())
	m.boundOfGang = make([][]offer.Slots, len(j.Gangs))
	for g, gang := range j.Gangs {
		if !gang.runs() {
			continue
		}
		m.boundOfGang[g] = offer.Sum(w.Tree, gang.Bound)
		for i, n := range gang.Bound {
			m.World.Bound[i] += n
		}
	}
	m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.All.Must, nil)
	m.addSets()
	m.addColumns()
	return m
}

// addColumns fills columns with the preferences from the top layer down. Within a layer, preferences of all members come first.
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
	// All members share one domain at the Must layer and above.
	m.columns = slices.DeleteFunc(m.columns, func(c column) bool { return c.Layer <= m.All.Must })
	slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })
}

// boundInGang returns how many members of a gang run in a domain.
func (m *search) boundInGang(gang int, d topology.ID) offer.Slots {
	if m.boundOfGang[gang] == nil {
		return 0
	}
	return m.boundOfGang[gang][d]
}
