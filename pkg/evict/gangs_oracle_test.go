package evict_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// gangWorld is a world in which victims may belong to running gangs.
type gangWorld struct {
	world
	gangs     []evict.Gang
	waits     []int            // by gang: all run, all wait, or any do
	elsewhere []evict.Cost     // by gang, of members that run on none of the nodes
	away      [][]evict.Budget // by gang, budgets of these members
	budgets   []evict.Budget
}

// mostLeavers limits the sets of victims that the twin searches.
const mostLeavers = 10

// drawSharedWorld draws up to ten victims. Most of them are in up to three gangs of two to four members. In half of
// the worlds many victims share one or two budgets.
func drawSharedWorld(t *rapid.T) gangWorld {
	var budgets []evict.Budget
	if rapid.Bool().Draw(t, "budgets") {
		for i := range 1 + worlds.Even(t, 2, "more budgets") {
			allowed := []int{0, 1, 1, 2, 2, 3}[worlds.Even(t, 6, "allowed")]
			budgets = append(budgets, evict.Budget{Name: fmt.Sprint("budget", i), Allowed: allowed})
		}
	}
	return drawGangs(t, budgets)
}

func drawGangs(t *rapid.T, budgets []evict.Budget) gangWorld {
	w := gangWorld{
		world: world{World: plan.World{Tree: worlds.Draw(t, 2+worlds.Even(t, 5, "most")).Build()}, unit: 1 + worlds.Even(t, 2, "unit")},
	}
	n := w.Tree.NumNodes()
	w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
	if worlds.Chance(t, 8, "bound") {
		w.Bound[worlds.Even(t, n, "node")] = 1
	}
	if worlds.Chance(t, 3, "a tree") {
		w.gangs = make([]evict.Gang, 3+worlds.Even(t, 3, "gangs of the tree"))
		for i := range w.gangs {
			w.gangs[i] = evict.Gang{Gang: bundle.Gang{Group: 1, Spare: worlds.Even(t, 4, "spare") / 3}, Whole: !worlds.Chance(t, 8, "not whole")}
		}
		w.drawTree(t)
	} else {
		for range []int{1, 2, 2, 3}[worlds.Even(t, 4, "gangs")] {
			w.gangs = append(w.gangs,
				evict.Gang{
					Gang:  bundle.Gang{Group: min(1, worlds.Even(t, 4, "group")/2), Spare: []int{0, 0, 1, 2}[worlds.Even(t, 4, "spare")]},
					Whole: !worlds.Chance(t, 4, "not whole"),
				})
		}
		if worlds.Chance(t, 2, "not all gangs are needed") {
			w.drawTree(t)
		}
	}
	w.budgets = budgets
	w.drawWaits(t)
	w.hosts = make([]host, n)
	shaped, uniform := rapid.Bool().Draw(t, "shaped"), rapid.Bool().Draw(t, "gangs have one priority")
	total := 0
	for i := range w.hosts {
		h := &w.hosts[i]
		h.free = []int{0, 0, 0, 0, 1, 2}[worlds.Even(t, 6, "free")]
		for range min(worlds.Even(t, 4, "victims"), mostLeavers-total) {
			v, size := w.drawVictim(t, uniform), 1+worlds.Even(t, 3, "size")
			v.Name = fmt.Sprint("v", total)
			if shaped {
				v.Shape = fmt.Sprint("size ", size)
			}
			h.victims, h.size = append(h.victims, v), append(h.size, size)
			total++
		}
	}
	w.drawElsewhere(t, uniform)
	return w
}

// drawTree hangs the gangs of the group in a tree of up to three levels, of which each needs some
// of its children.
func (w *gangWorld) drawTree(t *rapid.T) {
	root := choice.Level{Name: "root", Least: worlds.Even(t, 3, "least children")}
	type branch struct {
		choice.Level
		twigs []choice.Level
	}
	branches := make([]branch, worlds.Even(t, 3, "branches"))
	for i := range branches {
		b := &branches[i]
		b.Level = choice.Level{Name: fmt.Sprint("branch", i), Least: 1 + worlds.Even(t, 2, "least in a branch")}
		for k := range worlds.Even(t, 4, "twigs") / 2 {
			b.twigs = append(b.twigs, choice.Level{Name: fmt.Sprint(b.Name, "twig", k), Least: 1 + worlds.Even(t, 2, "least on a twig")})
		}
	}
	for i := range w.gangs {
		g := &w.gangs[i]
		if g.Group == 0 || worlds.Chance(t, 6, "needed") {
			continue
		}
		g.Above = []choice.Level{root}
		if k := worlds.Even(t, 4, "branch"); k < len(branches) {
			b := branches[k]
			g.Above = []choice.Level{b.Level, root}
			if k := worlds.Even(t, 2, "twig"); k < len(b.twigs) {
				g.Above = []choice.Level{b.twigs[k], b.Level, root}
			}
		}
		if g.Short = worlds.Chance(t, 8, "short"); g.Short {
			g.Spare = 0
		}
	}
}

