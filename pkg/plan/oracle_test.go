package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// oracle is the slow and obvious twin of Choose: it writes down every way to put
// members on nodes and goes through the rules, one after the other.
type oracle struct {
	plan.World
	plan.Request
	reach []worlds.Reach // what each domain can take
}

func newOracle(w plan.World, r plan.Request) oracle {
	if w.Capacity == nil {
		w.Capacity = w.Free
	}
	return oracle{World: w, Request: r, reach: worlds.Reaches(w.Tree, w.Free, r.Multiple)}
}

type counts []offer.Slots // by node index

// all lists every way that satisfies the MustGather constraints and podCountMultiple and places enough members.
func (o oracle) all() (out []counts) {
	now := make(counts, len(o.Free))
	for {
		if o.legal(now) {
			out = append(out, slices.Clone(now))
		}
		i := 0
		for i < len(now) && now[i] == o.Free[i] {
			now[i] = 0
			i++
		}
		if i == len(now) {
			return out
		}
		now[i]++
	}
}

func (o oracle) legal(c counts) bool {
	n := worlds.Total(o.Tree, c, topology.Root)
	return n >= max(o.Min, 1) && n <= o.Want &&
		o.Tree.Layer(o.domain(c)) >= o.Must && worlds.Legal(o.Tree, c, o.Multiple)
}

// domain is the deepest domain around all members, bound ones included.
func (o oracle) domain(c counts) topology.ID {
	best := topology.Root
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if o.holdsAll(d, c) && o.Tree.Layer(d) > o.Tree.Layer(best) {
			best = d
		}
	}
	return best
}

func (o oracle) holdsAll(d topology.ID, c counts) bool {
	for i := range c {
		if (c[i] > 0 || o.Bound[i] > 0) && !worlds.Holds(o.Tree, d, o.Tree.Node(i)) {
			return false
		}
	}
	return true
}

// touched counts the domains that members newly touch, for each layer that matters.
func (o oracle) touched(c counts) (out []int) {
	for _, p := range byLayer(o.Prefer) {
		l, n := p.Layer, 0
		for d := topology.Root; int(d) < o.Tree.Len(); d++ {
			if o.Tree.Layer(d) == l && worlds.Total(o.Tree, c, d) > 0 && worlds.Total(o.Tree, o.Bound, d) == 0 {
				n++
			}
		}
		if p.Charge == plan.PerPair {
			n = o.pairs(c, l)
		}
		out = append(out, n)
	}
	return out
}

// penalty adds up what soft preferences charge for each member.
func (o oracle) penalty(c counts) (n int64) {
	for i := range c {
		for range c[i] {
			if o.Penalty != nil {
				n += o.Penalty[i]
			}
		}
	}
	return n
}

// pairs counts the pairs of members in a domain with at least one new member.
func (o oracle) pairs(c counts, layer int) (n int) {
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if x := worlds.Total(o.Tree, c, d); o.Tree.Layer(d) == layer {
			n += int(x*(x-1)/2 + x*worlds.Total(o.Tree, o.Bound, d))
		}
	}
	return n
}

// byLayer sorts preferences from the top down.
func byLayer(prefer []plan.Preference) []plan.Preference {
	return slices.SortedFunc(slices.Values(prefer), func(a, b plan.Preference) int { return cmp.Compare(a.Layer, b.Layer) })
}

// first applies all rules of rules.go except ByFill, and leaves the ways that are first by
// each.
func (o oracle) first(ways []counts) (topology.ID, []counts) {
	ways = worlds.Least(o.tied(ways), func(a, b counts) int { return cmp.Compare(o.domain(a), o.domain(b)) })
	return o.domain(ways[0]), ways
}

