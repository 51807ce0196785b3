package company

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	_ "github.com/muster-scheduler/muster/test/seed"
	"github.com/muster-scheduler/muster/test/worlds"
)

// started is the slow twin of a search: everybody takes each domain that takes it, one after
// the other, and the best outcome counts, members first and then who, by queue.
func started(free, others []offer.Slots) (members offer.Slots, who []bool) {
	if len(others) == 0 {
		return 0, nil
	}
	better := func(m offer.Slots, w []bool) {
		switch {
		case who == nil, m > members:
			members, who = m, w
		case m == members:
			for i := range w {
				if w[i] != who[i] {
					if w[i] {
						who = w
					}
					return
				}
			}
		}
	}
	n := others[0]
	exact := slices.Contains(free, n)
	for i := range free {
		if free[i] < n || exact && free[i] != n {
			continue
		}
		left := slices.Clone(free)
		left[i] -= n
		m, w := started(left, others[1:])
		better(m+n, append([]bool{true}, w...))
	}
	if who == nil {
		m, w := started(free, others[1:])
		better(m, append([]bool{false}, w...))
	}
	return members, who
}

// best is the slow twin of mostStart.
func best(holes []Hole, may []int, members offer.Slots, others []offer.Slots) (out []int) {
	exact := func(i int) bool { return holes[i].Free == members }
	var just []int
	for _, i := range may {
		if exact(i) {
			just = []int{i}
		}
	}
	most, whom := offer.Slots(-1), ""
	for n, i := range slices.Concat(just, may) {
		var free []offer.Slots
		for k, h := range holes {
			if k == i {
				h.Free -= members
			}
			free = append(free, h.Free)
		}
		m, w := started(free, others)
		names := ""
		for _, in := range w {
			names += map[bool]string{true: "b", false: "a"}[in]
		}
		if (m > most || m == most && names > whom) && (just == nil || n == 0) {
			most, whom, out = m, names, nil
		}
		if m == most && names == whom && n >= len(just) {
			out = append(out, i)
		}
	}
	return out
}

type world struct {
	holes   []Hole
	may     []int
	members offer.Slots
	others  []offer.Slots
}

func draw(t *rapid.T) (w world) {
	for range rapid.IntRange(1, 5).Draw(t, "domains") {
		size := rapid.IntRange(0, 9).Draw(t, "size")
		w.holes = append(w.holes, Hole{Free: offer.Slots(rapid.IntRange(0, size).Draw(t, "free")), Size: offer.Slots(size)})
	}
	w.members = offer.Slots(rapid.IntRange(1, 4).Draw(t, "members"))
	for range rapid.IntRange(0, 4).Draw(t, "others") {
		w.others = append(w.others, offer.Slots(rapid.IntRange(1, 9).Draw(t, "other")))
	}
	for i, h := range w.holes {
		if h.Free >= w.members && rapid.IntRange(0, 9).Draw(t, "may") > 0 {
			w.may = append(w.may, i)
		}
	}
	return w
}

func someStart(w world) bool {
	return slices.ContainsFunc(w.others, func(n offer.Slots) bool {
		return slices.ContainsFunc(w.holes, func(h Hole) bool { return h.Free >= n })
	})
}

// TestMostStart compares with trying everything.
func TestMostStart(t *testing.T) {
	worlds.Check(t, 10000, []string{"decided", "all the same"}, func(t *rapid.T, y worlds.Tally) {
		w := draw(t)
		want := w.may
		if len(w.may) > 0 && someStart(w) {
			want = best(w.holes, w.may, w.members, w.others)
		}
		got := mostStart(w.holes, w.may, w.members, w.others)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, tried one by one: %v", w, got, want)
		}
		y.Count("decided", len(got) < len(w.may))
		y.Count("all the same", len(w.others) > 0 && len(got) == len(w.may))
	})
}

// TestMostStartAmongAlike is TestMostStart for more domains than anybody could want, most of them alike.
func TestMostStartAmongAlike(t *testing.T) {
	worlds.Check(t, 1500, []string{"decided", "all the same"}, func(t *rapid.T, y worlds.Tally) {
		w := world{members: offer.Slots(1 + worlds.Even(t, 4, "members"))}
		sizes := []offer.Slots{0, 2, 3, 4, 5, 7}[worlds.Even(t, 4, "from"):]
		for i := range 5 + worlds.Even(t, 4, "domains") {
			free := sizes[worlds.Even(t, 3, "free")]
			if w.holes = append(w.holes, Hole{free, free}); free >= w.members {
				w.may = append(w.may, i)
			}
		}
		for range 1 + worlds.Even(t, 3, "others") {
			w.others = append(w.others, offer.Slots(worlds.Even(t, 8, "other"))) // nobody is no trouble either
		}
		want := w.may
		if len(w.may) > 0 && someStart(w) {
			want = best(w.holes, w.may, w.members, w.others)
		}
		got := mostStart(w.holes, w.may, w.members, w.others)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, tried one by one: %v", w, got, want)
		}
		y.Count("decided", len(got) < len(w.may))
		y.Count("all the same", len(got) == len(w.may))
	})
}