// Which members of a gang wait.
const (
	nobodyWaits = iota
	allWait
	anyMayWait
)

// drawWaits makes some gangs wait for members: gangs without running members can spare none.
func (w *gangWorld) drawWaits(t *rapid.T) {
	w.waits = make([]int, len(w.gangs))
	if !worlds.Chance(t, 3, "some wait") {
		return
	}
	for i := range w.gangs {
		if w.waits[i] = worlds.Even(t, 3, "waiting members"); w.waits[i] == allWait {
			w.gangs[i].Spare = 0
		}
	}
}

// wait lets a victim wait at Permit if its gang allows it.
func (w gangWorld) wait(t *rapid.T, v *evict.Victim, gang int) {
	if w.waits[gang-1] == allWait || w.waits[gang-1] == anyMayWait && rapid.Bool().Draw(t, "waits") {
		v.Pending, v.Violates, v.Budgets = true, false, nil
	}
}

var gangPriorities = []int32{1, 5, 9}

// drawGangRequest draws a request that is mostly all but as large as can be.
func (w *gangWorld) drawGangRequest(t *rapid.T) {
	w.drawRequest(t)
	if worlds.Chance(t, 4, "any request") {
		return
	}
	room := offer.Slots(0)
	for _, n := range w.after(nil).Capacity {
		room += n
	}
	w.Want = max(1, min(room, 8)-offer.Slots(worlds.Even(t, 4, "less than all")))
	w.Min = w.Want
	if worlds.Even(t, 3, "anywhere") > 0 {
		w.Must, w.Multiple = 0, make(offer.Multiples, len(w.Multiple))
	}
}

// drawVictim draws a victim of a gang with fewer than four members, and counts it there.
func (w gangWorld) drawVictim(t *rapid.T, uniform bool) evict.Victim {
	v := evict.Victim{
		Gang:     worlds.Even(t, len(w.gangs)+1, "gang"),
		Priority: gangPriorities[worlds.Even(t, 3, "priority")],
		Started:  int64(worlds.Even(t, 3, "started")),
		Violates: worlds.Chance(t, 5, "violates"),
		Budgets:  w.drawBudgets(t),
	}
	if v.Gang == 0 || pods(&w.gangs[v.Gang-1]) == 4 {
		v.Gang = 0
		return v
	}
	g := &w.gangs[v.Gang-1]
	w.wait(t, &v, v.Gang)
	if uniform && pods(g) > 0 {
		v.Priority = g.Cost.Highest
	}
	g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
	return v
}

// pods is how many members of a gang there are.
func pods(g *evict.Gang) int { return g.Cost.Pods + g.Cost.Requeued }

// drawBudgets draws the budgets of one victim.
func (w gangWorld) drawBudgets(t *rapid.T) (out []evict.Budget) {
	for _, b := range w.budgets {
		if worlds.Even(t, 2, "in the budget") == 0 {
			out = append(out, b)
		}
	}
	return out
}

// drawElsewhere gives gangs members that run on none of the nodes: every gang has two.
func (w *gangWorld) drawElsewhere(t *rapid.T, uniform bool) {
	w.elsewhere, w.away = make([]evict.Cost, len(w.gangs)), make([][]evict.Budget, len(w.gangs))
	for i := range w.gangs {
		g := &w.gangs[i]
		some := 0
		if pods(g) < 4 && worlds.Chance(t, 3, "elsewhere") {
			some = 1 + worlds.Even(t, 4-pods(g), "members elsewhere")
		}
		for range max(some, 2-pods(g)) {
			v := evict.Victim{
				Priority: gangPriorities[worlds.Even(t, 3, "priority")], Violates: worlds.Chance(t, 5, "violates"), Budgets: w.drawBudgets(t),
			}
			w.wait(t, &v, i+1)
			if uniform && pods(g) > 0 {
				v.Priority = g.Cost.Highest
			}
			g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
			w.elsewhere[i], w.away[i] = w.elsewhere[i].Add(evict.CostOf(v)), append(w.away[i], v.Budgets...)
		}
	}
}

func (w gangWorld) victim(p evict.Pick) evict.Victim { return w.hosts[p.Node].victims[p.Victim] }

