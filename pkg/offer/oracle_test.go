package offer_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// reaches tries every count on every node and notes the totals of each domain where
// all domains below obey their multiples.
func reaches(t *topology.Tree, free []offer.Slots, m offer.Multiples) []worlds.Reach {
	out := make([]worlds.Reach, t.Len())
	counts := make([]offer.Slots, len(free))
	for {
		legal := make([]bool, t.Len())
		for d := topology.ID(t.Len() - 1); d >= topology.Root; d-- {
			n := worlds.Total(t, counts, d)
			l := t.Layer(d)
			legal[d] = m[l] <= 1 || n%m[l] == 0
			for k := range t.Children(d) {
				legal[d] = legal[d] && legal[k]
			}
			if legal[d] {
				out[d] |= 1 << n
			}
		}
		i := 0
		for i < len(counts) && counts[i] == free[i] {
			counts[i] = 0
			i++
		}
		if i == len(counts) {
			return out
		}
		counts[i]++
	}
}

// TestRoll: the offer is the largest possible total. Every multiple of the step up to it is possible, and no other
// total.
func TestRoll(t *testing.T) {
	kinds := []string{"multiples", "rounded", "steps above their multiple", "beyond any count"}
	worlds.Check(t, 2000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, rapid.SampledFrom([]int{1, 3, 5, 7}).Draw(t, "most")).Build()
		free := make([]offer.Slots, tree.NumNodes())
		worlds.Fill(t, free, 200)
		m := worlds.Multiples(t, tree)
		steps := m.Steps(tree.Depth() + 1)
		got, want := offer.Roll(tree, free, steps), reaches(tree, free, m)
		for d := topology.Root; int(d) < tree.Len(); d++ {
			step := steps[tree.Layer(d)]
			for n := range offer.Slots(64) {
				if want[d].Has(n) != (n <= got[d] && n%step == 0) {
					t.Fatalf("%s offers %d in steps of %d, but %d can be reached: %v", tree.Path(d), got[d], step, n, want[d].Has(n))
				}
			}
		}
		if quick := worlds.Reaches(tree, free, m); !slices.Equal(quick, want) {
			t.Fatalf("worlds.Reaches says %b, not %b", quick, want)
		}
		y.Count("multiples", slices.Max(m) > 1)
		y.Count("beyond any count", worlds.BeyondCount(m))
		y.Count("rounded", got[0] < offer.Sum(tree, free)[0])
		y.Count("steps above their multiple", slices.ContainsFunc(m, func(n offer.Slots) bool { return n > 1 && steps[slices.Index(m, n)] > n }))
	})
}

// TestCommon: the least number that both divide, by numbers of any size; beyond the largest
// number there is, the largest stands for it.
func TestCommon(t *testing.T) {
	worlds.Check(t, 2000, []string{"counted", "beyond"}, func(t *rapid.T, y worlds.Tally) {
		a, b := worlds.Multiple(t), worlds.Multiple(t)
		if rapid.Bool().Draw(t, "small") {
			a, b = a%100+1, b%100+1
		}
		if offer.Common(a, 0) != a || offer.Common(0, a) != a {
			t.Fatalf("0 is a multiple to ask for beside %d", a)
		}
		up, ok := offer.Up(b, a)
		if ok && (up < b || up-b >= a || up%a != 0) || !ok && b-b%a <= math.MaxInt64-a {
			t.Fatalf("%d is %d %v in multiples of %d", b, up, ok, a)
		}
		got := offer.Common(a, b)
		if other := offer.Common(b, a); other != got {
			t.Fatalf("common of %d and %d is %d, the other way %d", a, b, got, other)
		}
		product := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
		product.Div(product, new(big.Int).GCD(nil, nil, big.NewInt(int64(a)), big.NewInt(int64(b))))
		want := offer.Slots(math.MaxInt64)
		if product.IsInt64() {
			want = offer.Slots(product.Int64())
		}
		if got != want {
			t.Fatalf("common of %d and %d is %d, not %s", a, b, got, product)
		}
		y.Count("counted", want < 1000)
		y.Count("beyond", !product.IsInt64())
	})
}

// flight is the twin of a curve: the price of each count, one by one.
type flight map[offer.Slots]offer.Price

func drawCurve(t *rapid.T, width int) (offer.Curve, flight) {
	free := offer.Slots(rapid.IntRange(0, 3).Draw(t, "free"))
	var steps []offer.Slots
	var prices []offer.Price
	upTo, price := free, make(offer.Price, width)
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		price = slices.Clone(price)
		i := rapid.IntRange(0, width-1).Draw(t, "column")
		price[i] += int64(rapid.IntRange(1, 3).Draw(t, "dearer"))
		for j := i + 1; j < width; j++ {
			price[j] = int64(rapid.IntRange(-3, 3).Draw(t, "price"))
		}
		upTo += offer.Slots(rapid.IntRange(0, 3).Draw(t, "more"))
		steps, prices = append(steps, upTo), append(prices, price)
	}
	c := offer.Stairs(free, width, func(yield func(offer.Slots, offer.Price) bool) {
		for i := 0; i < len(steps) && yield(steps[i], prices[i]); i++ {
		}
	})
	f := flight{}
	for n := range c.Most() + 1 {
		f[n], _ = c.Price(n)
	}
	return c, f
}