// tied is first without names.
func (o oracle) tied(ways []counts) []counts {
	ways = worlds.Least(ways, func(a, b counts) int {
		return -cmp.Compare(worlds.Total(o.Tree, a, 0), worlds.Total(o.Tree, b, 0))
	})
	ways = worlds.Least(ways, func(a, b counts) int {
		return -cmp.Compare(o.Tree.Layer(o.domain(a)), o.Tree.Layer(o.domain(b)))
	})
	ways = worlds.Least(ways, func(a, b counts) int { return slices.Compare(o.touched(a), o.touched(b)) })
	ways = worlds.Least(ways, func(a, b counts) int {
		return -slices.Compare(worlds.Upwards(o.Tree, o.Attract, o.domain(a)), worlds.Upwards(o.Tree, o.Attract, o.domain(b)))
	})
	ways = worlds.Least(ways, func(a, b counts) int { return cmp.Compare(o.penalty(a), o.penalty(b)) })
	return worlds.Least(ways, func(a, b counts) int {
		return slices.Compare(worlds.Upwards(o.Tree, o.Capacity, o.domain(a)), worlds.Upwards(o.Tree, o.Capacity, o.domain(b)))
	})
}

// compareDomains is ByAttraction, ByBinpack and ByNames.
func (o oracle) compareDomains(a, b topology.ID) int {
	return cmp.Or(
		-slices.Compare(worlds.Upwards(o.Tree, o.Attract, a), worlds.Upwards(o.Tree, o.Attract, b)),
		slices.Compare(worlds.Upwards(o.Tree, o.Capacity, a), worlds.Upwards(o.Tree, o.Capacity, b)),
		cmp.Compare(a, b),
	)
}

// fill is ByFill on a list of ways. Of the children of d, largest offer first: if one
// remaining child takes all that is left, the smallest such child does; else
// the largest takes as many as it can in any of the ways.
func (o oracle) fill(d topology.ID, ways []counts) []plan.Place {
	if lo, _ := o.Tree.Nodes(d); o.Tree.IsNode(d) {
		return []plan.Place{{Node: lo, Count: ways[0][lo]}}
	}
	total := func(c counts, k topology.ID) offer.Slots { return worlds.Total(o.Tree, c, k) }
	left := slices.Collect(o.Tree.Children(d))
	slices.SortStableFunc(left, func(a, b topology.ID) int { return cmp.Compare(o.reach[b].Most(), o.reach[a].Most()) })
	var out []plan.Place
	for len(left) > 0 {
		alone := func(k topology.ID) []counts { // the ways in which k takes the rest
			return slices.DeleteFunc(slices.Clone(ways), func(c counts) bool {
				return slices.ContainsFunc(left, func(x topology.ID) bool { return (x == k) != (total(c, x) > 0) })
			})
		}
		best := topology.ID(-1)
		for _, k := range left {
			if len(alone(k)) > 0 && (best < 0 || o.reach[k].Most() < o.reach[best].Most()) {
				best = k
			}
		}
		if best >= 0 {
			return append(out, o.fill(best, alone(best))...)
		}
		k := left[0]
		left = left[1:]
		ways = worlds.Least(ways, func(a, b counts) int { return -cmp.Compare(total(a, k), total(b, k)) })
		if total(ways[0], k) > 0 {
			out = append(out, o.fill(k, ways)...)
		}
	}
	return out
}

// greedy is ByFill alone.
func (o oracle) greedy(d topology.ID, n offer.Slots) (out []plan.Place) {
	o.Penalty = nil
	p, _ := plan.Choose(o.World, plan.Request{Want: n, Min: n, Must: o.Must, Multiple: o.Multiple})
	if p == nil || p.Domain != d {
		return nil
	}
	return p.Places
}

func drawWorld(t *rapid.T, net worlds.Network) plan.World {
	w := plan.World{Tree: net.Build()}
	n := w.Tree.NumNodes()
	w.Free, w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n), make([]offer.Slots, n)
	worlds.Fill(t, w.Free, rapid.SampledFrom([]int{50, 400, 2000}).Draw(t, "ways"))
	if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
		for range rapid.IntRange(1, 2).Draw(t, "nodes with members") {
			w.Bound[rapid.IntRange(0, n-1).Draw(t, "node")] = 1
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "attract") == 0 {
		w.Attract[rapid.IntRange(0, n-1).Draw(t, "node")] = 1
	}
	if rapid.IntRange(0, 3).Draw(t, "room") == 0 {
		w.Capacity = slices.Clone(w.Free)
		w.Capacity[rapid.IntRange(0, n-1).Draw(t, "node")] += 2
	}
	w.Penalty = worlds.Penalty(t, n)
	return w
}

