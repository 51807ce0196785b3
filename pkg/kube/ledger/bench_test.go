package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// BenchmarkClaims counts members with a claim for one device on 1,000 nodes with eight each: when nothing is known, when a
// device of one node in a hundred was allocated since or freed, and when nothing has changed.
func BenchmarkClaims(b *testing.B) {
	const nodes = 1000
	members, objects := claiming(2, asks("gpu", "gpu", 1))
	others, claims := claimingAs("other", nodes/100, asks("gpu", "gpu", 1))
	objects = append(objects, claims...)
	objects = append(objects, deviceClass("gpu"))
	for i := range nodes {
		name := fmt.Sprint("n-", i)
		objects = append(objects, []runtime.Object{node(name), slice(name, name, gpus(8)...)}...)
	}
	w := newCluster(b, objects...)
	var list []fwk.NodeInfo
	for _, n := range w.nodes() {
		list = append(list, n)
	}
	slices.SortFunc(list, func(x, y fwk.NodeInfo) int { return int(x.GetGeneration() - y.GetGeneration()) })
	count := func(memory *fit.Memory) {
		slots := memory.Count(b.Context(), w.counter(members...), list, nil).Slots
		require.EqualValues(b, 8, slots[1])
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			count(fit.NewMemory(w.profile))
		}
	})
	b.Run("one in 100 changed", func(b *testing.B) {
		memory := fit.NewMemory(w.profile)
		count(memory)
		var back []func()
		for b.Loop() {
			b.StopTimer()
			if len(back) == 0 {
				for i, p := range others {
					back = append(back, w.holds(p, list[i*100].Node().Name))
				}
			} else {
				for _, undo := range back {
					undo()
				}
				back = nil
			}
			w.nodes()
			b.StartTimer()
			count(memory)
		}
	})
	b.Run("none changed", func(b *testing.B) {
		memory := fit.NewMemory(w.profile)
		count(memory)
		for b.Loop() {
			count(memory)
		}
	})
}

// BenchmarkVolumes counts members with a claim each on 30 nodes of three zones. There are 1,000 volumes of equal size
// for whole zones, created by hand.
func BenchmarkVolumes(b *testing.B) {
	members, objects := each(2, "c", "1Gi")
	objects = append(objects, class("c", ""))
	var nodes []string
	for i := range 30 {
		n := node(fmt.Sprint("n-", i))
		n.Labels[v1.LabelTopologyZone] = fmt.Sprint("z-", i%3)
		objects, nodes = append(objects, n), append(nodes, n.Name)
	}
	for i := range 1000 {
		pv := disk(fmt.Sprint("pv-", i), "c", "1Gi", "some")
		e := &pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		e.Key, e.Values = v1.LabelTopologyZone, []string{fmt.Sprint("z-", i%3)}
		objects = append(objects, pv)
	}
	w := newCluster(b, objects...)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			w.open(members...)
		}
	})
	b.Run("put on each node", func(b *testing.B) {
		pages := w.open(members...)
		for b.Loop() {
			s, err := fit.NewTrial(b.Context(), w.profile, members[:1], nodes, pages...)
			require.NoError(b, err)
			for i := range nodes {
				require.True(b, s.Fits(0, i))
				s.Put(0, i)
			}
			require.NoError(b, s.Close())
		}
	})
}
