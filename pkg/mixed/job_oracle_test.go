package mixed_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// jobTwin is the slow and obvious twin of mixed.Choose: it writes down every way to put
// each member on a node or nowhere, and goes through the rules, one after the other.
type jobTwin struct {
	mixed.World
	mixed.Job
	shop   shop
	ranked []member        // by class, and then by rank
	reach  []worlds.Reach  // what each domain can take of any members
	bound  [][]offer.Slots // as in sums
	above  [][]topology.ID // by node index, the domains that hold it
	now    [][]offer.Slots // what sums returns
	rows   [][]int         // by gang, the rows of its sets
}

type member struct{ class, gang, kind, rank int }

// way is a node index for each member; one more than there are is nowhere. Members of
// one class are at rising nodes: they are alike, and the lower ranks get a place.
type way []int

func newJobTwin(s shop, w mixed.World, j mixed.Job) *jobTwin {
	if w.Capacity == nil {
		w.Capacity = w.Free
	}
	if w.Attract == nil {
		w.Attract = make([]offer.Slots, len(w.Free))
	}
	o := &jobTwin{World: w, Job: j, shop: s, reach: worlds.Reaches(w.Tree, w.Free, j.All.Multiple)}
	for c, class := range j.Classes {
		for _, r := range class.Ranks {
			o.ranked = append(o.ranked, member{c, class.Gang, class.Kind, r})
		}
	}
	for i := range w.Tree.NumNodes() {
		var above []topology.ID
		for d := topology.Root; int(d) < w.Tree.Len(); d++ {
			if worlds.Holds(w.Tree, d, w.Tree.Node(i)) {
				above = append(above, d)
			}
		}
		o.above = append(o.above, above)
	}
	everybody := make([]offer.Slots, w.Tree.NumNodes())
	rows := [][]offer.Slots{everybody}
	for _, g := range j.Gangs {
		counts := make([]offer.Slots, len(everybody))
		for i, n := range g.Bound {
			counts[i] = n
			everybody[i] += n
		}
		rows = append(rows, counts)
		o.rows = append(o.rows, nil)
	}
	for _, set := range j.Sets {
		counts := make([]offer.Slots, len(everybody))
		for _, g := range set.Gangs {
			for i, n := range j.Gangs[g].Bound {
				counts[i] += n
			}
			o.rows[g] = append(o.rows[g], len(rows))
		}
		rows = append(rows, counts)
	}
	for _, counts := range rows {
		sums := make([]offer.Slots, w.Tree.Len())
		for d := range sums {
			sums[d] = worlds.Total(w.Tree, counts, topology.ID(d))
		}
		o.bound = append(o.bound, sums)
		o.now = append(o.now, make([]offer.Slots, w.Tree.Len()))
	}
	return o
}

// all lists every way that nodes accept and that is to be kept.
func (o *jobTwin) all(keep func(way) bool) (out []way) {
	nodes := o.Tree.NumNodes()
	load := make([][]offer.Slots, nodes)
	for i := range load {
		load[i] = make([]offer.Slots, len(o.shop.needs))
	}
	now := make(way, len(o.ranked))
	var place func(i int)
	place = func(i int) {
		if i == len(now) {
			if keep(now) {
				out = append(out, slices.Clone(now))
			}
			return
		}
		from := 0
		if i > 0 && o.ranked[i-1].class == o.ranked[i].class {
			from = now[i-1]
		}
		for n := from; n < nodes; n++ {
			now[i] = n
			load[n][o.ranked[i].kind]++
			if o.shop.accepts(n, load[n]) {
				place(i + 1)
			}
			load[n][o.ranked[i].kind]--
		}
		now[i] = nodes
		place(i + 1)
	}
	place(0)
	return out
}

// sums counts the members of a way by domain: all of them in the first row, then each gang's,
// and then each set's. The next call overwrites it.
func (o *jobTwin) sums(at way) [][]offer.Slots {
	for _, row := range o.now {
		clear(row)
	}
	for i, n := range at {
		if n == o.Tree.NumNodes() {
			continue
		}
		for _, d := range o.above[n] {
			o.now[0][d]++
			o.now[o.ranked[i].gang+1][d]++
			for _, row := range o.rows[o.ranked[i].gang] {
				o.now[row][d]++
			}
		}
	}
	return o.now
}

func (o *jobTwin) legal(at way) bool {
	now := o.sums(at)
	if now[0][topology.Root] == 0 || !o.together(now, 0, o.All.Must) {
		return false
	}
	for g, gang := range o.Gangs {
		if now[g+1][topology.Root] < gang.Need {
			return false
		}
	}
	for i, set := range o.Sets {
		if row := o.row(i); now[row][topology.Root] > 0 && !o.together(now, row, set.Must) {
			return false
		}
	}
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if !o.multiples(now, d) {
			return false
		}
	}
	return true
}

// row is that of a set in sums.
func (o *jobTwin) row(set int) int { return 1 + len(o.Gangs) + set }

// together: the members of a row, bound ones included, are in one domain of the layer.
func (o *jobTwin) together(now [][]offer.Slots, row, layer int) bool {
	domains := 0
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if o.Tree.Layer(d) == layer && now[row][d]+o.bound[row][d] > 0 {
			domains++
		}
	}
	return domains == 1
}

