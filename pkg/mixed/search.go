package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// maxEffort returns the limit of the search.
func (m *search) maxEffort() effort {
	if m.Work == nil {
		return effort{vecs: maxVecsSeen}
	}
	return effort{vecs: min(max(m.Work.vecs, m.smallEffort().vecs), maxVecsSeen)}
}

// listingCosts is the cost of one table entry, in vectors examined.
const listingCosts = 16

// spend subtracts the effort since the last call from the shared work.
func (m *search) spend() {
	if m.Work != nil && m.tables != nil {
		m.Work.vecs -= m.tables.done.vecs + listingCosts*m.tables.listed
		m.tables.done.vecs, m.tables.listed = 0, 0
	}
}

// newSearch returns a search with the order of members and the capacity of nodes. It sets impossible if no plan can exist.
func newSearch(w World, j Job) *search {
	m := newOutline(w, j)
	m.impossible = m.Split || !m.possible()
	m.rank()
	m.sortKinds()
	return m
}

// rank fills order with all members, sorted by rank.
func (m *search) rank() {
	rank := map[seat]int{}
	for c, class := range m.Classes {
		for n, r := range class.Ranks {
			s := seat{c, offer.Slots(n)}
			rank[s] = r
			m.order = append(m.order, s)
		}
	}
	slices.SortFunc(m.order, func(a, b seat) int { return cmp.Compare(rank[a], rank[b]) })
}

// sortKinds fills slots with each node's capacity for a kind alone, and byKind with the classes, the classes of small kinds first.
func (m *search) sortKinds() {
	counts := make([]int, m.kinds())
	for c, class := range m.Classes {
		counts[class.Kind] += len(class.Ranks)
		m.byKind = append(m.byKind, c)
	}
	slices.SortStableFunc(m.byKind, func(a, b int) int {
		x, y := m.Classes[a].Kind, m.Classes[b].Kind
		return cmp.Or(cmp.Compare(counts[x], counts[y]), cmp.Compare(x, y))
	})
	m.slots = make([][]offer.Slots, len(counts))
	noLoad := make([]offer.Slots, len(counts))
	for k := range m.slots {
		m.slots[k] = make([]offer.Slots, m.Tree.NumNodes())
		for i := range m.slots[k] {
			m.slots[k][i] = max(0, m.Take(i, noLoad, k))
		}
	}
}

// choose returns the first plan by tables; nil if there is none. exact is false if the tables would exceed vecs vectors; then p is nil.
func (m *search) choose(vecs int) (p *Plan, exact bool) {
	m.makeTables()
	defer m.spend()
	if m.impossible || !m.possible() {
		return nil, true
	}
	most := m.maxEffort()
	most.vecs = min(most.vecs, vecs)
	if found, exact := m.count(most); !found || !exact {
		return nil, exact
	}
	m.tables.most = effort{} // the answer itself has no limit
	d := plan.First(&m.Ground, plan.Chooser[vec]{Charge: m.charge, Fewest: m.fewest, Softest: m.softest}, m.best, nil)
	plan.Fill(&m.Ground, plan.Filler[vec]{Price: m.price, Takes: m.takes, Rest: m.rest, Share: m.share, Put: m.put}, d, m.best)
	return &Plan{Domain: d, Puts: m.puts}, true
}

// makeTables sets tables to empty tables; nil if there are too many vectors.
func (m *search) makeTables() {
	want := make([]offer.Slots, len(m.Classes))
	setsOf := make([]uint64, len(m.Classes))
	for c, class := range m.Classes {
		want[c] = offer.Slots(len(class.Ranks))
		for _, i := range m.setsOf[class.Gang] {
			setsOf[c] |= 1 << i
		}
	}
	if codec, ok := newCodec(want); ok {
		width := len(m.columns)
		if m.soft {
			width++ // the last number is the penalty of soft preferences
		}
		m.tables = m.Work.shareTables(newTables(codec, width, setsOf))
	}
}

