package place_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// on is where a plan puts members, a node after the other; "" if it has none.
func on(found place.Outcome) string {
	return strings.ReplaceAll(strings.TrimPrefix(drawn(found.Places, false), "\n"), "\n", "; ")
}

// TestModestly: n1 is reserved for a pod of lower priority than the gang. Needed members
// may use it, surplus members may not.
func TestModestly(t *testing.T) {
	for about, test := range map[string]struct{ lines, want string }{
		"all are needed": {"node s/b/n1 4\ngang a min=4\npods a 4 cpu=1 priority=5\npod x cpu=3 priority=1 nominated=n1", "n1: a-0 a-1 a-2 a-3"},
		"there is room elsewhere": {
			"node s/b/n1 4\nnode s/b/n2 3\ngang a min=2\npods a 4 cpu=1 priority=5\npod x cpu=3 priority=1 nominated=n1", "n1: a-3; n2: a-0 a-1 a-2",
		},
		"fewer have room beside": {
			"node s/b/n1 4\ngang a min=2\npods a 4 cpu=1 priority=5\npod x cpu=1 priority=1 nominated=n1", "n1: a-0 a-1 a-2",
		},
		"needed members have none": {
			"node s/b/n1 4\ngang a min=2\npods a 4 cpu=1 priority=5\npod x cpu=3 priority=1 nominated=n1", "n1: a-0 a-1",
		},
		"no pod is nominated there": {"node s/b/n1 4\ngang a min=2\npods a 4 cpu=1 priority=5\npod x cpu=3 priority=1", "n1: a-0 a-1 a-2 a-3"},
		"others are needed as others": {
			"node s/b/n1 4\ngang a min=2\npods a 2 cpu=1 priority=5\npods a 2-4 cpu=2 priority=5\npod x cpu=3 priority=1 nominated=n1",
			"n1: a-0 a-1",
		},
		"the first do not fit": {
			"node s/b/n1 3\ngang a min=2\npods a 2 cpu=2 priority=5\npods a 2-5 cpu=1 priority=5\npod x cpu=2 priority=1 nominated=n1",
			"n1: a-2 a-3",
		},
	} {
		t.Run(about, func(t *testing.T) {
			a := newWorld(t, test.lines).attempt("a")
			found, refusal, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.Nil(t, refusal)
			require.Equal(t, test.want, on(found))
		})
	}
}

// TestModest: reserved nodes may be used by the first needed members, and
// with several kinds by the first of each kind, each set once.
func TestModest(t *testing.T) {
	for about, test := range map[string]struct{ lines, want string }{
		"nothing is kept":   {"pods a 4 cpu=1 priority=5", "a-0 a-1 a-2 a-3"},
		"all are alike":     {"pods a 4 cpu=1 priority=5\npod x cpu=3 priority=1 nominated=n1", "a-0 a-1"},
		"two kinds":         {"pods a 2 cpu=1 priority=5\npods a 2-4 cpu=2 priority=5\npod x cpu=3 priority=1 nominated=n1", "a-0 a-1; a-2 a-3"},
		"too few of a kind": {"pods a 3 cpu=1 priority=5\npods a 3-4 cpu=2 priority=5\npod x cpu=3 priority=1 nominated=n1", "a-0 a-1; a-0 a-3"},
	} {
		t.Run(about, func(t *testing.T) {
			a := newWorld(t, "node s/b/n1 4\ngang a min=2\n"+test.lines).attempt("a")
			_, _, err := a.Plan(t.Context())
			require.NoError(t, err)
			var sets []string
			for _, few := range a.ReservationAttempts() {
				var who []string
				for _, m := range few.Group.Pending {
					who = append(who, name(m.Pod))
				}
				sets = append(sets, strings.Join(who, " "))
			}
			require.Equal(t, test.want, strings.Join(sets, "; "))
		})
	}
}