// leavers counts the members of each gang among victims.
func (w gangWorld) leavers(gone []evict.Pick) []int {
	n := make([]int, len(w.gangs))
	for _, p := range gone {
		if g := w.victim(p).Gang; g > 0 {
			n[g-1]++
		}
	}
	return n
}

// together reports whether two gangs are evicted together.
func (w gangWorld) together(g, h int) bool {
	return g == h || w.gangs[g].Group > 0 && w.gangs[g].Group == w.gangs[h].Group
}

// leavesWhole reports for each gang whether it is evicted whole. That is the case for a gang with more victims than
// spare members, and for a gang that needs an evicted gang. Levels fail one after the other until none is left that
// fails.
func (w gangWorld) leavesWhole(leave []int) []bool {
	gone := make([]bool, len(w.gangs))
	for g, n := range leave {
		gone[g] = n > w.gangs[g].Spare
	}
	for again := slices.Contains(gone, true); again; {
		again = false
		for g := range w.gangs {
			for k := 0; gone[g] && k <= len(w.gangs[g].Above); k++ {
				if w.runs(g, k, gone) {
					continue
				}
				for h := range w.gangs {
					if below := w.together(g, h) && (k == len(w.gangs[g].Above) || w.below(h, w.gangs[g].Above[k].Name)); below && !gone[h] {
						gone[h], again = true, true
					}
				}
			}
		}
	}
	return gone
}

// runs reports whether the k-th level above a gang runs without some gangs. The level above the topmost one is the
// group, in which all gangs without a level must run.
func (w gangWorld) runs(g, k int, gone []bool) bool {
	above := w.gangs[g].Above
	if k == len(above) {
		for h, of := range w.gangs {
			if w.together(g, h) && (len(of.Above) == 0 && gone[h] || len(of.Above) > 0 && !w.runs(h, len(of.Above)-1, gone)) {
				return false
			}
		}
		return true
	}
	children := map[string]bool{}
	for h, of := range w.gangs {
		for i, l := range of.Above {
			switch {
			case !w.together(g, h) || l.Name != above[k].Name:
			case i == 0 && !gone[h] && !of.Short:
				children[fmt.Sprint("gang ", h)] = true
			case i > 0 && w.runs(h, i-1, gone):
				children[of.Above[i-1].Name] = true
			}
		}
	}
	return len(children) >= above[k].Least
}

// below reports whether a gang is below a level.
func (w gangWorld) below(g int, level string) bool {
	return slices.ContainsFunc(w.gangs[g].Above, func(l choice.Level) bool { return l.Name == level })
}

// costOf returns the cost of a set of victims. ok is false if a gang is evicted in part and loses more than its spare
// members.
func (w gangWorld) costOf(gone []evict.Pick) (c evict.Cost, ok bool) {
	c = w.cost(gone)
	count := map[string]int{}
	for _, p := range gone {
		for _, b := range w.victim(p).Budgets {
			count[b.Name]++
		}
	}
	here, leave := w.leavers(w.allVictims()), w.leavers(gone)
	whole := w.leavesWhole(leave)
	for g, n := range leave {
		if !whole[g] {
			continue
		}
		if !w.gangs[g].Whole || n < here[g] {
			return evict.Cost{}, false
		}
		c = c.Add(w.elsewhere[g])
		for _, b := range w.away[g] {
			if b.Allowed > 0 { // violations of exhausted budgets are in the cost
				count[b.Name]++
			}
		}
	}
	for _, b := range w.budgets {
		c.Violations += max(0, count[b.Name]-b.Allowed)
	}
	return c, true
}

// cheapest searches all sets of victims and returns the sets of the least cost, and that cost.
func (w gangWorld) cheapest(fits func([]evict.Pick) bool) (out [][]evict.Pick, least evict.Cost) {
	type set struct {
		gone []evict.Pick
		cost evict.Cost
	}
	var sets []set
	all := w.allVictims()
	for mask := range 1 << len(all) {
		var gone []evict.Pick
		for i, p := range all {
			if mask>>i&1 == 1 {
				gone = append(gone, p)
			}
		}
		if cost, ok := w.costOf(gone); ok {
			sets = append(sets, set{gone, cost})
		}
	}
	slices.SortStableFunc(sets, func(a, b set) int { return compareCosts(a.cost, b.cost) })
	for _, s := range sets {
		if len(out) > 0 && s.cost != least {
			break
		}
		if fits(s.gone) {
			out, least = append(out, s.gone), s.cost
		}
	}
	return out, least
}

