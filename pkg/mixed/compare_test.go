package mixed_test

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestCompare: plans of like members of one gang are compared as a Judge compares them, but for how members are spread.
func TestCompare(t *testing.T) {
	worlds.Check(t, 500, []string{"decided", "not decided"}, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 2+worlds.Even(t, 4, "most")).Build()
		s, w := drawJobWorld(t, tree, 1)
		j := oneGang(1, 1+worlds.Even(t, 3, "members"))
		j.All = drawGather(t, tree, 4)
		o := newJobTwin(s, w, j)
		w.Capacity = o.Capacity
		like := w.World
		if w.Penalties != nil {
			like.Penalty = w.Penalties[0]
		}
		judge := plan.NewJudge(like, plan.Request{Want: 3, Min: 1, Must: j.All.Must, Prefer: j.All.Prefer, Multiple: j.All.Multiple})
		ways := o.all(o.legal)
		for i := range min(len(ways), 40) {
			a, b := o.planOf(ways[0]), o.planOf(ways[i])
			rule, want := judge.Decide(&plan.Plan{Domain: a.Domain, Places: places(a.Puts)}, &plan.Plan{Domain: b.Domain, Places: places(b.Puts)})
			got := mixed.Compare(w, j, a, b)
			if rule == plan.ByFill && got == 0 || rule == plan.ByNames && got == want {
				want = got
			}
			if got != want {
				t.Fatalf("%+v before %+v: %d, the judge says %d by %s\n%s", a, b, got, want, rule, o)
			}
			y.Count("decided", got != 0)
			y.Count("not decided", got == 0 && i > 0)
		}
	})
}

// planOf is a way as a plan.
func (o *jobTwin) planOf(at way) *mixed.Plan {
	p := &mixed.Plan{Domain: o.domain(at)}
	for i, node := range at {
		if node < o.Tree.NumNodes() {
			p.Puts = append(p.Puts, mixed.Put{Class: o.ranked[i].class, Node: node})
		}
	}
	return p
}
