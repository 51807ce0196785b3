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

// TestBelow: who is told how large prices are, keeps curves for others, or looks at no more domains than can decide, finds
// the plan that it finds without.
func TestBelow(t *testing.T) {
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
		charges, total := make([]offer.Curve, len(w.Free)), int64(0)
		for i := range charges {
			price := int64(0)
			charges[i] = offer.Stairs(offer.Slots(rapid.IntRange(0, 2).Draw(t, "free")), 1, func(yield func(offer.Slots, offer.Price) bool) {
				for n := range w.Free[i] {
					if price += int64(rapid.IntRange(1, 3).Draw(t, "dearer")); !yield(n+1, offer.Price{price}) {
						return
					}
				}
			})
			total += price
		}
		search := func() *plan.Search { return plan.NewSearch(w, r, 1, charges) }
		s := search()
		need := max(r.Min, 1)
		least, ok := s.Charge(need)
		all := s.Cheapest(need, func(offer.Price) bool { return true })
		some := s.Cheapest(need, func(p offer.Price) bool { return p.Compare(least) == 0 })
		if ok != (len(some) > 0) {
			t.Fatalf("%v, but %v", ok, some)
		}
		y.Count("none can", !ok)
		n := s.Most(least)
		if !ok || n < need {
			return
		}
		want := s.Plan(n)
		others := map[string]*plan.Search{"below": search(), "within": search(), "all of it": search(), "kept": search(), "kept before": search()}
		bits := 1
		for total>>bits > 0 {
			bits++
		}
		others["below"].Below(bits)
		others["within"].Within(some)
		others["all of it"].Within([]topology.ID{topology.Root})
		others["all of it"].Below(bits)
		kept := plan.Kept{}
		others["kept"].Keep(kept, nil)
		others["kept"].Plan(n)
		others["kept before"].Keep(kept, nil)
		for how, o := range others {
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
