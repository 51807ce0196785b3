package plan_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestCompare: of all plans there are, the one that is chosen comes before every other,
// and order is order.
func TestCompare(t *testing.T) {
	worlds.Check(t, 2000, []string{"in one domain", "in several domains"}, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, 8))
		w.Capacity = w.Free
		r := drawRequest(t, w)
		best, refusal := plan.Choose(w, r)
		if refusal != nil {
			return
		}
		o := newOracle(w, r)
		for _, way := range o.all() {
			other := &plan.Plan{Domain: o.domain(way)}
			for i, n := range way {
				if n > 0 {
					other.Places = append(other.Places, plan.Place{Node: i, Count: n})
				}
			}
			same := slices.Equal(way, countsOf(best, len(way)))
			c := plan.Compare(w, r, best, other)
			if c > 0 || (c == 0) != same || c != -plan.Compare(w, r, other, best) {
				t.Fatalf("%s comes before\n%s? %d", show(w, best), show(w, other), c)
			}
			y.Count("in one domain", !same && other.Domain == best.Domain && other.Count() == best.Count())
			y.Count("in several domains", other.Domain != best.Domain)
		}
	})
}

func countsOf(p *plan.Plan, nodes int) counts {
	c := make(counts, nodes)
	for _, at := range p.Places {
		c[at.Node] += at.Count
	}
	return c
}