// chooser is a function under test. Its result may have no plan.
type chooser func(gangWorld) *evict.Eviction

// compare reports whether there is an eviction, and fails if it is not one of the cheapest.
func (w gangWorld) compare(t *rapid.T, y worlds.Tally, choose chooser, fits func([]evict.Pick) bool) bool {
	e := choose(w)
	sets, least := w.cheapest(fits)
	if (e == nil) != (len(sets) == 0) {
		t.Fatalf("eviction: %+v, sets: %v\n%s", e, sets, w)
	}
	alone := choose(w.alone())
	y.Count("impossible", alone == nil)
	y.Count("refused", e == nil && alone != nil)
	if e == nil {
		return false
	}
	if cost, ok := w.costOf(e.Victims); !ok || cost != least || e.Cost != least {
		t.Fatalf("%v cost %+v (%+v, supported values: %v), %v would cost %+v\n%s", e.Victims, cost, e.Cost, ok, sets[0], least, w)
	}
	if !slices.ContainsFunc(sets, func(s []evict.Pick) bool { return slices.Equal(s, e.Victims) }) {
		t.Fatalf("%v is none of %v\n%s", e.Victims, sets, w)
	}
	w.checkUse(t, e.Victims, fits)
	w.count(y, e, alone, choose)
	y.Count("equal costs", len(sets) > 1)
	return true
}

// checkOrder fails if another set of the least cost leads to a better domain, or to the same plan with younger
// victims.
func (w gangWorld) checkOrder(t *rapid.T, y worlds.Tally, e *evict.Eviction) {
	if p, _ := plan.Choose(w.after(e.Victims), w.Request); !reflect.DeepEqual(p, e.Plan) {
		t.Fatalf("%+v, not %+v\n%s", e.Plan, p, w)
	}
	rank := w.rank(w.after(e.Victims), e.Plan)
	whole := w.leavers(e.Victims)
	byPlan, byAge, within, otherwise := false, false, false, false
	sets, _ := w.cheapest(func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
	for _, s := range sets {
		after := w.after(s)
		p, _ := plan.Choose(after, w.Request)
		order := slices.Compare(w.rank(after, p), rank)
		if order < 0 {
			t.Fatalf("%v lead to %v, the better %v to %v\n%s", e.Victims, rank, s, w.rank(after, p), w)
		}
		other := !slices.Equal(w.leavers(s), whole)
		byPlan = byPlan || order > 0 && other
		if order == 0 {
			_, o := plan.NewJudge(after, w.Request).Decide(p, e.Plan)
			if o == 0 {
				o = slices.CompareFunc(w.byAge(s), w.byAge(e.Victims), younger)
			}
			within, otherwise = within || !slices.Equal(s, e.Victims), otherwise || o < 0
		}
		if slices.Equal(p.Places, e.Plan.Places) {
			age := slices.CompareFunc(w.byAge(s), w.byAge(e.Victims), younger)
			if age < 0 {
				t.Fatalf("%v are younger than %v\n%s", s, e.Victims, w)
			}
			byAge = byAge || age > 0 && other
		}
	}
	y.Count("decided by the plan among branches", byPlan)
	y.Count("decided by age among branches", byAge)
	y.Count("decided within the domain", within)
	y.Count("filled in another order", otherwise) // sizes differ from sizes without victims
}

func (w gangWorld) byAge(gone []evict.Pick) (out []evict.Victim) {
	for _, p := range gone {
		out = append(out, w.victim(p))
	}
	slices.SortFunc(out, younger)
	return out
}

// alone returns the world without gangs.
func (w gangWorld) alone() gangWorld {
	w.gangs, w.elsewhere, w.away = nil, nil, nil
	w.hosts = slices.Clone(w.hosts)
	for i := range w.hosts {
		w.hosts[i].victims = slices.Clone(w.hosts[i].victims)
		for v := range w.hosts[i].victims {
			w.hosts[i].victims[v].Gang = 0
		}
	}
	return w
}

// unshared returns the world in which a budget that allows an eviction allows all.
func (w gangWorld) unshared() gangWorld {
	w.budgets = slices.Clone(w.budgets)
	all := func(some []evict.Budget) []evict.Budget {
		some = slices.Clone(some)
		for i := range some {
			if some[i].Allowed > 0 {
				some[i].Allowed = 99
			}
		}
		return some
	}
	w.budgets = all(w.budgets)
	w.gangs, w.away = slices.Clone(w.gangs), slices.Clone(w.away)
	for g := range w.gangs {
		w.gangs[g].Budgets, w.away[g] = all(w.gangs[g].Budgets), all(w.away[g])
	}
	w.hosts = slices.Clone(w.hosts)
	for i := range w.hosts {
		w.hosts[i].victims = slices.Clone(w.hosts[i].victims)
		for v := range w.hosts[i].victims {
			w.hosts[i].victims[v].Budgets = all(w.hosts[i].victims[v].Budgets)
		}
	}
	return w
}

// here returns the world in which gangs have no members elsewhere.
func (w gangWorld) here() gangWorld {
	w.gangs = slices.Clone(w.gangs)
	for g := range w.gangs {
		w.gangs[g].Cost, w.gangs[g].Budgets = evict.Cost{}, nil
	}
	for _, p := range w.allVictims() {
		if v := w.victim(p); v.Gang > 0 {
			g := &w.gangs[v.Gang-1]
			g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), slices.Concat(g.Budgets, v.Budgets)
		}
	}
	w.elsewhere, w.away = make([]evict.Cost, len(w.gangs)), make([][]evict.Budget, len(w.gangs))
	return w
}

