package company

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	_ "github.com/muster-scheduler/muster/test/seed"
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
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		want := w.may
		if len(w.may) > 0 && someStart(w) {
			want = best(w.holes, w.may, w.members, w.others)
		}
		got := mostStart(w.holes, w.may, w.members, w.others)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, tried one by one: %v", w, got, want)
		}
		if len(got) < len(w.may) {
			decided++
		}
	})
	require.NotZero(t, decided)
}

// TestBestOf: what is returned is some of what may be, in the same order, whoever waits and in
// whatever order domains stand; and who starts nowhere, and never will, decides nothing.
func TestBestOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before := slices.Clone(w.may)
		got := Best(w.holes, w.may, w.members, w.others)
		require.Equal(t, before, w.may, "what was given is changed")
		k := 0
		for _, i := range w.may {
			if k < len(got) && got[k] == i {
				k++
			}
		}
		if k != len(got) || (len(got) == 0) != (len(w.may) == 0) {
			t.Fatalf("%v of %v", got, w.may)
		}
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
