package place_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/test/worlds"
)

// small is a little cluster and a gang, in numbers.
type small struct {
	blocks []int // by node; blocks 0 and 1 are one spine, 2 and 3 the other
	free   []int // by node
	sizes  []int // by pending member
	least  int
	layer  int    // of the MustGather rule: 0 is none, 1 the spine, 2 the block
	bound  int    // the node of a member that runs; -1 if none does
	avoid  int    // a node; -1 is none
	alike  bool   // all members are of one size
	taints []bool // by node, whether it has a PreferNoSchedule taint
}

func drawSmall(rt *rapid.T) *small {
	s := &small{
		layer: rapid.IntRange(0, 2).Draw(rt, "layer"), alike: rapid.Bool().Draw(rt, "alike"),
		blocks: rapid.SliceOfN(rapid.IntRange(0, 3), 1, 5).Draw(rt, "blocks"),
		sizes:  rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(rt, "sizes"),
	}
	for range s.blocks {
		s.free = append(s.free, rapid.IntRange(0, 5).Draw(rt, "free"))
		s.taints = append(s.taints, worlds.Chance(rt, 3, "taint"))
	}
	if s.alike {
		for i := range s.sizes {
			s.sizes[i] = s.sizes[0]
		}
	}
	s.least = rapid.IntRange(1, len(s.sizes)).Draw(rt, "least")
	s.bound = rapid.IntRange(-3, len(s.blocks)-1).Draw(rt, "bound")
	s.avoid = rapid.IntRange(-3, len(s.blocks)-1).Draw(rt, "avoid")
	return s
}

// domain is the one of the rule's layer that a node is in.
func (s *small) domain(node int) int {
	switch s.layer {
	case 1:
		return s.blocks[node] / 2
	case 2:
		return s.blocks[node]
	}
	return 0
}

// allows returns whether an empty node takes a member.
func (s *small) allows(node int) bool {
	return node != s.avoid && (s.bound < 0 || s.domain(node) == s.domain(s.bound))
}

// most is how many of the members from one on can be placed in a domain, tried one by one.
func (s *small) most(domain, from int, free []int) int {
	if from == len(s.sizes) {
		return 0
	}
	best := s.most(domain, from+1, free) // without this one
	for node := range free {
		if s.allows(node) && s.domain(node) == domain && free[node] >= s.sizes[from] {
			free[node] -= s.sizes[from]
			best = max(best, 1+s.most(domain, from+1, free))
			free[node] += s.sizes[from]
		}
	}
	return best
}

// mostAnywhere is most in the best domain.
func (s *small) mostAnywhere() (best int) {
	for node := range s.blocks {
		best = max(best, s.most(s.domain(node), 0, slices.Clone(s.free)))
	}
	return best
}

var twins = gang.Ref{Source: "podgroup", Namespace: "default", Name: "g"}

// inCluster has a scheduler's cache hold the cluster, and returns the gang as a value.
func (s *small) inCluster(w *world) (group *cache.Group, remove func()) {
	group = &cache.Group{Pods: map[string]*v1.Pod{}, Group: gang.Group{Key: twins, Gangs: []gang.Gang{{
		Spec: gang.Spec{Ref: twins, Min: s.least}, Need: s.least,
	}}}}
	if s.layer > 0 {
		layer := []string{"SpineLayer", "BlockLayer"}[s.layer-1]
		group.Gather = &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: layer, Strategy: scheduling.MustGather}}}
	}
	var nodes []*v1.Node
	for i, block := range s.blocks {
		list := v1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("20")}
		name := fmt.Sprint("n", i)
		nodes = append(nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(name), Labels: map[string]string{"spine": fmt.Sprint("s", block/2), "block": fmt.Sprint("b", block)},
			},
			Status: v1.NodeStatus{Capacity: list, Allocatable: list},
		})
		if s.taints[i] {
			nodes[i].Spec.Taints = []v1.Taint{{Key: "suspect", Effect: v1.TaintEffectPreferNoSchedule}}
		}
		w.scheduler.AddNode(klog.Background(), nodes[i])
	}
	var running []*v1.Pod
	run := func(name string, size, node int) *v1.Pod {
		p := sized(name, size)
		p.Spec.NodeName = fmt.Sprint("n", node)
		require.NoError(w.t, w.scheduler.AddPod(klog.Background(), p))
		running = append(running, p)
		return p
	}
	for i, free := range s.free {
		taken := 8 - free
		if s.bound == i { // at most 5 are free
			p := run("bound", 1, i)
			m, _ := convert.Member(p, twins)
			group.Bound, group.Pods[m.Pod] = append(group.Bound, m), p
			taken--
		}
		run(fmt.Sprint("filler-", i), taken, i)
	}
	for i, size := range s.sizes {
		p := sized(fmt.Sprint("g-", i), size)
		m, _ := convert.Member(p, twins)
		group.Pending, group.Pods[m.Pod] = append(group.Pending, m), p
	}
	return group, func() {
		for _, p := range running {
			require.NoError(w.t, w.scheduler.RemovePod(klog.Background(), p))
		}
		for _, n := range nodes {
			require.NoError(w.t, w.scheduler.RemoveNode(klog.Background(), n))
		}
	}
}