// gangKinds are the kinds of worlds that compare counts.
var gangKinds = []string{
	"impossible", "refused", "no victims", "only pods without gangs are evicted", "a gang is evicted whole", "several gangs are evicted whole",
	"gangs are evicted whole and in part", "a gang spares members", "a gang is avoided at a higher count", "members elsewhere decide",
	"with violations",
	"a gang is sent back", "evicted and sent back",
	"equal costs", "a gang is evicted only with its group", "an optional gang is evicted", "levels between decide", "a group decides",
	"a shared budget decides", "a shared budget is exceeded", "members elsewhere exceed a budget",
}

// victims returns the chosen victims; none without an eviction.
func (w gangWorld) victims(choose chooser) []evict.Pick {
	if e := choose(w); e != nil {
		return e.Victims
	}
	return nil
}

// count counts the kinds of worlds; alone is the eviction in the world without gangs.
func (w gangWorld) count(y worlds.Tally, e, alone *evict.Eviction, choose chooser) {
	whole, spared, avoided, dragged := 0, 0, 0, 0
	broken, leave := w.leavers(alone.Victims), w.leavers(e.Victims)
	leaves := w.leavesWhole(leave)
	for g, n := range leave {
		if spare := w.gangs[g].Spare; n <= spare && broken[g] > spare {
			avoided++
		}
		if leaves[g] && n <= w.gangs[g].Spare {
			dragged++
		}
		switch {
		case leaves[g]:
			whole++
		case n > 0:
			spared++
		}
	}
	y.Count("no victims", len(e.Victims) == 0)
	y.Count("a gang is sent back", e.Cost.Pods == 0 && e.Cost.Requeued > 0)
	y.Count("evicted and sent back", e.Cost.Pods > 0 && e.Cost.Requeued > 0)
	y.Count("only pods without gangs are evicted", e.Cost.Pods > 0 && whole+spared == 0)
	y.Count("a gang is evicted whole", whole > 0)
	y.Count("several gangs are evicted whole", whole > 1)
	y.Count("gangs are evicted whole and in part", whole > 0 && spared > 0)
	y.Count("a gang spares members", spared > 0)
	y.Count("a gang is avoided at a higher count", avoided > 0 && e.Cost.Pods > alone.Cost.Pods)
	y.Count("a gang is evicted only with its group", dragged > 0)
	single := w
	single.gangs = slices.Clone(w.gangs)
	for g := range single.gangs {
		single.gangs[g].Group, single.gangs[g].Above = 0, nil
	}
	all := w
	all.gangs = slices.Clone(w.gangs)
	for g := range all.gangs {
		all.gangs[g].Above = nil
	}
	flat := w
	flat.gangs = slices.Clone(w.gangs)
	for g := range flat.gangs {
		flat.gangs[g].Above = w.gangs[g].Above[max(0, len(w.gangs[g].Above)-1):]
	}
	y.Count("levels between decide", !slices.Equal(flat.victims(choose), e.Victims))
	y.Count("an optional gang is evicted", !slices.Equal(all.victims(choose), e.Victims))
	y.Count("a group decides", !slices.Equal(choose(single).Victims, e.Victims))
	y.Count("with violations", e.Cost.Violations > 0)
	if len(w.budgets) > 0 {
		free := choose(w.unshared())
		dearer, _ := w.costOf(free.Victims)
		y.Count("a shared budget decides", dearer.Compare(e.Cost) > 0)
		y.Count("a shared budget is exceeded", e.Cost != free.Cost && slices.Equal(e.Victims, free.Victims))
		near := w
		near.away = make([][]evict.Budget, len(w.gangs))
		cost, _ := near.costOf(e.Victims)
		y.Count("members elsewhere exceed a budget", cost != e.Cost)
	}
	y.Count("members elsewhere decide", !slices.Equal(choose(w.here()).Victims, e.Victims))
}

