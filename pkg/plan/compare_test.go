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
// and order is order. CompareJob agrees as far as it looks.
func TestCompare(t *testing.T) {
	worlds.Check(t, 2000, []string{"in one domain", "in several domains", "by CompareJob"}, func(t *rapid.T, y worlds.Tally) {
		w := drawWorld(t, worlds.Draw(t, 8))
		w.Room = w.Free
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
			if job := plan.CompareJob(plan.JobWorld{World: w, Penalties: [][]int64{w.Penalty}}, jobOf(w, r), puts(best), puts(other)); job != 0 && job != c {
				t.Fatalf("%s comes before\n%s? %d for a job, %d for like members", show(w, best), show(w, other), job, c)
			}
			y.Count("by CompareJob", c != 0)
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

// jobOf is the request for a job of one gang of members of one kind.
func jobOf(w plan.World, r plan.Request) plan.Job {
	return plan.Job{
		Classes: []plan.Class{{}},
		Gangs:   []plan.Gang{{Need: r.Min, Bound: w.Bound}},
		All:     plan.Gather{Must: r.Must, Prefer: r.Prefer, Multiple: r.Multiple},
	}
}

func puts(p *plan.Plan) *plan.JobPlan {
	out := &plan.JobPlan{Domain: p.Domain}
	for _, at := range p.Places {
		for range at.Count {
			out.Puts = append(out.Puts, plan.Put{Node: at.Node})
		}
	}
	return out
}
