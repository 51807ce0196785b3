package mixed_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/test/worlds"
)

// chosen is the slow and obvious twin of a choice between gangs: it plans for every set of them.
type chosen struct {
	mixed.World
	mixed.Job
	least, inner int // of all gangs, and of the gangs of the branch
	branch       []bool
	total        int
}

// may returns whether the gangs of a set, with the gangs that are not open, may run without the rest.
func (o *chosen) may(set choice.Set) bool {
	all, inBranch := 0, 0
	for g, in := range set {
		switch {
		case !in:
		case o.branch[g]:
			inBranch++
		default:
			all++
		}
	}
	if inBranch > 0 {
		all++
	}
	return all >= o.least && (inBranch == 0 || inBranch >= o.inner)
}

// sub returns the job of a set, or false without pending members, or with too few members.
func (o *chosen) sub(set choice.Set) (mixed.Job, []int, bool) {
	j := mixed.Job{All: o.All, Sets: o.Sets, Gangs: slices.Clone(o.Gangs)}
	var classes []int
	members := make([]int, len(o.Gangs))
	for i, c := range o.Classes {
		if set[c.Gang] {
			j.Classes, classes = append(j.Classes, c), append(classes, i)
			members[c.Gang] += len(c.Ranks)
		}
	}
	left := o.total
	for g := range j.Gangs {
		if !set[g] {
			j.Gangs[g].Need = 0
		}
		if members[g] < int(j.Gangs[g].Need) {
			return j, nil, false
		}
		left -= int(j.Gangs[g].Need)
	}
	for g := range j.Gangs {
		more := max(0, min(left, members[g]-int(j.Gangs[g].Need)))
		j.Gangs[g].Need += offer.Slots(more)
		left -= more
	}
	return j, classes, left <= 0 && len(classes) > 0
}

// best is the first plan of all sets, by the rules and then by the first gangs.
func (o *chosen) best() (best *mixed.Plan, of choice.Set, sets int) {
	w := o.World
	if w.Capacity == nil {
		w.Capacity = w.Free
	}
	for bits := range 1 << len(o.Gangs) {
		set := make(choice.Set, len(o.Gangs))
		legal := true
		for g := range set {
			set[g] = bits>>g&1 == 1
			legal = legal && (set[g] || o.Choice.Gangs[g].Open)
		}
		j, classes, ok := o.sub(set)
		if !legal || !ok || !o.may(set) {
			continue
		}
		sets++
		p, refusal := mixed.Choose(o.World, j)
		if refusal != nil {
			continue
		}
		for i := range p.Puts {
			p.Puts[i].Class = classes[p.Puts[i].Class]
		}
		order := -1
		if best != nil {
			if order = len(best.Puts) - len(p.Puts); order == 0 {
				order = mixed.Compare(w, o.Job, p, best)
			}
			if order == 0 {
				order = set.Compare(of)
			}
		}
		if order < 0 {
			best, of = p, set
		}
	}
	return best, of, sets
}

// drawChoice draws which gangs may be left out: some gangs of one level, or some that
// are of a branch that starts with so many or not at all.
func drawChoice(t *rapid.T, w mixed.World, j mixed.Job) *chosen {
	o := &chosen{World: w, Job: j, branch: make([]bool, len(j.Gangs))}
	o.least, o.inner = rapid.IntRange(0, len(j.Gangs)).Draw(t, "least"), rapid.IntRange(1, 2).Draw(t, "of the branch")
	root := choice.Level{Name: "root", Least: o.least}
	o.Choice = &choice.Choice{}
	for g, gang := range j.Gangs {
		of := choice.Gang{Above: []choice.Level{root}, Open: !worlds.Chance(t, 8, "runs"), Need: int(gang.Need), Total: 1}
		if o.branch[g] = worlds.Chance(t, 3, "in the branch"); o.branch[g] {
			of.Above = []choice.Level{{Name: "branch", Least: o.inner}, root}
		}
		for _, c := range j.Classes {
			if c.Gang == g {
				of.Members += len(c.Ranks)
			}
		}
		if of.Members == 0 {
			of.Open, of.Need, o.Gangs[g].Need = false, 0, 0
		}
		o.Choice.Gangs = append(o.Choice.Gangs, of)
	}
	if worlds.Chance(t, 3, "members in all") {
		o.total = rapid.IntRange(0, 6).Draw(t, "total")
	}
	o.Choice.Totals = []int{o.total}
	return o
}

