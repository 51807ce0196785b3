package evict_test

import (
	"cmp"
	"reflect"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestPrices: prices in one number add up and compare like prices in several numbers, and like costs.
func TestPrices(t *testing.T) {
	kinds := []string{"less", "equal", "more", "by priorities only", "negative", "does not fit"}
	worlds.Check(t, 5000, kinds, func(t *rapid.T, y worlds.Tally) {
		priorities := rapid.SampledFrom([][]int32{
			{7}, {0, 1, 2, 3}, {100, 300, 700}, {-2_000_000_000, 1, 2_000_000_000}, {-3, 5}, {0, 1_000_000, 2_000_000_000},
		}).Draw(t, "priorities")
		many := rapid.SampledFrom([]int{4, 12, 200_000}).Draw(t, "victims")
		var victims []evict.Victim
		for range min(many, 12) {
			v := evict.Victim{Priority: rapid.SampledFrom(priorities).Draw(t, "priority"), Pending: rapid.IntRange(0, 3).Draw(t, "waits") == 0}
			if !v.Pending {
				v.Violates = rapid.IntRange(0, 2).Draw(t, "violates") == 0
				if rapid.IntRange(0, 3).Draw(t, "counts towards a budget") == 0 {
					v.Budgets = []evict.Budget{{Name: "b"}}
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "in a bundle") == 0 {
				v = evict.InBundle(v, evict.CostOf(evict.Victim{Priority: rapid.SampledFrom(priorities).Draw(t, "priority elsewhere")}))
			}
			victims = append(victims, v)
		}
		all := victims // enough to need more bits
		for len(all) < many {
			all = append(all, all[:min(len(all), many-len(all))]...)
		}
		price, one := evict.Prices([]evict.Node{{}, {Victims: all}})
		some := func() (c evict.Cost) {
			for _, v := range victims {
				if rapid.Bool().Draw(t, "leaves") {
					c = c.Add(evict.CostOf(v))
				}
			}
			return c
		}
		a, b := some(), some()
		p, q := price(a), price(b)
		if sum := price(a.Add(b)); !reflect.DeepEqual(p.Add(q), sum) {
			t.Fatalf("%v and %v cost %v and %v, together %v", a, b, p, q, sum)
		}
		byCounts := cmp.Or(cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Requeued, b.Requeued))
		want := cmp.Or(byCounts, cmp.Compare(a.Sum, b.Sum))
		if got := p.Compare(q); got != want {
			t.Fatalf("%v and %v cost %v and %v: %d, not %d", a, b, p, q, got, want)
		}
		if len(p) != map[bool]int{true: 1, false: 3}[one] || one && p[0] < 0 {
			t.Fatal(p)
		}
		y.Count("less", want < 0)
		y.Count("equal", want == 0)
		y.Count("more", want > 0)
		y.Count("by priorities only", byCounts == 0 && want != 0)
		y.Count("negative", a.Sum < 0)
		y.Count("does not fit", !one)
	})
}

// The victims are the same with wide prices as with single numbers, also with running gangs and shared budgets.
func TestWidePricesChooseTheSameVictims(t *testing.T) {
	worlds.Check(t, 1500, []string{"evicted", "with several preferences", "gangs are evicted"}, func(t *rapid.T, y worlds.Tally) {
		w := drawSharedWorld(t)
		w.drawGangRequest(t)
		choose := func() (*evict.Eviction, bool) { return w.choose(), evict.Cheapest(w.problem()).Conclusive }
		e, exact := choose()
		back := evict.InSeveralNumbers()
		other, also := choose()
		back()
		if exact != also || !reflect.DeepEqual(e, other) {
			t.Fatalf("%+v\nin several numbers\n%+v", e, other)
		}
		if e == nil {
			return
		}
		y.Count("evicted", len(e.Victims) > 0)
		y.Count("with several preferences", len(e.Victims) > 0 && len(w.Prefer) > 1)
		y.Count("gangs are evicted", len(e.Victims) > 1 && len(w.gangs) > 0)
	})
}

// The order in which ceilings are tried does not change the victims.
func TestSearchOrderDoesNotChangeVictims(t *testing.T) {
	worlds.Check(t, 500, []string{"there", "later", "nowhere"}, func(t *rapid.T, y worlds.Tally) {
		n := rapid.IntRange(0, 20).Draw(t, "numbers")
		answer := rapid.IntRange(0, n).Draw(t, "answer")
		least := rapid.IntRange(0, answer).Draw(t, "least")
		asked := map[int]bool{}
		got := sort.Search(n, evict.AskFirst(least, func(i int) bool {
			if asked[i] || i >= n {
				t.Fatalf("%d of %d is asked about again", i, n)
			}
			asked[i] = true
			return i >= answer
		}))
		if got != answer {
			t.Fatalf("found %d, not %d", got, answer)
		}
		if answer == least && len(asked) > 1 {
			t.Fatalf("%v were asked for %d", asked, answer)
		}
		y.Count("there", answer == least && answer < n)
		y.Count("later", answer > least && answer < n)
		y.Count("nowhere", answer == n)
	})
}