// multiples: new members in the domain complete a multiple with the bound ones.
func (o *jobTwin) multiples(now [][]offer.Slots, d topology.ID) bool {
	l := o.Tree.Layer(d)
	breaks := func(row int, m offer.Slots) bool {
		n := now[row][d]
		return n > 0 && (n+o.bound[row][d])%m != 0
	}
	for i, set := range o.Sets {
		if breaks(o.row(i), set.Multiple.At(l)) {
			return false
		}
	}
	return !breaks(0, o.All.Multiple.At(l))
}

// ranks lists the ranks of the members below a domain if each class uses its lowest ranks.
func (o *jobTwin) ranks(at way, d topology.ID) (out []int) {
	count := make([]int, len(o.Classes))
	for i, n := range at {
		if n < o.Tree.NumNodes() && slices.Contains(o.above[n], d) {
			out = append(out, o.Classes[o.ranked[i].class].Ranks[count[o.ranked[i].class]])
			count[o.ranked[i].class]++
		}
	}
	slices.Sort(out)
	return out
}

// compareRanks: more members are better, then lower ranks.
func (o *jobTwin) compareRanks(a, b way, d topology.ID) int {
	x, y := o.ranks(a, d), o.ranks(b, d)
	return cmp.Or(cmp.Compare(len(y), len(x)), slices.Compare(x, y))
}

// domain is the deepest domain around all members, bound ones included.
func (o *jobTwin) domain(at way) (best topology.ID) {
	now := o.sums(at)
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		all := now[0][topology.Root] + o.bound[0][topology.Root]
		if now[0][d]+o.bound[0][d] == all && o.Tree.Layer(d) > o.Tree.Layer(best) {
			best = d
		}
	}
	return best
}

// touched counts the domains that members newly touch, for each preference: from the top
// down, and at one layer that for all members first. Equal preferences of sets count once.
func (o *jobTwin) touched(at way) (out []int) {
	now := o.sums(at)
	touches := func(l int, rows []int) (n int) {
		for d := topology.Root; int(d) < o.Tree.Len(); d++ {
			for _, row := range rows {
				if o.Tree.Layer(d) == l && now[row][d] > 0 && o.bound[row][d] == 0 {
					n++
				}
			}
		}
		return n
	}
	pairs := func(l int, rows []int) (n int) {
		for d := topology.Root; int(d) < o.Tree.Len(); d++ {
			for _, row := range rows {
				if x := now[row][d]; o.Tree.Layer(d) == l {
					n += int(x*(x-1)/2 + x*o.bound[row][d])
				}
			}
		}
		return n
	}
	those := func(p plan.Preference) (rows []int) {
		for i, set := range o.Sets {
			if slices.Contains(set.Prefer, p) {
				rows = append(rows, o.row(i))
			}
		}
		return rows
	}
	for l := range o.Tree.Depth() + 1 {
		if slices.Contains(o.All.Prefer, plan.Preference{Layer: l}) {
			out = append(out, touches(l, []int{0}))
		}
		if slices.Contains(o.All.Prefer, plan.Preference{Layer: l, Charge: perPair}) {
			out = append(out, pairs(l, []int{0}))
		}
		if rows := those(plan.Preference{Layer: l}); rows != nil {
			out = append(out, touches(l, rows))
		}
		if rows := those(plan.Preference{Layer: l, Charge: perPair}); rows != nil {
			out = append(out, pairs(l, rows))
		}
	}
	return out
}

// penalty adds up what soft preferences charge for each member.
func (o *jobTwin) penalty(at way) (n int64) {
	for i, node := range at {
		if node < o.Tree.NumNodes() && o.Penalties != nil && o.Penalties[o.ranked[i].kind] != nil {
			n += o.Penalties[o.ranked[i].kind][node]
		}
	}
	return n
}

// first applies all rules of package plan except ByFill, and leaves the ways that are first by
// each.
func (o *jobTwin) first(ways []way) (topology.ID, []way) {
	ways = worlds.Least(o.tied(ways), func(a, b way) int { return cmp.Compare(o.domain(a), o.domain(b)) })
	return o.domain(ways[0]), ways
}

// tied is first without names.
func (o *jobTwin) tied(ways []way) []way {
	ways = worlds.Least(ways, func(a, b way) int { return o.compareRanks(a, b, topology.Root) })
	ways = worlds.Least(ways, func(a, b way) int { return -cmp.Compare(o.Tree.Layer(o.domain(a)), o.Tree.Layer(o.domain(b))) })
	ways = worlds.Least(ways, func(a, b way) int { return slices.Compare(o.touched(a), o.touched(b)) })
	ways = worlds.Least(ways, func(a, b way) int {
		return -slices.Compare(worlds.Upwards(o.Tree, o.Attract, o.domain(a)), worlds.Upwards(o.Tree, o.Attract, o.domain(b)))
	})
	ways = worlds.Least(ways, func(a, b way) int { return cmp.Compare(o.penalty(a), o.penalty(b)) })
	return worlds.Least(ways, func(a, b way) int {
		return slices.Compare(worlds.Upwards(o.Tree, o.Capacity, o.domain(a)), worlds.Upwards(o.Tree, o.Capacity, o.domain(b)))
	})
}