// TestSomeGangs: with optional gangs the plan is the first of the plans for all sets of gangs. There is no plan only
// if no set has one.
func TestSomeGangs(t *testing.T) {
	kinds := []string{"refused", "all", "not all", "branch left out", "with sets", "several sets", "like gangs", "some run"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, []int{2, 4, 6}[worlds.Even(t, 3, "most")]).Build()
		kinds := 1 + worlds.Even(t, 2, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		j := drawJob(t, tree, kinds, 500)
		if worlds.Chance(t, 2, "like gangs") {
			j = likeGangs(t, j)
		}
		o := drawChoice(t, w, j)
		if !o.Choice.Any() {
			t.Skip("no choice")
		}
		want, of, sets := o.best()
		is, refusal := mixed.Choose(w, o.Job)
		if want == nil {
			assert.Nil(t, is, "%v", s)
			if refusal == nil {
				t.Fatalf("%v: %v", refusal, o.Choice)
			}
			y.Count("refused", true)
			return
		}
		if is == nil {
			t.Fatalf("refused: %v; the twin places %v of %+v, %+v", refusal, want, o.Job, o.Choice)
		}
		if fmt.Sprint(is.Domain, is.Puts) != fmt.Sprint(want.Domain, want.Puts) && (is.Domain != want.Domain || len(is.Puts) != len(want.Puts) ||
			!slices.Equal(o.in(is), o.in(want))) {
			t.Fatalf("%v, %v: want %v of %v\n%+v\n%+v", is, o.in(is), want, of, o.Job, o.Choice)
		}
		y.Count("all", !slices.Contains(of, false))
		y.Count("not all", slices.Contains(of, false))
		y.Count("with sets", len(j.Sets) > 0)
		y.Count("several sets", sets > 2)
		y.Count("some run", slices.ContainsFunc(o.Choice.Gangs, func(g choice.Gang) bool { return !g.Open }))
		for g := range of {
			y.Count("branch left out", !of[g] && o.branch[g])
			y.Count("like gangs", g > 0 && len(j.Classes) == len(j.Gangs) && fmt.Sprint(j.Gangs[g]) == fmt.Sprint(j.Gangs[0]))
		}
	})
}

// in says of which gangs members are placed.
func (o *chosen) in(p *mixed.Plan) []int {
	out := make([]int, len(o.Gangs))
	for _, put := range p.Puts {
		out[o.Classes[put.Class].Gang]++
	}
	return out
}

// likeGangs are two to four gangs of one or two members each of one kind.
func likeGangs(t *rapid.T, j mixed.Job) mixed.Job {
	out := mixed.Job{All: j.All}
	size := rapid.IntRange(1, 2).Draw(t, "size")
	for g := range rapid.IntRange(2, 4).Draw(t, "so many gangs") {
		c := mixed.Class{Gang: g}
		for i := range size {
			c.Ranks = append(c.Ranks, size*g+i)
		}
		out.Classes, out.Gangs = append(out.Classes, c), append(out.Gangs, mixed.Gang{Need: offer.Slots(size)})
	}
	if len(j.Sets) > 0 && rapid.Bool().Draw(t, "each gathers") {
		out.Sets = mixed.EachGang(len(out.Gangs), j.Sets[0].Gather)
	}
	return out
}

// TestManyGangs: many gangs, of which not all find room, are quickly told apart, and what was not
// looked at is said.
func TestManyGangs(t *testing.T) {
	var nodes []string
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf("s%d/r%d/n%d=8", i/20, i/10, i))
	}
	w := sized([]offer.Slots{1, 2, 3, 4, 5, 6, 7, 8}, nodes...)
	job := func(gangs, members int, kind func(g int) int) mixed.Job {
		j := mixed.Job{Choice: &choice.Choice{}}
		for g := range gangs {
			c := mixed.Class{Gang: g, Kind: kind(g)}
			for i := range members {
				c.Ranks = append(c.Ranks, g*members+i)
			}
			j.Classes, j.Gangs = append(j.Classes, c), append(j.Gangs, mixed.Gang{Need: offer.Slots(members)})
			j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{
				Above: []choice.Level{{Name: "root", Least: 2}}, Open: true, Need: members, Members: members,
			})
		}
		return j
	}
	p, refusal := mixed.Choose(w, job(64, 6, func(int) int { return 0 }))
	if refusal != nil || len(p.Puts) != 53*6 || p.NotAll {
		t.Errorf("%v: %v", p, refusal) // of 320 places
	}
	p, refusal = mixed.Choose(w, job(20, 3, func(g int) int { return 4 + g%4 }))
	if refusal != nil || len(p.Puts) != 13*3 {
		t.Errorf("%v: %v", p, refusal) // one on each of 40 nodes
	}
	_, refusal = mixed.Choose(w, job(20, 21, func(g int) int { return 4 + g%4 }))
	if refusal == nil || refusal.Optional == nil || *refusal.Optional != (plan.OptionalGangs{Least: 2, Of: 20}) {
		t.Errorf("%v", refusal)
	}
	assert.Contains(t, refusal.String(), "desiredOfferSlot: 42")
	assert.Contains(t, refusal.String(), "at least 2 of 20 gangs must start, each whole")
}

