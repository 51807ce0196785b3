package plan_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestWithin: a search in the domains that can decide finds the plan that it finds in all, and preferences change nothing of
// what the world charges.
func TestWithin(t *testing.T) {
	kinds := []string{
		"several preferences", "some domains cannot decide", "none can", "dear", "with multiples",
		"as many digits as domains need", "of them several",
	}
	worlds.Check(t, 2000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawLarge(t)
		r := drawRequest(t, w)
		if rapid.IntRange(0, 4).Draw(t, "more than there is") == 0 {
			r.Want, r.Min = 1<<61-1, 0 // so that digits for so many do not fit beside what the world charges
		}
		narrow, wide := make([]offer.Curve, len(w.Free)), make([]offer.Curve, len(w.Free))
		makers := []*offer.Maker{{Width: 1}, {Width: 2}}
		for i := range w.Free {
			free := offer.Slots(rapid.IntRange(0, 2).Draw(t, "free"))
			makers[0].Begin(free, int(w.Free[i]))
			makers[1].Begin(free, int(w.Free[i]))
			price := int64(0)
			for n := range w.Free[i] {
				price += int64(rapid.IntRange(1, 3).Draw(t, "dearer"))
				makers[0].Add(n+1, func(to []int64) []int64 { return append(to, price) })
				makers[1].Add(n+1, func(to []int64) []int64 { return append(to, price, 0) })
			}
			narrow[i], wide[i] = makers[0].End(), makers[1].End()
		}
		s := plan.NewSearch(w, r, 1, narrow)
		need := max(r.Min, 1)
		least, ok := s.Charge(need)
		var all, some []topology.ID
		s.EachCharge(need, func(d topology.ID, p offer.Price) {
			if all = append(all, d); p.Compare(least) == 0 {
				some = append(some, d)
			}
		})
		if ok != (len(some) > 0) {
			t.Fatalf("%v, but %v", ok, some)
		}
		y.Count("none can", !ok)
		n := s.Most(least)
		if !ok || n < need {
			return
		}
		want := s.Plan(n)
		others := map[string]*plan.Search{
			"within": plan.NewSearch(w, r, 1, narrow), "all of it": plan.NewSearch(w, r, 1, narrow), "wide": plan.NewSearch(w, r, 2, wide),
		}
		others["within"].Within(some)
		others["all of it"].Within([]topology.ID{topology.Root})
		for how, o := range others {
			least := least
			if how == "wide" {
				least = append(slices.Clone(least), 0)
			}
			if p, ok := o.Charge(need); !ok || p.Compare(least) != 0 {
				t.Fatalf("%s: %v, not %v", how, p, least)
			}
			if most := o.Most(least); most != n {
				t.Fatalf("%s: %d, not %d", how, most, n)
			}
			if p := o.Plan(n); !reflect.DeepEqual(p, want) {
				t.Fatalf("%s: %s\nnot\n%s", how, show(w, p), show(w, want))
			}
		}
		y.Count("several preferences", len(r.Prefer) > 1)
		y.Count("as many digits as domains need", r.Want == 1<<61-1 && len(r.Prefer) > 0)
		y.Count("of them several", r.Want == 1<<61-1 && len(r.Prefer) > 1)
		y.Count("some domains cannot decide", len(some) < len(all))
		y.Count("dear", least[0] > 3)
		y.Count("with multiples", slices.Max(r.Multiple) > 1)
	})
}