// TestBestOf: of those with which most start the ones remain in which fewest could be for whom there is no room. What is
// returned is some of what may be, in the same order, in whatever order domains stand; and who never fits decides
// nothing.
func TestBestOf(t *testing.T) {
	worlds.Check(t, 4000, []string{"in the way"}, func(t *rapid.T, y worlds.Tally) {
		w := draw(t)
		before := slices.Clone(w.may)
		got, start := Best(w.holes, w.may, w.members, w.others), mostStart(w.holes, w.may, w.members, w.others)
		require.Equal(t, before, w.may, "what was given is changed")
		fewest, want := len(w.others)+1, []int(nil)
		for _, i := range start {
			n := hindered(w, i)
			if n < fewest {
				fewest, want = n, nil
			}
			if n == fewest {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v of %v, and not %v", w, got, start, want)
		}
		y.Count("in the way", len(got) < len(start))
		require.Equal(t, got, Best(w.holes, w.may, w.members, append(slices.Clone(w.others), 10)), "nobody could ever take 10")

		n := len(w.holes)
		turned := world{holes: slices.Clone(w.holes)}
		slices.Reverse(turned.holes)
		for _, i := range slices.Backward(w.may) {
			turned.may = append(turned.may, n-1-i)
		}
		var back []int
		for _, i := range slices.Backward(Best(turned.holes, turned.may, w.members, w.others)) {
			back = append(back, n-1-i)
		}
		require.Equal(t, got, back)
	})
}

// hindered counts those whom no domain takes and this one could, with nobody in it.
func hindered(w world, i int) (all int) {
	for _, n := range w.others {
		fits := slices.ContainsFunc(w.holes, func(h Hole) bool { return h.Free >= n })
		if !fits && w.holes[i].Size >= n {
			all++
		}
	}
	return all
}

// TestNobodyIsKeptOut: no hole is broken so that four do not fit into it any more and five others start.
func TestNobodyIsKeptOut(t *testing.T) {
	require.Equal(t, []int{0}, Best([]Hole{{2, 2}, {5, 5}}, []int{0, 1}, 2, []offer.Slots{4, 2, 3}))
}

// TestAlikeAndLarger: where there are more domains alike than anybody could want, the larger ones behind them count all the same: with one of
// them taken the other is there for four.
func TestAlikeAndLarger(t *testing.T) {
	holes := []Hole{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {4, 4}, {4, 4}}
	may := []int{0, 1, 2, 3, 4, 5, 6}
	require.Equal(t, may, Best(holes, may, 1, []offer.Slots{1, 4}))
}

// TestBounded: a search that cannot be finished ends, always in the same way, and what it finds
// is no worse than what the smallest domains would have given.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w world
		for i := range rapid.IntRange(20, 60).Draw(t, "domains") {
			free := offer.Slots(rapid.IntRange(5, 64).Draw(t, "free"))
			w.holes = append(w.holes, Hole{free, 64})
			if free >= 5 {
				w.may = append(w.may, i)
			}
		}
		for range 40 {
			w.others = append(w.others, offer.Slots(rapid.IntRange(2, 64).Draw(t, "other")))
		}
		s := newSearch(w.holes, w.others)
		smallest := slices.Min(s.free)
		s.steps = 0
		simple := s.from(smallest, 5, outcome{})
		s.steps = steps
		searched := s.from(smallest, 5, outcome{})
		if searched.compare(simple) < 0 {
			t.Fatalf("%v is worse than %v", searched, simple)
		}
		if s.steps < -Most*Most {
			t.Fatalf("%d steps too many", -s.steps)
		}
		require.Equal(t, Best(w.holes, w.may, 5, w.others), Best(w.holes, w.may, 5, w.others))
	})
}

// BenchmarkBest: on a thousand domains of which some take everybody, and on sixty that do not suffice, where it ends
// with its steps.
func BenchmarkBest(b *testing.B) {
	for name, domains := range map[string]int{"room for all": 1000, "room for some": 60} {
		var holes []Hole
		var may []int
		for i := range domains {
			free := 3 + i*7%61
			if domains < 1000 {
				free = 3 + i*7%29
			}
			if holes = append(holes, Hole{offer.Slots(free), 64}); free >= 5 {
				may = append(may, i)
			}
		}
		var others []offer.Slots
		for i := range Most {
			others = append(others, offer.Slots(20+i*13%11))
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Best(holes, may, 5, others)
			}
		})
	}
}