// count finds the best vector of members that can be placed, and stores it in best. exact is false if the limit is reached.
func (m *search) count(most effort) (found, exact bool) {
	if m.tables == nil || len(m.Gangs) > 64 || len(m.Sets) > 64 {
		return false, false // a table has a bit for each set
	}
	m.tables.most, m.tables.done = most, effort{}
	defer m.spend()
	m.table = make([]*table, m.Tree.Len())
	m.constrained = map[tableAtLayer]*table{}
	for _, d := range m.Roots {
		t := m.tableOf(d)
		if t == nil {
			return false, false
		}
		for _, v := range t.vecs {
			if m.enough(d, v) && (!found || m.better(v, m.best)) {
				m.best, found = v, true
			}
		}
	}
	return found, true
}

// enough returns whether v, placed in root, has the members that every gang needs, and valid counts in the domains above root.
func (m *search) enough(root topology.ID, v vec) bool {
	if v == 0 {
		return false
	}
	for g, gang := range m.Gangs {
		if m.countInGang(v, g) < gang.Need {
			return false
		}
	}
	for d := root; d != topology.Root; {
		d = m.Tree.Parent(d)
		if !m.multiples(d, v) {
			return false
		}
	}
	return true
}

// better returns whether vector a precedes b: it has more members, or as many members of lower ranks.
func (m *search) better(a, b vec) bool {
	if x, y := m.total(a), m.total(b); x != y {
		return x > y
	}
	for _, s := range m.order {
		inA, inB := s.n < m.tables.count(a, s.class), s.n < m.tables.count(b, s.class)
		if inA != inB {
			return inA
		}
	}
	return false
}

// total returns the number of members in v.
func (m *search) total(v vec) (n offer.Slots) {
	for c := range m.Classes {
		n += m.tables.count(v, c)
	}
	return n
}

// countInGang returns how many members in v belong to the gang.
func (m *search) countInGang(v vec, gang int) (n offer.Slots) {
	for c, class := range m.Classes {
		if class.Gang == gang {
			n += m.tables.count(v, c)
		}
	}
	return n
}

// tableOf returns the table of a domain; nil if the limit is reached.
func (m *search) tableOf(d topology.ID) *table {
	if m.table[d] != nil {
		return m.table[d]
	}
	var t *table
	if lo, _ := m.Tree.Nodes(d); m.Tree.IsNode(d) {
		t = m.leaf(lo)
	} else {
		t = m.tableOfAll(slices.Collect(m.Tree.Children(d)), m.unsplittable(m.Tree.Layer(d)))
	}
	if t == nil {
		return nil
	}
	m.table[d] = m.ruledTable(d, t)
	return m.table[d]
}

// tableOfAll returns the table of several domains, merged in pairs. unsplittable has a bit for each set that must not span them.
func (m *search) tableOfAll(domains []topology.ID, unsplittable uint64) *table {
	switch n := len(domains); n {
	case 0:
		return m.tables.emptyTable()
	case 1:
		return m.tableOf(domains[0])
	default:
		a := m.tableOfAll(domains[:n/2], unsplittable)
		b := m.tableOfAll(domains[n/2:], unsplittable)
		if a == nil || b == nil {
			return nil
		}
		return m.tables.merge(a, b, unsplittable)
	}
}

// leaf returns the table of a node; nil if the limit is reached. It enumerates kinds in order, each beside the members of kinds before it.
func (m *search) leaf(node int) *table {
	var vecs []vec
	load := make([]offer.Slots, len(m.slots))
	var add func(i int, v vec, remaining offer.Slots)
	add = func(i int, v vec, remaining offer.Slots) {
		if i == len(m.byKind) {
			vecs = append(vecs, v)
			return
		}
		if m.tables.done.vecs++; m.tables.exhausted() {
			return
		}
		c := m.byKind[i]
		kind := m.Classes[c].Kind
		if i == 0 || m.Classes[m.byKind[i-1]].Kind != kind {
			remaining = m.slots[kind][node]
			if remaining > 0 && v != 0 {
				if m.tables.done.takes++; m.tables.exhausted() {
					return
				}
				remaining = m.Take(node, load, kind)
			}
		}
		for n := range min(remaining, m.tables.want[c]) + 1 {
			load[kind] += n
			add(i+1, v+m.tables.vecOf(c, n), remaining-n)
			load[kind] -= n
		}
	}
	if add(0, 0, 0); m.tables.exhausted() {
		return nil
	}
	return m.tables.intern(vecs, make([]int64, len(vecs)*m.tables.width))
}

