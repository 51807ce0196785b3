package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// effort is how much the search may look at.
func (m *search) effort() effort {
	if m.Work == nil {
		return effort{vecs: maxVecsSeen}
	}
	return effort{vecs: min(max(m.Work.vecs, m.little().vecs), maxVecsSeen)}
}

// listingCosts is how many vecs are looked at in the time in which one is put into a table.
const listingCosts = 16

// spend notes what was done since the last time.
func (m *search) spend() {
	if m.Work != nil && m.tables != nil {
		m.Work.vecs -= m.tables.done.vecs + listingCosts*m.tables.listed
		m.tables.done.vecs, m.tables.listed = 0, 0
	}
}

func newSearch(w World, j Job) *search {
	m := newOutline(w, j)
	m.never = m.Split || !m.possible()
	m.rank()
	m.sortKinds()
	return m
}

// rank lists the members by rank.
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

// sortKinds puts the classes of small kinds first: the last kind on a node is counted,
// the others are tried out.
func (m *search) sortKinds() {
	many := make([]int, m.kinds())
	for c, class := range m.Classes {
		many[class.Kind] += len(class.Ranks)
		m.byKind = append(m.byKind, c)
	}
	slices.SortStableFunc(m.byKind, func(a, b int) int {
		x, y := m.Classes[a].Kind, m.Classes[b].Kind
		return cmp.Or(cmp.Compare(many[x], many[y]), cmp.Compare(x, y))
	})
	m.slots = make([][]offer.Slots, len(many))
	nobody := make([]offer.Slots, len(many))
	for k := range m.slots {
		m.slots[k] = make([]offer.Slots, m.Tree.NumNodes())
		for i := range m.slots[k] {
			m.slots[k][i] = max(0, m.Take(i, nobody, k))
		}
	}
}

// choose returns the first plan; exact is false if there are too many to look at.
func (m *search) choose(vecs int) (p *Plan, exact bool) {
	m.makeTables()
	defer m.spend()
	if m.never || !m.possible() {
		return nil, true
	}
	most := m.effort()
	most.vecs = min(most.vecs, vecs)
	if found, exact := m.count(most); !found || !exact {
		return nil, exact
	}
	m.tables.most = effort{} // all that is asked from here on belongs to the answer
	d := plan.First(&m.Ground, plan.Chooser[vec]{Charge: m.charge, Fewest: m.fewest, Softest: m.softest}, m.best, nil)
	plan.Fill(&m.Ground, plan.Filler[vec]{Price: m.price, Takes: m.takes, Rest: m.rest, Share: m.share, Put: m.put}, d, m.best)
	return &Plan{Domain: d, Puts: m.puts}, true
}

// makeTables prepares to count, if members are not too many for that.
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
			width++ // the last number is what soft preferences charge
		}
		m.tables = m.Work.shareTables(newTables(codec, width, setsOf))
	}
}