func drawRequest(t *rapid.T, w plan.World) plan.Request {
	tree, free := w.Tree, worlds.Total(w.Tree, w.Free, topology.Root)
	r := plan.Request{Want: offer.Slots(rapid.IntRange(1, int(free)+1).Draw(t, "want")), Multiple: worlds.Multiples(t, tree)}
	r.Min = r.Want
	if rapid.IntRange(0, 2).Draw(t, "elastic") == 0 {
		r.Min = offer.Slots(rapid.IntRange(0, int(r.Want)).Draw(t, "min"))
	}
	if rapid.IntRange(0, 2).Draw(t, "gather") == 0 {
		r.Must = rapid.IntRange(0, tree.Depth()).Draw(t, "must")
	}
	for l := range tree.Depth() + 1 {
		if rapid.Bool().Draw(t, "prefer") {
			r.Prefer = append(r.Prefer, plan.Preference{Layer: l})
		}
	}
	if worlds.Chance(t, 6, "pairs") {
		drawPairs(t, r.Prefer)
	}
	if rapid.Bool().Draw(t, "order of preferences") {
		slices.Reverse(r.Prefer)
	}
	return r
}

// drawPairs lets some preferences charge for every two members of a domain.
func drawPairs(t *rapid.T, prefer []plan.Preference) {
	for i := range prefer {
		if rapid.Bool().Draw(t, "per pair") {
			prefer[i].Charge = plan.PerPair
		}
	}
}

// TestChoose: the plan is the twin's plan, place by place, and a refusal is a refusal.
func TestChoose(t *testing.T) {
	kinds := []string{
		"refused", "on one node", "in a domain", "across the cluster", "in part", "with multiples", "with bound members",
		"decided by preferences", "decided by the second preference", "decided by attraction",
		"decided by soft preferences", "decided by soft preferences between domains", "soft preferences with others",
		"decided by room", "decided by names", "not the largest first", "with multiples beyond any count", "charged by pairs",
	}
	worlds.Check(t, 6000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, rapid.SampledFrom([]int{1, 4, 8, 12}).Draw(t, "most")))
		newOracle(w, drawRequest(t, w)).compare(t, y)
	})
}

// TestPreferences: worlds in which several spines can take the gang and no block can.
func TestPreferences(t *testing.T) {
	kinds := []string{"decided by preferences", "decided by the second preference", "decided by preferences between domains"}
	worlds.Check(t, 1000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := plan.World{Tree: worlds.Wide(t).Build()}
		n := w.Tree.NumNodes()
		w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
		for range n {
			w.Free = append(w.Free, offer.Slots(rapid.IntRange(1, 3).Draw(t, "slots")))
		}
		w.Penalty = worlds.Penalty(t, n)
		want := offer.Slots(rapid.IntRange(4, 6).Draw(t, "want"))
		prefer := rapid.SampledFrom([][]int{{2}, {1, 2}, {3}, {2, 3}}).Draw(t, "prefer")
		newOracle(w, plan.Request{Want: want, Min: want, Prefer: plan.PreferGather(prefer...), Multiple: make(offer.Multiples, 4)}).compare(t, y)
	})
}

