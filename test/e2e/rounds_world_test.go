package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// round is a small cluster of its own with pods that run, and a gang that comes to it:
// two spines of nodes with 8 GPUs each.
type round struct {
	name      string
	nodes     []roundNode
	residents []resident // running pods
	teams     []runningGang
	budgets   []roundBudget
	members   int // of the gang that comes: all must run, in one spine
	gpus      int // that each of them needs
	rival     string
	podsFirst bool // the gang's pods come before its PodGroup
	grouped   bool // the running gangs are one GangGroup
	troubles

	wish  string  // what it was drawn for
	least price   // that the gang costs
	sets  [][]int // of residents that cost as little; none if the gang cannot run
}

type roundNode struct {
	name         string
	spine, block int
}

// resident is a pod that runs before the gang comes.
type resident struct {
	name, node string
	spine      int
	gpus       int
	class      string // one of roundClasses.
	protection string // the label that says that it must not be evicted, "" if none.
	team       int    // index into teams, -1 if none.
	budget     int    // index into budgets, -1 if none.
	grace      int64  // seconds.
	leaves     int    // milliseconds from the eviction to the end.
	departs    bool   // the test deletes it before the gang comes.
}

// runningGang has members among the residents; least of them are minMember.
type runningGang struct {
	name  string
	least int
}

// roundBudget is a PodDisruptionBudget: so many of its pods may leave, and each one more
// is a violation.
type roundBudget struct {
	name    string
	allowed int
}

const gpusOfNode = 8

// roundClasses are the PriorityClasses. The gang's is "gang".
var roundClasses = map[string]int32{
	"lowest": 10, "low": 1000, "middle": 2000, "high": 2500, "gang": 100000, "above": 200000,
}

// Rivals are pods that come while victims terminate, and preempt no pod.
const (
	noRival    = ""
	lowerRival = "rival-lower"
	equalRival = "rival-equal"
)

var rivalClasses = map[string]int32{lowerRival: roundClasses["lowest"], equalRival: roundClasses["gang"]}

// mayLeave says whether a resident is a possible victim.
func (v resident) mayLeave() bool {
	return !v.departs && v.protection == "" && roundClasses[v.class] < roundClasses["gang"]
}

// price is what it costs that some leave, in the order in which it counts.
type price struct {
	violations, pods int
	highest          int32
	sum              int64
}

func (p price) compare(o price) int {
	return cmp.Or(cmp.Compare(p.violations, o.violations), cmp.Compare(p.pods, o.pods),
		cmp.Compare(p.highest, o.highest), cmp.Compare(p.sum, o.sum))
}

func (p price) String() string {
	return fmt.Sprintf("%d evictions, %d of them against a budget, priorities up to %d, %d in all", p.pods, p.violations, p.highest, p.sum)
}

func (r *round) priceOf(gone []int) (p price) {
	leave := make([]int, len(r.budgets))
	for _, i := range gone {
		v := r.residents[i]
		p.pods++
		p.highest = max(p.highest, roundClasses[v.class])
		p.sum += int64(roundClasses[v.class])
		if v.budget >= 0 {
			leave[v.budget]++
		}
	}
	for b, n := range leave {
		p.violations += max(0, n-r.budgets[b].allowed)
	}
	return p
}

// cheapest is the twin: it returns the sets of the lowest price, and that.
func (r *round) cheapest() (least price, sets [][]int) {
	r.eachSet(func(gone []int, p price) {
		if c := p.compare(least); len(sets) == 0 || c < 0 {
			least, sets = p, [][]int{gone}
		} else if c == 0 && !slices.ContainsFunc(sets, func(s []int) bool { return slices.Equal(s, gone) }) {
			sets = append(sets, gone)
		}
	})
	return least, sets
}

// eachSet tries every set of possible victims of each spine, with the rest of each gang that could not go on. It calls
// found with each set that frees enough capacity; with some sets more than once.
func (r *round) eachSet(found func(gone []int, p price)) {
	for spine := range 2 {
		var here []int
		for i, v := range r.residents {
			if v.spine == spine && v.mayLeave() {
				here = append(here, i)
			}
		}
		for mask := range 1 << len(here) {
			var some []int
			for k, i := range here {
				if mask>>k&1 == 1 {
					some = append(some, i)
				}
			}
			if gone, ok := r.withGangs(some); ok && r.fits(spine, gone) {
				found(gone, r.priceOf(gone))
			}
		}
	}
}