// ruledTable applies MustGather and podCountMultiple at the layer of d and adds what preferences and soft preferences charge there.
// The result is shared by domains of a layer with equal tables, no bound members and no penalties.
func (m *search) ruledTable(d topology.ID, t *table) *table {
	key := tableAtLayer{t, m.Tree.Layer(d)}
	if m.BoundIn(d) > 0 || m.Tree.IsNode(d) && m.penalised(d) {
		return m.applyRules(d, t)
	}
	if m.constrained[key] == nil {
		m.constrained[key] = m.applyRules(d, t)
	}
	return m.constrained[key]
}

// applyRules computes what ruledTable returns.
func (m *search) applyRules(d topology.ID, t *table) *table {
	var vecs []vec
	var price []int64
	for i, v := range t.vecs {
		if !m.multiples(d, v) || !m.gathers(d, v) {
			continue
		}
		vecs = append(vecs, v)
		price = append(price, t.row(i)...)
		for c, column := range m.columns {
			price[len(price)-t.width+c] += m.columnCharge(d, v, column)
		}
		if m.soft && m.Tree.IsNode(d) {
			price[len(price)-1] += m.penaltyIn(d, v)
		}
	}
	return m.tables.intern(vecs, price)
}

// gathers returns whether each set that gathers at d's layer is absent from v or complete: all bound members, and Need of each gang.
func (m *search) gathers(d topology.ID, v vec) bool {
	layer := m.Tree.Layer(d)
	for i := range m.Sets {
		set := &m.Sets[i]
		if set.Must != layer || layer <= m.All.Must || m.countInSet(v, i) == 0 {
			continue
		}
		if m.boundInSet(i, d) != m.boundInSet(i, topology.Root) {
			return false
		}
		for _, g := range set.Gangs {
			if !m.partialSets && m.countInGang(v, g) < m.Gangs[g].Need {
				return false
			}
		}
	}
	return true
}

// multiples returns whether the members in d satisfy the multiples of the job and of each set. Without new members it returns true.
func (m *search) multiples(d topology.ID, v vec) bool {
	l := m.Tree.Layer(d)
	if n := m.total(v); n > 0 && (n+m.BoundIn(d))%m.All.Multiple.At(l) != 0 {
		return false
	}
	for i := range m.Sets {
		multiple := m.Sets[i].Multiple.At(l)
		if multiple == 1 {
			continue
		}
		if n := m.countInSet(v, i); n > 0 && (n+m.boundInSet(i, d))%multiple != 0 {
			return false
		}
	}
	return true
}

// columnCharge returns what a column charges for the members v in d; 0 unless d is a domain of the column's layer.
func (m *search) columnCharge(d topology.ID, v vec, c column) (n int64) {
	switch {
	case c.Layer != m.Tree.Layer(d) || v == 0:
		return 0
	case c.sets == nil:
		return c.Charge.Of(m.BoundIn(d), m.total(v))
	}
	for _, i := range c.sets {
		n += c.Charge.Of(m.boundInSet(i, d), m.countInSet(v, i))
	}
	return n
}

// charge implements Chooser.Charge: ok is false if d does not take v. The price is nil, because members have no cost.
func (m *search) charge(d topology.ID, v vec) (offer.Price, bool) {
	_, ok := m.price(d, v)
	return nil, ok
}

// fewest implements Chooser.Fewest: it returns the domains in which preferences charge v the least.
func (m *search) fewest(domains []topology.ID, v vec) []topology.ID {
	return plan.Cheapest(domains, func(d topology.ID) offer.Price {
		p, _ := m.price(d, v)
		return p[:len(m.columns)]
	})
}

