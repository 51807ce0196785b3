package departure

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// at returns a pod on a node, with its name as UID. A pod whose name ends in "!" is terminating.
func at(node, name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node}}
	if strings.HasSuffix(name, "!") {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return p
}

// pods makes some, of "node/name node/name".
func pods(words string) (all []*v1.Pod) {
	for word := range strings.FieldsSeq(words) {
		node, name, _ := strings.Cut(word, "/")
		all = append(all, at(node, name))
	}
	return all
}

// attempting is an attempt of a group on nodes n0, n1 and n2 with these pods, with places
// on some of the nodes.
func attempting(group gang.Ref, there string, places ...string) *place.Attempt {
	a := &place.Attempt{Net: &cache.Topology{}, Group: &cache.Group{Group: gang.Group{Key: group, Places: map[string]string{}}}}
	var nodes []topology.Node
	for _, name := range []string{"n0", "n1", "n2"} {
		nodes = append(nodes, topology.Node{Name: name})
		n := framework.NewNodeInfo()
		n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for _, p := range pods(there) {
			if p.Spec.NodeName == name {
				n.AddPod(p)
			}
		}
		a.Nodes = append(a.Nodes, n)
	}
	a.Net.Tree = topology.Build(nil, nodes)
	for i, node := range places {
		a.Group.Places["want-"+string(rune('0'+i))] = node
	}
	return a
}

// leave lists the pods that an attempt counts as terminating.
func leave(a *place.Attempt) string {
	var out []string
	for _, n := range a.Nodes {
		if n == nil {
			continue
		}
		for _, p := range n.GetPods() {
			if p.GetPod().DeletionTimestamp != nil {
				out = append(out, p.GetPod().Name)
			}
		}
	}
	return strings.Join(out, " ")
}

var (
	gangG = gang.Ref{Source: "podgroup", Namespace: "ns", Name: "g"}
	gangH = gang.Ref{Source: "podgroup", Namespace: "ns", Name: "h"}
)