func (w gangWorld) String() (out string) {
	for i, h := range w.hosts {
		out += fmt.Sprintf("%s has %d, bound %d", w.Tree.Path(w.Tree.Node(i)), h.free, w.Bound[i])
		for v, victim := range h.victims {
			out += fmt.Sprintf(", %d of gang %d at %d violates %v %v since %d", h.size[v], victim.Gang, victim.Priority, victim.Violates,
				victim.Budgets, victim.Started)
		}
		out += "\n"
	}
	return out + fmt.Sprintf("a member needs %d, %+v\ngangs %+v", w.unit, w.Request, w.gangs)
}

// choose returns the eviction that Cheapest finds.
func (w gangWorld) choose() *evict.Eviction { return w.found(w.problem()) }

// checkUse fails if a victim, or a gang that is evicted whole, is needless.
func (w gangWorld) checkUse(t rapid.TB, gone []evict.Pick, fits func([]evict.Pick) bool) {
	try := func(stays func(evict.Pick) bool) {
		less := slices.DeleteFunc(slices.Clone(gone), stays)
		if _, legal := w.costOf(less); legal && len(less) < len(gone) && fits(less) {
			t.Fatalf("%v are evicted, but %v are enough\n%s", gone, less, w)
		}
	}
	for _, p := range gone {
		try(func(other evict.Pick) bool { return other == p })
	}
	for g, of := range w.gangs {
		for _, level := range of.Above {
			try(func(p evict.Pick) bool {
				k := w.victim(p).Gang - 1
				return k >= 0 && w.together(k, g) && w.below(k, level.Name)
			})
		}
		try(func(p evict.Pick) bool { return w.victim(p).Gang == g+1 })
		try(func(p evict.Pick) bool { return w.victim(p).Gang > 0 && w.together(w.victim(p).Gang-1, g) })
	}
}

// checkFew checks a bounded search: the set is valid, has no needless victim, and exists if any set exists. It may
// cost more.
func (w gangWorld) checkFew(t *rapid.T, y worlds.Tally, e *evict.Eviction, fits func([]evict.Pick) bool) {
	sets, least := w.cheapest(fits)
	y.Count("impossible", len(sets) == 0)
	y.Count("possible", len(sets) > 0)
	if (e == nil) != (len(sets) == 0) {
		t.Fatalf("eviction: %+v, sets: %v\n%s", e, sets, w)
	}
	if e == nil {
		return
	}
	if cost, ok := w.costOf(e.Victims); !ok || cost != e.Cost {
		t.Fatalf("%v cost %+v, not %+v, supported values: %v\n%s", e.Victims, cost, e.Cost, ok, w)
	}
	w.checkUse(t, e.Victims, fits)
	y.Count("the cheapest", e.Cost == least)
	y.Count("dearer", e.Cost != least)
	y.Count("more pods", e.Cost.Pods > least.Pods)
	y.Count("more violations", e.Cost.Violations > least.Violations)
}

// The only victim belongs to a gang that can spare no member and must not be evicted. There is no eviction.
func TestGangThatMayNotBeEvictedRunsOn(t *testing.T) {
	w := gangWorld{world: world{unit: 1, hosts: []host{{size: []int{1}, victims: []evict.Victim{{Name: "v", Gang: 1}}}}}}
	w.Tree = topology.Build(nil, []topology.Node{{Name: "n1"}})
	w.Want, w.Min = 1, 1
	w.gangs = []evict.Gang{{Cost: evict.Cost{Pods: 2}}}
	if e := w.choose(); e != nil {
		t.Fatalf("%+v", e)
	}
	j := gangJob{Job: mixed.Job{Classes: []mixed.Class{{Ranks: []int{0}}}, Gangs: []mixed.Gang{{Need: 1}}}, units: [2]int{1, 1}}
	if e := evict.Cheapest(j.problem(w)); e.Placed != nil || !e.Conclusive {
		t.Fatalf("%+v", e)
	}
}