// fill is plan.ByFill on a list of ways. Of the children of d, largest offer first: if one
// remaining child takes all that is left, the smallest such child does; else
// the largest takes as many as it can in any of the ways, low ranks first.
func (o *jobTwin) fill(d topology.ID, ways []way) (out []mixed.Put) {
	if lo, _ := o.Tree.Nodes(d); o.Tree.IsNode(d) {
		for i, n := range ways[0] {
			if n == lo {
				out = append(out, mixed.Put{Class: o.ranked[i].class, Node: n})
			}
		}
		return out
	}
	left := slices.Collect(o.Tree.Children(d))
	slices.SortStableFunc(left, func(a, b topology.ID) int { return cmp.Compare(o.reach[b].Most(), o.reach[a].Most()) })
	for len(left) > 0 {
		best := topology.ID(-1)
		for _, k := range left {
			if len(o.alone(k, left, ways)) > 0 && (best < 0 || o.reach[k].Most() < o.reach[best].Most()) {
				best = k
			}
		}
		if best >= 0 {
			return append(out, o.fill(best, o.alone(best, left, ways))...)
		}
		k := left[0]
		left = left[1:]
		ways = worlds.Least(ways, func(a, b way) int { return o.compareRanks(a, b, k) })
		if o.sums(ways[0])[0][k] > 0 {
			out = append(out, o.fill(k, ways)...)
		}
	}
	return out
}

// alone lists the ways in which, of some domains, only k takes members.
func (o *jobTwin) alone(k topology.ID, left []topology.ID, ways []way) []way {
	return slices.DeleteFunc(slices.Clone(ways), func(at way) bool {
		now := o.sums(at)
		return slices.ContainsFunc(left, func(x topology.ID) bool { return (x == k) != (now[0][x] > 0) })
	})
}

// compare compares the plan with the twin's.
func (o *jobTwin) compare(t *rapid.T, y worlds.Tally) {
	p, refusal := mixed.Choose(o.World, o.Job)
	if (p == nil) != (refusal != nil) {
		t.Fatalf("%v and %v", p, refusal)
	}
	o.compareWithLike(t, y, p)
	ways := o.all(o.legal)
	if (refusal == nil) != (len(ways) > 0) {
		t.Fatalf("Choose says %v, the twin knows %d ways\n%s", refusal, len(ways), o)
	}
	y.Count("refused", refusal != nil)
	if refusal != nil {
		o.checkRefusal(t, refusal)
		o.checkTooLarge(t, y, refusal)
		return
	}
	domain, first := o.first(ways)
	puts := o.fill(domain, first)
	if p.Domain != domain || !slices.Equal(p.Puts, puts) || p.InOrder {
		t.Fatalf("%+v, the twin chose %v in %d\n%s", p, puts, domain, o)
	}
	o.count(y, p, ways, first)
}

// compareWithLike: a job of like members of one gang is what Choose is for.
func (o *jobTwin) compareWithLike(t *rapid.T, y worlds.Tally, p *mixed.Plan) {
	if len(o.Sets) > 0 || len(o.Classes) != 1 || len(o.Gangs) != 1 || o.bound[0][topology.Root] > 0 && slices.Max(o.All.Multiple) > 1 {
		return
	}
	if len(o.shop.needs) != 1 {
		return // Free counts other kinds too
	}
	w, want := o.World.World, offer.Slots(len(o.ranked))
	w.Bound = o.Gangs[0].Bound
	if o.Penalties != nil {
		w.Penalty = o.Penalties[0]
	}
	like, _ := plan.Choose(w, plan.Request{
		Want: want, Min: o.Gangs[0].Need, Must: o.All.Must, Prefer: o.All.Prefer, Multiple: o.All.Multiple,
	})
	if (p == nil) != (like == nil) || p != nil && (p.Domain != like.Domain || !slices.Equal(places(p.Puts), like.Places)) {
		t.Fatalf("%+v, Choose for like members says %+v\n%s", p, like, o)
	}
	y.Count("like members", p != nil)
}

// places counts the members by node, in the order in which nodes come.
func places(puts []mixed.Put) (out []plan.Place) {
	for _, p := range puts {
		if len(out) == 0 || out[len(out)-1].Node != p.Node {
			out = append(out, plan.Place{Node: p.Node})
		}
		out[len(out)-1].Count++
	}
	return out
}

// checkRefusal: what a refusal says each domain can take, it can take, and no more.
func (o *jobTwin) checkRefusal(t *rapid.T, r *plan.Refusal) {
	most := make([]offer.Slots, o.Tree.Len())
	o.all(func(at way) bool {
		for d, n := range o.within(at) {
			most[d] = max(most[d], n)
		}
		return false
	})
	var want []plan.Offer
	roots := 0
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if o.Tree.Layer(d) != o.All.Must || o.bound[0][topology.Root] > 0 && o.bound[0][d] == 0 {
			continue
		}
		roots++
		if o.Tree.Named(d) {
			want = append(want, plan.Offer{Path: o.Tree.Path(d), Slots: most[d]})
		}
	}
	slices.SortStableFunc(want, func(a, b plan.Offer) int { return cmp.Compare(b.Slots, a.Slots) })
	need := offer.Slots(0)
	for _, g := range o.Gangs {
		need += g.Need
	}
	split := o.bound[0][topology.Root] > 0 && roots > 1
	if r.Want != max(need, 1) || r.Layer != o.Tree.LayerNames()[o.All.Must] || r.Split != split || r.Incomplete {
		t.Fatalf("%+v\n%s", r, o)
	}
	if !split && !slices.Equal(r.Domains, want) {
		t.Fatalf("%+v, but the domains take %+v\n%s", r, want, o)
	}
}

