package preempt

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// This file looks for victims where what a node takes does not say enough: members differ, and there are too many ways; or
// they depend on who is on other nodes. A plan is made as if some had left, and who may stay is found out by more plans.

// mostJobWork bounds what the plans cost together that are made to find out who may stay, those that are easy to make apart.
const mostJobWork = plan.OneWork / 4

// chooseByPlans starts from those that like members would need, each as needy as the
// neediest, or from all that there are, and keeps everyone without whose leaving there
// is a plan, the dearest first: so no victim is needless, though another set may be
// cheaper. If there is none, exact says that there can be none.
func (c *candidates) chooseByPlans(ctx context.Context) (e *solution, exact bool) {
	work := plan.NewWork(mostJobWork)
	chosen := c.Chosen(c.Group.Need())
	needed := c.For(chosen).Sharing(work)
	everybody, all := c.legal(c.everybody())
	// Others than these members may fit, and who depends on others does not fit the better the fewer there are.
	exact = all && len(chosen) == len(c.Group.Pending) && !c.Dependent()
	plans := func(out []evict.Pick) *way {
		found, refusal, err := needed.Choose(ctx, c.gone(out))
		if refusal != nil || err != nil {
			exact = exact && err == nil && !refusal.Cut
			return nil
		}
		return c.used(ctx, needed, found, out)
	}
	c.fitted = 0
	starts := c.starts(needed, c.raw(ctx), everybody, plans)
	if len(starts) == 0 {
		return nil, exact
	}
	var best *way
	for _, start := range starts {
		if w := c.keep(start, plans); w.enough && (best == nil || c.costOf(c.units(w.victims)).Compare(c.costOf(c.units(best.victims))) < 0) {
			best = w
		}
	}
	if best == nil {
		return nil, false
	}
	// The others may have room beside those that are needed. That there is a plan for these is known by now: a search for it that
	// has done enough before would not have to find it again.
	last, refusal, err := c.Sharing(plan.NewWork(mostJobWork)).Choose(ctx, c.gone(best.victims))
	if err != nil {
		return nil, false
	}
	if refusal == nil {
		c.fitted = 0
		if w := c.used(ctx, c.Attempt, last, best.victims); w.enough {
			best = w
		}
	}
	return &solution{Outcome: best.Outcome, gone: c.victims(best.victims), cost: c.costOf(c.units(best.victims))}, true
}

// way is a plan as if victims had left, each of whom is in the way of its places. It is not enough if there were too many to find that out, and
// some are not where members go.
type way struct {
	place.Outcome
	victims []evict.Pick
	enough  bool
}

// plans makes a plan as if victims had left, and says whose leaving it uses; nil if there is none.
type plans func(victims []evict.Pick) *way

// starts are sets of victims with which there is a plan. Mostly it is one: those for like members, or everybody. Where none of
// these will do it is several: everybody but those whom members must be near, or but one of those on each node; or else but one of all.
func (c *candidates) starts(needed *place.Attempt, raw []evict.RawNode, everybody []evict.Pick, plans plans) (starts []*way) {
	add := func(victims []evict.Pick) bool {
		w := plans(victims)
		if w != nil {
			starts = append(starts, w)
		}
		return w != nil
	}
	but := func(all []evict.Pick, stays func(evict.Pick) bool) []evict.Pick {
		out, _ := c.legal(slices.DeleteFunc(slices.Clone(all), stays))
		return out
	}
	var like []evict.Pick
	if choice, _ := evict.ChooseAmongGangs(needed.World, needed.Request(), raw, c.gangs); choice != nil {
		like, _ = c.legal(choice.Victims)
	}
	if add(like) || add(everybody) {
		return starts
	}
	sought := func(p evict.Pick) bool { return c.Seek(c.pod(p)) }
	if !slices.ContainsFunc(everybody, sought) {
		return nil
	}
	others := but(everybody, sought)
	if slices.ContainsFunc(others, sought) { // their gangs cannot do without those who leave
		others = slices.DeleteFunc(others, func(p evict.Pick) bool { return c.gangOf(p) > 0 })
	}
	add(others)
	byCost := slices.Clone(everybody)
	c.dearestFirst(byCost)
	for range 2 { // the dearest stays on each node, or the cheapest
		stays := map[int]bool{}
		add(but(byCost, func(p evict.Pick) bool {
			first := sought(p) && !stays[p.Node]
			stays[p.Node] = stays[p.Node] || first
			return first
		}))
		slices.Reverse(byCost)
	}
	if len(starts) > 0 {
		return starts
	}
	// Of all that there are one stays, with those without whom he cannot.
	tries := 0
	for _, u := range c.units(everybody) {
		if !slices.ContainsFunc(u.picks, sought) {
			continue
		}
		others := but(everybody, func(p evict.Pick) bool { return slices.Contains(u.picks, p) })
		for _, some := range c.spares(u) {
			if tries++; tries > mostSought || add(slices.Concat(others, some)) {
				return starts
			}
		}
	}
	return starts
}