// Three gangs run on six nodes. The cheapest set evicts them whole, and many other sets are searched earlier.
func TestCheapestWholeGangsAreFoundAmongManySets(t *testing.T) {
	var nodes []topology.Node
	for i := range 6 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i)})
	}
	w := gangWorld{world: world{unit: 2, hosts: make([]host, 6)}, gangs: make([]evict.Gang, 3), elsewhere: make([]evict.Cost, 3)}
	w.Tree, w.Want, w.Min, w.Bound = topology.Build(nil, nodes), 7, 7, make([]offer.Slots, 6)
	for _, v := range []struct{ node, size, gang int }{
		{0, 1, 3}, {0, 2, 0}, {0, 2, 2}, {1, 2, 1}, {3, 1, 0}, {3, 3, 2}, {4, 2, 2}, {4, 2, 3}, {4, 2, 3}, {5, 2, 1},
	} {
		h := &w.hosts[v.node]
		violates := v.gang == 2 && v.node > 0
		h.victims = append(h.victims, evict.Victim{Name: fmt.Sprint("v", v.node, len(h.victims)), Gang: v.gang, Priority: 1, Violates: violates})
		h.size = append(h.size, v.size)
	}
	w = w.here()
	w.elsewhere[0] = evict.Cost{Pods: 1, Highest: 1, Sum: 1}
	for g := range w.gangs {
		w.gangs[g].Whole, w.gangs[g].Cost = true, w.gangs[g].Cost.Add(w.elsewhere[g])
	}
	_, least := w.cheapest(func(gone []evict.Pick) bool { return w.fits(gone, topology.Root) })
	if e := w.choose(); e == nil || e.Cost != least {
		t.Fatalf("%+v, the least cost is %+v\n%s", e, least, w)
	}
}

// The cheaper half of the victims share a budget that allows three evictions.
func TestSharedBudgetLimitsCheapVictims(t *testing.T) {
	var nodes []topology.Node
	w := gangWorld{world: world{unit: 1}}
	for i := range 60 {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i)})
		v := evict.Victim{Name: fmt.Sprint("v", i), Priority: 1, Budgets: []evict.Budget{{Name: "shared", Allowed: 3}}}
		if i >= 30 {
			v.Priority, v.Budgets = 5, nil
		}
		w.hosts = append(w.hosts, host{victims: []evict.Victim{v}, size: []int{1}})
	}
	w.Tree = topology.Build(nil, nodes)
	for _, c := range []struct {
		want offer.Slots
		cost evict.Cost
	}{
		{3, evict.Cost{Pods: 3, Highest: 1, Sum: 3}},
		{10, evict.Cost{Pods: 10, Highest: 5, Sum: 3 + 7*5}},
		{40, evict.Cost{Violations: 7, Pods: 40, Highest: 5, Sum: 10 + 30*5}},
	} {
		w.Want, w.Min = c.want, c.want
		if e := w.choose(); e == nil || e.Cost != c.cost {
			t.Errorf("%+v for %d members, not %+v", e, c.want, c.cost)
		}
	}
}

// If a gang must be evicted, the highest priority of other victims does not matter. Their sum does.
func TestGangOfHighPriority(t *testing.T) {
	others := []evict.Victim{{Name: "a", Priority: 5}, {Name: "b", Priority: 5}, {Name: "c", Priority: 8}, {Name: "d", Priority: 1}}
	w := gangWorld{world: world{unit: 4, hosts: []host{
		{size: []int{8}, victims: []evict.Victim{{Name: "v", Gang: 1, Priority: 9}}},
		{size: []int{2, 2, 3, 1}, victims: others},
	}}}
	w.Tree, w.Want, w.Min = topology.Build(nil, []topology.Node{{Name: "n1"}, {Name: "n2"}}), 3, 3
	w.gangs = []evict.Gang{{Whole: true, Cost: evict.Cost{Pods: 2, Highest: 9, Sum: 18}}}
	if e := w.choose(); e == nil || e.Cost != (evict.Cost{Pods: 4, Highest: 9, Sum: 27}) {
		t.Fatalf("%+v", e)
	}
}

// gangJob is a job of two kinds on the nodes of a gangWorld.
type gangJob struct {
	mixed.Job
	units [2]int // by kind, what a member needs
}