// compare compares the plan with the twin's.
func (o oracle) compare(t *rapid.T, y worlds.Tally) {
	p, refusal := plan.Choose(o.World, o.Request)
	ways := o.all()
	if (refusal == nil) != (len(ways) > 0) || (p == nil) != (refusal != nil) {
		t.Fatalf("Choose says %v, the twin knows %d ways", refusal, len(ways))
	}
	y.Count("refused", refusal != nil)
	y.Count("with multiples beyond any count", worlds.BeyondCount(o.Multiple))
	if refusal != nil {
		o.checkRefusal(t, refusal)
		return
	}
	y.Count("charged by pairs", slices.ContainsFunc(o.Prefer, func(p plan.Preference) bool { return p.Charge == plan.PerPair }))
	domain, first := o.first(ways)
	places := o.fill(domain, first)
	if p.Domain != domain || !slices.Equal(p.Places, places) {
		t.Fatalf("%v in %d, the twin chose %v in %d\n%s\n%+v beside %v", p.Places, p.Domain, places, domain, show(o.World, p), o.Request, o.Bound)
	}
	o.count(y, p, ways)
}

func show(w plan.World, p *plan.Plan) (out string) {
	for i := range w.Free {
		out += fmt.Sprintf("%s/%d ", w.Tree.Path(w.Tree.Node(i)), w.Free[i])
	}
	return out + fmt.Sprint(p)
}

// checkRefusal: what a refusal says each domain can take, it can take, and no more.
func (o oracle) checkRefusal(t *rapid.T, r *plan.Refusal) {
	named := 0
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		bound := worlds.Total(o.Tree, o.Bound, d) > 0 || worlds.Total(o.Tree, o.Bound, topology.Root) == 0
		if o.Tree.Layer(d) != o.Must || !o.Tree.Named(d) || !bound {
			continue
		}
		named++
		if !slices.Contains(r.Domains, plan.Offer{Path: o.Tree.Path(d), Slots: o.reach[d].Most()}) {
			t.Fatalf("%q takes %d, the refusal says %+v", o.Tree.Path(d), o.reach[d].Most(), r.Domains)
		}
	}
	for l := range o.Multiple {
		asked := plan.Multiple{Layer: o.Tree.LayerNames()[l], Count: o.Multiple[l]}
		if slices.Contains(r.Multiple, asked) != (asked.Count > 1) {
			t.Fatalf("%+v are the multiples, the refusal says %+v", o.Multiple, r.Multiple)
		}
	}
	sorted := slices.IsSortedFunc(r.Domains, func(a, b plan.Offer) int { return cmp.Compare(b.Slots, a.Slots) })
	if named != len(r.Domains) || r.Want != max(o.Min, 1) || !sorted || r.Layer != o.Tree.LayerNames()[o.Must] {
		t.Fatalf("%d domains may be named, the refusal is %+v", named, r)
	}
}

// count says what the world was good for.
func (o oracle) count(y worlds.Tally, p *plan.Plan, ways []counts) {
	layer := o.Tree.Layer(p.Domain)
	y.Count("on one node", layer == o.Tree.Depth())
	y.Count("in a domain", 0 < layer && layer < o.Tree.Depth())
	y.Count("across the cluster", layer == 0)
	y.Count("in part", p.Count() < o.Want)
	y.Count("with multiples", slices.Max(o.Multiple) > 1)
	y.Count("with bound members", slices.Max(o.Bound) > 0)
	differs := func(change func(*oracle)) bool {
		other := o
		change(&other)
		_, first := other.first(ways)
		domain, now := o.first(ways)
		return other.domain(first[0]) != domain || len(first) != len(now)
	}
	y.Count("decided by preferences", differs(func(x *oracle) { x.Prefer = nil }))
	y.Count("decided by preferences between domains", differs(func(x *oracle) { x.Prefer = nil }) &&
		slices.ContainsFunc(ways, func(c counts) bool { return o.beatsButForPreferences(c, p) }))
	y.Count("decided by the second preference", differs(func(x *oracle) {
		x.Prefer = slices.DeleteFunc(byLayer(x.Prefer), func(p plan.Preference) bool { return p.Layer <= layer })
		x.Prefer = x.Prefer[:min(1, len(x.Prefer))]
	}))
	y.Count("decided by attraction", differs(func(x *oracle) { x.Attract = make([]offer.Slots, len(x.Free)) }))
	y.Count("decided by soft preferences", differs(func(x *oracle) { x.Penalty = nil }))
	y.Count("soft preferences with others", len(o.Prefer) > 1 && differs(func(x *oracle) { x.Penalty = nil }))
	without := o
	without.Penalty = nil
	other, _ := without.first(ways)
	y.Count("decided by soft preferences between domains", other != p.Domain)
	y.Count("decided by room", differs(func(x *oracle) { x.Capacity = make([]offer.Slots, len(x.Free)) }))
	y.Count("decided by names", slices.ContainsFunc(o.tied(ways), func(c counts) bool { return o.domain(c) != p.Domain }))
	greedy := o.greedy(p.Domain, p.Count())
	y.Count("not the largest first", greedy != nil && !slices.Equal(greedy, p.Places))
}