// mostSought bounds the plans that are made to find out who must stay for members that seek one of several.
const mostSought = 32

// spareOf is how many members the gang can spare that a unit is of; 0 if it is of none, or of several.
func (c *candidates) spareOf(u departing) int {
	g := c.gangOf(u.picks[0])
	if g == 0 || slices.ContainsFunc(u.picks, func(p evict.Pick) bool { return c.gangOf(p) != g }) {
		return 0
	}
	return c.gangs[g-1].Spare
}

// spares are those of a unit who may leave all the same if the rest stays: nobody, and as many as a gang can spare on each node.
func (c *candidates) spares(u departing) (out [][]evict.Pick) {
	out = append(out, nil)
	spare := c.spareOf(u)
	if spare == 0 {
		return out
	}
	on := slices.Clone(u.picks)
	for len(on) > 0 {
		node := on[0].Node
		here := slices.DeleteFunc(slices.Clone(on), func(p evict.Pick) bool { return p.Node != node })
		out = append(out, here[:min(len(here), spare)])
		on = slices.DeleteFunc(on, func(p evict.Pick) bool { return p.Node == node })
	}
	return out
}

func (c *candidates) pod(p evict.Pick) *v1.Pod { return c.here[p.Node].pods[p.Victim] }

func (c *candidates) gangOf(p evict.Pick) int { return c.here[p.Node].victims[p.Victim].Gang }

// leaving says of each gang how many of some victims are members.
func (c *candidates) leaving(victims []evict.Pick) []int {
	of := make([]int, len(c.gangs))
	for _, p := range victims {
		if g := c.gangOf(p); g > 0 {
			of[g-1]++
		}
	}
	return of
}

// legal completes victims by those who leave because of them. Of a gang that may not leave whole, or not without others
// that may not, only the cheapest are left that it can spare; all says that there is no such gang.
func (c *candidates) legal(victims []evict.Pick) (out []evict.Pick, all bool) {
	of := c.leaving(victims)
	spared := map[int]int{} // by number of such a gang, how many more may leave
	for _, part := range bundle.Apart(evict.Bundles(c.gangs), bundle.Evicted(evict.Bundles(c.gangs), of)) {
		if !slices.ContainsFunc(part, func(g int) bool { return !c.gangs[g].Whole }) {
			continue
		}
		for _, g := range part {
			spared[g+1] = c.gangs[g].Spare
		}
	}
	out = slices.Clone(victims)
	if len(spared) > 0 {
		c.dearestFirst(out)
		slices.Reverse(out)
		out = slices.DeleteFunc(out, func(p evict.Pick) bool {
			left, some := spared[c.gangOf(p)]
			if some && left > 0 {
				spared[c.gangOf(p)]--
			}
			return some && left <= 0
		})
		of = c.leaving(out)
	}
	leave := bundle.Evicted(evict.Bundles(c.gangs), of)
	out = slices.DeleteFunc(out, func(p evict.Pick) bool { g := c.gangOf(p); return g > 0 && leave[g-1] })
	for _, p := range c.everybody() {
		if g := c.gangOf(p); g > 0 && leave[g-1] {
			out = append(out, p)
		}
	}
	return out, len(spared) == 0
}

// departing is victims of whom nobody stays if one leaves.
type departing struct {
	picks   []evict.Pick
	cost    evict.Cost
	budgets []evict.Budget // each as often as they count towards it
}