// drawGangJob draws up to three members of each of two kinds, in one gang or in two.
func drawGangJob(t *rapid.T, w gangWorld) gangJob {
	j := gangJob{units: [2]int{1 + worlds.Even(t, 2, "units"), 2 + worlds.Even(t, 2, "other units")}}
	j.Gangs = make([]mixed.Gang, 1+worlds.Even(t, 2, "gangs of the job"))
	j.All = plan.Gather{Multiple: make(offer.Multiples, w.Tree.Depth()+1)}
	j.All.Must = worlds.Even(t, 3, "gather") / 2 * worlds.Even(t, w.Tree.Depth()+1, "must")
	if worlds.Chance(t, 4, "multiples") {
		j.All.Multiple = worlds.Multiples(t, w.Tree)
	}
	rank := 0
	for kind := range 2 {
		c := mixed.Class{Gang: min(kind, len(j.Gangs)-1), Kind: kind}
		for range 1 + worlds.Even(t, 3, "members") {
			c.Ranks = append(c.Ranks, rank)
			j.Gangs[c.Gang].Need++
			rank++
		}
		j.Classes = append(j.Classes, c)
	}
	for g := range j.Gangs {
		if worlds.Chance(t, 4, "elastic") {
			j.Gangs[g].Need = offer.Slots(1 + worlds.Even(t, int(j.Gangs[g].Need), "need"))
		}
	}
	return j
}

// take returns how many members of a kind fit into units beside a load.
func (j gangJob) take(units offer.Slots, load []offer.Slots, kind int) offer.Slots {
	for k, n := range load {
		units -= n * offer.Slots(j.units[k])
	}
	return max(units, 0) / offer.Slots(j.units[kind])
}

// on returns the world in which the job is placed.
func (j gangJob) on(w gangWorld) mixed.World {
	out := mixed.World{World: plan.World{Tree: w.Tree}}
	now, never := w.after(nil), w.after(w.allVictims())
	for i := range w.hosts {
		least := func(units offer.Slots) offer.Slots { return min(j.take(units, nil, 0), j.take(units, nil, 1)) }
		out.Free = append(out.Free, least(now.Free[i]))
		out.Capacity = append(out.Capacity, least(never.Free[i]))
	}
	return out
}

// nodes returns the capacity functions of a world's nodes.
func (j gangJob) nodes(w gangWorld) []func(gone []int, load []offer.Slots, kind int) offer.Slots {
	nodes := make([]func(gone []int, load []offer.Slots, kind int) offer.Slots, len(w.hosts))
	for i, h := range w.hosts {
		nodes[i] = func(gone []int, load []offer.Slots, kind int) offer.Slots {
			return j.take(h.slots(1, gone), load, kind)
		}
	}
	return nodes
}

// fits reports whether every gang's members fit after an eviction. It adds up, child by child, the numbers of each
// kind that a domain can take together.
func (j gangJob) fits(w gangWorld, gone []evict.Pick) bool {
	free := w.after(gone).Free
	for d := topology.Root; int(d) < w.Tree.Len(); d++ {
		if w.Tree.Layer(d) != j.All.Must {
			continue
		}
		for n := range j.reach(w, free, d) {
			if j.enough(n) && j.legal(n, j.All.Must) {
				return true
			}
		}
	}
	return false
}

// reach returns the numbers of each kind that a domain takes.
func (j gangJob) reach(w gangWorld, free []offer.Slots, d topology.ID) map[[2]int]bool {
	out := map[[2]int]bool{{}: true}
	if lo, _ := w.Tree.Nodes(d); w.Tree.IsNode(d) {
		for a := range len(j.Classes[0].Ranks) + 1 {
			for b := range len(j.Classes[1].Ranks) + 1 {
				out[[2]int{a, b}] = a*j.units[0]+b*j.units[1] <= int(free[lo])
			}
		}
	}
	for k := range w.Tree.Children(d) {
		sums := map[[2]int]bool{}
		for n := range j.reach(w, free, k) {
			for had := range out {
				sum := [2]int{had[0] + n[0], had[1] + n[1]}
				sums[sum] = sum[0] <= len(j.Classes[0].Ranks) && sum[1] <= len(j.Classes[1].Ranks)
			}
		}
		maps.DeleteFunc(sums, func(_ [2]int, ok bool) bool { return !ok })
		out = sums
	}
	m := int(j.All.Multiple.At(w.Tree.Layer(d)))
	maps.DeleteFunc(out, func(n [2]int, ok bool) bool { return !ok || (n[0]+n[1])%m != 0 })
	return out
}

// legal reports whether the numbers are multiples in all layers down to one.
func (j gangJob) legal(n [2]int, layer int) bool {
	for l := range layer + 1 {
		if (n[0]+n[1])%int(j.All.Multiple.At(l)) != 0 {
			return false
		}
	}
	return true
}

// enough reports whether the numbers of each kind meet the minimum of every gang.
func (j gangJob) enough(n [2]int) bool {
	have := make([]offer.Slots, len(j.Gangs))
	for c, class := range j.Classes {
		have[class.Gang] += offer.Slots(n[c])
	}
	for g, gang := range j.Gangs {
		if have[g] < gang.Need {
			return false
		}
	}
	return true
}