// TestLeastSetsInMultiples: one gang has two members, and two gangs need one each. In multiples of two the first may start alone, and the
// two others together, which may fit elsewhere.
func TestLeastSetsInMultiples(t *testing.T) {
	w := sized([]offer.Slots{1, 1}, "s0/r0/n0=2", "s0/r0/n1=2")
	j := mixed.Job{Choice: &choice.Choice{}, All: plan.Gather{Multiple: offer.Multiples{2}}}
	for g, ranks := range [][]int{{0}, {1, 2}} {
		j.Classes, j.Gangs = append(j.Classes, mixed.Class{Gang: g, Kind: g, Ranks: ranks}), append(j.Gangs, mixed.Gang{Need: 1})
		j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{
			Above: []choice.Level{{Name: "root", Least: 1}}, Open: true, Need: 1, Members: len(ranks),
		})
	}
	assert.Equal(t, []choice.Set{{false, true}, {true, true}}, j.Least(w.Tree))
}

// TestMemberCountsForItsOwnGang: two of three gangs must start. The first has one member more than it needs, and the third has members that
// are not in the job. The further member does not count for the third gang.
func TestMemberCountsForItsOwnGang(t *testing.T) {
	w := sized([]offer.Slots{1, 3}, "s0/r0/n0=2")
	j := mixed.Job{Choice: &choice.Choice{}, Gangs: []mixed.Gang{{Need: 1}, {Need: 1}, {Need: 1}}}
	j.Classes = []mixed.Class{{Gang: 0, Kind: 0, Ranks: []int{0, 1}}, {Gang: 1, Kind: 1, Ranks: []int{2}}}
	for _, members := range []int{2, 1, 1} {
		j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{
			Above: []choice.Level{{Name: "root", Least: 2}}, Open: true, Need: 1, Members: members,
		})
	}
	p, refusal := mixed.Choose(w, j)
	if refusal == nil {
		t.Fatalf("%v places one gang of the two that must start", p)
	}
	assert.Equal(t, plan.OptionalGangs{Least: 2, Of: 3}, *refusal.Optional)
}

// TestRefusalNamesTheSmallestBranch: a branch with its minimum runs. Of another branch, two of three gangs must start. The refusal counts
// two members, not all three.
func TestRefusalNamesTheSmallestBranch(t *testing.T) {
	w := sized([]offer.Slots{1}, "s0/r0/n0=1")
	j := mixed.Job{Choice: &choice.Choice{Gangs: []choice.Gang{{Above: []choice.Level{{Name: "a", Least: 1}, {Name: "root", Least: 1}}}}}}
	j.Gangs = []mixed.Gang{{}}
	for rank := range 3 {
		j.Classes = append(j.Classes, mixed.Class{Gang: rank + 1, Ranks: []int{rank}})
		j.Gangs = append(j.Gangs, mixed.Gang{Need: 1})
		j.Choice.Gangs = append(j.Choice.Gangs, choice.Gang{
			Above: []choice.Level{{Name: "b", Least: 2}, {Name: "root", Least: 1}}, Open: true, Need: 1, Members: 1,
		})
	}
	p, refusal := mixed.Choose(w, j)
	if refusal == nil {
		t.Fatalf("%v places one gang of the two that must start", p)
	}
	assert.Contains(t, refusal.String(), "desiredOfferSlot: 2,")
	assert.Equal(t, plan.OptionalGangs{Started: 1, Of: 3}, *refusal.Optional)

	j.All.Multiple = offer.Multiples{3}
	_, refusal = mixed.Choose(w, j)
	assert.Contains(t, refusal.String(), "desiredOfferSlot: 3,", "two are no multiple of 3")
}