// TestWithout: an attempt without a node places no member there, and the original attempt still does.
func TestWithout(t *testing.T) {
	for kinds, more := range map[string]string{"one kind": "pods a 1-3 cpu=1", "two kinds": "pods a 1-3 cpu=2"} {
		t.Run(kinds, func(t *testing.T) {
			a := newWorld(t, "node s/b/n1 6\nnode s/b/n2 6\ngang a min=3\npods a 1 cpu=1\n"+more).attempt("a")
			found, _, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.Equal(t, "n1: a-0 a-1 a-2", on(found))

			some := a.Without(func(i int) bool { return a.Net.Tree.NodeName(i) == "n1" })
			left, refusal, err := some.Choose(t.Context(), nil)
			require.NoError(t, err)
			require.Nil(t, refusal)
			require.Equal(t, "n2: a-0 a-1 a-2", on(left))
			_, refusal, err = some.Without(func(int) bool { return true }).Choose(t.Context(), nil)
			require.NoError(t, err)
			require.NotNil(t, refusal)
			again, _, err := a.Choose(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, found, again, "what the first knows has not changed")
		})
	}
}

// TestLoads: the number of each kind on each node, and whether the node takes them beside its pods.
func TestLoads(t *testing.T) {
	w := newWorld(t, `
		node s/b/n1 4
		node s/b/n2 4
		pod x cpu=2 on=n2
		gang a min=3
		pods a 2 cpu=1
		pods a 2-3 cpu=2`)
	a := w.attempt("a")
	found, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.Nil(t, refusal)
	require.Equal(t, "n1: a-0 a-1 a-2", on(found))
	require.Equal(t, [][]offer.Slots{{2, 1}, nil}, a.Loads(found.Places))
	found.Places[0].Node = "n9"
	require.Equal(t, [][]offer.Slots{{1, 1}, nil}, a.Loads(found.Places), "a node is gone")

	x := []*v1.Pod{w.get("x")}
	for _, c := range []struct {
		node  int
		load  []offer.Slots
		gone  []*v1.Pod
		holds bool
	}{
		{node: 0, load: []offer.Slots{2, 1}, holds: true},
		{node: 0, load: []offer.Slots{3, 1}},
		{node: 0, load: []offer.Slots{0, 2}, holds: true},
		{node: 1, load: []offer.Slots{2, 0}, holds: true},
		{node: 1, load: []offer.Slots{2, 1}},
		{node: 1, load: []offer.Slots{2, 1}, gone: x, holds: true},
		{node: 1, load: []offer.Slots{2, 2}, gone: x},
	} {
		require.Equal(t, c.holds, a.Holds(t.Context(), c.node, c.load, c.gone), "%v on %d", c.load, c.node)
	}
}

// TestInMultiples: the need grows to complete multiples together with running members, if enough members wait. In a group
// the first gang with spare members provides them.
func TestInMultiples(t *testing.T) {
	for about, test := range map[string]struct {
		lines string
		want  []int
	}{
		"no multiples":       {"gang a min=3\npods a 5 cpu=1", []int{3}},
		"a multiple already": {"gang a min=4 multiple=BlockLayer:2\npods a 5 cpu=1", []int{4}},
		"the next one":       {"gang a min=3 multiple=BlockLayer:2\npods a 5 cpu=1", []int{4}},
		"of two layers":      {"gang a min=3 multiple=BlockLayer:2 multiple=SpineLayer:3\npods a 7 cpu=1", []int{6}},
		"too few wait":       {"gang a min=3 multiple=BlockLayer:4\npods a 3 cpu=1", []int{3}},
		"of two gangs": {
			"gang a min=2 multiple=BlockLayer:4 groups=a,c\ngang c min=1 multiple=BlockLayer:4 groups=a,c\npods a 2 cpu=1\npods c 3 cpu=1",
			[]int{2, 2},
		},
		"with running members": {"gang a min=4 multiple=BlockLayer:3\npods a 1 cpu=1\npods a 1-3 cpu=1 on=n1\npods a 3-6 cpu=1", []int{4}},
		"enough have started":  {"gang a min=1 multiple=BlockLayer:2\npods a 1 cpu=1\npods a 1-2 cpu=1 on=n1", []int{0}},
	} {
		t.Run(about, func(t *testing.T) {
			a := newWorld(t, "node s/b/n1 9\n"+test.lines).attempt("a")
			var need []int
			for _, g := range a.InMultiples(a.Group).Gangs {
				need = append(need, g.Need)
			}
			require.Equal(t, test.want, need)
		})
	}
}