func sized(name string, cpus int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: scheduling.SchedulerName, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
			},
		}}},
	}
}

// TestTwin: an attempt places as many members as an exhaustive search within the
// rules, and refuses only if there are too few. All worlds are one planner's, which
// remembers what it can from one to the next.
func TestTwin(t *testing.T) {
	w := newWorld(t, "")
	kinds := []string{
		"placed", "refused", "some of them", "unlike", "beside one that runs", "but for a node", "beside tainted nodes", "on tainted nodes",
	}
	worlds.Check(t, 3000, kinds, func(rt *rapid.T, tally worlds.Tally) {
		s := drawSmall(rt)
		group, remove := s.inCluster(w)
		defer remove()
		a := w.planner.NewAttempt(group, w.nodes(), func(n fwk.NodeInfo) bool { return n.Node().Name == fmt.Sprint("n", s.avoid) })
		found, refusal, err := a.Plan(rt.Context())
		require.NoError(rt, err)
		most := s.mostAnywhere()
		if refusal != nil {
			require.Less(rt, most, s.least, "%+v: %s", s, refusal.Plan)
			tally.Count("refused", true)
			return
		}
		s.check(rt, found.Places)
		if s.alike {
			require.Len(rt, found.Places, most, "%+v", s)
			for i, at := range found.Places {
				require.Equal(rt, fmt.Sprint("default/g-", i), at.Pod, "lowest ranks first: %+v", s)
			}
		}
		on := s.tainted(places(found.Places))
		require.Equal(rt, s.fewestTainted(places(found.Places)), on, "members on tainted nodes: %v: %+v", found.Places, s)
		tally.Count("beside tainted nodes", on == 0 && slices.Contains(s.taints, true))
		tally.Count("on tainted nodes", on > 0)
		tally.Count("placed", true)
		tally.Count("some of them", len(found.Places) < len(s.sizes))
		tally.Count("unlike", !s.alike)
		tally.Count("beside one that runs", s.bound >= 0)
		tally.Count("but for a node", s.avoid >= 0)
	})
}

// check says whether places obey the rules.
func (s *small) check(rt *rapid.T, places []gang.Assignment) {
	require.GreaterOrEqual(rt, len(places), s.least, "%+v", s)
	free := slices.Clone(s.free)
	domains, seen := map[int]bool{}, map[string]bool{}
	for _, at := range places {
		var node, member int
		_, err := fmt.Sscanf(at.Node+" "+strings.TrimPrefix(at.Pod, "default/"), "n%d g-%d", &node, &member)
		require.NoError(rt, err)
		require.False(rt, seen[at.Pod], "%s twice: %+v", at.Pod, s)
		seen[at.Pod], domains[s.domain(node)] = true, true
		free[node] -= s.sizes[member]
		require.True(rt, s.allows(node) && free[node] >= 0, "%s: %+v", at, s)
	}
	require.Len(rt, domains, 1, "%v: %+v", places, s)
}

// places are the nodes of members, by member.
func places(found []gang.Assignment) map[int]int {
	out := map[int]int{}
	for _, at := range found {
		var node, member int
		_, _ = fmt.Sscanf(at.Node+" "+strings.TrimPrefix(at.Pod, "default/"), "n%d g-%d", &node, &member)
		out[member] = node
	}
	return out
}

// tainted counts the members on tainted nodes.
func (s *small) tainted(at map[int]int) (n int) {
	for _, node := range at {
		if s.taints[node] {
			n++
		}
	}
	return n
}

// fewestTainted is how many of the same members must be on tainted nodes, tried one by one, in the deepest domains that hold them all.
func (s *small) fewestTainted(at map[int]int) int {
	members := slices.Sorted(maps.Keys(at))
	deepest, best := -1, 0
	free := slices.Clone(s.free)
	other := map[int]int{}
	var try func(i int)
	try = func(i int) {
		if i == len(members) {
			depth, n := s.depth(other), s.tainted(other)
			if depth > deepest || depth == deepest && n < best {
				deepest, best = depth, n
			}
			return
		}
		for node := range free {
			if size := s.sizes[members[i]]; s.allows(node) && free[node] >= size {
				free[node] -= size
				other[members[i]] = node
				if s.layer == 0 || s.domain(node) == s.domain(other[members[0]]) {
					try(i + 1)
				}
				free[node] += size
			}
		}
	}
	try(0)
	return best
}

// depth is the layer of the deepest domain that holds members and the one that runs.
func (s *small) depth(at map[int]int) int {
	nodes := slices.Collect(maps.Values(at))
	if s.bound >= 0 {
		nodes = append(nodes, s.bound)
	}
	same := func(of func(node int) int) bool {
		return !slices.ContainsFunc(nodes, func(n int) bool { return of(n) != of(nodes[0]) })
	}
	switch {
	case same(func(n int) int { return n }):
		return 3
	case same(func(n int) int { return s.blocks[n] }):
		return 2
	case same(func(n int) int { return s.blocks[n] / 2 }):
		return 1
	}
	return 0
}