// units sorts victims by who leaves with whom, the dearest first. Their order is the same for fewer victims.
func (c *candidates) units(victims []evict.Pick) (units []departing) {
	leave := bundle.Evicted(evict.Bundles(c.gangs), c.leaving(victims))
	parts := bundle.Apart(evict.Bundles(c.gangs), leave)
	partOf := map[int]int{} // by number of the gang
	for i, part := range parts {
		var u departing
		for _, g := range part {
			partOf[g+1], u.cost, u.budgets = i, u.cost.Add(c.gangs[g].Cost), append(u.budgets, c.gangs[g].Budgets...)
		}
		units = append(units, u)
	}
	for _, p := range victims {
		if i, ok := partOf[c.gangOf(p)]; ok {
			units[i].picks = append(units[i].picks, p)
			continue
		}
		v := c.here[p.Node].victims[p.Victim]
		units = append(units, departing{[]evict.Pick{p}, evict.CostOf(v), v.Budgets})
	}
	for _, u := range units {
		slices.SortFunc(u.picks, comparePicks)
	}
	slices.SortFunc(units, func(x, y departing) int {
		return cmp.Or(y.cost.Compare(x.cost), slices.CompareFunc(x.picks, y.picks, comparePicks))
	})
	return units
}

func comparePicks(x, y evict.Pick) int {
	return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Victim, y.Victim))
}

// costOf is what it costs that units leave.
func (c *candidates) costOf(units []departing) (cost evict.Cost) {
	var budgets []evict.Budget
	for _, u := range units {
		cost, budgets = cost.Add(u.cost), append(budgets, u.budgets...)
	}
	cost.Violations += evict.Violations(budgets)
	return cost
}

// picks are the victims of units.
func picks(units []departing) (out []evict.Pick) {
	for _, u := range units {
		out = append(out, u.picks...)
	}
	return out
}

// keep lets victims stay without whom there is a plan all the same: half of them at
// once as long as that goes, then one by one; who leaves with others stays with them. Of gangs that must leave all the same one
// member is tried that they can spare. Plans are bounded: after that those leave whom the last one uses.
func (c *candidates) keep(start *way, plans plans) *way {
	best, units, tries := start, c.units(start.victims), 0
	try := func(victims []evict.Pick) bool {
		tries++
		w := plans(victims)
		better := w != nil && w.enough
		if better {
			best, units = w, c.units(w.victims)
		}
		return better
	}
	for size := max(len(units)/2, 1); size > 0; size /= 2 {
		for i := 0; i < len(units) && tries < bundle.MostPutBack; {
			unit, tried := units[i], picks(units[:i])
			others := picks(slices.Delete(slices.Clone(units), i, min(i+size, len(units))))
			less := try(others)
			for _, one := range c.spared(unit, size) {
				less = less || tries < bundle.MostPutBack && try(append(slices.Clone(others), one))
			}
			if !less {
				i += size
				continue
			}
			for i = 0; i < len(units) && slices.Contains(tried, units[i].picks[0]); {
				i++
			}
		}
	}
	return best
}

// spared are those of a unit of whom one may leave alone, the cheapest first; nobody unless it is looked at by itself.
func (c *candidates) spared(u departing, size int) (out []evict.Pick) {
	if size > 1 || len(u.picks) < 2 {
		return nil
	}
	for _, p := range u.picks {
		if c.gangs[c.gangOf(p)-1].Spare > 0 {
			out = append(out, p)
		}
	}
	c.dearestFirst(out)
	slices.Reverse(out)
	return out
}

func (c *candidates) dearestFirst(out []evict.Pick) {
	slices.SortStableFunc(out, func(x, y evict.Pick) int {
		return c.here[y.Node].victims[y.Victim].Compare(c.here[x.Node].victims[x.Victim])
	})
}