// count finds out how many members of each class can be placed; exact is false if that is
// too much. The best of them is then in m.
func (m *search) count(most effort) (found, exact bool) {
	if m.tables == nil || len(m.Gangs) > 64 || len(m.Sets) > 64 {
		return false, false // a table has a bit for each set
	}
	m.tables.most, m.tables.done = most, effort{}
	defer m.spend()
	m.table = make([]*table, m.Tree.Len())
	m.ruled = map[ruled]*table{}
	for _, d := range m.Roots {
		t := m.at(d)
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

// enough says whether every gang has the members that it needs, and the domains above
// a root the multiple that they must.
func (m *search) enough(root topology.ID, v vec) bool {
	if v == 0 {
		return false
	}
	for g, gang := range m.Gangs {
		if m.ofGang(v, g) < gang.Need {
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

// better is rule 3, and then the lower ranks.
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

func (m *search) total(v vec) (n offer.Slots) {
	for c := range m.Classes {
		n += m.tables.count(v, c)
	}
	return n
}

func (m *search) ofGang(v vec, gang int) (n offer.Slots) {
	for c, class := range m.Classes {
		if class.Gang == gang {
			n += m.tables.count(v, c)
		}
	}
	return n
}

// at returns the table of a domain, nil if that is too much work.
func (m *search) at(d topology.ID) *table {
	if m.table[d] != nil {
		return m.table[d]
	}
	var t *table
	if lo, _ := m.Tree.Nodes(d); m.Tree.IsNode(d) {
		t = m.leaf(lo)
	} else {
		t = m.together(slices.Collect(m.Tree.Children(d)), m.apart(m.Tree.Layer(d)))
	}
	if t == nil {
		return nil
	}
	m.table[d] = m.rule(d, t)
	return m.table[d]
}

// together returns the table of several domains, merged in pairs; apart are sets.
func (m *search) together(domains []topology.ID, apart uint64) *table {
	switch n := len(domains); n {
	case 0:
		return m.tables.nobody()
	case 1:
		return m.at(domains[0])
	default:
		a := m.together(domains[:n/2], apart)
		b := m.together(domains[n/2:], apart)
		if a == nil || b == nil {
			return nil
		}
		return m.tables.merge(a, b, apart)
	}
}

// leaf returns the table of a node, nil if that is too much work: kind by kind, as many of each as it takes beside those
// before.
func (m *search) leaf(node int) *table {
	var vecs []vec
	load := make([]offer.Slots, len(m.slots))
	var add func(i int, v vec, left offer.Slots)
	add = func(i int, v vec, left offer.Slots) {
		if i == len(m.byKind) {
			vecs = append(vecs, v)
			return
		}
		if m.tables.done.vecs++; m.tables.tooMuch() {
			return
		}
		c := m.byKind[i]
		kind := m.Classes[c].Kind
		if i == 0 || m.Classes[m.byKind[i-1]].Kind != kind {
			left = m.slots[kind][node]
			if left > 0 && v != 0 {
				if m.tables.done.asks++; m.tables.tooMuch() {
					return
				}
				left = m.Take(node, load, kind)
			}
		}
		for n := range min(left, m.tables.want[c]) + 1 {
			load[kind] += n
			add(i+1, v+m.tables.one(c, n), left-n)
			load[kind] -= n
		}
	}
	if add(0, 0, 0); m.tables.tooMuch() {
		return nil
	}
	return m.tables.intern(vecs, make([]int64, len(vecs)*m.tables.width))
}

// rule leaves out what rules 1 and 2 forbid at the layer of d, and adds to prices what
// rule 5 counts there, and soft preferences. For all domains of a layer without bound members it is the
// same, but for nodes on which soft preferences charge.
func (m *search) rule(d topology.ID, t *table) *table {
	same := ruled{t, m.Tree.Layer(d)}
	if m.BoundIn(d) > 0 || m.Tree.IsNode(d) && m.penalised(d) {
		return m.ruleHere(d, t)
	}
	if m.ruled[same] == nil {
		m.ruled[same] = m.ruleHere(d, t)
	}
	return m.ruled[same]
}

func (m *search) ruleHere(d topology.ID, t *table) *table {
	var vecs []vec
	var price []int64
	for i, v := range t.vecs {
		if !m.multiples(d, v) || !m.gathers(d, v) {
			continue
		}
		vecs = append(vecs, v)
		price = append(price, t.row(i)...)
		for c, column := range m.columns {
			price[len(price)-t.width+c] += m.touches(d, v, column)
		}
		if m.soft && m.Tree.IsNode(d) {
			price[len(price)-1] += m.penaltyIn(d, v)
		}
	}
	return m.tables.intern(vecs, price)
}

// gathers says whether each set that gathers in the layer of d, below where all do, has either
// nobody there or everybody: enough members of all its gangs, and all who are bound already.
func (m *search) gathers(d topology.ID, v vec) bool {
	layer := m.Tree.Layer(d)
	for i := range m.Sets {
		set := &m.Sets[i]
		if set.Must != layer || layer <= m.All.Must || m.ofSet(v, i) == 0 {
			continue
		}
		if m.boundOfSet(i, d) != m.boundOfSet(i, topology.Root) {
			return false
		}
		for _, g := range set.Gangs {
			if !m.partly && m.ofGang(v, g) < m.Gangs[g].Need {
				return false
			}
		}
	}
	return true
}

// multiples says whether the members in d, if there are new ones, are multiples, and
// those of each set.
func (m *search) multiples(d topology.ID, v vec) bool {
	l := m.Tree.Layer(d)
	if n := m.total(v); n > 0 && (n+m.BoundIn(d))%m.All.Multiple.At(l) != 0 {
		return false
	}
	for i := range m.Sets {
		every := m.Sets[i].Multiple.At(l)
		if every == 1 {
			continue
		}
		if n := m.ofSet(v, i); n > 0 && (n+m.boundOfSet(i, d))%every != 0 {
			return false
		}
	}
	return true
}

// touches is what a column charges for the members in d.
func (m *search) touches(d topology.ID, v vec, c column) (n int64) {
	switch {
	case c.Layer != m.Tree.Layer(d) || v == 0:
		return 0
	case c.sets == nil:
		return c.Charge.Of(m.BoundIn(d), m.total(v))
	}
	for _, i := range c.sets {
		n += c.Charge.Of(m.boundOfSet(i, d), m.ofSet(v, i))
	}
	return n
}

func (m *search) charge(d topology.ID, v vec) (offer.Price, bool) {
	_, ok := m.price(d, v)
	return nil, ok
}

func (m *search) fewest(domains []topology.ID, v vec) []topology.ID {
	return plan.Cheapest(domains, func(d topology.ID) offer.Price {
		p, _ := m.price(d, v)
		return p[:len(m.columns)]
	})
}

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

// penaltyIn returns what soft preferences charge for so many members of each class on a node.
func (m *search) penaltyIn(d topology.ID, v vec) (n int64) {
	node, _ := m.Tree.Nodes(d)
	for c, class := range m.Classes {
		n += int64(m.tables.count(v, c)) * m.penalty(class.Kind, node)
	}
	return n
}

// penalised says whether soft preferences charge for any kind of member on a node.
func (m *search) penalised(d topology.ID) bool {
	node, _ := m.Tree.Nodes(d)
	return slices.ContainsFunc(m.Penalties, func(of []int64) bool { return of != nil && of[node] > 0 })
}

func (m *search) price(d topology.ID, v vec) (offer.Price, bool) {
	return priceIn(m.at(d), m.tables.index(v))
}

func priceIn(t *table, index int) (offer.Price, bool) {
	i, ok := t.find(index)
	if !ok {
		return nil, false
	}
	return t.row(i), true
}

func (m *search) takes(domains []topology.ID, v vec) (out []topology.ID) {
	for _, d := range domains {
		if _, ok := m.price(d, v); ok {
			out = append(out, d)
		}
	}
	return out
}

func (m *search) rest(domains []topology.ID, _ vec) func(int, vec) (offer.Price, bool) {
	apart := m.apart(m.Tree.Layer(m.Tree.Parent(domains[0])))
	t := plan.NewTails(domains, m.tables.nobody(), func(after *table, d topology.ID) *table {
		return m.tables.merge(m.at(d), after, apart)
	})
	return func(i int, v vec) (offer.Price, bool) { return priceIn(t.From(i), m.tables.index(v)) }
}

func (m *search) share(d topology.ID, after func(vec) (offer.Price, bool), v vec, due offer.Price) (most vec) {
	t, apart := m.at(d), m.apart(m.Tree.Layer(d)-1)
	for i, x := range t.vecs {
		if !m.within(x, v) || !m.better(x, most) {
			continue
		}
		// Sets that are kept apart are so in what is due; here it must be asked.
		if t.sets[i]&m.tables.setsIn(v-x)&apart != 0 {
			continue
		}
		if p, ok := after(v - x); ok && t.row(i).Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}

// within says whether x has no more of any class than v.
func (m *search) within(x, v vec) bool {
	for c := range m.Classes {
		if m.tables.count(x, c) > m.tables.count(v, c) {
			return false
		}
	}
	return true
}

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