// checkTooLarge: the refusal names the first three sets of gangs that fit in no domain of their layer even without
// other members. Only sets with a deeper layer than the whole job count. Each is named with the first domain of the
// largest capacity.
func (o *jobTwin) checkTooLarge(t *rapid.T, y worlds.Tally, r *plan.Refusal) {
	var want []plan.TooLarge
	for i, set := range o.Sets {
		row, need := o.row(i), offer.Slots(0)
		for _, g := range set.Gangs {
			need += o.Gangs[g].Need
		}
		if len(want) == 3 || set.Must <= o.All.Must || need == 0 || r.Split {
			continue
		}
		best, homes := plan.Offer{Slots: -1}, 0
		for d := topology.Root; int(d) < o.Tree.Len(); d++ {
			if o.Tree.Layer(d) != set.Must {
				continue
			}
			if o.bound[row][d] > 0 {
				homes++
			}
			above := o.Tree.Ancestor(d, o.All.Must)
			if o.bound[row][d] < o.bound[row][topology.Root] || o.bound[0][above] < o.bound[0][topology.Root] {
				continue
			}
			if n := o.takesOf(set, d); n > best.Slots {
				best = plan.Offer{Slots: n}
				if o.Tree.Named(d) {
					best.Path = o.Tree.Path(d)
				}
			}
		}
		if best.Slots = max(best.Slots, 0); homes < 2 && best.Slots < need {
			want = append(want, plan.TooLarge{
				Gangs: set.Gangs, Layer: o.Tree.LayerNames()[set.Must], Want: need, Best: best, JoinsRunning: o.bound[row][topology.Root] > 0,
			})
		}
	}
	if fmt.Sprintf("%+v", r.TooLarge) != fmt.Sprintf("%+v", want) {
		t.Fatalf("too large are %+v, not %+v\n%s", want, r.TooLarge, o)
	}
	y.Count("a set is too large", len(want) > 0)
	y.Count("no set is too large", len(want) == 0 && len(o.Sets) > 0)
}

// takesOf is the most needed members of a set that a domain takes without other members.
func (o *jobTwin) takesOf(set mixed.Set, d topology.ID) (most offer.Slots) {
	o.all(func(at way) bool {
		now := o.sums(at)
		for x := d; x < o.Tree.End(d); x++ {
			if !o.multiples(now, x) || !o.gathered(now, x, d) {
				return false
			}
		}
		n := offer.Slots(0)
		for _, g := range set.Gangs {
			n += min(now[g+1][d], o.Gangs[g].Need)
		}
		most = max(most, n)
		return false
	})
	return most
}

// within counts for each domain of the Must layer the members there, if the rules for
// it and the domains in it hold; other domains are zero.
func (o *jobTwin) within(at way) []offer.Slots {
	now := o.sums(at)
	out := make([]offer.Slots, o.Tree.Len())
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if o.Tree.Layer(d) != o.All.Must {
			continue
		}
		out[d] = now[0][d]
		for x := d; x < o.Tree.End(d); x++ {
			if !o.multiples(now, x) || !o.gathered(now, x, d) {
				out[d] = 0
			}
		}
	}
	return out
}

// gathered checks the sets with new members in domain x that gather below the whole job. It reports whether x holds
// all bound members of each such set, and no member of it is elsewhere below d.
func (o *jobTwin) gathered(now [][]offer.Slots, x, d topology.ID) bool {
	for i, set := range o.Sets {
		row := o.row(i)
		if now[row][x] == 0 || o.Tree.Layer(x) != set.Must || set.Must <= o.All.Must {
			continue
		}
		if now[row][x] < now[row][d] || o.bound[row][x] < o.bound[row][topology.Root] {
			return false
		}
	}
	return true
}

// count says what the world was good for.
func (o *jobTwin) count(y worlds.Tally, p *mixed.Plan, ways, first []way) {
	o.countMembers(y, p)
	layer := o.Tree.Layer(p.Domain)
	y.Count("on one node", layer == o.Tree.Depth())
	y.Count("in a domain", 0 < layer && layer < o.Tree.Depth())
	y.Count("across the cluster", layer == 0)
	y.Count("on eight nodes", o.Tree.NumNodes() == 8)
	y.Count("six members on eight nodes", o.Tree.NumNodes() == 8 && len(p.Puts) == 6)
	gangs := o.has(p, func(c mixed.Class) int { return c.Gang })
	gathers := func(size int, kept func(mixed.Set) bool) bool {
		return gangs > 1 && slices.ContainsFunc(o.Sets, func(s mixed.Set) bool { return len(s.Gangs) == size && s.Must > layer && kept(s) })
	}
	anySet := func(mixed.Set) bool { return true }
	y.Count("each gang gathers", gathers(1, anySet))
	y.Count("two of three gangs gather", gathers(2, anySet) && gangs == 3)
	y.Count("gangs gather in unlike layers", gathers(1, func(s mixed.Set) bool {
		return gathers(1, func(other mixed.Set) bool { return other.Must != s.Must })
	}))
	differs := func(change func(*jobTwin)) bool {
		other := *o
		change(&other)
		_, now := other.first(ways)
		return !slices.EqualFunc(now, first, slices.Equal[way])
	}
	y.Count("decided by ranks", slices.ContainsFunc(ways, func(at way) bool {
		return len(o.ranks(at, topology.Root)) == len(p.Puts) && o.compareRanks(at, first[0], topology.Root) != 0
	}))
	y.Count("decided by preferences of all", differs(func(x *jobTwin) { x.All.Prefer = nil }))
	y.Count("decided by preferences of each", differs(func(x *jobTwin) {
		x.Sets = slices.Clone(x.Sets)
		for i := range x.Sets {
			x.Sets[i].Prefer = nil
		}
	}))
	y.Count("decided by attraction", differs(func(x *jobTwin) { x.Attract = make([]offer.Slots, len(x.Free)) }))
	y.Count("decided by soft preferences", differs(func(x *jobTwin) { x.Penalties = nil }))
	y.Count("decided by room", differs(func(x *jobTwin) { x.Capacity = make([]offer.Slots, len(x.Free)) }))
	y.Count("decided by names", slices.ContainsFunc(o.tied(ways), func(at way) bool { return o.domain(at) != p.Domain }))
	y.Count("decided inside", len(first) > 1)
}

