package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// judgeEnd checks the world when it has settled: every group that fits is bound, and no reservation is
// unused.
func (w *world) judgeEnd() error {
	for _, p := range w.sorted() {
		if p.Spec.NodeName != "" || w.members[p.Name] != "" || convert.Finished(p) || foreign(p) {
			continue
		}
		admitted := w.admits(nil, p)
		if !admitted {
			w.counts[quotaRefused]++
		}
		for _, name := range w.ready() {
			if left := w.free(name).minus(w.reserved(name, nil, convert.Priority(p), convert.NeverPreempts(p))); admitted && !left.less(needs(p)) {
				return wrong("idle pod", "%s waits, and %s has room for it", p.Name, name)
			}
		}
		w.counts[podsLeft]++
	}
	for _, group := range w.groups() {
		if held := w.heldOf(group); held > 0 {
			return wrong("restless", "%d members of %s hold places again and again", held, groupKey(group))
		}
		if err := w.judgeWaiting(group); err != nil {
			return err
		}
	}
	w.countWaiting()
	return nil
}

// ready lists the nodes that take pods, by name.
func (w *world) ready() (names []string) {
	for name, n := range w.nodes {
		if !n.Spec.Unschedulable {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// judgeWaiting: a waiting group does not fit, neither now nor without all pods that it may evict.
func (w *world) judgeWaiting(group []string) error {
	f, ok := w.fitting(group)
	if !ok {
		return nil
	}
	lowest, never := f.lowest()
	f.takeStock(group)
	switch fits, sure := f.fits(); {
	case fits && !w.admits(group, nil):
		w.counts[quotaRefused]++
		return nil
	case fits:
		return wrong("idle gang", "%s waits and fits: %s", groupKey(group), f.how())
	case !sure:
		w.counts[tooManyWays]++
		return nil
	}
	if never || f.surplus() || w.hasQuotas() { // evictions for a quota are not judged here
		w.counts[gangsUnfit]++
		return nil
	}
	for i, name := range f.nodes {
		for _, p := range w.pods {
			if p.Spec.NodeName == name && !done(p) && w.members[p.Name] == "" && w.theirs[p.Name] == "" && convert.Priority(p) < lowest &&
				!convert.Protected(p) {
				f.free[i] = f.free[i].plus(needs(p))
			}
		}
	}
	switch fits, sure := f.fits(); {
	case fits:
		return wrong("idle gang", "%s waits and would fit if others left: %s", groupKey(group), f.how())
	case !sure:
		w.counts[tooManyWays]++
	default:
		w.counts[gangsUnfit]++
	}
	return nil
}

// lowest returns the lowest priority of the waiting members, and whether one of them never preempts.
func (f *fitting) lowest() (lowest int32, never bool) {
	lowest = 1 << 30
	for _, g := range f.gangs {
		for _, p := range g.pending {
			lowest = min(lowest, convert.Priority(p))
			never = never || convert.NeverPreempts(p)
		}
	}
	return lowest, never
}

// takeStock notes what is free for the group.
func (f *fitting) takeStock(group []string) {
	lowest, never := f.lowest()
	for _, name := range f.ready() {
		f.nodes = append(f.nodes, name)
		f.free = append(f.free, f.world.free(name).minus(f.reserved(name, group, lowest, never)))
	}
}

// fitting is the question whether a group fits, for one that could be placed.
func (w *world) fitting(group []string) (*fitting, bool) {
	f := &fitting{world: w}
	anyPending := false
	for _, name := range group {
		g := w.gangs[name]
		if !w.declared(g) || !w.agreed(name) {
			return nil, false
		}
		f.rules = g.rules
		pending, bound := w.membersOf(name)
		finished := len(w.finishedOf(name))
		once := g.policy == "" || g.policy == "once-satisfied"
		if !once {
			finished = 0
		}
		if remain := len(bound) + finished; once && w.whole[name] && !w.reached[name] && remain > 0 && remain < g.min {
			return nil, false // it was whole for a moment in which nothing rested: a scheduler may know that, and the next one may not
		}
		need := max(0, g.min-len(bound))
		stand := max(0, min(g.min-len(pending)-len(bound), len(w.finishedOf(name)))) // for members that do not exist
		started := len(bound)+len(w.finishedOf(name)) >= g.min || once && w.reached[name]
		if g.inTree() { // the gang is a new run when no member remains
			started = len(bound)+stand >= g.min || once && w.reached[name] && len(bound)+stand > 0
		}
		if g.inTree() && !started && (len(pending)+len(bound)+finished < g.min || g.policy == "only-waiting" && len(pending) < g.min) {
			f.gangs = append(f.gangs, fittingGang{bound: bound, out: true, need: min(need, len(pending))})
			f.optional = true
			continue
		}
		if len(pending)+len(bound) < g.min {
			if len(pending)+len(bound)+finished < g.min && !(once && w.reached[name]) {
				return nil, false
			}
			need = min(need, len(pending)) // a replacement of a running gang starts at once
		}
		if g.policy == "only-waiting" {
			need = g.min
		}
		if g.inTree() && started && (g.policy != "only-waiting" || len(pending) == 0) {
			need = min(need, len(pending))
		}
		if len(pending) < need {
			return nil, false
		}
		anyPending = anyPending || len(pending) > 0
		reached := len(bound)+len(w.finishedOf(name)) >= g.min
		f.optional = f.optional || g.inTree()
		f.gangs = append(f.gangs, fittingGang{need: need, pending: pending, bound: bound, reached: reached, may: g.inTree() && !started})
		if g.inTree() && started {
			f.started++
		}
	}
	if !anyPending {
		return nil, false
	}
	f.least = w.least(group)
	if g := w.gangs[group[0]]; g.part > 0 {
		f.least = 0
		f.inParts(g, f.gangs[0])
		f.rules = slices.Clone(f.rules)
		for i := range f.rules {
			f.rules[i].each = false // that is all of the gang
		}
	}
	for _, r := range f.rules {
		known := r.layer == scheduling.NodeTopologyLayer || slices.Contains(w.layers, r.layer)
		switch {
		case r.must && !w.good, w.good && !known:
			return nil, false // it is rejected
		case r.multiple > 1 && slices.ContainsFunc(f.gangs, func(g fittingGang) bool { return len(g.bound) > 0 }):
			return nil, false // what a multiple means for late members is not judged
		}
	}
	if !w.good && len(f.rules) > 0 && w.exists {
		f.rules = slices.DeleteFunc(slices.Clone(f.rules), func(r ruleSpec) bool {
			return r.layer != scheduling.NodeTopologyLayer && !slices.Contains(w.layers, r.layer)
		})
	}
	return f, true
}

// fitting asks whether the pending members of some gangs can be placed: by trying.
type fitting struct {
	*world
	rules []ruleSpec
	gangs []fittingGang
	nodes []string
	free  []room

	optional       bool // some gangs are optional
	least, started int  // so many gangs are needed, and have started
	total          int  // so many members are needed in all

	at    map[*v1.Pod]string
	tries int
}

type fittingGang struct {
	need           int
	pending, bound []*v1.Pod
	reached        bool // minMember have started, without the waiting members
	may, out       bool // may be, or must be, left out; need then counts if it has started all the same
}

// spares says whether the group has started, and does not need a gang that has not.
func (f *fitting) spares(g fittingGang) bool { return (g.may || g.out) && f.started >= f.least }

// surplus reports whether no pod may be evicted for the group: the waiting members are beyond minMember.
func (f *fitting) surplus() bool {
	return f.total == 0 && !slices.ContainsFunc(f.gangs, func(g fittingGang) bool { return len(g.pending) > 0 && !g.reached && !f.spares(g) })
}

// mostTries bounds the search; a world in which it is reached is not judged.
const mostTries = 300_000

// fits says whether there is a way, and whether that is sure.
func (f *fitting) fits() (fits, sure bool) {
	f.at, f.tries = map[*v1.Pod]string{}, 0
	fits = f.place(0, 0, 0, 0)
	return fits, fits || f.tries < mostTries
}

func (f *fitting) how() (out string) {
	for _, g := range f.gangs {
		for _, p := range g.pending {
			if n := f.at[p]; n != "" {
				out += " " + p.Name + " " + n
			}
		}
	}
	return out
}

// place tries all nodes, and none, for one pending member after the other. Of equal members the later ones
// are tried on later nodes, or on none.
func (f *fitting) place(gang, member, placed, all int) bool {
	if f.tries++; f.tries >= mostTries {
		return false
	}
	if gang == len(f.gangs) {
		return all > 0 && all >= f.total && (!f.optional || f.started >= f.least) && f.obeys(true)
	}
	g := f.gangs[gang]
	if member == 0 && (g.may || g.out) {
		if f.place(gang+1, 0, 0, all) {
			return true
		}
		if g.out {
			return false
		}
		f.started++
		defer func() { f.started-- }()
	}
	if member == len(g.pending) {
		return placed >= g.need && f.place(gang+1, 0, 0, all)
	}
	if placed+len(g.pending)-member < g.need {
		return false
	}
	p := g.pending[member]
	first := 0
	if member > 0 && needs(g.pending[member-1]) == needs(p) {
		if before := f.at[g.pending[member-1]]; before != "" {
			first = slices.Index(f.nodes, before)
		} else {
			first = len(f.nodes)
		}
	}
	for i := first; i < len(f.nodes); i++ {
		if f.free[i].less(needs(p)) {
			continue
		}
		f.free[i] = f.free[i].minus(needs(p))
		f.at[p] = f.nodes[i]
		ok := f.obeys(false) && f.place(gang, member+1, placed+1, all+1)
		f.free[i] = f.free[i].plus(needs(p))
		if ok {
			return true
		}
		delete(f.at, p)
	}
	return f.place(gang, member+1, placed, all)
}

// obeys checks the topology constraints of the members that are placed so far, or of all.
func (f *fitting) obeys(all bool) bool {
	for _, r := range f.rules {
		total := map[string]int{}
		for _, g := range f.gangs {
			own := map[string]int{}
			for _, p := range g.bound {
				if f.world.nodes[p.Spec.NodeName] != nil {
					own[f.domain(p.Spec.NodeName, r.layer)]++
				}
			}
			for _, p := range g.pending {
				if n := f.at[p]; n != "" {
					own[f.domain(n, r.layer)]++
				}
			}
			for d, n := range own {
				total[d] += n
			}
			if r.each && !r.allows(own, all) {
				return false
			}
		}
		if !r.each && !r.allows(total, all) {
			return false
		}
	}
	return true
}

// allows asks one rule of the members by domain.
func (r ruleSpec) allows(by map[string]int, all bool) bool {
	if r.must && len(by) > 1 {
		return false
	}
	for _, n := range by {
		if all && n%r.multiple != 0 {
			return false
		}
	}
	return true
}
