package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/test/worlds"
)

// small is a small cluster with devices, their holders, and members that want some.
type small struct {
	nodes   []string
	objects []runtime.Object
	running map[string][]*v1.Pod // by node
	kinds   [][]*v1.Pod          // members that want the same
	order   []*v1.Pod            // one of each kind in turn
	shared  bool                 // there are devices that several nodes reach
}

// drawSmall draws one. Devices are of two types, cards are whole or halves, and some are shares.
func drawSmall(rt *rapid.T) *small {
	s := &small{running: map[string][]*v1.Pod{}, objects: []runtime.Object{deviceClass("gpu"), deviceClass("x", kindIs("x"))}}
	types := rapid.SampledFrom([]string{"x", "y"})
	devices := func(least, most int, label string) (out []resourceapi.Device) {
		for i, kind := range rapid.SliceOfN(types, least, most).Draw(rt, label) {
			d := typed(fmt.Sprint(label, i), kind)
			if rapid.IntRange(0, 7).Draw(rt, "sick") == 0 {
				d = tainted(d)
			}
			out = append(out, d)
		}
		return out
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "nodes") {
		name := fmt.Sprint("n", i)
		s.nodes = append(s.nodes, name)
		s.objects = append(s.objects, node(name))
		here := devices(0, 6, "d")
		if rapid.IntRange(0, 3).Draw(rt, "plenty") == 0 {
			here = devices(12, 20, "p") // five members want at most ten
		}
		pool := slice(name, name, here...)
		if rapid.IntRange(0, 3).Draw(rt, "card") == 0 {
			pool.Spec.Pool.ResourceSliceCount = 2
			cards := counters("cards-"+name, name, 1)
			cards.Spec.Pool = pool.Spec.Pool
			pool = partOf(partOf(partOf(pool, "x", 1), "y", 1), rapid.SampledFrom([]string{"a-whole", "z-whole"}).Draw(rt, "whole"), 2)
			s.objects = append(s.objects, cards)
		}
		s.objects = append(s.objects, pool)
		s.run(rt, name, here)
	}
	if s.shared = rapid.IntRange(0, 2).Draw(rt, "shared") == 0; s.shared {
		s.objects = append(s.objects, slice("net", "", devices(1, 6, "s")...))
	}
	for k := range rapid.IntRange(1, 2).Draw(rt, "kinds") {
		members, claims := claimingAs(fmt.Sprint("k", k), 5, drawRequests(rt)...)
		s.kinds, s.objects = append(s.kinds, members), append(s.objects, claims...)
	}
	for i := range 5 {
		for _, members := range s.kinds {
			s.order = append(s.order, members[i])
		}
	}
	return s
}

// run has pods run that have some of a node's devices.
func (s *small) run(rt *rapid.T, node string, devices []resourceapi.Device) {
	for i, d := range devices {
		if rapid.IntRange(0, 2).Draw(rt, "taken") > 0 {
			continue
		}
		p := pod(fmt.Sprint("low-", node, "-", i)).Node(node).Obj()
		s.objects = append(s.objects, p, given(claimOf(p, asks("gpu", "gpu", 1)), node, []string{d.Name}, p))
		s.running[node] = append(s.running[node], p)
	}
}

func drawRequests(rt *rapid.T) []resourceapi.DeviceRequest {
	class := rapid.SampledFrom([]string{"gpu", "x"}).Draw(rt, "class")
	n := int64(rapid.IntRange(1, 2).Draw(rt, "count"))
	switch rapid.IntRange(0, 3).Draw(rt, "request") {
	case 0:
		return []resourceapi.DeviceRequest{asks("gpu", "gpu", 1, kindIs("y")), asks("more", class, n)}
	case 1:
		sub := func(name, kind string, n int64) resourceapi.DeviceSubRequest {
			e := asks("", "gpu", n, kindIs(kind)).Exactly
			return resourceapi.DeviceSubRequest{
				Name: name, DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode, Count: n,
			}
		}
		return []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{sub("x", "x", n), sub("y", "y", 1)}}}
	}
	return []resourceapi.DeviceRequest{asks("gpu", class, n)}
}