// softest implements Chooser.Softest: it returns the domains with the lowest price of v, soft preferences included.
func (m *search) softest(domains []topology.ID, v vec) []topology.ID {
	return plan.Cheapest(domains, func(d topology.ID) offer.Price {
		p, _ := m.price(d, v)
		return p
	})
}

// penalty returns what soft preferences charge for one member of a kind on a node.
func (m *search) penalty(kind, node int) int64 {
	if kind >= len(m.Penalties) || m.Penalties[kind] == nil {
		return 0
	}
	return m.Penalties[kind][node]
}

// penaltyIn returns what soft preferences charge for vector v on a node.
func (m *search) penaltyIn(d topology.ID, v vec) (n int64) {
	node, _ := m.Tree.Nodes(d)
	for c, class := range m.Classes {
		n += int64(m.tables.count(v, c)) * m.penalty(class.Kind, node)
	}
	return n
}

// penalised returns whether soft preferences charge any kind on a node.
func (m *search) penalised(d topology.ID) bool {
	node, _ := m.Tree.Nodes(d)
	return slices.ContainsFunc(m.Penalties, func(penalties []int64) bool { return penalties != nil && penalties[node] > 0 })
}

// price returns what preferences charge for v in d; ok is false if d does not take v.
func (m *search) price(d topology.ID, v vec) (offer.Price, bool) {
	return priceIn(m.tableOf(d), m.tables.index(v))
}

// priceIn returns the price of a vector in t by the vector's index; ok is false if t has no such vector.
func priceIn(t *table, index int) (offer.Price, bool) {
	i, ok := t.find(index)
	if !ok {
		return nil, false
	}
	return t.row(i), true
}

// takes returns the domains that take v.
func (m *search) takes(domains []topology.ID, v vec) (out []topology.ID) {
	for _, d := range domains {
		if _, ok := m.price(d, v); ok {
			out = append(out, d)
		}
	}
	return out
}

// rest implements Filler.Rest: the returned function gives the price of v in domains[i:] together.
func (m *search) rest(domains []topology.ID, _ vec) func(int, vec) (offer.Price, bool) {
	unsplittable := m.unsplittable(m.Tree.Layer(m.Tree.Parent(domains[0])))
	t := plan.NewTails(domains, m.tables.emptyTable(), func(rest *table, d topology.ID) *table {
		return m.tables.merge(m.tableOf(d), rest, unsplittable)
	})
	return func(i int, v vec) (offer.Price, bool) { return priceIn(t.From(i), m.tables.index(v)) }
}

// share implements Filler.Share: it returns the best part of v for d, such that this part and the remainder together cost due. rest is the
// price of the remainder in the following domains.
func (m *search) share(d topology.ID, rest func(vec) (offer.Price, bool), v vec, due offer.Price) (most vec) {
	t, unsplittable := m.tableOf(d), m.unsplittable(m.Tree.Layer(d)-1)
	for i, x := range t.vecs {
		if !m.contained(x, v) || !m.better(x, most) {
			continue
		}
		// rest respects unsplittable sets among the following domains; here they are checked between d and the rest.
		if t.sets[i]&m.tables.setsIn(v-x)&unsplittable != 0 {
			continue
		}
		if p, ok := rest(v - x); ok && t.row(i).Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}

// contained returns whether v has at least as many members of each class as x.
func (m *search) contained(x, v vec) bool {
	for c := range m.Classes {
		if m.tables.count(x, c) > m.tables.count(v, c) {
			return false
		}
	}
	return true
}

// put appends the members v to puts if d is a node. Otherwise it returns false.
func (m *search) put(d topology.ID, v vec) bool {
	if !m.Tree.IsNode(d) {
		return false
	}
	node, _ := m.Tree.Nodes(d)
	for c := range m.Classes {
		for range m.tables.count(v, c) {
			m.puts = append(m.puts, Put{Class: c, Node: node})
		}
	}
	return true
}