// A victim counts as terminating in every attempt until it is seen terminating, is gone, or is spared.
func TestVictimsCountAsTerminatingBeforeTheyAreSeen(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		then   func(v *Victims, e int) // after the eviction of x on n0 and y on n1 for g
		there  string                  // when h looks, ten seconds later
		avoid  bool                    // n1 is left out
		leave  string                  // the pods that terminate for h
		remain string                  // the remembered victims
	}{
		"not seen yet": {there: "n0/x n1/y n1/z", leave: "x y", remain: "x y"},
		"one is gone":  {there: "n1/y", leave: "y", remain: "y"},
		"seen leaving": {
			there: "n0/x n1/z", then: func(v *Victims, _ int) { v.addVictims(pods("n1/z!"), 7, time.Time{}) }, leave: "x", remain: "x",
		},
		"a node to avoid says none": {there: "n0/x n1/y", avoid: true, leave: "x", remain: "x y"},
		"one stays after all": {
			there: "n0/x n1/y", then: func(v *Victims, e int) { v.Spare(pods("n0/x"), e, now) }, leave: "y", remain: "y",
		},
		"others have asked it since": {there: "n0/x n1/y", then: func(v *Victims, e int) {
			v.Expect(pods("n0/x"), now.Add(time.Minute), v.nextNumber())
			require.Empty(t, v.Spare(pods("n0/x"), e, now))
		}, leave: "x y", remain: "x y"},
		"others have asked it before": {there: "n0/x n1/y", then: func(v *Victims, e int) {
			other := v.nextNumber()
			v.addAdditional(gangG, e, pods("n2/w"))
			require.Empty(t, v.Spare(pods("n1/y n2/w"), other, now))
			require.Len(t, v.Spare(pods("n2/w"), e, now), 1)
		}, leave: "x y", remain: "x y"},
		"for two, and the first needs it no more": {there: "n0/x n1/y", then: func(v *Victims, e int) {
			v.recordReservation(gangH, pods("n0/x"))
			require.Empty(t, v.Spare(pods("n0/x"), e, now))
		}, leave: "x y", remain: "x y"},
		"for two, and the second needs it no more": {there: "n0/x n1/y", then: func(v *Victims, _ int) {
			require.Empty(t, v.Spare(pods("n0/x"), v.recordReservation(gangH, pods("n0/x")), now))
		}, leave: "x y", remain: "x y"},
		"for two, and neither needs it": {there: "n0/x n1/y", then: func(v *Victims, e int) {
			other := v.recordReservation(gangH, pods("n0/x"))
			require.Empty(t, v.Spare(pods("n0/x"), e, now))
			require.Len(t, v.Spare(pods("n0/x"), other, now), 1)
		}, leave: "y", remain: "y"},
		"the group has its places": {there: "n0/x n1/y", then: func(v *Victims, _ int) { v.Forget(gangG) }, leave: "x y", remain: "x y"},
		"not heard of, and in time": {
			there: "n2/w", then: func(v *Victims, _ int) { v.Expect(pods("n2/w"), now.Add(11*time.Second), other) }, leave: "w", remain: "w",
		},
		"not heard of for too long": {there: "n2/w", then: func(v *Victims, _ int) { v.Expect(pods("n2/w"), now.Add(10*time.Second), other) }},
		"a node that is gone":       {then: func(v *Victims, _ int) { v.addVictims(pods("n9/q"), 7, time.Time{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Victims{}
			e := v.recordReservation(gangG, pods("n0/x n1/y"))
			if c.then != nil {
				c.then(v, e)
			}
			a := attempting(gangH, c.there)
			untouched := a.Nodes
			if c.avoid {
				a.Nodes = []fwk.NodeInfo{a.Nodes[0], nil, a.Nodes[2]}
			}
			v.Depart(t.Context(), a, now.Add(10*time.Second), nil)
			require.Equal(t, c.leave, leave(a))
			require.Empty(t, leave(&place.Attempt{Nodes: untouched}), "the layout's nodes are not changed")
			for uid := range v.pending {
				require.Contains(t, strings.Fields(c.remain), string(uid))
			}
			require.Len(t, v.pending, len(strings.Fields(c.remain)))
		})
	}
}

// Several choices of a gang are searched one after the other, also with nodes left out. The victims of one choice
// stay remembered for the next choice and for later attempts.
func TestVictimsAreRememberedAcrossChoices(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, out := range map[string]map[int]fwk.NodeInfo{"no node is left out": nil, "one is": {2: nil}} {
		t.Run(name, func(t *testing.T) {
			v := &Victims{}
			v.recordReservation(gangG, pods("n0/x n0/y"))
			a := attempting(gangH, "n0/x n0/y n0/z")
			a.Replace(out)
			for range 2 {
				choice := a.For(a.Group.Pending)
				v.Depart(t.Context(), choice, now, nil)
				require.ElementsMatch(t, []string{"x", "y"}, strings.Fields(leave(choice)))
			}
			later := attempting(gangH, "n0/x n0/y n0/z") // the API server takes its time
			v.Depart(t.Context(), later, now, nil)
			require.ElementsMatch(t, []string{"x", "y"}, strings.Fields(leave(later)))
		})
	}
}

// A gang waits for the victims on its reserved nodes, and for no other pods.
func TestGangWaitsForVictimsOnReservedNodes(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		asked, by string
		there     string
		places    []string
		waits     string
	}{
		"asked, not seen":       {asked: "n0/x", there: "n0/x n0/other", places: []string{"n0"}, waits: "x"},
		"seen leaving":          {there: "n0/x!", places: []string{"n0"}, waits: "x!"},
		"on another node":       {asked: "n1/x", there: "n1/x", places: []string{"n0"}},
		"no victims":            {there: "n0/x", places: []string{"n0"}},
		"asked by another gang": {asked: "n0/x", by: "h", there: "n0/x", places: []string{"n0"}, waits: "x"},
		"two places on a node":  {asked: "n0/x", there: "n0/x", places: []string{"n0", "n0"}, waits: "x"},
		"a place that is gone":  {asked: "n9/x", there: "n0/y", places: []string{"n9"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Victims{}
			by := gangG
			if c.by != "" {
				by = gangH
			}
			v.recordReservation(by, pods(c.asked))
			a := attempting(gangG, c.there, c.places...)
			leaving := v.Leaving(a, now)
			require.Equal(t, c.waits, namesOf(slices.Concat(leaving.own...)))
			require.Equal(t, leaving.own, leaving.everywhere)
			require.Equal(t, c.waits != "", leaving.Any())
			for _, p := range pods(c.asked) {
				require.True(t, v.Terminates(p, now))
			}
		})
	}
}