// countMembers tallies the placed members.
func (o *jobTwin) countMembers(y worlds.Tally, p *mixed.Plan) {
	gangs := o.has(p, func(c mixed.Class) int { return c.Gang })
	kinds := o.has(p, func(c mixed.Class) int { return c.Kind })
	multiples := slices.Max(o.All.Multiple) > 1 || slices.ContainsFunc(o.Sets, func(s mixed.Set) bool { return slices.Max(s.Multiple) > 1 })
	bound := o.bound[0][topology.Root] > 0
	y.Count("unlike members", kinds > 1)
	y.Count("three kinds", kinds == 3)
	y.Count("several gangs", gangs > 1)
	y.Count("three gangs", gangs == 3)
	y.Count("some gangs only", slices.ContainsFunc(o.Classes, func(c mixed.Class) bool {
		return !slices.ContainsFunc(p.Puts, func(x mixed.Put) bool { return o.Classes[x.Class].Gang == c.Gang })
	}))
	y.Count("in part", len(p.Puts) < len(o.ranked))
	y.Count("six members", len(p.Puts) == 6)
	y.Count("with bound members", bound)
	y.Count("with multiples", multiples)
	y.Count("with multiples and bound members", multiples && bound)
}

// has counts the gangs, or the kinds, that are in a plan.
func (o *jobTwin) has(p *mixed.Plan, what func(mixed.Class) int) int {
	seen := map[int]bool{}
	for _, x := range p.Puts {
		seen[what(o.Classes[x.Class])] = true
	}
	return len(seen)
}

func (o *jobTwin) String() (out string) {
	for i := range o.Free {
		out += fmt.Sprintf("%s/%d has %v, bound ", o.Tree.Path(o.Tree.Node(i)), o.Free[i], o.shop.has[i])
		for _, g := range o.Gangs {
			out += fmt.Sprint(slices.Concat(g.Bound, make([]offer.Slots, len(o.Free)))[i])
		}
		out += "\n"
	}
	return out + fmt.Sprintf("%+v\n%+v", o.shop, o.Job)
}

// shop says what nodes accept: needs that add up, and kinds that exclude other kinds. A load
// may leave out the last kinds.
type shop struct {
	has    [][2]offer.Slots // by node index, two resources
	needs  [][2]offer.Slots // by kind
	single []bool           // by kind: no two of it on one node
	apart  [2]int           // two kinds that do not share a node; the same twice is none
}

func (s shop) accepts(node int, load []offer.Slots) bool {
	left := s.has[node]
	for k, n := range load {
		left[0] -= n * s.needs[k][0]
		left[1] -= n * s.needs[k][1]
		if n > 1 && s.single[k] {
			return false
		}
	}
	has := func(kind int) bool { return kind < len(load) && load[kind] > 0 }
	a, b := s.apart[0], s.apart[1]
	return left[0] >= 0 && left[1] >= 0 && (a == b || !has(a) || !has(b))
}

// take is mixed.World's Take.
func (s shop) take(node int, load []offer.Slots, kind int) (n offer.Slots) {
	load = slices.Clone(load)
	for n < 9 {
		load[kind]++
		if !s.accepts(node, load) {
			return n
		}
		n++
	}
	return n
}

func drawShop(t *rapid.T, nodes, kinds int) shop {
	s := shop{single: make([]bool, kinds)}
	most := []int{4, 6, 9}[worlds.Even(t, 3, "largest node")]
	for range nodes {
		s.has = append(s.has, [2]offer.Slots{
			offer.Slots(worlds.Even(t, most+1, "cpu")), offer.Slots(worlds.Even(t, 4, "gpu")),
		})
	}
	if worlds.Chance(t, 4, "nodes are alike") {
		for i := range s.has {
			s.has[i] = s.has[0]
		}
	}
	for range kinds {
		s.needs = append(s.needs, [2]offer.Slots{
			offer.Slots(1 + worlds.Even(t, 3, "needs cpu")), offer.Slots(worlds.Even(t, 3, "needs gpu") / 2),
		})
	}
	if worlds.Chance(t, 4, "a kind is single") {
		s.single[rapid.IntRange(0, kinds-1).Draw(t, "single")] = true
	}
	if worlds.Chance(t, 4, "kinds are apart") {
		s.apart = [2]int{rapid.IntRange(0, kinds-1).Draw(t, "one"), rapid.IntRange(0, kinds-1).Draw(t, "other")}
	}
	return s
}