// withGangs adds the rest of each gang that would be left with too few, wherever it is, and
// of its GangGroup.
func (r *round) withGangs(gone []int) (all []int, ok bool) {
	all = slices.Clone(gone)
	broken := func(g int) bool {
		out := r.ofTeam(g, gone)
		return len(out) > 0 && len(r.team(g))-len(out) < r.teams[g].least
	}
	together := false
	for g := range r.teams {
		together = together || r.grouped && broken(g)
	}
	for g := range r.teams {
		if !broken(g) && !together {
			continue
		}
		for _, i := range r.team(g) {
			if !r.residents[i].mayLeave() {
				return nil, false
			}
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
	}
	slices.Sort(all)
	return all, true
}

// team lists the members of a running gang that do not terminate anyway.
func (r *round) team(g int) (members []int) {
	for i, v := range r.residents {
		if v.team == g && !v.departs {
			members = append(members, i)
		}
	}
	return members
}

func (r *round) ofTeam(g int, some []int) (members []int) {
	for _, i := range some {
		if r.residents[i].team == g {
			members = append(members, i)
		}
	}
	return members
}

// fits says whether a spine has room for the gang when some have left.
func (r *round) fits(spine int, gone []int) bool {
	n := 0
	for _, node := range r.nodes {
		if node.spine == spine {
			n += r.free(node.name, gone) / r.gpus
		}
	}
	return n >= r.members
}

// free is the free capacity of a node without the pods in gone and the pods that terminate anyway.
func (r *round) free(node string, gone []int) int {
	free := gpusOfNode
	for i, v := range r.residents {
		if v.node == node && !v.departs && !slices.Contains(gone, i) {
			free -= v.gpus
		}
	}
	return free
}

// A wish is for a round of some kind.
type wish struct {
	name    string
	granted func(r *round) bool
}

// wishes are granted one after the other, again and again.
var wishes = []wish{
	{"evicts", (*round).evicts},
	{"fits", func(r *round) bool { return len(r.sets) > 0 && r.least.pods == 0 }},
	{"a gang leaves whole", func(r *round) bool { return r.everySet(r.teamsWhole, 1) }},
	{"evicts", (*round).evicts},
	{"impossible", func(r *round) bool { return len(r.sets) == 0 }},
	{"a budget decides", func(r *round) bool { return r.evicts() && r.costsLessWithout(noBudgets) }},
	{"evicts", (*round).evicts},
	{"fits when some have left anyway", func(r *round) bool {
		return len(r.sets) > 0 && r.least.pods == 0 && r.costsMoreWithout(noDepartures)
	}},
	{"a gang spares members", func(r *round) bool { return r.everySet(r.teamsSparing, 1) }},
	{"impossible in one spine, possible in two", func(r *round) bool { return len(r.sets) == 0 && r.possibleInTwo() }},
	{"a budget that allows some decides", func(r *round) bool {
		return r.evicts() && r.costsLessWithout(func(v *resident) {
			if v.budget >= 0 && r.budgets[v.budget].allowed > 0 {
				v.budget = -1
			}
		})
	}},
	{"evicts against a budget", func(r *round) bool { return r.least.violations > 0 }},
	{"evicts many", func(r *round) bool { return r.least.pods >= 4 }},
	{"a gang is avoided", func(r *round) bool {
		return r.evicts() && r.everySet(func(gone []int) int { return len(gone) - r.outsideTeams(gone) }, 0) && r.costsLessWithout(noGangs)
	}},
	{"the highest priority decides, not the sum", func(r *round) bool { return r.evicts() && r.highestDecides() }},
	{"priorities decide", func(r *round) bool { return r.evicts() && r.prioritiesDecide() }},
	{"impossible for a protected pod", func(r *round) bool { return len(r.sets) == 0 && r.possibleWithout(noProtection) }},
	{"a gang leaves whole, in both spines", func(r *round) bool { return r.everySet(r.teamsAcross, 1) }},
	{"evicts although some terminate anyway", func(r *round) bool { return r.evicts() && r.costsMoreWithout(noDepartures) }},
	{"a GangGroup leaves whole", func(r *round) bool { return r.everySet(r.groupsWhole, 1) }},
	{"evicts in either spine", func(r *round) bool { return r.evicts() && r.spinesPossible() == 2 }},
}

func (r *round) evicts() bool { return r.least.pods > 0 }

// everySet says that a number is at least, or for 0 exactly, what is wanted of each of
// the cheapest sets: what the scheduler will choose does not matter then.
func (r *round) everySet(count func(gone []int) int, want int) bool {
	return len(r.sets) > 0 && !slices.ContainsFunc(r.sets, func(s []int) bool {
		n := count(s)
		return n < want || want == 0 && n > 0
	})
}

// teamsWhole counts the gangs that leave whole.
func (r *round) teamsWhole(gone []int) (n int) {
	for g := range r.teams {
		if out := r.ofTeam(g, gone); len(out) > 0 && len(out) == len(r.team(g)) {
			n++
		}
	}
	return n
}

// teamsAcross counts the gangs that leave whole from both spines.
func (r *round) teamsAcross(gone []int) (n int) {
	for g := range r.teams {
		out := r.ofTeam(g, gone)
		if len(out) == 0 || len(out) < len(r.team(g)) {
			continue
		}
		if first := r.residents[out[0]].spine; slices.ContainsFunc(out, func(i int) bool { return r.residents[i].spine != first }) {
			n++
		}
	}
	return n
}

// teamsSparing counts the gangs that lose some members and go on.
func (r *round) teamsSparing(gone []int) (n int) {
	for g := range r.teams {
		if out := r.ofTeam(g, gone); len(out) > 0 && len(out) < len(r.team(g)) {
			n++
		}
	}
	return n
}

func (r *round) outsideTeams(gone []int) (n int) {
	for _, i := range gone {
		if r.residents[i].team < 0 {
			n++
		}
	}
	return n
}

func noBudgets(v *resident)    { v.budget = -1 }
func noGangs(v *resident)      { v.team = -1 }
func noProtection(v *resident) { v.protection = "" }
func noDepartures(v *resident) { v.departs = false }

// without is the round in which the residents are not what they are.
func (r *round) without(change func(*resident)) *round {
	other := *r
	other.residents = slices.Clone(r.residents)
	for i := range other.residents {
		change(&other.residents[i])
	}
	other.least, other.sets = other.cheapest()
	return &other
}

// costsLessWithout says whether fewer would be evicted, or other ones.
func (r *round) costsLessWithout(change func(*resident)) bool {
	other := r.without(change)
	return other.priceOf(other.sets[0]).compare(other.priceOf(r.sets[0])) < 0
}

// costsMoreWithout says whether more would be evicted, or dearer ones, or no set would do.
func (r *round) costsMoreWithout(change func(*resident)) bool {
	other := r.without(change)
	return len(other.sets) == 0 || other.least.compare(r.least) > 0
}

func (r *round) possibleWithout(change func(*resident)) bool { return len(r.without(change).sets) > 0 }

// prioritiesDecide says whether as few could be evicted at higher priorities.
func (r *round) prioritiesDecide() bool {
	return len(r.without(func(v *resident) {
		if v.class == "low" || v.class == "middle" {
			v.class = "high"
		}
	}).sets) > len(r.sets)
}

// highestDecides says whether another set has as few victims and a lower sum of priorities.
func (r *round) highestDecides() (does bool) {
	r.eachSet(func(_ []int, p price) {
		does = does || p.violations == r.least.violations && p.pods == r.least.pods && p.sum < r.least.sum
	})
	return does
}

// possibleInTwo says whether the gang could run if it did not have to gather.
func (r *round) possibleInTwo() bool {
	n := 0
	for _, node := range r.nodes {
		free := gpusOfNode
		for _, v := range r.residents {
			if v.node == node.name && !v.departs && (!v.mayLeave() || v.team >= 0) {
				free -= v.gpus
			}
		}
		n += free / r.gpus
	}
	return n >= r.members
}

// spinesPossible counts the spines that evictions can make room in.
func (r *round) spinesPossible() (n int) {
	for spine := range 2 {
		other := *r
		other.nodes = slices.DeleteFunc(slices.Clone(r.nodes), func(n roundNode) bool { return n.spine != spine })
		if _, sets := other.cheapest(); len(sets) > 0 {
			n++
		}
	}
	return n
}

// drawRounds draws n rounds. Each has random numbers of its own.
func drawRounds(seed uint64, n int) (out []*round, err error) {
	for i := range n {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		w := wishes[i%len(wishes)]
		const tries = 100000
		r := drawRound(random, i)
		for try := 0; !w.granted(r); try++ {
			if try == tries {
				return nil, fmt.Errorf("none of %d rounds is one where %s", tries, w.name)
			}
			r = drawRound(random, i)
		}
		r.wish = w.name
		r.drawTroubles(rand.New(rand.NewPCG(seed, 1<<32+uint64(i))))
		out = append(out, r)
	}
	return out, nil
}

// mostOfSpine bounds the residents of a spine, and so the sets that the twin tries.
const mostOfSpine = 10

func drawRound(random *rand.Rand, number int) *round {
	r := &round{name: fmt.Sprintf("r%d", number), gpus: 1 + random.IntN(gpusOfNode), podsFirst: random.IntN(4) == 0}
	for range random.IntN(3) {
		r.teams = append(r.teams, runningGang{name: fmt.Sprintf("%s-team%d", r.name, len(r.teams))})
	}
	for range random.IntN(3) {
		r.budgets = append(r.budgets, roundBudget{fmt.Sprintf("%s-budget%d", r.name, len(r.budgets)), []int{0, 0, 1, 2}[random.IntN(4)]})
	}
	// Half of the rounds have a rival, which needs time to come while victims terminate.
	r.rival = []string{noRival, noRival, lowerRival, equalRival}[random.IntN(4)]
	r.grouped = random.IntN(3) > 0 && len(r.teams) > 1
	crowded, departures := random.IntN(3) > 0, random.IntN(3) == 0
	most := 0
	for spine := range 2 {
		nodes, here := 1+random.IntN(4), 0
		for range nodes {
			n := roundNode{fmt.Sprintf("%s-n%d", r.name, len(r.nodes)), spine, random.IntN(2)}
			r.nodes = append(r.nodes, n)
			for left := gpusOfNode - random.IntN(3); left > 0 && here < mostOfSpine && (crowded || random.IntN(4) > 0); here++ {
				v := r.drawResident(random, left)
				v.node, v.spine = n.name, spine
				v.departs = departures && v.leaves > 0 && random.IntN(4) == 0
				left -= v.gpus
				r.residents = append(r.residents, v)
			}
		}
		most = max(most, nodes*(gpusOfNode/r.gpus))
	}
	for g := range r.teams {
		n := len(r.team(g))
		r.teams[g].least = max(1, n-[]int{0, 0, 1, 2}[random.IntN(4)])
	}
	r.members = 1 + random.IntN(min(most, 8))
	r.least, r.sets = r.cheapest()
	if len(r.sets) == 0 || r.least.pods == 0 {
		r.rival = noRival
	}
	return r
}

func (r *round) drawResident(random *rand.Rand, left int) resident {
	v := resident{
		name: fmt.Sprintf("%s-v%d", r.name, len(r.residents)), gpus: 1 + random.IntN(left),
		class: []string{"low", "low", "middle", "middle", "high", "high", "high", "high", "gang", "above"}[random.IntN(10)],
		team:  random.IntN(2*len(r.teams)+1) - len(r.teams) - 1, budget: random.IntN(2*len(r.budgets)+1) - len(r.budgets) - 1,
		grace: random.Int64N(4),
	}
	v.team, v.budget = max(v.team, -1), max(v.budget, -1)
	if random.IntN(12) == 0 {
		v.protection = []string{"disabled", "quota"}[random.IntN(2)]
	}
	if r.rival != noRival {
		v.grace = 1 + random.Int64N(3)
	}
	if v.grace > 0 { // the rest leave at once
		v.leaves = 500 + random.IntN(int(v.grace)*1000-499)
	}
	if v.grace > 0 && random.IntN(8) == 0 {
		v.leaves += 1500 // which may be later than it should
	}
	return v
}

// String draws the round. A mark is a GPU: "." a free one; "#" one of a pod that must stay; "~" one of a pod that
// terminates anyway; a letter one of a possible victim.
func (r *round) String() string {
	var out, legend strings.Builder
	fmt.Fprintf(&out, "%s (%s): %d members with %d GPUs, rival %q, %v, ", r.name, r.wish, r.members, r.gpus, r.rival, r.troubleNames())
	if r.losses != nil {
		fmt.Fprintf(&out, "%s are answered %d (done %v), ", r.losses.what, r.losses.code, r.losses.done)
	}
	if len(r.sets) == 0 {
		fmt.Fprintln(&out, "impossible")
	} else {
		fmt.Fprintf(&out, "%v\n", r.least)
	}
	letter := 'a'
	for i, n := range r.nodes {
		if i == 0 || n.spine != r.nodes[i-1].spine {
			fmt.Fprintf(&out, "spine %d\n", n.spine)
		}
		fmt.Fprintf(&out, "  block %d %s ", n.block, n.name)
		used := 0
		for _, v := range r.residents {
			if v.node != n.name {
				continue
			}
			mark := '#'
			switch {
			case v.departs:
				mark = '~'
			case v.mayLeave():
				mark = letter
				letter++
			}
			used += v.gpus
			out.WriteString(strings.Repeat(string(mark), v.gpus))
			fmt.Fprintf(&legend, "%c %s on %s: %s, grace %ds, leaves after %dms%s\n", mark, v.name, v.node, v.class, v.grace, v.leaves, r.about(v))
		}
		fmt.Fprintln(&out, strings.Repeat(".", gpusOfNode-used))
	}
	for _, set := range r.sets[:min(len(r.sets), 4)] {
		var names []string
		for _, i := range set {
			names = append(names, r.residents[i].name)
		}
		fmt.Fprintf(&legend, "one of the cheapest: %v\n", names)
	}
	return out.String() + legend.String()
}

// about is what is special about a resident.
func (r *round) about(v resident) (out string) {
	if v.protection != "" {
		out += ", protected"
	}
	if v.team >= 0 {
		out += fmt.Sprintf(", of %s (%d of %d needed)", r.teams[v.team].name, r.teams[v.team].least, len(r.team(v.team)))
	}
	if v.budget >= 0 {
		out += fmt.Sprintf(", under %s (%d may leave)", r.budgets[v.budget].name, r.budgets[v.budget].allowed)
	}
	return out
}