// When a reservation is lost, victims without an eviction request do not count as terminating any more.
func TestVictimsAreSparedWhenReservationIsLost(t *testing.T) {
	group := gang.Ref{Name: "g"}
	pod := func(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	one, other, now := pod("one"), pod("other"), time.Now()
	v := &Victims{}
	n := v.recordReservation(group, []*v1.Pod{one, other})
	later := v.nextNumber()
	v.Expect([]*v1.Pod{other}, now.Add(time.Hour), later)
	require.True(t, v.Terminates(one, now))
	v.Abandon(group)
	require.False(t, v.Terminates(one, now))
	require.True(t, v.Terminates(other, now), "another eviction has requested it since")
	require.False(t, v.current(group, n))
	v.Abandon(group)

	n = v.recordReservation(group, []*v1.Pod{one})
	v.recordAccepted(group, n, one)
	v.Abandon(group)
	require.True(t, v.Terminates(one, now), "the API server has accepted its eviction")
	require.True(t, v.current(group, n))
}

// A victim that does not terminate in time makes the waiting gang avoid its node. A victim without an accepted
// eviction does not.
func TestNodeOfOverdueVictimIsAvoided(t *testing.T) {
	v := &Victims{}
	e := v.recordReservation(gangG, pods("n0/x n1/y"))
	v.recordAccepted(gangG, e, at("n0", "x"))
	v.recordAccepted(gangG, e-1, at("n1", "y")) // of an eviction before
	v.recordAccepted(gangH, e, at("n1", "y"))   // of another group
	a := attempting(gangG, "n0/x n1/y n2/z")
	avoided := func(g gang.Ref) (out []string) {
		avoid := v.Avoid(g)
		for _, n := range a.Nodes {
			if avoid != nil && avoid(n) {
				out = append(out, n.Node().Name)
			}
		}
		return out
	}
	require.Empty(t, avoided(gangG), "they have time")
	v.Overdue(gangG)
	require.Equal(t, []string{"n0"}, avoided(gangG))
	require.Empty(t, avoided(gangH))
	require.False(t, v.current(gangG, e))
	v.Overdue(gangG) // of nothing
	require.Equal(t, []string{"n0"}, avoided(gangG))
	v.Forget(gangG)
	require.Empty(t, avoided(gangG))
}

// An answer to an eviction that another eviction has replaced is ignored.
func TestReplacedEvictionIsIgnored(t *testing.T) {
	v := &Victims{}
	now := time.Unix(1000, 0)
	first := v.recordReservation(gangG, pods("n0/x"))
	other := v.recordReservation(gangH, pods("n1/y"))
	second := v.recordReservation(gangG, pods("n0/z"))
	require.False(t, v.current(gangG, first))
	require.True(t, v.current(gangG, second))
	require.True(t, v.current(gangH, other))
	require.False(t, v.current(gangH, second))
	require.Empty(t, v.Spare(pods("n0/z"), first, now), "the second has asked it")
	require.True(t, v.evictions[gangG].pods["z"])
	require.Len(t, v.Spare(pods("n0/z"), second, now), 1)
	require.False(t, v.evictions[gangG].pods["z"])
	require.False(t, v.Terminates(at("n0", "z"), now))
}

// Two preemptors have the same victim. The second waits, and requests the eviction only if the first one failed.
func TestVictimIsRequestedByOnePreemptorAtATime(t *testing.T) {
	for _, taken := range []bool{true, false} {
		v := &Victims{}
		victim := pods("n0/x")
		v.recordReservation(gangG, victim)
		v.recordReservation(gangH, victim)
		is, done := v.lockRequest(victim[0])
		require.False(t, is)
		require.Len(t, v.NotRequested(victim, time.Now()), 1)
		second := make(chan bool)
		go func() {
			is, done := v.lockRequest(victim[0])
			done(is)
			second <- is
		}()
		done(taken)
		require.Equal(t, taken, <-second)
		require.Equal(t, taken, len(v.NotRequested(victim, time.Now())) == 0)
	}
}