// drawJob draws up to six members of some kinds in up to three gangs. It limits the number of ways to place them on
// the nodes.
func drawJob(t *rapid.T, tree *topology.Tree, kinds, ways int) mixed.Job {
	gangs := 1 + worlds.Even(t, 3, "gangs")
	j := mixed.Job{All: drawGather(t, tree, 4)}
	if !worlds.Chance(t, 4, "all gather only") {
		j.Sets = drawSets(t, tree, gangs)
	}
	j.Gangs = make([]mixed.Gang, gangs)
	members := 1 + worlds.Even(t, 6, "members")
	for rank := range members {
		c := mixed.Class{Gang: worlds.Even(t, gangs, "gang"), Kind: worlds.Even(t, kinds, "kind")}
		i := slices.IndexFunc(j.Classes, func(x mixed.Class) bool { return x.Gang == c.Gang && x.Kind == c.Kind })
		like := 0
		if i >= 0 {
			like = len(j.Classes[i].Ranks)
		}
		if ways = ways * (like + 1) / (tree.NumNodes() + like + 1); ways == 0 && rank > 0 {
			break
		}
		if i < 0 {
			i = len(j.Classes)
			j.Classes = append(j.Classes, c)
		}
		j.Classes[i].Ranks = append(j.Classes[i].Ranks, rank)
		j.Gangs[c.Gang].Need++
	}
	for g := range j.Gangs {
		gang := &j.Gangs[g]
		if worlds.Chance(t, 4, "elastic") {
			gang.Need = offer.Slots(rapid.IntRange(0, int(gang.Need)).Draw(t, "need"))
		}
		if worlds.Chance(t, 6, "bound") {
			gang.Bound = make([]offer.Slots, tree.NumNodes())
			for range rapid.IntRange(1, 2).Draw(t, "nodes with members") {
				gang.Bound[rapid.IntRange(0, tree.NumNodes()-1).Draw(t, "node")]++
			}
		}
	}
	return j
}

// drawSets draws how gangs gather: each in one way, each in its own, or some with one another.
func drawSets(t *rapid.T, tree *topology.Tree, gangs int) (sets []mixed.Set) {
	if worlds.Chance(t, 2, "each alike") {
		return mixed.EachGang(gangs, drawGather(t, tree, 2))
	}
	for range 1 + worlds.Even(t, 3, "sets") {
		set := mixed.Set{Gather: drawGather(t, tree, 2)}
		for g := range gangs {
			if rapid.Bool().Draw(t, "in the set") {
				set.Gangs = append(set.Gangs, g)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// drawGather draws a gather spec; one in so many has a MustGather layer.
func drawGather(t *rapid.T, tree *topology.Tree, of int) plan.Gather {
	g := plan.Gather{Multiple: make(offer.Multiples, tree.Depth()+1)}
	if worlds.Chance(t, 4, "counts matter") {
		l := worlds.Even(t, tree.Depth()+1, "layer")
		g.Multiple[l] = offer.Slots(2 + worlds.Even(t, 2, "multiple"))
		if worlds.Chance(t, 8, "beyond any count") {
			for l := range g.Multiple {
				g.Multiple[l] = worlds.Multiple(t)
			}
		}
	}
	if worlds.Chance(t, of, "gather") {
		g.Must = worlds.Even(t, tree.Depth()+1, "must")
	}
	for l := range tree.Depth() + 1 {
		if worlds.Chance(t, 3, "prefer") {
			g.Prefer = append(g.Prefer, plan.Preference{Layer: l})
		}
	}
	if worlds.Chance(t, 6, "pairs") {
		drawPairs(t, g.Prefer)
	}
	if rapid.Bool().Draw(t, "order of preferences") {
		slices.Reverse(g.Prefer)
	}
	return g
}

// perPair is a preference that only tests know: it charges for every two members of a domain.
var perPair = plan.NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// drawPairs lets some preferences charge for every two members of a domain.
func drawPairs(t *rapid.T, prefer []plan.Preference) {
	for i := range prefer {
		if rapid.Bool().Draw(t, "per pair") {
			prefer[i].Charge = perPair
		}
	}
}

// drawJobWorld draws what nodes accept, and what the rest of the rules ask of them.
func drawJobWorld(t *rapid.T, tree *topology.Tree, kinds int) (shop, mixed.World) {
	s := drawShop(t, tree.NumNodes(), kinds)
	w := mixed.World{World: plan.World{Tree: tree}, Take: s.take}
	for i := range tree.NumNodes() {
		most := offer.Slots(0)
		for k := range kinds {
			most = max(most, s.take(i, make([]offer.Slots, kinds), k))
		}
		w.Free = append(w.Free, most)
	}
	if worlds.Chance(t, 4, "attract") {
		w.Attract = make([]offer.Slots, tree.NumNodes())
		w.Attract[rapid.IntRange(0, tree.NumNodes()-1).Draw(t, "node")] = 1
	}
	if worlds.Chance(t, 4, "room") {
		w.Capacity = slices.Clone(w.Free)
		w.Capacity[rapid.IntRange(0, tree.NumNodes()-1).Draw(t, "node")] += 2
	}
	if worlds.Chance(t, 3, "some prefer nodes") {
		for range kinds {
			w.Penalties = append(w.Penalties, worlds.Penalty(t, tree.NumNodes()))
		}
	}
	return s, w
}

// TestChooseJob: a plan exists exactly when the twin finds one, and is the twin's,
// member by member.
func TestChooseJob(t *testing.T) {
	kinds := []string{
		"refused", "on one node", "in a domain", "across the cluster", "on eight nodes", "unlike members", "three kinds", "several gangs",
		"three gangs",
		"each gang gathers", "in part", "some gangs only", "six members", "with bound members", "with multiples",
		"with multiples and bound members", "decided by ranks", "decided by preferences of all", "decided by preferences of each",
		"decided by attraction", "decided by soft preferences", "decided by room", "decided by names", "decided inside", "like members",
	}
	worlds.Check(t, 12000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, []int{2, 4, 6, 8, 8}[worlds.Even(t, 5, "most")]).Build()
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		ways := []int{500, 2000, 8000}[worlds.Even(t, 3, "ways")]
		if worlds.Chance(t, 12, "all there are") {
			ways = 1 << 30
		}
		j := drawJob(t, tree, kinds, ways)
		newJobTwin(s, w, j).compare(t, y)
	})
}

// TestJobSets: worlds in which two or three gangs, with all members needed, gather in
// layers of their own, or some of them with one another.
func TestJobSets(t *testing.T) {
	kinds := []string{
		"refused", "each gang gathers", "two of three gangs gather", "gangs gather in unlike layers", "unlike members", "three gangs",
		"a set is too large", "no set is too large",
	}
	worlds.Check(t, 1500, kinds, func(t *rapid.T, y worlds.Tally) {
		var nodes []topology.Node
		for i := range 4 + worlds.Even(t, 3, "nodes") {
			nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("s", i/4), fmt.Sprint("b", i/2)}})
		}
		tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, nodes)
		s := shop{has: make([][2]offer.Slots, len(nodes)), needs: [][2]offer.Slots{{1, 0}, {2, 0}}, single: make([]bool, 2)}
		w := mixed.World{World: plan.World{Tree: tree}}
		for i := range s.has {
			s.has[i][0] = offer.Slots(1 + worlds.Even(t, 3, "cpu"))
			w.Free = append(w.Free, s.has[i][0])
		}
		w.Take = s.take
		none := make(offer.Multiples, 4)
		j := mixed.Job{All: plan.Gather{Multiple: none}, Gangs: make([]mixed.Gang, 2+worlds.Even(t, 2, "gangs"))}
		for g := range j.Gangs {
			c := mixed.Class{Gang: g, Kind: worlds.Even(t, 3, "kind") / 2}
			for range 1 + worlds.Even(t, 2, "members") {
				c.Ranks = append(c.Ranks, g*2+len(c.Ranks))
			}
			j.Classes, j.Gangs[g].Need = append(j.Classes, c), offer.Slots(len(c.Ranks))
		}
		for range 1 + worlds.Even(t, 3, "sets") {
			ranked := rapid.Permutation([]int{0, 1, 2}[:len(j.Gangs)]).Draw(t, "ranked")
			j.Sets = append(j.Sets,
				mixed.Set{Gangs: ranked[:1+worlds.Even(t, 2, "more")], Gather: plan.Gather{Must: 1 + worlds.Even(t, 3, "must"), Multiple: none}})
		}
		newJobTwin(s, w, j).compare(t, y)
	})
}

