package plan_test

import (
	"slices"
	"testing"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestRules: of each pair of plans the first comes first, by the rule that is named, and by
// none before it.
func TestRules(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, []topology.Node{
		{Name: "n0", Path: []string{"s1", "b1"}},
		{Name: "n1", Path: []string{"s1", "b1"}},
		{Name: "n2", Path: []string{"s1", "b2"}},
		{Name: "n3", Path: []string{"s1", "b2"}},
		{Name: "n4", Path: []string{"s2", "b3"}},
		{Name: "n5", Path: []string{"s2", "b3"}},
		{Name: "n6", Path: []string{"s2", "b4"}},
		{Name: "n7", Path: []string{"s2", "b5"}},
	})
	w := plan.World{Tree: tree, Capacity: []offer.Slots{9, 8, 8, 8, 8, 8, 8, 8}}
	r := plan.Request{Prefer: plan.PreferGather(2)}
	on := func(nodes ...int) *plan.Plan {
		p := &plan.Plan{}
		for _, n := range nodes {
			p.Places = append(p.Places, plan.Place{Node: n, Count: 1})
		}
		p.Domain, _ = tree.Enclosing(slices.Values(nodes))
		return p
	}
	penalty := []int64{0, 0, 0, 0, 1, 1, 0, 0}
	attract := []offer.Slots{1, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		rule        plan.Rule
		first, last *plan.Plan
		attract     []offer.Slots
		penalty     []int64
		room        []offer.Slots
	}{
		{rule: plan.ByMembers, first: on(0, 4, 6, 7), last: on(0, 1)},
		{rule: plan.ByDepth, first: on(0, 1), last: on(4, 6)},
		{rule: plan.ByPreferences, first: on(0, 1, 2), last: on(4, 6, 7)},
		{rule: plan.ByAttraction, first: on(0, 1), last: on(4, 5), attract: attract},
		{rule: plan.BySoft, first: on(0, 1), last: on(4, 5), penalty: penalty},
		{rule: plan.ByBinpack, first: on(4, 5), last: on(0, 1)},
		{rule: plan.ByFill, first: on(0, 1, 2), last: on(0, 2, 3)},
		{rule: plan.ByNames, first: on(2, 3), last: on(4, 5), room: make([]offer.Slots, 8)},
		{rule: "", first: on(0, 1), last: on(1, 0)},
	} {
		w := w
		w.Penalty = c.penalty
		if w.Attract = c.attract; c.room != nil {
			w.Capacity = c.room
		}
		j := plan.NewJudge(w, r)
		rule, o := j.Decide(c.first, c.last)
		back, other := j.Decide(c.last, c.first)
		if rule != c.rule || back != c.rule || o != -other || o > 0 || (o == 0) != (c.rule == "") {
			t.Errorf("%s: decided by %q (%d), the other way by %q (%d)", c.rule, rule, o, back, other)
		}
		if plan.Compare(w, r, c.first, c.last) != o {
			t.Errorf("%s: Compare differs", c.rule)
		}
		j.Last = plan.ByMembers
		if rule, _ := j.Decide(c.first, c.last); (rule != "") != (c.rule == plan.ByMembers) {
			t.Errorf("%s: decided by %q, though only members count", c.rule, rule)
		}
	}
}
