package offer_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestMerger: curves with prices of one number are merged as others are, whether they lie on the merger's stack or not.
func TestMerger(t *testing.T) {
	kinds := []string{"one run each", "in runs", "step by step", "of several lengths", "capped", "free"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		m := &offer.Merger{Most: offer.Slots(rapid.IntRange(0, 100).Draw(t, "most"))}
		draw := func() offer.Curve {
			c, _ := drawLong(t, 1, offer.Slots(rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "length")))
			if rapid.IntRange(0, 2).Draw(t, "raised") == 0 {
				c = c.Raise(0, int64(rapid.IntRange(1, 20).Draw(t, "by")))
			}
			return c
		}
		check := func(how string, got, want offer.Curve) {
			for n := range max(got.Most(), want.Most()) + 2 {
				p, ok := got.Price(n)
				if q, can := want.Price(n); ok != can || !slices.Equal(p, q) {
					t.Fatalf("%s: price of %d is %v (%v), not %v (%v)", how, n, p, ok, q, can)
				}
			}
		}
		a, b := draw(), draw()
		ab := offer.Merge(a, b, m.Most)
		check("merged", m.Merge(a, b), ab)

		// A sum of sums, of which the first lies on the stack while the second is made.
		c, d := draw(), draw()
		below := m.MergeDown(m.Height(), draw(), draw())
		kept, height := below.Clone(), m.Height()
		first := m.MergeDown(height, a, b)
		second := m.MergeDown(m.Height(), c, d)
		check("first on the stack", first, ab)
		all := m.MergeDown(height, first, second)
		check("sum of sums", all, offer.Merge(ab, offer.Merge(c, d, m.Most), m.Most))
		again := m.MergeDown(height, offer.Free(0, 1), m.MergeDown(m.Height(), c, all))
		check("sum of sums and one more", again, offer.Merge(c, offer.Merge(ab, offer.Merge(c, d, m.Most), m.Most), m.Most))
		m.Drop(height)
		check("what lies below", below, kept)

		straight, inRuns := offer.Runs(a) == 1 && offer.Runs(b) == 1, offer.InRuns(a, b)
		y.Count("one run each", straight && min(a.Most(), b.Most()) > 4)
		y.Count("in runs", !straight && inRuns)
		y.Count("step by step", !inRuns)
		y.Count("of several lengths", offer.Runs(a) > 2)
		y.Count("capped", a.Most()+b.Most() > m.Most)
		y.Count("free", len(slices.Collect(steps(a))) == 1)
	})
}

func steps(c offer.Curve) func(yield func(offer.Slots) bool) {
	return func(yield func(offer.Slots) bool) {
		for _, n := range c.Steps() {
			if !yield(n) {
				return
			}
		}
	}
}

// TestMaker: a curve is the same however many are made in one memory, and its first steps are what they are alone.
func TestMaker(t *testing.T) {
	worlds.Check(t, 300, []string{"several pieces"}, func(t *rapid.T, y worlds.Tally) {
		width := rapid.IntRange(1, 3).Draw(t, "width")
		m := offer.Maker{Width: width}
		var made, want []offer.Curve
		total := 0
		for range rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "curves") {
			free, most := offer.Slots(rapid.IntRange(0, 3).Draw(t, "free")), rapid.IntRange(0, 20).Draw(t, "steps")
			total += most
			all := func(yield func(offer.Slots, offer.Price) bool) {
				for i := range most { // one in three is of no use
					price := make(offer.Price, width)
					price[width-1] = int64(i + 1)
					if !yield(free+offer.Slots(i-i%3), price) {
						return
					}
				}
			}
			m.Begin(free, most)
			for n, p := range all {
				m.Add(n, func(to []int64) []int64 { return append(to, p...) })
			}
			made, want = append(made, m.End()), append(want, offer.Stairs(free, width, all))
		}
		for i := range made {
			same(t, made[i], want[i])
			k := 1 + i%len(slices.Collect(steps(want[i])))
			n := slices.Collect(steps(want[i]))[k-1]
			same(t, made[i].First(k), want[i].Cap(n))
			same(t, made[i].Scale(3).Clone(), offer.Stairs(0, width, func(yield func(offer.Slots, offer.Price) bool) {
				for p, n := range want[i].Steps() {
					if !yield(n, p.Add(p).Add(p)) {
						return
					}
				}
			}))
		}
		y.Count("several pieces", total+len(made) > 1<<12)
	})
}

func same(t *rapid.T, got, want offer.Curve) {
	for n := range want.Most() + 2 {
		p, ok := got.Price(n)
		if q, can := want.Price(n); ok != can || !slices.Equal(p, q) {
			t.Fatalf("price of %d is %v (%v), not %v (%v)", n, p, ok, q, can)
		}
	}
}