// TestJobPreferences: worlds in which three gangs of two can be together, or few of the blocks
// be touched, and both are wished for.
func TestJobPreferences(t *testing.T) {
	kinds := []string{"decided by preferences of all", "decided by preferences of each", "decided by whose preference comes first"}
	worlds.Check(t, 300, kinds, func(t *rapid.T, y worlds.Tally) {
		var nodes []topology.Node
		s := shop{needs: [][2]offer.Slots{{1, 0}}, single: []bool{false}}
		w := mixed.World{Take: s.take}
		for i := range 5 {
			nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("b", i)}})
			w.Free = append(w.Free, offer.Slots(1+worlds.Even(t, 3, "slots")))
			s.has = append(s.has, [2]offer.Slots{w.Free[i], 0})
		}
		w.Tree, w.Take, w.Penalties = topology.Build([]string{"BlockLayer"}, nodes), s.take, [][]int64{worlds.Penalty(t, 5)}
		j := mixed.Job{Gangs: make([]mixed.Gang, 3), All: plan.Gather{Prefer: plan.PreferGather(1)}}
		for g := range j.Gangs {
			j.Classes = append(j.Classes, mixed.Class{Gang: g, Ranks: []int{2 * g, 2*g + 1}})
			j.Gangs[g].Need = 2
		}
		j.All.Multiple = make(offer.Multiples, 3)
		j.Sets = mixed.EachGang(3, plan.Gather{Prefer: plan.PreferGather(1), Multiple: j.All.Multiple})
		o := newJobTwin(s, w, j)
		o.compare(t, y)
		if ways := o.all(o.legal); len(ways) > 0 {
			_, first := o.first(ways)
			other := *o
			other.All.Prefer = nil
			_, each := other.first(ways)
			y.Count("decided by whose preference comes first", o.touched(first[0])[1] > o.touched(each[0])[1])
		}
	})
}

