package offer_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestMerger: curves of one number merge like wide ones, by runs or not, and steps above Dearest do not matter.
func TestMerger(t *testing.T) {
	kinds := []string{"one run each", "in runs", "step by step", "of several lengths", "capped", "free", "too dear", "some too dear"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		m := &offer.Merger{Most: offer.Slots(rapid.IntRange(0, 100).Draw(t, "most")), Dearest: math.MaxInt64}
		if worlds.Chance(t, 2, "bounded") {
			m.Dearest = int64(rapid.IntRange(0, 100).Draw(t, "dearest"))
		}
		draw := func() offer.Curve {
			c, _ := drawLong(t, 1, offer.Slots(rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "length")))
			if rapid.IntRange(0, 2).Draw(t, "raised") == 0 {
				c = c.Raise(0, int64(rapid.IntRange(1, 20).Draw(t, "by")))
			}
			return c
		}
		a, b := draw(), draw()
		first := m.Merge(a, b)
		wide := offer.Merge(a.Widen(2), b.Widen(2), m.Most)
		dear, many := 0, 0
		for n := range wide.Most() + 2 {
			got, ok := first.Price(n)
			want, can := wide.Price(n)
			if many++; can && want[0] > m.Dearest && len(slices.Collect(steps(a))) > 1 && len(slices.Collect(steps(b))) > 1 {
				can = false
				dear++
			}
			if ok != can || can && got[0] != want[0] {
				t.Fatalf("price of %d is %v (%v), not %v (%v)", n, got, ok, want, can)
			}
		}
		if second := m.Merge(b, a); !reflect.DeepEqual(first, second) {
			same(t, first, second)
		}
		straight, inRuns := offer.Runs(a) == 1 && offer.Runs(b) == 1, offer.InRuns(a, b)
		y.Count("one run each", straight && min(a.Most(), b.Most()) > 4)
		y.Count("in runs", !straight && inRuns)
		y.Count("step by step", !inRuns)
		y.Count("of several lengths", offer.Runs(a) > 2)
		y.Count("capped", a.Most()+b.Most() > m.Most)
		y.Count("free", len(slices.Collect(steps(a))) == 1)
		y.Count("too dear", dear > 0)
		y.Count("some too dear", dear > 0 && dear < many-2)
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
			same(t, made[i].Scale(3), offer.Stairs(0, width, func(yield func(offer.Slots, offer.Price) bool) {
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
