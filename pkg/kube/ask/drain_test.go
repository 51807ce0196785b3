package ask

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestDrainInRandomWorlds: no evicted pod moves within the drained domain, and all members of stopped gangs are
// evicted. A drain that fits has a node for every pod without further evictions, and none of another scheduler or without controller. The emptied domain of a layer is the
// first one that fits, in the order of evicted pods.
func TestDrainInRandomWorlds(t *testing.T) {
	moved, full, verdicts := 0, 0, map[Verdict]int{}
	seen := func(t *rapid.T) {
		text, _ := drawWorld(t)
		set := &simulate.Set{}
		require.NoError(t, set.Add("world.yaml", []byte(text)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v, err := Open(ctx, Options{}, set)
		require.NoError(t, err, text)
		tree := v.cache().Topology().Tree
		v.Close()
		layer := tree.LayerNames()[1]
		var first *Drain
		for d := topology.Root + 1; int(d) < tree.Len(); d++ {
			if tree.Layer(d) != 1 || !tree.Named(d) {
				continue
			}
			drain, err := DrainDomain(ctx, Options{}, set, layer+"/"+tree.Path(d))
			require.NoError(t, err, text)
			judge(t, tree, d, drain)
			moved += drain.Pods
			verdicts[drain.Verdict]++
			if drain.Verdict == Fits {
				if first == nil || drain.Pods < first.Pods || drain.Pods == first.Pods && topology.CompareNames(drain.Domain, first.Domain) < 0 {
					first = drain
				}
			}
		}
		emptied, err := Empty(ctx, Options{}, set, layer)
		if first == nil {
			full++
			require.ErrorAs(t, err, new(*FullError), text)
			return
		}
		require.NoError(t, err, text)
		require.Equal(t, first.Domain, emptied.Domain, text)
	}
	for seed := range 12 {
		rapid.Custom(func(t *rapid.T) bool { seen(t); return true }).Example(seed)
	}
	require.Positive(t, moved)
	require.Len(t, verdicts, 3, "%v", verdicts)
	t.Logf("%d pods moved, domains by verdict: %v, %d worlds had none that fits", moved, verdicts, full)
}

// judge compares a plan with what it promises.
func judge(t *rapid.T, tree *topology.Tree, d topology.ID, drain *Drain) {
	inside := func(node string) bool {
		i, ok := tree.NodeIndex(node)
		return ok && tree.Ancestor(tree.Node(i), tree.Layer(d)) == d
	}
	pods, here, all, known := 0, 0, true, len(drain.Uncontrolled) == 0
	look := func(p PodMove) {
		pods++
		if inside(p.From) {
			here++
		}
		require.False(t, inside(p.To), "%s goes to %s", p.Pod, p.To)
		require.Equal(t, p.To == "", p.Reason != "", p.Pod)
		all, known = all && (p.To != "" || p.Elsewhere), known && !p.Elsewhere
	}
	for _, g := range drain.Gangs {
		for _, p := range g.Pods {
			look(p)
		}
		require.Equal(t, g.Fits, !slices.ContainsFunc(g.Pods, func(p PodMove) bool { return p.To == "" }), g.Gang)
		require.Equal(t, g.Fits, g.Reason == "", g.Gang)
		require.False(t, strings.HasPrefix(g.Reason, "It runs"), g.Gang)
	}
	for _, p := range drain.Others {
		look(p)
	}
	require.Equal(t, [2]int{drain.Pods, drain.PodsInside}, [2]int{pods, here})
	switch {
	case !all || len(drain.Evicted) > 0:
		require.Equal(t, DoesNotFit, drain.Verdict)
	case !known:
		require.Equal(t, NotKnown, drain.Verdict)
	default:
		require.Equal(t, Fits, drain.Verdict)
	}
	require.Equal(t, known, len(drain.Unknown) == 0)
}