// TestChooseJobOneByOne: where there are too many gangs for tables, members are placed
// one by one. A plan is then found exactly when there is one, if a little less good.
func TestChooseJobOneByOne(t *testing.T) {
	kinds := []string{
		"refused", "placed", "unlike members", "several gangs", "in part", "with bound members", "with multiples",
		"known to be first by the preferences", "first by the preferences", "not first by the preferences",
	}
	worlds.Check(t, 4000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 2+worlds.Even(t, 5, "most")).Build()
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		j := drawJob(t, tree, kinds, 1000)
		o := newJobTwin(s, w, j)
		j.Gangs = append(j.Gangs, make([]mixed.Gang, 65)...)
		p, refusal := mixed.Choose(w, j)
		ways := o.all(o.legal)
		if (p == nil) != (refusal != nil) || (p == nil) != (len(ways) == 0) {
			t.Fatalf("%+v and %v, the twin knows %d ways\n%s", p, refusal, len(ways), o)
		}
		y.Count("refused", p == nil)
		if p == nil {
			if refusal.Incomplete {
				t.Fatalf("%v\n%s", refusal, o)
			}
			return
		}
		o.checkPuts(t, p)
		best := worlds.Least(ways, func(a, b way) int { return o.compareRanks(a, b, topology.Root) })
		if o.compareRanks(o.way(p.Puts), best[0], topology.Root) != 0 || p.InOrder {
			t.Fatalf("%+v, the twin has a place for %v\n%s", p, o.ranks(best[0], topology.Root), o)
		}
		best = worlds.Least(best, func(a, b way) int { return -cmp.Compare(o.Tree.Layer(o.domain(a)), o.Tree.Layer(o.domain(b))) })
		best = worlds.Least(best, func(a, b way) int { return slices.Compare(o.touched(a), o.touched(b)) })
		found := o.way(p.Puts)
		first := o.Tree.Layer(p.Domain) == o.Tree.Layer(o.domain(best[0])) && slices.Equal(o.touched(found), o.touched(best[0]))
		if !first && !p.NotAll {
			t.Fatalf("%+v touches %v, the twin %v in %d\n%s", p, o.touched(found), o.touched(best[0]), o.domain(best[0]), o)
		}
		y.Count("known to be first by the preferences", !p.NotAll)
		y.Count("first by the preferences", first)
		y.Count("not first by the preferences", !first)
		y.Count("placed", true)
		o.countMembers(y, p)
	})
}

// TestOrderOfJobs: the order in which nodes came does not matter, nor how classes,
// gangs and kinds are numbered, nor the order of preferences.
func TestOrderOfJobs(t *testing.T) {
	worlds.Check(t, 1000, []string{"placed", "unlike members", "several gangs"}, func(t *rapid.T, y worlds.Tally) {
		net := worlds.Draw(t, 8)
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, net.Build(), kinds)
		j := drawJob(t, w.Tree, kinds, 1<<30)
		one, _ := mixed.Choose(w, j)
		y.Count("placed", one != nil)
		if one != nil {
			newJobTwin(s, w, j).countMembers(y, one)
		}

		renamed := func(n int, what string) []int {
			names := make([]int, n)
			for i := range names {
				names[i] = i
			}
			return rapid.Permutation(names).Draw(t, what)
		}
		class, gang, kind := renamed(len(j.Classes), "classes"), renamed(len(j.Gangs), "gangs"), renamed(kinds, "kinds")
		other := w
		other.Tree = net.Shuffled(t).Build()
		other.Take = func(node int, load []offer.Slots, k int) offer.Slots {
			old := make([]offer.Slots, kinds)
			for k, n := range load {
				old[slices.Index(kind, k)] = n
			}
			return w.Take(node, old, slices.Index(kind, k))
		}
		other.Penalties = slices.Clone(w.Penalties)
		for k := range w.Penalties {
			other.Penalties[kind[k]] = w.Penalties[k]
		}
		to := mixed.Job{
			Classes: make([]mixed.Class, len(j.Classes)), Gangs: make([]mixed.Gang, len(j.Gangs)),
			All: shuffledGather(t, j.All),
		}
		for _, set := range rapid.Permutation(j.Sets).Draw(t, "sets") {
			other := mixed.Set{Gather: shuffledGather(t, set.Gather)}
			for _, g := range rapid.Permutation(set.Gangs).Draw(t, "gangs of a set") {
				other.Gangs = append(other.Gangs, gang[g])
			}
			to.Sets = append(to.Sets, other)
		}
		for c, x := range j.Classes {
			to.Classes[class[c]] = mixed.Class{Gang: gang[x.Gang], Kind: kind[x.Kind], Ranks: x.Ranks}
		}
		for g, x := range j.Gangs {
			to.Gangs[gang[g]] = x
		}
		two, _ := mixed.Choose(other, to)
		if two != nil {
			for i := range two.Puts {
				two.Puts[i].Class = slices.Index(class, two.Puts[i].Class)
			}
		}
		if a, b := byNode(one), byNode(two); a != b {
			t.Fatalf("%v, in another order %v", a, b)
		}
	})
}

func shuffledGather(t *rapid.T, g plan.Gather) plan.Gather {
	g.Prefer = rapid.Permutation(g.Prefer).Draw(t, "preferences")
	return g
}

// byNode is a plan without the order of the members on one node.
func byNode(p *mixed.Plan) string {
	if p == nil {
		return "refused"
	}
	var nodes []int
	classes := map[int][]int{}
	for _, put := range p.Puts {
		if classes[put.Node] == nil {
			nodes = append(nodes, put.Node)
		}
		classes[put.Node] = append(classes[put.Node], put.Class)
	}
	out := fmt.Sprint(p.Domain)
	for _, n := range nodes {
		slices.Sort(classes[n])
		out += fmt.Sprintf(" %d:%v", n, classes[n])
	}
	return out
}