// drawLong draws a curve of up to 24 steps most of which are of one length and add no less than the one before.
func drawLong(t *rapid.T, width int, length offer.Slots) (offer.Curve, flight) {
	free := offer.Slots(rapid.IntRange(0, 3).Draw(t, "free"))
	upTo, price, add := free, make(offer.Price, width), make(offer.Price, width)
	add[0] = 1
	c := offer.Stairs(free, width, func(yield func(offer.Slots, offer.Price) bool) {
		for range rapid.IntRange(0, 24).Draw(t, "steps") {
			upTo += length
			switch rapid.IntRange(0, 7).Draw(t, "odd") {
			case 0:
				upTo += offer.Slots(rapid.IntRange(0, 2).Draw(t, "more"))
			case 1:
				add[rapid.IntRange(0, width-1).Draw(t, "column")] = int64(rapid.IntRange(1, 4).Draw(t, "adds"))
				add[0] = max(add[0], 1)
			case 2, 3:
				add[rapid.IntRange(0, width-1).Draw(t, "column")]++
			}
			if price = price.Add(add); !yield(upTo, price) {
				return
			}
		}
	})
	f := flight{}
	for n := range c.Most() + 1 {
		f[n], _ = c.Price(n)
	}
	return c, f
}

// TestLongCurves: curves of many steps are merged as they would be count by count, whether or not they can be
// merged run by run.
func TestLongCurves(t *testing.T) {
	worlds.Check(t, 2000, []string{"in runs", "with others between", "capped"}, func(t *rapid.T, y worlds.Tally) {
		width := rapid.IntRange(1, 3).Draw(t, "width")
		lengths := func(of string) offer.Slots { return offer.Slots(rapid.SampledFrom([]int{1, 1, 2}).Draw(t, of)) }
		a, fa := drawLong(t, width, lengths("length of a"))
		b, fb := drawLong(t, width, lengths("length of b"))
		if column := rapid.IntRange(0, width).Draw(t, "raise"); column < width {
			a = a.Raise(column, 1)
			for n := range a.Most() + 1 {
				fa[n], _ = a.Price(n)
			}
		}
		most := offer.Slots(rapid.IntRange(0, 150).Draw(t, "most"))
		sum := flight{}
		for m, p := range fa {
			for n, q := range fb {
				sum.cheaper(min(m+n, most), p.Add(q))
			}
		}
		for n := min(a.Most()+b.Most(), most); n > 0; n-- { // a domain that takes more also takes fewer
			sum.cheaper(n-1, sum[n])
		}
		for _, merged := range []offer.Curve{offer.Merge(a, b, most), offer.Merge(b, a, most)} {
			for n := range min(a.Most()+b.Most(), most) + 2 {
				p, ok := merged.Price(n)
				if q, can := sum[n]; ok != can || !slices.Equal(p, q) {
					t.Fatalf("price of %d is %v (%v), not %v (%v)", n, p, ok, q, can)
				}
			}
		}
		merges := width == 1 && offer.InRuns(a, b)
		y.Count("in runs", merges)
		y.Count("with others between", merges && offer.Runs(a)+offer.Runs(b) > 2)
		y.Count("capped", merges && a.Most()+b.Most() > most)
	})
}

// cheaper notes a price if there is none as low.
func (f flight) cheaper(n offer.Slots, p offer.Price) {
	if had, ok := f[n]; !ok || p.Compare(had) < 0 {
		f[n] = p
	}
}

func compare(t *rapid.T, what string, c offer.Curve, want flight) {
	for n := range offer.Slots(40) {
		p, ok := c.Price(n)
		if q, can := want[n]; ok != can || !slices.Equal(p, q) {
			t.Fatalf("%s: price of %d is %v (%v), not %v (%v)", what, n, p, ok, q, can)
		}
	}
}

// TestCurves: what is done to curves is what it would be count by count.
func TestCurves(t *testing.T) {
	worlds.Check(t, 2000, []string{"shared", "capped"}, func(t *rapid.T, y worlds.Tally) {
		width := rapid.IntRange(1, 3).Draw(t, "width")
		a, fa := drawCurve(t, width)
		b, fb := drawCurve(t, width)
		most := offer.Slots(rapid.IntRange(0, 20).Draw(t, "most"))
		sum := flight{}
		for m, p := range fa {
			for n, q := range fb {
				for fewer := range min(m+n, most) + 1 {
					sum.cheaper(fewer, p.Add(q))
				}
			}
		}
		compare(t, "merge", offer.Merge(a, b, most), sum)
		compare(t, "merge the other way", offer.Merge(b, a, most), sum)
		y.Count("shared", len(fa) > 2 && len(fb) > 2)
		y.Count("capped", a.Most()+b.Most() > most)

		step := offer.Slots(rapid.IntRange(1, 4).Draw(t, "step"))
		round := flight{}
		for n, p := range fa {
			if n%step == 0 {
				for fewer := range n + 1 {
					round.cheaper(fewer, p)
				}
			}
		}
		compare(t, "round", a.Round(step), round)

		column := rapid.IntRange(0, width-1).Draw(t, "charged")
		charged := flight{}
		for n, p := range fa {
			charged[n] = slices.Clone(p)
			if n > 0 {
				charged[n][column]++
			}
		}
		compare(t, "raise", a.Raise(column, 1), charged)
		each := flight{}
		for n := range round {
			up, _ := offer.Up(n, step)
			each[n] = slices.Clone(round[up])
			each[n][column] += int64(up / 2 * up)
		}
		compare(t, "charge", a.Round(step).Charge(step, column, func(n offer.Slots) int64 { return int64(n / 2 * n) }), each)
		wide := a.Widen(width + 1)
		for price, upTo := range wide.Steps() {
			if p := fa[upTo]; !slices.Equal(price, append(slices.Clone(p), 0)) {
				t.Fatalf("widened price of %d is %v, not %v and 0", upTo, price, p)
			}
		}
		compare(t, "a curve that others were made of", a, fa)
	})
}