// used says which of some victims a plan needs to have left, the dearest first: each is put back, with who leaves with it, where the
// members of its node have room beside it.
func (c *candidates) used(ctx context.Context, a *place.Attempt, found place.Outcome, out []evict.Pick) *way {
	if c.Dependent() {
		return c.usedTogether(ctx, a, found, out)
	}
	loads := a.Loads(found.Places)
	left := make([][]int, len(c.here))
	for _, p := range out {
		left[p.Node] = append(left[p.Node], p.Victim)
	}
	without := func(picks []evict.Pick) map[int][]int {
		fewer := map[int][]int{}
		for _, p := range picks {
			if fewer[p.Node] == nil {
				fewer[p.Node] = left[p.Node]
			}
			fewer[p.Node] = slices.DeleteFunc(slices.Clone(fewer[p.Node]), func(v int) bool { return v == p.Victim })
		}
		return fewer
	}
	may := func(picks []evict.Pick) bool {
		for node, fewer := range without(picks) {
			if !a.Holds(ctx, node, loads[node], c.here[node].without(fewer)) {
				return false
			}
		}
		return true
	}
	stay := func(picks []evict.Pick) bool {
		if !may(picks) {
			return false
		}
		for node, fewer := range without(picks) {
			left[node] = fewer
		}
		return true
	}
	units := slices.DeleteFunc(c.units(out), func(u departing) bool { return stay(u.picks) })
	for i, u := range units {
		if some := c.spareRest(u, 2*len(u.picks), may); some != nil {
			stay(some)
			units[i].picks = slices.DeleteFunc(u.picks, func(p evict.Pick) bool { return slices.Contains(some, p) })
		}
	}
	return &way{found, picks(units), true}
}

// spareRest says who of a gang that leaves whole may stay if it can spare the others, who are in the way; nobody if it cannot. So many questions are asked at
// the most.
func (c *candidates) spareRest(u departing, most int, may func(stay []evict.Pick) bool) []evict.Pick {
	spare := c.spareOf(u)
	if spare == 0 || len(u.picks) < 2 {
		return nil
	}
	byCost := slices.Clone(u.picks)
	c.dearestFirst(byCost)
	stay, _ := bundle.PutBack(byCost, most, may)
	if len(u.picks)-len(stay) > spare {
		return nil
	}
	return stay
}

// mostFitted bounds how many members are held against their places to find out who may stay beside them.
const mostFitted = 4096

// questions is how many more may be asked about so many members each, when so many were held against their places before. The first one may
// be asked however many there are: mostly all may stay who are not where members go, and nothing else is to be found out of them.
func questions(members, before int) int {
	if before == 0 {
		return max(mostFitted/max(members, 1), 1)
	}
	return (mostFitted - before) / max(members, 1)
}

// usedTogether is used where it may be another node on which somebody makes room: all members are held against their places, as long as
// that may be. Those come first who are not where members go.
func (c *candidates) usedTogether(ctx context.Context, a *place.Attempt, found place.Outcome, out []evict.Pick) *way {
	loads := a.Loads(found.Places)
	there, beside := apart(c.units(out), func(u departing) bool {
		return slices.ContainsFunc(u.picks, func(p evict.Pick) bool { return loads[p.Node] != nil })
	})
	back := map[evict.Pick]bool{}
	leave := func(stay []evict.Pick) []evict.Pick {
		stays := maps.Clone(back)
		for _, p := range stay {
			stays[p] = true
		}
		return slices.DeleteFunc(slices.Clone(out), func(p evict.Pick) bool { return stays[p] })
	}
	putThemBack := func(picks []evict.Pick) {
		for _, p := range picks {
			back[p] = true
		}
	}
	may := func(stay []evict.Pick) bool {
		c.fitted += len(found.Places)
		return a.Fits(ctx, found.Places, c.gone(leave(stay)))
	}
	most := func() int { return questions(len(found.Places), c.fitted) }
	fits := func(stay []departing) bool { return may(picks(stay)) }
	some, all := bundle.PutBack(beside, most(), fits)
	enough := all || len(some) == len(beside)
	putThemBack(picks(some))
	some, _ = bundle.PutBack(there, most(), fits)
	putThemBack(picks(some))
	for _, u := range c.units(leave(nil)) {
		putThemBack(c.spareRest(u, most(), may))
	}
	return &way{found, leave(nil), enough}
}

// apart sorts units into those that are something and the others.
func apart(units []departing, are func(departing) bool) (those, others []departing) {
	for _, u := range units {
		if are(u) {
			those = append(those, u)
		} else {
			others = append(others, u)
		}
	}
	return those, others
}