// TestTwin compares the ledgers with scheduling cycles of the real plugins.
//
//	On every node as many members fit as pass their own cycles, with one kind of members and with two in turn.
//	Where more fit, as many pass when their results are written ahead.
//	The counts also hold for several nodes that share devices, and after evictions.
//	One member more does not fit, though the allocator is asked for all members at once.
func TestTwin(t *testing.T) {
	kinds := []string{"none", "some", "all five", "shared", "two kinds", "victims help", "on several nodes", "written ahead"}
	worlds.Check(t, 80, kinds, func(rt *rapid.T, tally worlds.Tally) {
		s := drawSmall(rt)
		w := newCluster(t, s.objects...)
		defer w.close()
		var firsts []*v1.Pod
		for _, members := range s.kinds {
			firsts = append(firsts, members[0])
		}
		for _, name := range s.nodes {
			slots, _ := w.slots(name, s.kinds[0]...)
			passed, _ := w.cycles(s.kinds[0], name)
			s.same(rt, w, tally, firsts, s.kinds[0], passed, min(int(slots), 5), name)

			tally.Count("none", passed == 0)
			tally.Count("some", passed > 0 && passed < 5)
			tally.Count("all five", passed == 5)
			tally.Count("shared", s.shared)
			if len(s.kinds) == 2 {
				passed, _ = w.cycles(s.order, name)
				s.same(rt, w, tally, firsts, s.order, passed, s.rehearse(w, firsts, name), name)
				tally.Count("two kinds", true)
			}
		}
		passed, _ := w.cycles(s.order, s.nodes...)
		s.same(rt, w, tally, firsts, s.order, passed, s.rehearse(w, firsts, s.nodes...), s.nodes...)
		tally.Count("on several nodes", len(s.nodes) > 1 && passed > 0)
		s.leave(rt, w, tally)
	})
}

// same says that as many members pass their cycles on nodes in turn as are promised, what is to be written ahead being
// written; and that no more do on one node.
func (s *small) same(rt *rapid.T, w *cluster, tally worlds.Tally, firsts, members []*v1.Pod, passed, promised int, nodes ...string) {
	require.LessOrEqual(rt, passed, promised, "%v: more pass than fit", nodes)
	if passed < promised {
		tally.Count("written ahead", true)
		with := newCluster(w.t, s.written(w, firsts, members[:promised], nodes)...)
		defer with.close()
		now, why := with.cycles(members[:promised], nodes...)
		require.Equal(rt, promised, now, "%v: %d passed before it was written: %s", nodes, passed, why)
	}
	if promised < len(members) && len(nodes) == 1 {
		require.False(rt, w.atOnce(members[:promised+1], nodes[0]), "%s: %d fit at once", nodes[0], promised+1)
	}
}

// written are the objects when members are planned on nodes in turn.
func (s *small) written(w *cluster, firsts, members []*v1.Pod, nodes []string) []runtime.Object {
	there := w.nodes()
	var puts []fit.Put
	for i, m := range members {
		puts = append(puts, fit.Put{Pod: m, Node: there[nodes[i%len(nodes)]]})
	}
	claims, status := w.open(firsts...).SharedClaims(w.t.Context(), nil, puts)
	require.True(w.t, status.IsSuccess(), status.Message())
	now := map[string]runtime.Object{}
	for _, c := range claims {
		now[c.Name] = c
	}
	objects := slices.Clone(s.objects)
	for i, o := range objects {
		if c, ok := o.(*resourceapi.ResourceClaim); ok && now[c.Name] != nil {
			objects[i] = now[c.Name]
		}
	}
	return objects
}

// rehearse puts one of each kind in turn on the nodes in turn until one does not fit.
func (s *small) rehearse(w *cluster, firsts []*v1.Pod, nodes ...string) (passed int) {
	there := w.nodes()
	trial, err := fit.NewTrial(w.t.Context(), w.profile, firsts, nodes, w.open(firsts...)...)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, trial.Close()) }()
	require.NotEmpty(w.t, there)
	for i := range s.order {
		kind, node := i%len(firsts), i%len(nodes)
		if !trial.Fits(kind, node) {
			return i
		}
		trial.Put(kind, node)
	}
	return len(s.order)
}

// leave compares how many members fit after its pods are evicted with how many fit on a node that never had them.
func (s *small) leave(rt *rapid.T, w *cluster, tally worlds.Tally) {
	name := s.nodes[0]
	gone := s.running[name]
	if len(gone) == 0 {
		return
	}
	left := map[string]bool{}
	for _, p := range gone {
		left[p.Name], left[p.Name+"-gpu"] = true, true
	}
	var rest []runtime.Object
	for _, o := range s.objects {
		switch o := o.(type) {
		case *v1.Pod:
			if left[o.Name] {
				continue
			}
		case *resourceapi.ResourceClaim:
			if left[o.Name] {
				continue
			}
		}
		rest = append(rest, o)
	}
	without := newCluster(w.t, rest...)
	defer without.close()
	want, _ := without.slots(name, s.kinds[0]...)
	got, why := w.counter(s.kinds[0]...).CountWithout(w.t.Context(), w.nodes()[name], nil, gone)
	require.Equal(rt, want, got, "%s without %d pods: %v", name, len(gone), why)
	before, _ := w.slots(name, s.kinds[0]...)
	tally.Count("victims help", got > before)
}
