package place_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// led is an attempt of a gang with only its leader. The leader stands in for ahead members not yet created.
func (w *world) led(gangName string, ahead int) *place.Attempt {
	w.t.Helper()
	known, refusal := w.cache.Group(w.get(gangName + "-0"))
	require.False(w.t, refusal.Exists(), refusal)
	group := *known
	first := group.Pending[0]
	group.Pods = maps.Clone(known.Pods)
	for i := range ahead {
		m := first
		m.Pod += "~" + string(rune('1'+i))
		group.Pods[m.Pod] = known.Pods[first.Pod]
		group.Future = append(group.Future, m)
	}
	group.LeaderFirst = []gang.Ref{first.Gang}
	return w.planner.NewAttempt(&group, w.nodes(), func(fwk.NodeInfo) bool { return false })
}

// TestLeader: a leader goes to a domain with capacity for all members not yet created, and nowhere without such a domain.
// Their reserved nodes are separate from its own node.
func TestLeader(t *testing.T) {
	const nodes = "node s1/b/n1 2\nnode s2/b/n2 2\nnode s2/b/n3 2\ngang a min=1 must=SpineLayer\npods a 1 cpu=1"
	for about, c := range map[string]struct {
		ahead      int
		own, other string
	}{
		"no group follows": {0, "n1", ""},
		"one follows":      {1, "n1", "n1"},
		"three follow":     {3, "n2", "n2 n3 n3"},
		"too many":         {4, "", ""},
	} {
		t.Run(about, func(t *testing.T) {
			a := newWorld(t, nodes).led("a", c.ahead)
			found, refusal, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.own == "", refusal != nil)
			own, ahead := a.Split(found.Places)
			require.Equal(t, c.own, where(own))
			require.Equal(t, c.other, where(ahead))
			require.Len(t, a.Group.Gangs, 1)
			require.Equal(t, 1+c.ahead, a.Group.Gangs[0].Need)
		})
	}
}

// where is the nodes of places, in their order.
func where(places []gang.Assignment) string {
	var nodes []string
	for _, at := range places {
		nodes = append(nodes, at.Node)
	}
	return strings.Join(nodes, " ")
}

// TestNotLed: a gang without a leader needs its existing members only.
func TestNotLed(t *testing.T) {
	w := newWorld(t, "node s1/b/n1 2\ngang a min=1\npods a 1 cpu=1")
	known, _ := w.cache.Group(w.get("a-0"))
	require.Same(t, known, w.planner.NewAttempt(known, w.nodes(), nil).Group)
	group := *known
	group.Future = []gang.Member{known.Pending[0]}
	a := w.planner.NewAttempt(&group, w.nodes(), nil)
	require.Equal(t, 1, a.Group.Gangs[0].Need)
	require.Len(t, a.Group.Pending, 2)
}

// TestOneOfEach: beside the member that is tried, one of each other kind is named.
func TestOneOfEach(t *testing.T) {
	for lines, want := range map[string][]string{
		"pods a 3 cpu=1":                                     nil,
		"pods a 2 cpu=1\npods a 2-4 cpu=2":                   {"ns/a-2"},
		"pods a 1 cpu=1\npods a 1-2 cpu=2\npods a 2-3 cpu=3": {"ns/a-1", "ns/a-2"},
	} {
		w := newWorld(t, "node s/b/n1 9\ngang a min=2\n"+lines)
		a := w.attempt("a")
		_, _, err := a.Plan(t.Context())
		require.NoError(t, err)
		var keys []string
		for _, key := range a.OneOfEach(w.get("a-0")) {
			keys = append(keys, "ns/"+name(key))
		}
		require.Equal(t, want, keys, lines)
	}
}

// TestBare: the capacity of empty nodes, and when it is counted again.
func TestBare(t *testing.T) {
	w := newWorld(t, "node s/b/n1 4\nnode s/b/n2 3\npod x cpu=2 on=n1\ngang a min=2\npods a 2 cpu=2")
	bare := func() ([]offer.Slots, int) {
		a := w.attempt("a")
		_, _, err := a.Plan(t.Context())
		require.NoError(t, err)
		return a.Bare(t.Context())
	}
	slots, changes := bare()
	require.Equal(t, []offer.Slots{2, 1}, slots, "x does not count")
	w.leave("x")
	again, same := bare()
	require.Equal(t, slots, again)
	require.Equal(t, changes, same, "pods that leave change no node")
}