// beatsButForPreferences: without preferences, another domain would be chosen.
func (o oracle) beatsButForPreferences(c counts, p *plan.Plan) bool {
	d := o.domain(c)
	return worlds.Total(o.Tree, c, topology.Root) == p.Count() &&
		o.Tree.Layer(d) == o.Tree.Layer(p.Domain) && o.compareDomains(d, p.Domain) < 0
}

// TestManyChildren: in a domain with hundreds of children the fewest nodes (ByFill) are easy to compute. A preference
// for few nodes gives the same plan.
func TestManyChildren(t *testing.T) {
	worlds.Check(t, 200, []string{"many", "several blocks"}, func(t *rapid.T, y worlds.Tally) {
		var nodes []topology.Node
		free := make([]offer.Slots, rapid.SampledFrom([]int{60, 130, 200, 300}).Draw(t, "nodes"))
		total := offer.Slots(0)
		for i := range free {
			nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i)})
			free[i] = offer.Slots(rapid.IntRange(0, 3).Draw(t, "slots"))
			total += free[i]
		}
		w := plan.World{Tree: topology.Build(nil, nodes), Free: free}
		want := max(total*offer.Slots(rapid.IntRange(1, 21).Draw(t, "of twenty"))/20, 4)
		places := largestFirst(free, want)
		for _, prefer := range [][]int{nil, {1}} {
			p, refusal := plan.Choose(w, plan.Request{Want: want, Min: want, Prefer: plan.PreferGather(prefer...)})
			if (refusal == nil) != (total >= want) {
				t.Fatalf("%v, there are %d slots for %d", refusal, total, want)
			}
			if refusal == nil && !slices.Equal(p.Places, places) {
				t.Fatalf("with preferences %v\n%v\nnot\n%v", prefer, p.Places, places)
			}
		}
		y.Count("many", len(free) > 128)
		y.Count("several blocks", len(places) > 128)
	})
}

// largestFirst is ByFill for nodes of one domain.
func largestFirst(free []offer.Slots, n offer.Slots) (out []plan.Place) {
	left := make([]int, len(free))
	for i := range left {
		left[i] = i
	}
	for n > 0 && len(left) > 0 {
		slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(free[b], free[a]) })
		k := left[0]
		for _, i := range left {
			if free[i] >= n && free[i] < free[k] {
				k = i
			}
		}
		out = append(out, plan.Place{Node: k, Count: min(n, free[k])})
		n -= min(n, free[k])
		left = slices.DeleteFunc(left, func(i int) bool { return i == k })
	}
	return out
}

// TestOrderOfNodes: the order in which nodes came does not matter, nor that of preferences.
func TestOrderOfNodes(t *testing.T) {
	worlds.Check(t, 1000, nil, func(t *rapid.T, _ worlds.Tally) {
		net := worlds.Draw(t, 18)
		w := drawWorld(t, net)
		r := drawRequest(t, w)
		other, same := w, r
		other.Tree = net.Shuffled(t).Build()
		same.Prefer = rapid.Permutation(r.Prefer).Draw(t, "preferences")
		for range 2 {
			p, refusal := plan.Choose(w, r)
			q, refused := plan.Choose(other, same)
			if fmt.Sprint(p, refusal) != fmt.Sprint(q, refused) {
				t.Fatalf("%v %v, in another order %v %v", p, refusal, q, refused)
			}
		}
	})
}
